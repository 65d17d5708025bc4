//! `dovetail race` on the bundled pair.

use crate::support::program::Home;
use serde_json::Value;

#[test]
fn both_answers_are_the_same_text_and_the_play_is_recorded() {
    let home = Home::new();
    let cast = home.path().join("race.cast");
    let args = ["race", "What is the sun?", "--max-tokens", "40", "--cast", cast.to_str().unwrap()];
    let (out, _) = home.ran(0, &args);
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].starts_with("plain ") && lines[1].starts_with("speculative "), "{out}");
    // The first token comes with the prompt; each other token takes plain decoding one round.
    let figures = |line: &str| -> Vec<usize> {
        line.split_whitespace().filter_map(|word| word.parse().ok()).collect()
    };
    let (plain, speculative) = (figures(lines[0]), figures(lines[1]));
    assert_eq!((plain[0], plain[1]), (speculative[0], plain[0] - 1), "{out}");
    assert!(speculative[1] < plain[1], "{out}");
    // The demo's times say nothing.
    let result = format!("Same text, {} rounds instead of {}", speculative[1], plain[1]);
    assert!(lines[2] == result && !out.contains('×') && !out.contains(" s\n"), "{out}");
    let cast = std::fs::read_to_string(cast).unwrap();
    let mut events = cast.lines();
    let header: Value = serde_json::from_str(events.next().unwrap()).unwrap();
    assert_eq!(header["version"], 2);
    let mut before = 0.0;
    let mut last = String::new();
    for event in events {
        let event: Value = serde_json::from_str(event).unwrap();
        assert!(event[0].as_f64().unwrap() >= before && event[1] == "o");
        before = event[0].as_f64().unwrap();
        last = event[2].as_str().unwrap().to_owned();
    }
    assert!(last.contains(&result), "{last}");
}

#[test]
fn a_race_needs_a_prompt() {
    let home = Home::new();
    home.refuses(2, &["race"], &["PROMPT"]);
    home.ran(2, &["race", " "]);
}
