use std::collections::HashMap;

use candle_core::{DType, Device, Tensor};
use serde_json::json;

use super::{HeadWeights, layout};
use crate::model::head::{FusionKind, HeadConfig, HeadError};

type Checkpoint = HashMap<String, Tensor>;

fn config(blocks: usize, kind: FusionKind) -> HeadConfig {
    let json = json!({
        "hidden_act": "silu", "hidden_size": 8, "intermediate_size": 12,
        "max_position_embeddings": 64, "num_attention_heads": 2, "num_key_value_heads": 1,
        "num_hidden_layers": blocks, "rms_norm_eps": 1e-6, "vocab_size": 16
    });
    HeadConfig::from_json(&json, kind).unwrap()
}

/// A complete checkpoint of two blocks, with prefixed names.
fn checkpoint(kind: FusionKind, prefix: &str) -> Checkpoint {
    let mut shapes = layout(&config(2, kind));
    shapes.remove("fc.bias");
    shapes.into_iter().map(|(name, shape)| (format!("{prefix}{name}"), zeros(&shape))).collect()
}

fn zeros(shape: &[usize]) -> Tensor {
    Tensor::zeros(shape, DType::F32, &Device::Cpu).unwrap()
}

fn problems(config: &HeadConfig, source: &Checkpoint) -> Vec<String> {
    match HeadWeights::load(config, source) {
        Err(HeadError::Weights { problems }) => problems,
        other => panic!("{other:?}"),
    }
}

#[test]
fn prefixes_of_training_frameworks_do_not_matter() {
    for kind in [FusionKind::Dgf, FusionKind::Eagle] {
        for prefix in ["", "model.", "module.", "module.model."] {
            let weights = HeadWeights::load(&config(2, kind), &checkpoint(kind, prefix)).unwrap();
            assert_eq!(weights.config, config(2, kind));
            let names = ["lm_head.weight", "embed_tokens.weight", "layers.1.mlp.up_proj.weight"];
            assert_eq!(names.map(|name| weights.get(name).is_some()), [false, false, true]);
        }
    }
}

#[test]
fn what_checkpoints_carry_besides_is_no_error() {
    let mut source = checkpoint(FusionKind::Eagle, "");
    let biases = (0..2).flat_map(|block| {
        let name = move |x: &str| format!("layers.{block}.self_attn.{x}_proj.bias");
        [(name("q"), vec![8]), (name("k"), vec![4]), (name("v"), vec![4])]
    });
    let others = [
        ("lm_head.weight", vec![16, 8]),
        ("layers.0.self_attn.rotary_emb.inv_freq", vec![2]),
        ("embed_tokens.weight", vec![16, 8]),
        ("fc.bias", vec![8]),
    ];
    for (name, shape) in biases.chain(others.map(|(name, shape)| (name.to_owned(), shape))) {
        source.insert(name, zeros(&shape));
    }
    let weights = HeadWeights::load(&config(2, FusionKind::Eagle), &source).unwrap();
    let names = ["embed_tokens.weight", "fc.bias", "layers.1.self_attn.k_proj.bias"];
    assert!(names.iter().all(|name| weights.get(name).is_some()));
    // The biases of q, k and v come together.
    source.remove("layers.1.self_attn.k_proj.bias");
    assert_eq!(
        problems(&config(2, FusionKind::Eagle), &source),
        ["`layers.1.self_attn.k_proj.bias` [4] is missing"]
    );
}

#[test]
fn every_wrong_tensor_is_named_at_once() {
    let mut source = checkpoint(FusionKind::Dgf, "module.");
    source.remove("module.W_2");
    source.remove("module.layers.1.mlp.up_proj.weight");
    source.insert("module.W_z".into(), zeros(&[8, 16]));
    source.insert("module.layers.0.input_layernorm.weight".into(), zeros(&[8]));
    source.insert("W_1".into(), zeros(&[8, 8]));
    let error = HeadWeights::load(&config(2, FusionKind::Dgf), &source).unwrap_err();
    insta::assert_snapshot!(error, @r"
    the draft head's tensors do not match its config.json:
      `W_1` and `module.W_1` are the same tensor
      `W_2` [8, 8] is missing
      `W_z` is [8, 16], expected [16, 8]
      `layers.1.mlp.up_proj.weight` [12, 8] is missing
      `module.layers.0.input_layernorm.weight` [8] is not a tensor of a draft head
    ");
    // Blocks beyond the config are unknown, others are missing.
    let source = checkpoint(FusionKind::Dgf, "");
    for (blocks, block) in [(1, "layers.1"), (3, "layers.2")] {
        let found = problems(&config(blocks, FusionKind::Dgf), &source);
        assert!(found.len() == 9 && found.iter().all(|line| line.contains(block)), "{found:?}");
    }
}

#[test]
fn what_is_no_head_that_we_can_run_is_refused_as_a_whole() {
    let other = Checkpoint::from([("model.norm.weight".to_owned(), zeros(&[8]))]);
    let mut gated = checkpoint(FusionKind::Dgf, "");
    gated.insert("fc.weight".to_owned(), zeros(&[8, 24]));
    assert_eq!(problems(&config(1, FusionKind::Dgf), &other), [super::NO_HEAD]);
    assert_eq!(problems(&config(2, FusionKind::Dgf), &gated), [super::GATED_TAPS]);
}
