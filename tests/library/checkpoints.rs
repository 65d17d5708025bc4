//! The tiny models of tests/golden/arch written as the safetensors folders that their families
//! publish: other names, fused tensors, rotary halves, norms without the added 1. Both must be the
//! same model, in every bit.

use std::collections::HashMap;

use super::open_target;
use crate::support::gguf::{Stored, published};
use crate::support::library::{arch, load_files};
use dovetail::library::{Spec, TargetFiles};
use dovetail::model::{Config, NormKind, RopeLayout, RopeScaling, Target, weights};
use safetensors::Dtype;
use serde_json::{Value, json};

const FAMILIES: [(&str, &str); 30] = [
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
    ("glm4", "glm4"),
    ("glm4moe", "glm4_moe"),
    ("command-r", "cohere"),
    ("cohere2", "cohere2"),
    ("internlm2", "internlm2"),
    ("seed_oss", "seed_oss"),
    ("ernie4_5", "ernie4_5"),
    ("ernie4_5-moe", "ernie4_5_moe"),
    ("hunyuan-dense", "hunyuan_v1_dense"),
    ("exaone4", "exaone4"),
    ("olmoe", "olmoe"),
    ("minicpm", "minicpm"),
    ("stablelm", "stablelm"),
    ("stablelm-12b", "stablelm"),
    ("phi2", "phi"),
    ("mimo2", "mimo_v2_flash"),
    ("gemma4", "gemma4_text"),
    ("gemma4-dense", "gemma4_text"),
    ("gemma4-moe", "gemma4_text"),
];

/// Families that rotate neighbours in their checkpoints too.
const NEIGHBOURS: [&str; 5] = ["glm4", "cohere", "cohere2", "ernie4_5", "ernie4_5_moe"];

/// `config.json` of the family for these numbers.
fn settings(config: &Config, family: &str) -> Value {
    let block = &config.block;
    let mut json = json!({
        "model_type": family,
        "hidden_act": match family {
            "gemma2" | "gemma3_text" | "gemma4_text" => "gelu_pytorch_tanh",
            "phi" => "gelu_new",
            _ => "silu",
        },
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
        }
        RopeScaling::Factors(_) if family == "gemma4_text" => {}
        other => panic!("{other:?}"),
    }
    if let Some(window) = &block.window {
        set("sliding_window", json!(window.size));
    }
    if let Some(experts) = &block.experts {
        set("num_experts_per_tok", json!(experts.used));
        set("norm_topk_prob", json!(experts.normalised));
        set("moe_intermediate_size", json!(experts.intermediate));
        let field = match family {
            "mixtral" => "num_local_experts",
            "glm4_moe" => "n_routed_experts",
            "mimo_v2_flash" => "n_routed_experts",
            "ernie4_5_moe" => "moe_num_experts",
            _ => "num_experts",
        };
        set(field, json!(experts.count));
        set("routed_scaling_factor", json!(experts.scale));
        set("first_k_dense_replace", json!(experts.dense_layers));
        set("shared_expert_intermediate_size", json!(experts.shared_intermediate));
    }
    let part = config.rotary_dim() as f64 / config.head_dim as f64;
    set("partial_rotary_factor", json!(part));
    set("attention_bias", json!(config.qkv_bias));
    if block.norm != NormKind::Rms {
        set("rms_norm_eps", Value::Null);
        set("layer_norm_eps", json!(config.rms_eps));
    }
    match family {
        "granite" => {
            set("embedding_multiplier", json!(block.embedding_scale));
            set("residual_multiplier", json!(block.residual_scale));
            set("logits_scaling", json!(block.logit_divisor));
            set("attention_multiplier", json!(block.attention_scale));
        }
        "minicpm" => {
            set("scale_emb", json!(block.embedding_scale));
            set("scale_depth", json!(block.residual_scale * (config.layers as f32).sqrt()));
            set("dim_model_base", json!(config.hidden as f32 / block.logit_divisor));
        }
        "mimo_v2_flash" => {
            let local = block.local_heads.unwrap();
            let layers = &block.window.as_ref().unwrap().layers;
            set("hybrid_layer_pattern", layers.iter().map(|&local| u8::from(local)).collect());
            set("moe_layer_freq", json!([0, 1, 1]));
            set("first_k_dense_replace", Value::Null);
            set("swa_rope_theta", json!(block.local_rope_theta));
            set("swa_num_key_value_heads", json!(local.kv_heads));
            set("swa_head_dim", json!(local.head_dim));
            set("v_head_dim", json!(block.value_dim));
            set("attention_value_scale", json!(block.attention_out_scale));
        }
        "gemma4_text" => {
            let local = block.local_heads.unwrap();
            let kind = |&local: &bool| if local { "sliding_attention" } else { "full_attention" };
            let layers = &block.window.as_ref().unwrap().layers;
            set("layer_types", layers.iter().map(kind).collect());
            set("global_head_dim", json!(config.head_dim));
            set("head_dim", json!(local.head_dim));
            set("num_global_key_value_heads", json!(config.kv_heads));
            set("num_key_value_heads", json!(local.kv_heads));
            set("attention_k_eq_v", json!(block.global_values_are_keys));
            set(
                "rope_parameters",
                json!({
                    "sliding_attention": {"rope_type": "default",
                        "rope_theta": block.local_rope_theta},
                    "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25,
                        "rope_theta": config.rope_theta},
                }),
            );
            set("partial_rotary_factor", Value::Null);
            set("final_logit_softcapping", json!(block.final_softcap));
            set("hidden_size_per_layer_input", json!(block.per_layer_dim));
            let shared = block.own_kv_layers.map_or(0, |own| config.layers - own);
            set("num_kv_shared_layers", json!(shared));
            set("use_double_wide_mlp", json!(block.intermediates.is_some()));
            set("enable_moe_block", json!(block.experts.is_some()));
        }
        "cohere" | "cohere2" => set("logit_scale", json!(1.0 / block.logit_divisor)),
        "glm4_moe" => set("use_qk_norm", json!(config.qk_norm)),
        "stablelm" => {
            set("use_qkv_bias", json!(config.qkv_bias));
            set("qk_layernorm", json!(config.qk_norm));
            set("use_parallel_residual", json!(block.parallel));
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
        "olmo2" | "exaone4" => swap(&out_norms),
        "mimo_v2_flash" => swap(&[("self_attn.sinks", "self_attn.attention_sink_bias")]),
        "gemma4_text" => swap(&[
            out_norms[0],
            out_norms[1],
            ("post_attention_layernorm", "pre_feedforward_layernorm"),
            ("mlp.gate.weight", "router.proj.weight"),
        ]),
        "glm4" => swap(&[
            (weights::ATTENTION_OUT_NORM, "post_self_attn_layernorm"),
            (weights::MLP_OUT_NORM, "post_mlp_layernorm"),
        ]),
        "internlm2" => swap(&[
            ("model.embed_tokens", "model.tok_embeddings"),
            ("self_attn.o_proj", "attention.wo"),
            ("mlp.gate_proj", "feed_forward.w1"),
            ("mlp.up_proj", "feed_forward.w3"),
            ("mlp.down_proj", "feed_forward.w2"),
            ("input_layernorm", "attention_norm"),
            ("post_attention_layernorm", "ffn_norm"),
            ("lm_head", "output"),
        ]),
        "phi" => swap(&[
            ("self_attn.o_proj", "self_attn.dense"),
            ("mlp.up_proj", "mlp.fc1"),
            ("mlp.down_proj", "mlp.fc2"),
            ("model.norm", "model.final_layernorm"),
        ]),
        "hunyuan_v1_dense" => swap(&[("q_norm", "query_layernorm"), ("k_norm", "key_layernorm")]),
        "ernie4_5_moe" => swap(&[("mlp.gate.e_score", "mlp.moe_statics.e_score")]),
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
    let norm = ["weight", "bias"].map(|kind| format!("{}.{kind}", weights::NORM));
    let ends = [
        weights::EMBEDDING,
        weights::HEAD,
        weights::HEAD_BIAS,
        weights::PER_LAYER_EMBEDDING,
        weights::PER_LAYER_PROJECTION,
        "model.per_layer_projection_norm.weight",
    ]
    .map(str::to_owned);
    let mut names = [&norm[..], &ends].concat();
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
            "mlp.shared_experts.gate_proj",
            "mlp.shared_experts.up_proj",
            "mlp.shared_experts.down_proj",
            "per_layer_input_gate",
            "per_layer_projection",
            "post_per_layer_input_norm",
            "pre_feedforward_layernorm_2",
            "post_feedforward_layernorm_1",
            "post_feedforward_layernorm_2",
        ];
        let bare =
            ["mlp.gate.e_score_correction_bias", "self_attn.sinks", "layer_scalar", "router.scale"];
        names.extend(bare.map(|part| weights::layer_name(layer, part)));
        let experts = (0..8).flat_map(|e| {
            ["gate", "up", "down"].map(|part| format!("mlp.experts.{e}.{part}_proj"))
        });
        for part in parts.map(str::to_owned).into_iter().chain(experts) {
            for kind in ["weight", "bias"] {
                names.push(weights::layer_name(layer, &format!("{part}.{kind}")));
            }
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
        let reordered = config.rope_layout == RopeLayout::Interleaved;
        if rotated && reordered && !NEIGHBOURS.contains(&family) {
            in_halves(&mut tensor, config);
        }
        if name.ends_with("e_score_correction_bias") && family == "ernie4_5_moe" {
            tensor.shape.insert(0, 1);
        }
        if family == "stablelm" && tensor.shape.len() == 2 && name.contains("_norm") {
            let head = 4 * tensor.shape[1];
            for (i, bytes) in tensor.bytes.chunks_exact(head).enumerate() {
                let name = name.replace("_norm.weight", &format!("_layernorm.norms.{i}.weight"));
                let shape = vec![tensor.shape[1]];
                all.insert(name, Stored { dtype: tensor.dtype, shape, bytes: bytes.to_vec() });
            }
            continue;
        }
        if ["gemma2", "gemma3_text"].contains(&family) && tensor.shape.len() == 1 {
            for word in tensor.bytes.as_chunks_mut::<4>().0 {
                *word = (f32::from_le_bytes(*word) - 1.0).to_le_bytes();
            }
        }
        all.insert(stored(&name, family), tensor);
    }
    if family == "gemma4_text" && config.block.experts.is_some() {
        fuse_experts(files, &mut all);
    }
    let qkv = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"];
    let gate_up = ("mlp.gate_up_proj", &["mlp.gate_proj", "mlp.up_proj"][..], 1);
    // What is fused, from which parts, and in how many runs.
    let fused = match family {
        "phi3" => vec![("self_attn.qkv_proj", &qkv[..], 1), gate_up],
        "glm4" => vec![gate_up],
        "internlm2" => vec![("attention.wqkv", &qkv[..], config.kv_heads)],
        _ => Vec::new(),
    };
    for layer in 0..config.layers {
        for &(fused, parts, runs) in &fused {
            let name = |part: &str| weights::layer_name(layer, &format!("{part}.weight"));
            let parts: Vec<Stored> =
                parts.iter().map(|part| all.remove(&name(part)).unwrap()).collect();
            let rows = parts.iter().map(|part| part.shape[0]).sum();
            let run = |part: &Stored, run: usize| {
                let length = part.bytes.len() / runs;
                part.bytes[run * length..(run + 1) * length].to_vec()
            };
            let each = (0..runs).flat_map(|i| parts.iter().flat_map(move |part| run(part, i)));
            let bytes = each.collect();
            let shape = vec![rows, parts[0].shape[1]];
            all.insert(name(fused), Stored { dtype: parts[0].dtype, shape, bytes });
        }
    }
    published(&settings(config, family), &all)
}

/// Puts the matrices of Gemma 4's experts into the two tensors that its checkpoints have for them.
fn fuse_experts(files: &TargetFiles, all: &mut HashMap<String, Stored>) {
    let experts = files.config.block.experts.as_ref().unwrap();
    for layer in 0..files.config.layers {
        let name = |part: &str| weights::layer_name(layer, part);
        let expert =
            |expert: usize, part: &str| name(&format!("mlp.experts.{expert}.{part}_proj.weight"));
        for (fused, parts) in
            [("experts.gate_up_proj", &["gate", "up"][..]), ("experts.down_proj", &["down"])]
        {
            let each = (0..experts.count).flat_map(|i| parts.iter().map(move |part| (i, part)));
            let stored: Vec<Stored> =
                each.map(|(i, part)| all.remove(&expert(i, part)).unwrap()).collect();
            let [rows, columns] = stored[0].shape[..] else { panic!("a matrix") };
            let shape = vec![experts.count, parts.len() * rows, columns];
            let bytes = stored.iter().flat_map(|part| part.bytes.clone()).collect();
            all.insert(name(fused), Stored { dtype: stored[0].dtype, shape, bytes });
        }
        let scales = (0..experts.count).map(|i| files.weights.scale(&expert(i, "down")));
        let bytes = scales.flat_map(f32::to_le_bytes).collect();
        let scales = Stored { dtype: Dtype::F32, shape: vec![experts.count], bytes };
        all.insert(name("router.per_expert_scale"), scales);
    }
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
        let tolerance = match family {
            "gemma2" | "gemma3_text" => 1e-3,
            // Its scales are quotients.
            "minicpm" => 1e-5,
            _ => 0.0,
        };
        for (ours, theirs) in ours.logits.iter().zip(&theirs.logits) {
            assert!((ours - theirs).abs() <= tolerance, "{name}: {ours} is not {theirs}");
        }
    }
}
