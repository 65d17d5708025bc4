//! What the README shows works as it stands: its settings are accepted, its commands run.

use dovetail::settings;

const README: &str = include_str!("../README.md");

fn blocks(language: &str) -> Vec<&'static str> {
    let opening = format!("```{language}\n");
    let ends = |rest: &'static str| rest.split("```").next().unwrap_or_default();
    README.split(opening.as_str()).skip(1).map(ends).collect()
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
        // Every table and most keys are shown.
        let shown = read.given.len();
        assert!(shown * 3 > settings::KEYS.len() * 2, "only {shown} keys are shown");
    }
}

#[test]
fn its_links_lead_to_files_that_are_there() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let targets = README.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let mut seen = 0;
    for target in targets.filter(|target| !target.contains("://")) {
        if let Some(heading) = target.strip_prefix('#') {
            let slug = |line: &str| line.trim_start_matches(['#', ' ']).to_lowercase();
            let there = README.lines().filter(|line| line.starts_with('#'));
            let there = there.map(|line| slug(line).replace(' ', "-")).any(|line| line == heading);
            assert!(there, "the README has no section {heading}");
        } else {
            assert!(
                root.join(target).is_file(),
                "the README links to {target}, which is not there"
            );
            seen += 1;
        }
    }
    assert!(seen >= 4, "{seen} links");
    let race = std::fs::read_to_string(root.join("assets/race.cast")).unwrap();
    assert!(README.contains("(assets/race.cast)") && race.len() < 200_000);
    assert!(race.starts_with("{\"") && race.contains("plain: the same text"));
}

// They are written for a shell.
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
        let offline = ["dovetail run ", "dovetail doctor", "dovetail models", "echo "];
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
            // No terminal here: it says so, and is otherwise ready.
            assert!(code == 2 && err.contains("needs a terminal"), "{line}: {code} {err}");
        } else {
            assert!(code == 0 && !out.trim().is_empty(), "{line}: {code} {out}{err}");
        }
    }
    assert!(run >= 5, "only {run} commands were run");
}
