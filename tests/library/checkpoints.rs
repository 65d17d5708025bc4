//! The tiny models of tests/golden/arch written as the safetensors folders that their families
//! publish: other names, fused tensors, rotary halves, norms without the added 1. Both must be the
//! same model, in every bit.

use std::collections::HashMap;

use super::open_target;
use crate::support::gguf::{Stored, published};
use crate::support::library::{arch, load_files};
use dovetail::library::{Spec, TargetFiles};
use dovetail::model::{Config, RopeLayout, RopeScaling, Target, weights};
use serde_json::{Value, json};

const FAMILIES: [(&str, &str); 11] = [
    ("llama", "llama"),
    ("llama-yarn", "llama"),
    ("qwen3", "qwen3"),
    ("smollm3", "smollm3"),
    ("granite", "granite"),
    ("olmo2", "olmo2"),
    ("phi3-longrope", "phi3"),
    ("gemma2", "gemma2"),
    ("gemma3", "gemma3_text"),
    ("mixtral", "mixtral"),
    ("qwen3moe", "qwen3_moe"),
];

/// `config.json` of the family for these numbers.
fn settings(config: &Config, family: &str) -> Value {
    let block = &config.block;
    let mut json = json!({
        "model_type": family,
        "hidden_act": if family.starts_with("gemma") { "gelu_pytorch_tanh" } else { "silu" },
        "hidden_size": config.hidden, "intermediate_size": config.intermediate,
        "num_hidden_layers": config.layers, "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads, "head_dim": config.head_dim,
        "rms_norm_eps": config.rms_eps, "rope_theta": config.rope_theta,
        "vocab_size": config.vocab, "max_position_embeddings": config.max_positions,
        "tie_word_embeddings": config.tied_head,
    });
    let mut set = |field: &str, value: Value| json[field] = value;
    match &config.rope_scaling {
        RopeScaling::None => {}
        RopeScaling::Linear { factor } => {
            set("rope_scaling", json!({"type": "linear", "factor": factor}));
        }
        RopeScaling::Yarn { factor, original_positions, .. } => set(
            "rope_scaling",
            json!({"rope_type": "yarn", "factor": factor,
                "original_max_position_embeddings": original_positions}),
        ),
        RopeScaling::Long { short, long, original_positions, attention_factor } => {
            set("original_max_position_embeddings", json!(original_positions));
            set(
                "rope_scaling",
                json!({"type": "longrope", "short_factor": short, "long_factor": long,
                    "attention_factor": attention_factor}),
            );
            let part = config.rotary_dim() as f64 / config.head_dim as f64;
            set("partial_rotary_factor", json!(part));
        }
        other => panic!("{other:?}"),
    }
    if let Some(window) = &block.window {
        set("sliding_window", json!(window.size));
    }
    if let Some(experts) = &block.experts {
        set("num_experts_per_tok", json!(experts.used));
        set("norm_topk_prob", json!(true));
        set("moe_intermediate_size", json!(experts.intermediate));
        let field = if family == "mixtral" { "num_local_experts" } else { "num_experts" };
        set(field, json!(experts.count));
    }
    match family {
        "granite" => {
            set("embedding_multiplier", json!(block.embedding_scale));
            set("residual_multiplier", json!(block.residual_scale));
            set("logits_scaling", json!(block.logit_divisor));
            set("attention_multiplier", json!(block.attention_scale));
        }
        "gemma2" | "gemma3_text" => {
            set("attn_logit_softcapping", json!(block.attention_softcap));
            set("final_logit_softcapping", json!(block.final_softcap));
        }
        _ => {}
    }
    json
}

/// The name of a tensor in the family's files.
fn stored(name: &str, family: &str) -> String {
    let swap = |pairs: &[(&str, &str)]| {
        let found = pairs.iter().find(|(asked, _)| name.contains(asked));
        found.map_or(name.to_owned(), |(asked, stored)| name.replacen(asked, stored, 1))
    };
    let out_norms = [
        (weights::ATTENTION_OUT_NORM, "post_attention_layernorm"),
        (weights::MLP_OUT_NORM, "post_feedforward_layernorm"),
    ];
    match family {
        "olmo2" => swap(&out_norms),
        "gemma2" | "gemma3_text" => swap(&[
            out_norms[0],
            out_norms[1],
            ("post_attention_layernorm", "pre_feedforward_layernorm"),
        ]),
        "mixtral" if name.contains(".mlp.") => {
            let moe = name.replacen(".mlp.", ".block_sparse_moe.", 1);
            moe.replace("gate_proj", "w1").replace("down_proj", "w2").replace("up_proj", "w3")
        }
        _ => name.to_owned(),
    }
}

/// Reorders rows to rotary halves.
fn in_halves(tensor: &mut Stored, config: &Config) {
    let row = tensor.bytes.len() / tensor.shape[0];
    let (d, half) = (config.head_dim, config.rotary_dim() / 2);
    let old = tensor.bytes.clone();
    for (to, bytes) in tensor.bytes.chunks_exact_mut(row).enumerate() {
        let (head, i) = (to / d, to % d);
        let from = if i < 2 * half { head * d + 2 * (i % half) + i / half } else { to };
        bytes.copy_from_slice(&old[from * row..][..row]);
    }
}

/// The tensors of a model under the names by which it requests them.
fn tensors(files: &TargetFiles) -> Vec<(String, Stored)> {
    let mut names = vec![weights::EMBEDDING.to_owned(), format!("{}.weight", weights::NORM)];
    names.push(weights::HEAD.to_owned());
    for layer in 0..files.config.layers {
        let parts = [
            "input_layernorm",
            "post_attention_layernorm",
            weights::ATTENTION_OUT_NORM,
            weights::MLP_OUT_NORM,
            "self_attn.q_proj",
            "self_attn.k_proj",
            "self_attn.v_proj",
            "self_attn.o_proj",
            "self_attn.q_norm",
            "self_attn.k_norm",
            "mlp.gate_proj",
            "mlp.up_proj",
            "mlp.down_proj",
            "mlp.gate",
        ];
        let experts = (0..8).flat_map(|e| {
            ["gate", "up", "down"].map(|part| format!("mlp.experts.{e}.{part}_proj"))
        });
        for part in parts.map(str::to_owned).into_iter().chain(experts) {
            names.push(weights::layer_name(layer, &format!("{part}.weight")));
        }
    }
    let found = names.into_iter().filter_map(|name| {
        let tensor = files.weights.tensor(&name)?;
        Some((name, Stored::of(&tensor)))
    });
    found.collect()
}

fn folder(files: &TargetFiles, family: &str) -> tempfile::TempDir {
    let config = &files.config;
    let mut all: HashMap<String, Stored> = HashMap::new();
    for (name, mut tensor) in tensors(files) {
        let rotated = name.contains("q_proj") || name.contains("k_proj");
        if rotated && config.rope_layout == RopeLayout::Interleaved {
            in_halves(&mut tensor, config);
        }
        if family.starts_with("gemma") && tensor.shape.len() == 1 {
            for word in tensor.bytes.as_chunks_mut::<4>().0 {
                *word = (f32::from_le_bytes(*word) - 1.0).to_le_bytes();
            }
        }
        all.insert(stored(&name, family), tensor);
    }
    if family == "phi3" {
        for layer in 0..config.layers {
            for (fused, parts) in [
                (
                    "self_attn.qkv_proj",
                    &["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"][..],
                ),
                ("mlp.gate_up_proj", &["mlp.gate_proj", "mlp.up_proj"]),
            ] {
                let name = |part: &str| weights::layer_name(layer, &format!("{part}.weight"));
                let parts: Vec<Stored> =
                    parts.iter().map(|part| all.remove(&name(part)).unwrap()).collect();
                let rows = parts.iter().map(|part| part.shape[0]).sum();
                let bytes = parts.iter().flat_map(|part| part.bytes.clone()).collect();
                let shape = vec![rows, parts[0].shape[1]];
                all.insert(name(fused), Stored { dtype: parts[0].dtype, shape, bytes });
            }
        }
    }
    published(&settings(config, family), &all)
}

#[test]
fn a_checkpoint_is_the_model_that_its_gguf_file_is() {
    let tokens: Vec<u32> = (0..40).map(|i| i * 37 % 260).collect();
    for (name, family) in FAMILIES {
        let gguf = arch(name);
        let folder = folder(&gguf, family);
        let checkpoint = open_target(&Spec::Folder(folder.path().to_owned()))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let context = gguf.config.max_positions.min(1024);
        let mut ours = load_files(&checkpoint, context, 2);
        let mut theirs = load_files(&gguf, context, 2);
        let (ours, theirs) = (ours.prefill(&tokens).unwrap(), theirs.prefill(&tokens).unwrap());
        // Norms without the added 1 lose a rounding.
        let tolerance = if family.starts_with("gemma") { 1e-3 } else { 0.0 };
        for (ours, theirs) in ours.logits.iter().zip(&theirs.logits) {
            assert!((ours - theirs).abs() <= tolerance, "{name}: {ours} is not {theirs}");
        }
    }
}
