//! The bundled pair, and text that it was not trained on.

use std::path::Path;

use dovetail::hardware::Machine;
use dovetail::load::{Purpose, load};
use dovetail::settings::Settings;
use dovetail::worker::Backend;
use serde_json::Value;

/// The bundled pair as the program loads it.
pub fn bundled() -> Backend {
    let settings = Settings { context: Some(512), ..Settings::default() };
    load(&settings, &Machine::probe(), Purpose::Text, &mut |_, _| {}).unwrap().into()
}

/// The user's turns of each held-out conversation.
pub fn heldout() -> Vec<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/demo/heldout_prompts.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    let turns = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["turns"].as_array().unwrap().iter().map(|t| t.as_str().unwrap().to_owned()).collect()
    };
    text.lines().filter(|line| !line.is_empty()).map(turns).collect()
}
