//! Targets that candle-transformers runs: such a target may read a text in any order, and its
//! logits are those of candle's model reading the whole text at once.

use crate::support::candle::{CANDLE_FAMILIES, CandleReference, candle_checkpoint, candle_config};
use crate::support::golden::assert_close;
use crate::support::library::{change_json, open_target, refusal, spec};
use dovetail::kernels::{KvFormat, Pool};
use dovetail::model::{
    ARCHITECTURES, CANDLE_CHECKPOINTS, CandleTarget, Config, LoadError, ModelEngine, Target,
    TargetError,
};
use dovetail::speculate::Tree;
use serde_json::json;

const CONTEXT: usize = 32;

fn load(family: &str) -> CandleTarget {
    let folder = candle_checkpoint(family);
    let files = open_target(&spec(folder.path())).unwrap();
    assert_eq!(files.engine(), ModelEngine::Candle);
    CandleTarget::load(files.candle.as_ref().unwrap(), &files.config, CONTEXT, 2).unwrap()
}

#[test]
fn every_way_through_a_text_gives_candles_own_logits() {
    for family in CANDLE_FAMILIES {
        let mut target = load(family);
        let reference = CandleReference::of(family);
        let close = |found: &[f32], text: &[u32]| {
            let expected = reference.logits(text);
            assert!(expected.iter().any(|&logit| logit.abs() > 0.1), "{family} says something");
            assert_close(&format!("{family} {text:?}"), found, &expected, 1e-4);
        };
        // A prompt in two parts.
        let mut text = vec![5, 900, 31, 7, 7, 2048, 12];
        close(&target.prefill(&text[..4]).unwrap().logits, &text[..4]);
        close(&target.prefill(&text[4..]).unwrap().logits, &text);
        // Plain decoding.
        for token in [77, 4000] {
            let verified = target.verify(&Tree::root(token)).unwrap();
            assert!(verified.features.is_empty());
            text.push(token);
            close(&verified.logits, &text);
            target.commit(&[0]);
        }
        // A tree: the root's children 1 and 3, and 1's child 2.
        let mut tree = Tree::root(8);
        for (parent, token) in [(0, 9), (1, 10), (0, 11)] {
            tree.push(parent, token, -1.0);
        }
        let logits = target.verify(&tree).unwrap().logits;
        let paths: [&[u32]; 4] = [&[8], &[8, 9], &[8, 9, 10], &[8, 11]];
        for (found, path) in logits.chunks_exact(target.vocab()).zip(paths) {
            close(found, &[&text, path].concat());
        }
        target.commit(&[0, 1]);
        text.extend([8, 9]);
        assert_eq!(target.len(), text.len());
        text.push(3);
        close(&target.verify(&Tree::root(3)).unwrap().logits, &text);
        // What is not committed is forgotten, and so is what is rolled back.
        target.truncate(4);
        let text = [&text[..4], &[600, 601, 602]].concat();
        close(&target.prefill(&text[4..]).unwrap().logits, &text);
        target.truncate(0);
        close(&target.verify(&Tree::root(44)).unwrap().logits, &[44]);
    }
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let mut target = load("helium");
    target.prefill(&[1; CONTEXT - 1]).unwrap();
    assert!(matches!(target.prefill(&[1, 1]), Err(TargetError::ContextFull { .. })));
    let unknown = target.verify(&Tree::root(4096));
    assert!(matches!(unknown, Err(TargetError::Token { token: 4096, .. })));
    assert_eq!(target.len(), CONTEXT - 1);
}

#[test]
fn our_engine_refuses_what_it_does_not_know() {
    let folder = candle_checkpoint("olmo");
    let files = open_target(&spec(folder.path())).unwrap();
    let refused = files.on_cpu(Pool::new(1), CONTEXT, KvFormat::F32).err();
    assert_eq!(refused, Some(LoadError::OtherEngine));
    // Each architecture has one engine.
    let own = |name: &str| ARCHITECTURES.iter().any(|row| row.model_type == name);
    assert!(CANDLE_CHECKPOINTS.iter().all(|row| !own(row.model_type)));
}

#[test]
fn what_candle_would_run_incorrectly_is_refused_by_its_field() {
    for (family, field, value) in [
        ("falcon", "alibi", json!(true)),
        ("falcon", "new_decoder_architecture", json!(true)),
        ("falcon", "rope_theta", json!(500_000.0)),
        ("chatglm", "rope_ratio", json!(500)),
        ("helium", "rope_scaling", json!({"type": "linear", "factor": 2.0})),
        ("mamba", "state_size", json!(32)),
        ("mamba", "time_step_rank", json!(7)),
    ] {
        let folder = candle_checkpoint(family);
        change_json(folder.path(), "config.json", |config| config[field] = value);
        let text = refusal(open_target(&spec(folder.path())));
        assert!(text.contains(field) && text.contains("candle-transformers"), "{text}");
    }
    // A size that is missing is named as the family names it.
    let mut config = candle_config("chatglm");
    config["ffn_hidden_size"] = json!(null);
    assert_eq!(Config::of_checkpoint(&config).unwrap_err().field, "ffn_hidden_size");
}
