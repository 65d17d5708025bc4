use std::collections::HashMap;

use candle_core::{DType, Device, Tensor};
use serde_json::json;

use super::layout::bias_name;
use super::{FusionWeights, HeadWeights};
use crate::model::head::{FusionKind, HeadConfig, HeadError};

fn config(blocks: usize) -> HeadConfig {
    HeadConfig::from_json(&json!({
        "hidden_act": "silu", "hidden_size": 8, "intermediate_size": 12,
        "max_position_embeddings": 64, "num_attention_heads": 2, "num_key_value_heads": 1,
        "num_hidden_layers": blocks, "rms_norm_eps": 1e-6, "vocab_size": 16
    }))
    .unwrap()
}

/// A complete checkpoint of two blocks, with prefixed names.
fn checkpoint(kind: FusionKind, prefix: &str) -> HashMap<String, Tensor> {
    let mut shapes: Vec<(String, Vec<usize>)> = match kind {
        FusionKind::Dgf => vec![
            ("W_1".into(), vec![8, 8]),
            ("W_2".into(), vec![8, 8]),
            ("W_z".into(), vec![16, 8]),
            ("input_layernorm.weight".into(), vec![8]),
        ],
        FusionKind::Eagle => vec![("fc.weight".into(), vec![8, 16])],
        FusionKind::Eagle3 => panic!("one block, tested with the recorded heads"),
    };
    for block in 0..2 {
        let parts: [(&str, &[usize]); 8] = [
            ("self_attn.q_proj.weight", &[8, 8]),
            ("self_attn.k_proj.weight", &[4, 8]),
            ("self_attn.v_proj.weight", &[4, 8]),
            ("self_attn.o_proj.weight", &[8, 8]),
            ("mlp.gate_proj.weight", &[12, 8]),
            ("mlp.up_proj.weight", &[12, 8]),
            ("mlp.down_proj.weight", &[8, 12]),
            ("post_attention_layernorm.weight", &[8]),
        ];
        shapes
            .extend(parts.map(|(part, shape)| (format!("layers.{block}.{part}"), shape.to_vec())));
    }
    shapes.push(("layers.1.input_layernorm.weight".into(), vec![8]));
    shapes.into_iter().map(|(name, shape)| (format!("{prefix}{name}"), zeros(&shape))).collect()
}

fn zeros(shape: &[usize]) -> Tensor {
    Tensor::zeros(shape, DType::F32, &Device::Cpu).unwrap()
}

fn problems(config: &HeadConfig, source: &HashMap<String, Tensor>) -> Vec<String> {
    match HeadWeights::load(config, source) {
        Err(HeadError::Weights { problems }) => problems,
        other => panic!("{other:?}"),
    }
}

#[test]
fn prefixes_of_training_frameworks_do_not_matter() {
    for kind in [FusionKind::Dgf, FusionKind::Eagle] {
        for prefix in ["", "model.", "module.", "module.model."] {
            let weights = HeadWeights::load(&config(2), &checkpoint(kind, prefix)).unwrap();
            assert_eq!((weights.kind(), weights.blocks.len()), (kind, 2));
            assert!(weights.lm_head.is_none());
            assert!(weights.embedding.is_none());
            assert!(weights.blocks[0].input_norm.is_none());
            assert!(weights.blocks[1].input_norm.is_some());
        }
    }
}

#[test]
fn what_checkpoints_carry_besides_is_no_error() {
    let mut source = checkpoint(FusionKind::Eagle, "");
    for (name, shape) in [
        ("lm_head.weight", vec![16, 8]),
        ("layers.0.self_attn.rotary_emb.inv_freq", vec![2]),
        ("embed_tokens.weight", vec![16, 8]),
        ("fc.bias", vec![8]),
    ] {
        source.insert(name.into(), zeros(&shape));
    }
    let weights = HeadWeights::load(&config(2), &source).unwrap();
    assert!(weights.embedding.is_some());
    assert!(matches!(weights.fusion, FusionWeights::Eagle { bias: Some(_), .. }));
}

#[test]
fn biases_of_q_k_and_v_come_together() {
    let mut source = checkpoint(FusionKind::Eagle, "");
    for block in 0..2 {
        for (x, width) in [("q", 8), ("k", 4), ("v", 4)] {
            source.insert(bias_name(&format!("layers.{block}"), x), zeros(&[width]));
        }
    }
    let weights = HeadWeights::load(&config(2), &source).unwrap();
    assert!(weights.blocks.iter().all(|block| block.k.bias.is_some()));
    source.remove("layers.1.self_attn.k_proj.bias");
    assert_eq!(problems(&config(2), &source), ["`layers.1.self_attn.k_proj.bias` [4] is missing"]);
}

#[test]
fn every_wrong_tensor_is_named_at_once() {
    let mut source = checkpoint(FusionKind::Dgf, "module.");
    source.remove("module.W_2");
    source.remove("module.layers.1.mlp.up_proj.weight");
    source.insert("module.W_z".into(), zeros(&[8, 16]));
    source.insert("module.layers.0.input_layernorm.weight".into(), zeros(&[8]));
    source.insert("W_1".into(), zeros(&[8, 8]));
    let error = HeadWeights::load(&config(2), &source).unwrap_err();
    insta::assert_snapshot!(error, @r"
    the draft head's tensors do not match its config.json:
      `W_1` and `module.W_1` are the same tensor
      `W_2` [8, 8] is missing
      `W_z` is [8, 16], expected [16, 8]
      `layers.1.mlp.up_proj.weight` [12, 8] is missing
      `module.layers.0.input_layernorm.weight` [8] is not a tensor of a draft head
    ");
}

#[test]
fn blocks_beyond_the_config_are_unknown_and_others_missing() {
    let source = checkpoint(FusionKind::Dgf, "");
    let extra = problems(&config(1), &source);
    assert_eq!(extra.len(), 9, "{extra:?}");
    assert!(extra.iter().all(|line| line.contains("layers.1")
        && line.ends_with(
            "is not a tensor \
        of a draft head"
        )));
    let missing = problems(&config(3), &source);
    assert_eq!(missing.len(), 9, "{missing:?}");
    assert!(missing.iter().all(|line| line.contains("layers.2") && line.ends_with("missing")));
}

#[test]
fn another_model_is_no_draft_head() {
    let source = HashMap::from([("model.norm.weight".to_string(), zeros(&[8]))]);
    assert_eq!(
        problems(&config(1), &source),
        ["this is not a draft head: it has no `W_z` (DGF) and no `fc.weight` (EAGLE)"]
    );
}

#[test]
fn a_gate_over_several_layers_is_refused_with_the_kinds_that_can_be_trained() {
    let mut source = checkpoint(FusionKind::Dgf, "");
    for (name, shape) in
        [("fc.weight", vec![8, 24]), ("norm.weight", vec![8]), ("lm_head.weight", vec![16, 8])]
    {
        source.insert(name.into(), zeros(&shape));
    }
    let problems = problems(&config(2), &source);
    assert_eq!(problems.len(), 1);
    assert!(problems[0].contains("train one of the kind dgf or eagle3"), "{problems:?}");
}
