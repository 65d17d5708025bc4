//! The tiny models of tests/golden/arch written as the safetensors folders that their families
//! publish: other names, fused tensors, rotary halves, norms without the added 1. Both must be the
//! same model, in every bit.

use std::collections::HashMap;

use super::open_target;
use crate::support::gguf::{Stored, published};
use crate::support::library::{arch, load_files};
use dovetail::kernels::RecurrentShape;
use dovetail::library::{Spec, TargetFiles};
use dovetail::model::{Config, RecurrentLayers, RopeLayout, RopeScaling, Target, weights};
use serde_json::{Value, json};

const FAMILIES: [(&str, &str); 16] = [
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
    ("qwen3next", "qwen3_next"),
    ("qwen35", "qwen3_5_text"),
    ("qwen35moe", "qwen3_5_moe_text"),
    ("lfm2", "lfm2"),
    ("lfm2moe", "lfm2_moe"),
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
        set("shared_expert_intermediate_size", json!(experts.shared_intermediate));
        set("num_dense_layers", json!(experts.dense_layers));
    }
    if let Some(RecurrentLayers { layers, shape, .. }) = &block.recurrent {
        let kind = |&is: &bool| if is { "linear_attention" } else { "full_attention" };
        set("layer_types", layers.iter().map(kind).collect());
        set("linear_num_key_heads", json!(shape.key_heads));
        set("linear_num_value_heads", json!(shape.heads));
        set("linear_key_head_dim", json!(shape.key));
        set("linear_value_head_dim", json!(shape.value));
        set("linear_conv_kernel_dim", json!(shape.taps));
        set("conv_L_cache", json!(shape.taps));
        set("block_auto_adjust_ff_dim", json!(false));
        let part = config.rotary_dim() as f64 / config.head_dim as f64;
        let rope = json!({"rope_type": "default", "rope_theta": config.rope_theta,
            "partial_rotary_factor": part});
        set("rope_parameters", rope);
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
        "lfm2" | "lfm2_moe" => {
            let name = name.replacen(".mlp.", ".feed_forward.", 1);
            let pairs = [
                ("gate_proj", "w1"),
                ("down_proj", "w2"),
                ("up_proj", "w3"),
                ("gate.e_score_correction_bias", "expert_bias"),
                ("self_attn.o_proj", "self_attn.out_proj"),
                ("self_attn.q_norm", "self_attn.q_layernorm"),
                ("self_attn.k_norm", "self_attn.k_layernorm"),
                ("input_layernorm", "operator_norm"),
                ("post_attention_layernorm", "ffn_norm"),
                ("model.norm", "model.embedding_norm"),
            ];
            pairs.iter().fold(name, |name, (asked, stored)| name.replacen(asked, stored, 1))
        }
        "qwen3_next" | "qwen3_5_moe_text" => swap(&[("shared_experts", "shared_expert")]),
        _ => name.to_owned(),
    }
}

/// Exchanges the value heads of Qwen3.5, which its converter has grouped by their number within a
/// key head.
fn by_key_head(bytes: &mut [u8], shape: &RecurrentShape, unit: usize) {
    let group = shape.heads / shape.key_heads;
    for all in bytes.chunks_exact_mut(shape.heads * unit) {
        let old = all.to_vec();
        for (to, bytes) in all.chunks_exact_mut(unit).enumerate() {
            let from = to % group * shape.key_heads + to / group;
            bytes.copy_from_slice(&old[from * unit..][..unit]);
        }
    }
}

/// Some rows of a matrix.
fn rows(tensor: &Stored, at: std::ops::Range<usize>) -> Vec<u8> {
    let row = tensor.bytes.len() / tensor.shape[0];
    tensor.bytes[at.start * row..at.end * row].to_vec()
}

/// Fuses and reorders the tensors of recurrent layers as a family does.
fn fuse_recurrent(all: &mut HashMap<String, Stored>, config: &Config, family: &str) {
    let Some(RecurrentLayers { layers, shape, .. }) = &config.block.recurrent else { return };
    let keys = shape.key_heads * shape.key;
    for layer in (0..config.layers).filter(|&layer| layers[layer]) {
        let name = |part: &str| weights::layer_name(layer, part);
        if family.starts_with("lfm2") {
            let parts = ["b", "c", "x"]
                .map(|part| all.remove(&name(&format!("conv.in_proj.{part}.weight"))).unwrap());
            let bytes = parts.iter().flat_map(|part| part.bytes.clone()).collect();
            let shape = vec![3 * parts[0].shape[0], parts[0].shape[1]];
            let fused = Stored { dtype: parts[0].dtype, shape, bytes };
            all.insert(name("conv.in_proj.weight"), fused);
            all.get_mut(&name("conv.conv.weight")).unwrap().shape.insert(1, 1);
            continue;
        }
        let part = |part: &str| name(&format!("linear_attn.{part}"));
        let rates = all.get_mut(&part("A_log")).unwrap();
        for word in rates.bytes.as_chunks_mut::<4>().0 {
            *word = (-f32::from_le_bytes(*word)).ln().to_le_bytes();
        }
        if family == "qwen3_next" {
            let qkv = all.remove(&part("in_proj_qkv.weight")).unwrap();
            let z = all.remove(&part("in_proj_z.weight")).unwrap();
            let width = shape.heads / shape.key_heads * shape.value;
            let of = |head: usize| {
                let [key, value] = [head * shape.key, head * width];
                let mut bytes = rows(&qkv, key..key + shape.key);
                bytes.extend(rows(&qkv, keys + key..keys + key + shape.key));
                bytes.extend(rows(&qkv, 2 * keys + value..2 * keys + value + width));
                bytes.extend(rows(&z, value..value + width));
                bytes
            };
            let bytes = (0..shape.key_heads).flat_map(of).collect();
            let shape = vec![qkv.shape[0] + z.shape[0], qkv.shape[1]];
            all.insert(part("in_proj_qkvz.weight"), Stored { dtype: qkv.dtype, shape, bytes });
        } else {
            for (tensor, from, unit) in [
                (
                    "in_proj_qkv.weight",
                    2 * keys * config.hidden * 2,
                    shape.value * config.hidden * 2,
                ),
                ("in_proj_z.weight", 0, shape.value * config.hidden * 2),
                ("in_proj_a.weight", 0, config.hidden * 2),
                ("in_proj_b.weight", 0, config.hidden * 2),
                ("conv1d.weight", 2 * keys * shape.taps * 4, shape.value * shape.taps * 4),
                ("A_log", 0, 4),
                ("dt_bias", 0, 4),
                ("out_proj.weight", 0, shape.value * 2),
            ] {
                by_key_head(&mut all.get_mut(&part(tensor)).unwrap().bytes[from..], shape, unit);
            }
        }
        all.get_mut(&part("conv1d.weight")).unwrap().shape.insert(1, 1);
    }
}

/// Puts the matrices of all experts into two tensors for each layer (Qwen3.5-MoE).
fn stack_experts(all: &mut HashMap<String, Stored>, config: &Config) {
    for layer in 0..config.layers {
        for (stacked, parts) in
            [("gate_up_proj", &["gate_proj", "up_proj"][..]), ("down_proj", &["down_proj"])]
        {
            let name = |part: String| weights::layer_name(layer, &format!("mlp.experts.{part}"));
            let take =
                |expert: usize| parts.iter().map(move |part| format!("{expert}.{part}.weight"));
            let found: Vec<Stored> =
                (0..8).flat_map(take).map(|part| all.remove(&name(part)).unwrap()).collect();
            let shape = vec![8, parts.len() * found[0].shape[0], found[0].shape[1]];
            let bytes = found.iter().flat_map(|part| part.bytes.clone()).collect();
            let dtype = found[0].dtype;
            all.insert(name(stacked.to_owned()), Stored { dtype, shape, bytes });
        }
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
            "mlp.shared_expert_gate",
            "mlp.shared_experts.gate_proj",
            "mlp.shared_experts.up_proj",
            "mlp.shared_experts.down_proj",
            "linear_attn.in_proj_qkv",
            "linear_attn.in_proj_z",
            "linear_attn.in_proj_b",
            "linear_attn.in_proj_a",
            "linear_attn.in_proj_ba",
            "linear_attn.conv1d",
            "linear_attn.norm",
            "linear_attn.out_proj",
            "conv.in_proj.b",
            "conv.in_proj.c",
            "conv.in_proj.x",
            "conv.conv",
            "conv.out_proj",
        ];
        for part in ["linear_attn.A_log", "linear_attn.dt_bias", "mlp.gate.e_score_correction_bias"]
        {
            names.push(weights::layer_name(layer, part));
        }
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
        let norm = name.ends_with("norm.weight") && !name.contains("linear_attn");
        let less_one = family.starts_with("gemma") || family.starts_with("qwen3_5");
        if (less_one || family == "qwen3_next") && norm {
            for word in tensor.bytes.as_chunks_mut::<4>().0 {
                *word = (f32::from_le_bytes(*word) - 1.0).to_le_bytes();
            }
        }
        all.insert(stored(&name, family), tensor);
    }
    fuse_recurrent(&mut all, config, family);
    if family == "qwen3_5_moe_text" {
        stack_experts(&mut all, config);
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
        let rounded = ["gemma", "qwen3_next", "qwen3_5"];
        let rounded = rounded.iter().any(|start| family.starts_with(start));
        let tolerance = if rounded { 1e-3 } else { 0.0 };
        for (ours, theirs) in ours.logits.iter().zip(&theirs.logits) {
            assert!((ours - theirs).abs() <= tolerance, "{name}: {ours} is not {theirs}");
        }
    }
}
