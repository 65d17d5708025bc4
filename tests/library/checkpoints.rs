//! The tiny models of tests/golden/arch written as the safetensors folders that their families
//! publish: other names, fused tensors, rotary halves, norms without the added 1. Both must be the
//! same model, in every bit.

use std::collections::HashMap;

use super::open_target;
use crate::support::drafters::{ON_CPU, drafters, every_strategy_gives_plain_text, on_the_cpu};
use crate::support::gguf::{Stored, published};
use crate::support::library::{arch, load_files};
use crate::support::mtp::MtpCase;
use dovetail::decode::Engine;
use dovetail::kernels::{RecurrentShape, StateKind};
use dovetail::library::{Spec, TargetFiles};
use dovetail::model::head::{HeadBackend, MTP, Pairs};
use dovetail::model::{
    Config, NormKind, RecurrentLayers, RopeLayout, RopeScaling, Target, weights,
};
use half::f16;
use safetensors::Dtype;
use serde_json::{Value, json};

/// Families whose checkpoints store the weights of norms less one.
const LESS_ONE: [&str; 5] =
    ["gemma2", "gemma3_text", "qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"];

const FAMILIES: [(&str, &str); 40] = [
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
    ("qwen3next", "qwen3_next"),
    ("qwen35", "qwen3_5_text"),
    ("qwen35moe", "qwen3_5_moe_text"),
    ("lfm2", "lfm2"),
    ("lfm2moe", "lfm2_moe"),
    ("mamba2", "mamba2"),
    ("falcon-h1", "falcon_h1"),
    ("granitehybrid", "granitemoehybrid"),
    ("nemotron_h", "nemotron_h"),
    ("nemotron_h_moe", "nemotron_h"),
];

/// Families whose layers have the states of Mamba-2.
const MAMBA2: [&str; 4] = ["mamba2", "falcon_h1", "granitemoehybrid", "nemotron_h"];

/// By how much Falcon-H1 multiplies what its parts compute. The weights of the tiny model
/// contain these powers of two, which are taken out of them.
const MULTIPLIERS: [(&str, f32); 8] = [
    ("model.embed_tokens", 0.5),
    ("lm_head", 0.25),
    ("self_attn.q_proj", 0.5),
    ("self_attn.k_proj", 0.5 * 0.25),
    ("self_attn.v_proj", 0.5),
    ("self_attn.o_proj", 0.25),
    ("mlp.gate_proj", 0.125),
    ("mlp.down_proj", 0.5),
];
/// The same for the parts of its state: the gate, the input, B, C, the steps, and the output.
const STATE_MULTIPLIERS: [f32; 6] = [0.25, 0.5, 1.0 / 16.0, 0.125, 0.5, 0.125];
/// And for what all parts but the output read.
const STATE_INPUT: f32 = 0.5;

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
        set("num_dense_layers", json!(experts.dense_layers));
        set("shared_expert_intermediate_size", json!(experts.shared_intermediate));
    }
    let part = config.rotary_dim() as f64 / config.head_dim as f64;
    set("partial_rotary_factor", json!(part));
    set("attention_bias", json!(config.qkv_bias));
    if block.norm != NormKind::Rms {
        set("rms_norm_eps", Value::Null);
        set("layer_norm_eps", json!(config.rms_eps));
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
        name if MAMBA2.contains(&name) => {
            let shape = block.recurrent.as_ref().unwrap().shape;
            // What has another name there.
            for field in ["hidden_act", "layer_types", "shared_expert_intermediate_size"] {
                set(field, Value::Null);
            }
            let names = match name {
                "mamba2" => ["num_heads", "head_dim", "state_size", "n_groups", "conv_kernel"],
                "nemotron_h" => [
                    "mamba_num_heads",
                    "mamba_head_dim",
                    "ssm_state_size",
                    "n_groups",
                    "conv_kernel",
                ],
                _ => {
                    let heads = ["mamba_n_heads", "mamba_d_head", "mamba_d_state"];
                    [heads[0], heads[1], heads[2], "mamba_n_groups", "mamba_d_conv"]
                }
            };
            let sizes = [shape.heads, shape.value, shape.key, shape.key_heads, shape.taps];
            for (name, size) in names.into_iter().zip(sizes) {
                set(name, json!(size));
            }
            set("time_step_limit", json!([0.0, {"__float__": "Infinity"}]));
            if ["mamba2", "nemotron_h"].contains(&name) {
                set("layer_norm_epsilon", json!(config.rms_eps));
                set("rms_norm_eps", Value::Null);
            }
            of_mamba2(&mut set, name, config);
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

/// What is particular to one of Mamba-2's families.
fn of_mamba2(set: &mut impl FnMut(&str, Value), family: &str, config: &Config) {
    let block = &config.block;
    let recurrent = &block.recurrent.as_ref().unwrap().layers;
    let experts = block.experts.as_ref();
    let width = |name| {
        experts.map_or(Value::Null, |experts| match name {
            "shared" => json!(experts.shared_intermediate),
            _ => json!(experts.latent),
        })
    };
    match family {
        "mamba2" => {
            for field in ["num_attention_heads", "num_key_value_heads", "intermediate_size"] {
                set(field, Value::Null);
            }
        }
        "falcon_h1" => {
            set("mamba_d_ssm", json!(block.recurrent.as_ref().unwrap().shape.outputs()));
            set("embedding_multiplier", json!(0.5));
            set("lm_head_multiplier", json!(0.25));
            set("attention_in_multiplier", json!(0.5));
            set("key_multiplier", json!(0.25));
            set("attention_out_multiplier", json!(0.25));
            set("mlp_multipliers", json!([0.125, 0.5]));
            set("ssm_in_multiplier", json!(STATE_INPUT));
            set("ssm_multipliers", json!(STATE_MULTIPLIERS[..5]));
            set("ssm_out_multiplier", json!(STATE_MULTIPLIERS[5]));
        }
        "granitemoehybrid" => {
            let kind = |&is: &bool| if is { "mamba" } else { "attention" };
            set("layer_types", recurrent.iter().map(kind).collect());
            set("num_local_experts", json!(experts.unwrap().count));
            set("num_experts", Value::Null);
            set("moe_intermediate_size", Value::Null);
            set("intermediate_size", json!(experts.unwrap().intermediate));
            set("shared_intermediate_size", width("shared"));
            set("position_embedding_type", json!("nope"));
            set("embedding_multiplier", json!(block.embedding_scale));
            set("residual_multiplier", json!(block.residual_scale));
            set("logits_scaling", json!(block.logit_divisor));
            set("attention_multiplier", json!(block.attention_scale));
        }
        _ => {
            let mlps = block.intermediates.as_ref().unwrap();
            let letter = |(&is, &width): (&bool, &usize)| match (is, width) {
                (true, _) => 'M',
                (_, 0) => '*',
                _ if experts.is_some() => 'E',
                _ => '-',
            };
            let pattern: String = recurrent.iter().zip(mlps).map(letter).collect();
            set("hybrid_override_pattern", json!(pattern));
            set("mlp_hidden_act", json!("relu2"));
            set("num_experts", Value::Null);
            // Those without experts have the numbers of some too.
            set("n_routed_experts", json!(experts.map_or(8, |experts| experts.count)));
            set("moe_shared_expert_intermediate_size", width("shared"));
            set("moe_latent_size", width("latent"));
        }
    }
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
        "glm4_moe" if name.starts_with(MTP) => {
            // One more layer after the two of the tiny model.
            let name = name.replacen("mtp.", "model.layers.2.", 1);
            let pairs = [
                ("2.layers.0.", "2."),
                ("2.fc", "2.eh_proj"),
                ("pre_fc_norm_embedding", "enorm"),
                ("pre_fc_norm_hidden", "hnorm"),
                ("2.norm", "2.shared_head.norm"),
            ];
            pairs.iter().fold(name, |name, (asked, stored)| name.replacen(asked, stored, 1))
        }
        "falcon_h1" => swap(&[
            ("mlp.", "feed_forward."),
            ("post_attention_layernorm", "pre_ff_layernorm"),
            ("model.norm", "model.final_layernorm"),
        ]),
        "granitemoehybrid" => swap(&[
            ("mlp.shared_experts.down_proj", "shared_mlp.output_linear"),
            ("mlp.gate.weight", "block_sparse_moe.router.layer.weight"),
        ]),
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
        if MAMBA2.contains(&family) {
            fuse_mamba2(all, layer, config, family);
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

/// Multiplies weights by powers of two.
fn multiply(dtype: Dtype, bytes: &mut [u8], factor: f32) {
    if dtype == Dtype::F32 {
        for word in bytes.as_chunks_mut::<4>().0 {
            *word = (f32::from_le_bytes(*word) * factor).to_le_bytes();
        }
        return;
    }
    for word in bytes.as_chunks_mut::<2>().0 {
        let value = f16::from_le_bytes(*word).to_f32() * factor;
        *word = f16::from_f32(value).to_le_bytes();
    }
}

/// Fuses the tensors of Mamba-2's states, without what Falcon-H1 multiplies them by.
fn fuse_mamba2(all: &mut HashMap<String, Stored>, layer: usize, config: &Config, family: &str) {
    let shape = config.block.recurrent.as_ref().unwrap().shape;
    let part = |part: &str| weights::layer_name(layer, &format!("mamba.{part}"));
    for word in all.get_mut(&part("A_log")).unwrap().bytes.as_chunks_mut::<4>().0 {
        *word = (-f32::from_le_bytes(*word)).ln().to_le_bytes();
    }
    all.get_mut(&part("conv1d.weight")).unwrap().shape.insert(1, 1);
    let parts =
        ["z", "x", "dt"].map(|name| all.remove(&part(&format!("in_proj.{name}.weight"))).unwrap());
    let rows = parts.iter().map(|part| part.shape[0]).sum();
    let mut fused = Stored {
        dtype: parts[0].dtype,
        shape: vec![rows, config.hidden],
        bytes: parts.iter().flat_map(|part| part.bytes.clone()).collect(),
    };
    if family == "falcon_h1" {
        let group = shape.key_heads * shape.key;
        let [z, end] = [shape.outputs(), shape.outputs() + shape.channels];
        let ends = [0, z, 2 * z, 2 * z + group, end, end + shape.heads];
        for (at, factor) in ends.windows(2).zip(STATE_MULTIPLIERS) {
            let bytes = &mut fused.bytes[at[0] * config.hidden * 2..at[1] * config.hidden * 2];
            multiply(fused.dtype, bytes, 1.0 / (factor * STATE_INPUT));
        }
        let out = all.get_mut(&part("out_proj.weight")).unwrap();
        multiply(out.dtype, &mut out.bytes, 1.0 / STATE_MULTIPLIERS[5]);
    }
    all.insert(part("in_proj.weight"), fused);
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
            "mlp.shared_expert_gate",
            "mlp.shared_experts.gate_proj",
            "mlp.shared_experts.up_proj",
            "mlp.shared_experts.down_proj",
            "per_layer_input_gate",
            "per_layer_projection",
            "post_per_layer_input_norm",
            "pre_feedforward_layernorm_2",
            "post_feedforward_layernorm_1",
            "post_feedforward_layernorm_2",
            "mlp.latent_down",
            "mlp.latent_up",
            "mamba.in_proj.z",
            "mamba.in_proj.x",
            "mamba.in_proj.dt",
            "mamba.conv1d",
            "mamba.norm",
            "mamba.out_proj",
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
        let bare = [
            "mlp.gate.e_score_correction_bias",
            "self_attn.sinks",
            "layer_scalar",
            "router.scale",
            "linear_attn.A_log",
            "linear_attn.dt_bias",
            "mamba.A_log",
            "mamba.dt_bias",
            "mamba.D",
        ];
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
    // The block of an MTP head has the parts of a layer.
    let first = weights::layer_name(0, "");
    let of_layer = names.iter().filter_map(|name| name.strip_prefix(&first));
    let of_block: Vec<String> = of_layer.map(|part| format!("{MTP}layers.0.{part}")).collect();
    names.extend(of_block);
    let own = ["fc", "pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"];
    names.extend(own.map(|part| format!("{MTP}{part}.weight")));
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
        let norm = name.ends_with("norm.weight") || name.contains("pre_fc_norm");
        let norm = norm && !name.contains("linear_attn");
        if LESS_ONE.contains(&family) && norm {
            for word in tensor.bytes.as_chunks_mut::<4>().0 {
                *word = (f32::from_le_bytes(*word) - 1.0).to_le_bytes();
            }
        }
        let factor = MULTIPLIERS.iter().find(|(part, _)| name.contains(part));
        if let Some((_, factor)) = factor.filter(|_| family == "falcon_h1") {
            multiply(tensor.dtype, &mut tensor.bytes, 1.0 / factor);
        }
        all.insert(stored(&name, family), tensor);
    }
    fuse_recurrent(&mut all, config, family);
    if ["gemma4_text", "qwen3_5_moe_text", "granitemoehybrid"].contains(&family)
        && config.block.experts.is_some()
    {
        fuse_experts(files, &mut all);
    }
    let qkv = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"];
    let gate_up = ("mlp.gate_up_proj", &["mlp.gate_proj", "mlp.up_proj"][..], 1);
    // What is fused, from which parts, and in how many runs.
    let fused = match family {
        "phi3" => vec![("self_attn.qkv_proj", &qkv[..], 1), gate_up],
        "glm4" => vec![gate_up],
        "internlm2" => vec![("attention.wqkv", &qkv[..], config.kv_heads)],
        "granitemoehybrid" => vec![(
            "shared_mlp.input_linear",
            &["mlp.shared_experts.gate_proj", "mlp.shared_experts.up_proj"][..],
            1,
        )],
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
    if ["mamba2", "nemotron_h"].contains(&family) {
        all = all.into_iter().map(|(name, tensor)| (of_backbone(&name), tensor)).collect();
    }
    published(&settings(config, family), &all)
}

/// The name of a tensor in Mamba-2's and Nemotron-H's files.
fn of_backbone(name: &str) -> String {
    let pairs = [
        ("model.embed_tokens", "backbone.embeddings"),
        ("model.norm", "backbone.norm_f"),
        ("model.", "backbone."),
        ("input_layernorm", "norm"),
        ("mlp.latent_down", "mixer.fc1_latent_proj"),
        ("mlp.latent_up", "mixer.fc2_latent_proj"),
        (".mamba.", ".mixer."),
        (".self_attn.", ".mixer."),
        (".mlp.", ".mixer."),
    ];
    pairs.iter().fold(name.to_owned(), |name, (asked, stored)| name.replacen(asked, stored, 1))
}

/// Puts the matrices of all experts of a layer into the two tensors that checkpoints of Gemma 4,
/// Qwen3.5-MoE and Granite 4.0 have for them.
fn fuse_experts(files: &TargetFiles, all: &mut HashMap<String, Stored>) {
    let config = &files.config.block;
    let experts = config.experts.as_ref().unwrap();
    for layer in 0..files.config.layers {
        let name = |part: &str| weights::layer_name(layer, part);
        let expert =
            |expert: usize, part: &str| name(&format!("mlp.experts.{expert}.{part}_proj.weight"));
        let folder = if experts.beside_mlp { "experts" } else { "mlp.experts" };
        for (fused, parts) in [("gate_up_proj", &["gate", "up"][..]), ("down_proj", &["down"])] {
            let each = (0..experts.count).flat_map(|i| parts.iter().map(move |part| (i, part)));
            let stored: Vec<Stored> =
                each.map(|(i, part)| all.remove(&expert(i, part)).unwrap()).collect();
            let [rows, columns] = stored[0].shape[..] else { panic!("a matrix") };
            let shape = vec![experts.count, parts.len() * rows, columns];
            let bytes = stored.iter().flat_map(|part| part.bytes.clone()).collect();
            let fused = match (config.recurrent.as_ref().map(|all| all.shape.kind), fused) {
                (Some(StateKind::Mamba2), "down_proj") => "block_sparse_moe.output_linear.weight",
                (Some(StateKind::Mamba2), _) => "block_sparse_moe.input_linear.weight",
                _ => &format!("{folder}.{fused}"),
            };
            all.insert(name(fused), Stored { dtype: stored[0].dtype, shape, bytes });
        }
        let scales = (0..experts.count).map(|i| files.weights.scale(&expert(i, "down")));
        let bytes = scales.flat_map(f32::to_le_bytes).collect();
        let scales = Stored { dtype: Dtype::F32, shape: vec![experts.count], bytes };
        all.insert(name("router.per_expert_scale"), scales);
    }
}

/// Every strategy gives the text of plain decoding.
fn is_lossless(name: &str, files: &TargetFiles) {
    const CONTEXT: usize = 192;
    let target = load_files(files, CONTEXT, 2);
    let prompt: Vec<u32> = (0..26).map(|i| i % 20 * 31 % 260).collect();
    let drafters = drafters(files, &target, &prompt, CONTEXT);
    let mut engine = Engine::new(Box::new(target), drafters);
    every_strategy_gives_plain_text(name, &mut engine, &prompt, 14, ON_CPU, |_| {
        on_the_cpu().collect()
    });
}

#[test]
fn a_checkpoint_is_the_model_that_its_gguf_file_is() {
    let tokens: Vec<u32> = (0..40).map(|i| i * 37 % 260).collect();
    let mut heads = 0;
    for (name, family) in FAMILIES {
        let gguf = arch(name);
        let gguf_hidden = gguf.config.hidden;
        let folder = folder(&gguf, family);
        let checkpoint = open_target(&Spec::Folder(folder.path().to_owned()))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(checkpoint.config.block.experts, gguf.config.block.experts, "{name}");
        let context = gguf.config.max_positions.min(1024);
        let mut ours = load_files(&checkpoint, context, 2);
        let mut theirs = load_files(&gguf, context, 2);
        let (ours, theirs) = (ours.prefill(&tokens).unwrap(), theirs.prefill(&tokens).unwrap());
        // Norms without the added 1 lose a rounding.
        let tolerance = match family {
            _ if LESS_ONE.contains(&family) => 1e-3,
            // They store the logarithms of the decay rates.
            _ if MAMBA2.contains(&family) => 2e-5,
            // Its scales are quotients.
            "minicpm" => 1e-5,
            _ => 0.0,
        };
        for (ours, theirs) in ours.logits.iter().zip(&theirs.logits) {
            assert!((ours - theirs).abs() <= tolerance, "{name}: {ours} is not {theirs}");
        }
        if MAMBA2.contains(&family) {
            is_lossless(name, &checkpoint);
        }
        assert_eq!(checkpoint.mtp.is_some(), gguf.mtp.is_some(), "{name}");
        if gguf.mtp.is_some() {
            let outputs = |files| {
                let mut head = MtpCase::of(files).head();
                let zeros = &vec![0.0; gguf_hidden];
                head.extend(0, Pairs { features: zeros, tokens: &tokens[..1] }, 1).unwrap();
                let (features, tokens) = (&theirs.features[..], &tokens[1..]);
                let features = &features[..tokens.len() * gguf_hidden];
                head.extend(1, Pairs { features, tokens }, 1).unwrap();
                head.outputs().unwrap()
            };
            let (ours, theirs) = (outputs(checkpoint), outputs(gguf));
            for (ours, theirs) in ours.iter().zip(&theirs) {
                assert!((ours - theirs).abs() <= tolerance, "{name}: {ours} is not {theirs}");
            }
            heads += 1;
        }
    }
    assert_eq!(heads, 2, "Qwen3.5 and GLM-4.5");
}
