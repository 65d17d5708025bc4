//! The bundled pair, and text that it was not trained on.

use std::path::Path;

use dovetail::chat::{Message, Role};
use dovetail::decode::Request;
use dovetail::hardware::Machine;
use dovetail::load::{LoadedModels, Purpose, StartError, load};
use dovetail::settings::Settings;
use dovetail::worker::Backend;
use serde_json::Value;

/// The models of these settings, as the program loads them.
pub fn loaded(settings: &Settings) -> Result<LoadedModels, StartError> {
    load(settings, &Machine::probe(), Purpose::Text, &|_, _| {})
}

/// The bundled pair as the program loads it.
pub fn bundled() -> Backend {
    loaded(&Settings { context: Some(512), ..Settings::default() }).unwrap().into()
}

pub fn user(text: impl Into<String>) -> Message {
    Message::new(Role::User, text.into())
}

/// The next answer of a conversation, which ends as the model's answers do.
pub fn asked(backend: &mut Backend, messages: &[Message], max_tokens: usize) -> Request {
    Request {
        prompt: (backend.prompter)(messages, None).unwrap().tokens,
        max_tokens,
        eos: backend.eos.clone(),
        stop: backend.stop.clone(),
        ..Request::default()
    }
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
