//! Keys of the settings: those that are taken have names that mean the same keys.
#![no_main]

use dovetail::tui::Keymap;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    // A line is an action with its keys.
    let lines: Vec<(&str, Vec<String>)> = text
        .lines()
        .map(|line| {
            let mut words = line.split(' ');
            (words.next().unwrap_or_default(), words.map(str::to_owned).collect())
        })
        .collect();
    let changes: Vec<(&str, &[String])> =
        lines.iter().map(|(action, keys)| (*action, keys.as_slice())).collect();
    match Keymap::with(&changes) {
        Ok(keymap) => {
            for (row, keys) in keymap.rows() {
                assert!(!keys.is_empty(), "{} has no key", row.name);
                assert!(keys.iter().all(|key| !key.name().is_empty()));
            }
        }
        Err((at, problem)) => assert!(at < lines.len() && !problem.is_empty()),
    }
});
