//! A published model, SmolLM2-135M-Instruct in Q4_1, against the reference program's figures
//! (tests/golden/real).

use std::path::Path;

use super::open_target;
use crate::support::golden::GOLDEN;
use crate::support::library::{load_files, real_model};
use dovetail::library::{Spec, TargetFiles};
use dovetail::model::Target;
use dovetail::speculate::Tree;
use serde_json::Value;

/// The model, or `None` with a line that names the test left out.
fn model(test: &str) -> Option<TargetFiles> {
    real_model(test).map(|path| open_target(&Spec::Gguf(path)).unwrap())
}

fn golden(name: &str) -> Value {
    let path = Path::new(GOLDEN).join("real").join(name);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

fn best(logits: &[f32]) -> u32 {
    (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap() as u32
}

#[test]
fn its_tokens_are_the_reference_tokens() {
    let Some(files) = model("its_tokens_are_the_reference_tokens") else { return };
    let golden = golden("smollm2-tokens.json");
    for sample in golden["texts"].as_array().unwrap() {
        let text = sample["text"].as_str().unwrap();
        let found = files.tokenizer.encode(text, false).unwrap();
        assert_eq!(found, ids(&sample["special"]), "{text:?}");
    }
}

#[test]
fn its_perplexity_is_the_reference_programs() {
    let Some(files) = model("its_perplexity_is_the_reference_programs") else { return };
    let golden = golden("smollm2-text.json");
    let tokens = ids(&golden["tokens"]);
    let mut target = load_files(&files, 256, 2);
    let mut sum = 0.0;
    for pair in tokens.windows(2) {
        let logits = target.verify(&Tree::root(pair[0])).unwrap().logits;
        target.commit(&[0]);
        let peak = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let total: f64 = logits.iter().map(|x| f64::from(x - peak).exp()).sum();
        sum += f64::from(logits[pair[1] as usize] - peak) - total.ln();
    }
    let found = (-sum / (tokens.len() - 1) as f64).exp();
    let theirs = golden["perplexity"]["llama.cpp Q4_1"].as_f64().unwrap();
    assert!((found / theirs - 1.0).abs() < 0.005, "{found}, the reference program {theirs}");
}

#[test]
fn its_greedy_tokens_are_the_float_references() {
    let Some(files) = model("its_greedy_tokens_are_the_float_references") else { return };
    let mut target = load_files(&files, 256, 2);
    let mut wrong = Vec::new();
    for run in golden("smollm2-greedy.json")["runs"].as_array().unwrap() {
        target.truncate(0);
        let mut logits = target.prefill(&ids(&run["prompt_tokens"])).unwrap().logits;
        let gaps = run["top2_gap"].as_array().unwrap();
        for (step, token) in ids(&run["continuation"]).into_iter().enumerate() {
            let gap = gaps[step].as_f64().unwrap();
            if best(&logits) != token {
                wrong.push((run["prompt"].as_str().unwrap().to_owned(), step, gap));
            }
            logits = target.verify(&Tree::root(token)).unwrap().logits;
            target.commit(&[0]);
        }
    }
    // Activations in 8 bits move logits: the reference program on this file differs from the float
    // reference at 6 of these 320 steps. Only where two tokens are nearly as likely may we.
    assert!(wrong.len() <= 6 && wrong.iter().all(|(_, _, gap)| *gap < 0.1), "{wrong:#?}");
}
