//! What the README and the guide show works: their settings are accepted, and their commands run.

use std::path::Path;

use dovetail::guide::TOPICS;
use dovetail::settings;

const README: &str = include_str!("../README.md");

/// The code blocks in a language in README and guide.
fn blocks(language: &str) -> Vec<&'static str> {
    let opening = format!("```{language}\n");
    let ends = |rest: &'static str| rest.split("```").next().unwrap_or_default();
    let texts = [README].into_iter().chain(TOPICS.iter().map(|topic| topic.text));
    texts.flat_map(|text| text.split(opening.as_str()).skip(1).map(ends)).collect()
}

#[test]
fn its_settings_are_accepted_and_contradict_nothing() {
    let blocks = blocks("toml");
    assert!(!blocks.is_empty());
    let folder = tempfile::tempdir().unwrap();
    for block in blocks {
        let path = folder.path().join("settings.toml");
        std::fs::write(&path, block).unwrap();
        let read = settings::load(Some(&path), &[], false).unwrap_or_else(|e| panic!("{e}"));
        read.check().unwrap_or_else(|error| panic!("{error}"));
        assert!(!read.given.is_empty() || !read.keys.is_empty(), "it sets nothing: {block}");
    }
}

/// Checks the links of one page, and counts those to files.
fn check_links(page: &Path) -> usize {
    let text = std::fs::read_to_string(page).unwrap();
    let shown = page.display();
    let slug = |line: &str| {
        let title = line.trim_start_matches(['#', ' ']).to_lowercase();
        title.replace(' ', "-")
    };
    let mut files = 0;
    for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
        if target.contains("://") {
            continue;
        }
        let (file, heading) = target.split_once('#').unwrap_or((target, ""));
        let to = if file.is_empty() { page.to_owned() } else { page.with_file_name(file) };
        assert!(to.is_file(), "{shown} links to {target}, which is not there");
        files += usize::from(!file.is_empty());
        if !heading.is_empty() {
            let linked = std::fs::read_to_string(&to).unwrap();
            let mut headings = linked.lines().filter(|line| line.starts_with('#')).map(slug);
            assert!(headings.any(|there| there == heading), "{shown}: no section {target}");
        }
    }
    files
}

#[test]
fn links_lead_to_files_and_sections_that_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut seen = check_links(&root.join("README.md"));
    assert_eq!(check_links(&root.join("assets/layouts/README.md")), 18);
    for topic in TOPICS {
        seen += check_links(&root.join(format!("assets/docs/{}.md", topic.name)));
    }
    assert!(seen >= 15, "{seen} links");
    let cast = std::fs::read_to_string(root.join("assets/first-minutes.cast")).unwrap();
    assert!(README.contains("(assets/first-minutes.cast)") && cast.len() < 500_000);
    assert!(cast.starts_with("{\"") && cast.contains("Demo model"), "it shows the demo");
}

#[test]
fn readme_and_changelog_stay_short() {
    let words = |text: &str| text.split_whitespace().count();
    assert!(README.lines().count() <= 150, "{} lines", README.lines().count());
    assert!(words(README) <= 1500, "{} words", words(README));
    let changelog = include_str!("../CHANGELOG.md");
    assert!(words(changelog) <= 2000, "{} words", words(changelog));
}

// The commands are written for a shell.
#[cfg(unix)]
#[test]
fn its_commands_that_need_no_network_run() {
    use crate::support::program::{Home, outcome};
    use std::process::Command;
    use std::time::Duration;
    let home = Home::new();
    home.write_settings("max_tokens = 8\n");
    let programs = home.path().join("bin");
    std::fs::create_dir(&programs).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_dovetail"), programs.join("dovetail")).unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    let mut run = 0;
    for line in blocks("sh").into_iter().flat_map(str::lines) {
        let line = line.split("  #").next().unwrap_or_default().trim();
        // `jq` may not be installed here.
        let line = line.split(" | jq").next().unwrap_or_default();
        let chat = line == "cargo run --release";
        let offline =
            ["dovetail run ", "dovetail doctor", "dovetail models", "dovetail help", "echo "];
        if !chat && !offline.iter().any(|start| line.starts_with(start)) {
            continue;
        }
        run += 1;
        let mut command = Command::new("sh");
        command.arg("-c").arg(if chat { "dovetail" } else { line });
        home.prepare(&mut command);
        command.env("PATH", &path);
        let mut command = assert_cmd::Command::from_std(command);
        let (code, out, err) = outcome(command.timeout(Duration::from_secs(120)));
        if chat {
            // There is no terminal here: it says so, and is otherwise ready.
            assert!(code == 2 && err.contains("needs a terminal"), "{line}: {code} {err}");
        } else {
            assert!(code == 0 && !out.trim().is_empty(), "{line}: {code} {out}{err}");
        }
    }
    assert!(run >= 5, "only {run} commands were run");
}
