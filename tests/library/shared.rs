//! The bundled tokenizer compared with modified copies of itself.

use super::open_target;
use crate::support::library::{change_json, demo_copy, spec};
use dovetail::library::{Spec, TargetFiles, shared_vocabulary};
use dovetail::speculate::Ranking;
use serde_json::{Map, Value, json};

/// The bundled target with another tokenizer.
fn with_tokenizer(change: impl FnOnce(&mut Value)) -> TargetFiles {
    let folder = demo_copy();
    change_json(folder.path(), "tokenizer.json", change);
    open_target(&spec(folder.path())).unwrap()
}

/// Gives the tokens of the model other names or ids.
fn rename(tokenizer: &mut Value, rename: impl Fn(&str, u64) -> (String, u64)) {
    let vocab = tokenizer["model"]["vocab"].as_object().unwrap();
    let renamed = vocab.iter().map(|(piece, id)| {
        let (piece, id) = rename(piece, id.as_u64().unwrap());
        (piece, json!(id))
    });
    tokenizer["model"]["vocab"] = Value::Object(renamed.collect::<Map<_, _>>());
}

const MARKS: u64 = 6;

#[test]
fn the_same_tokens_at_other_places_are_found() {
    let target = open_target(&Spec::Bundled).unwrap();
    let last = target.config.vocab as u64 - 1;
    let elsewhere = |id: u64| if id < MARKS { id } else { last + MARKS - id };
    let small = with_tokenizer(|json| rename(json, |piece, id| (piece.to_owned(), elsewhere(id))));
    let shared = shared_vocabulary(&target, &small).unwrap();
    assert_eq!((shared.is_identical(), shared.shared()), (false, target.config.vocab));
    for id in 0..=last {
        assert_eq!(shared.counterpart(id as u32), Some(elsewhere(id) as u32));
    }
    let text = "A cat and a dog: naïve, 3.5 €.";
    let mut translated = Vec::new();
    for token in target.tokenizer.encode(text, false).unwrap() {
        shared.translate(token, &mut translated);
    }
    assert_eq!(translated, small.tokenizer.encode(text, false).unwrap());
}

#[test]
fn what_the_small_model_lacks_is_spelled_and_marks_are_known_by_their_part() {
    let target = open_target(&Spec::Bundled).unwrap();
    // Nothing longer than two letters is left, and the text begins with a control token that has
    // another name.
    let small = with_tokenizer(|json| {
        json["model"]["merges"] = json!([]);
        rename(json, |piece, id| match piece.chars().count() {
            _ if id == 1 => ("<s>".to_owned(), 1),
            0..=2 => (piece.to_owned(), id),
            _ if id < MARKS => (piece.to_owned(), id),
            _ => (format!("⟨{id}⟩"), id),
        });
        json["added_tokens"][1]["content"] = json!("<s>");
    });
    let shared = shared_vocabulary(&target, &small).unwrap();
    assert!(shared.shared() > 256 && shared.shared() < 2000, "{}", shared.shared());
    assert_eq!(shared.counterpart(1), Some(1), "both begin a text");
    let mut room = Vec::new();
    let row = vec![0.0; small.config.vocab];
    let all = shared.candidates(&Ranking::new(row.len()), &row, |id| id, &mut room);
    assert!(all.iter().all(|&(id, _)| id != 1), "but neither is proposed for the other");
    for text in ["Once upon a time", " différent — 日本"] {
        let mut translated = Vec::new();
        for token in target.tokenizer.encode(text, false).unwrap() {
            shared.translate(token, &mut translated);
        }
        assert_eq!(small.tokenizer.text(&translated), text);
    }
}

#[test]
fn nothing_in_common_is_refused_with_the_remedy() {
    let target = open_target(&Spec::Bundled).unwrap();
    let small = with_tokenizer(|json| {
        json["model"]["merges"] = json!([]);
        rename(json, |piece, id| match id {
            0..MARKS => (piece.to_owned(), id),
            _ => (format!("⟨{id}⟩"), id),
        });
    });
    let error = shared_vocabulary(&target, &small).unwrap_err().to_string();
    assert!(error.contains("no tokens in common") && error.contains(&target.name), "{error}");
    assert!(error.contains("family"), "{error}");
}
