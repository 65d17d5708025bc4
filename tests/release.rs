//! What a release depends on: `cargo binstall` looks for the archives that the workflow makes, and
//! the campaign of random combinations changes no text.

const MANIFEST: &str = include_str!("../Cargo.toml");
const WORKFLOW: &str = include_str!("../.github/workflows/release.yml");

/// The targets of the workflow's table.
fn targets() -> Vec<&'static str> {
    let target = |line: &'static str| line.trim().strip_prefix("- { target: ")?.split(',').next();
    WORKFLOW.lines().filter_map(target).collect()
}

/// The name of a target's archive without its extension, as in the workflow.
fn archive(target: &str) -> String {
    let line = WORKFLOW.lines().find_map(|line| line.trim().strip_prefix("name=")).unwrap();
    line.replace("${GITHUB_REF_NAME#v}", "1.2.3").replace("${{ matrix.target }}", target)
}

#[test]
fn binstall_finds_every_archive_and_the_program_in_it() {
    let manifest: toml::Table = MANIFEST.parse().unwrap();
    let binstall = &manifest["package"]["metadata"]["binstall"];
    let targets = targets();
    assert_eq!(targets.len(), 5, "{targets:?}");
    for target in targets {
        let windows = target.contains("windows");
        let own = binstall["overrides"].get(target);
        let key = |name: &str| {
            let value = own.and_then(|own| own.get(name)).unwrap_or(&binstall[name]);
            let value = value.as_str().unwrap();
            let ending = if windows { ".exe" } else { "" };
            let said = [
                ("{ repo }", "REPO"),
                ("{ version }", "1.2.3"),
                ("{ target }", target),
                ("{ bin }", "dovetail"),
                ("{ binary-ext }", ending),
            ];
            said.iter().fold(value.to_owned(), |text, (name, value)| text.replace(name, value))
        };
        let (name, ending) = (archive(target), if windows { "zip" } else { "tar.gz" });
        assert_eq!(key("pkg-url"), format!("REPO/releases/download/v1.2.3/{name}.{ending}"));
        assert_eq!(key("pkg-fmt"), if windows { "zip" } else { "tgz" });
        let program = if windows { "dovetail.exe" } else { "dovetail" };
        assert_eq!(key("bin-dir"), format!("{name}/{program}"));
        // What the workflow packs under that extension.
        let command = if windows { "7z a \"$name.zip\"" } else { "tar -czf \"$name.tar.gz\"" };
        assert!(WORKFLOW.contains(command), "{command}");
    }
    for asked in manifest["package"]["metadata"]["binstall"]["overrides"].as_table().unwrap() {
        assert!(WORKFLOW.contains(asked.0), "{}: no such target", asked.0);
    }
}

/// The campaign that a release waits for, with fewer and shorter answers.
#[cfg(unix)]
#[test]
fn no_random_combination_changes_the_text() {
    let mut campaign = std::process::Command::new("bash");
    campaign.args(["tests/scripts/lossless.sh", "-n", "120", "-t", "10"]);
    campaign.args([env!("CARGO_BIN_EXE_dovetail"), "bundled"]);
    let campaign = campaign.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    let said = String::from_utf8_lossy(&campaign.stdout);
    assert!(campaign.status.success(), "{said}");
    assert!(said.contains(" 0 differ, 0 draws failed"), "{said}");
}
