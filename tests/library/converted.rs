//! Golden GGUF models rewritten as the safetensors folders of their families: the logits equal the
//! reference program's.

use std::collections::HashMap;
use std::fs;

use crate::support::gguf::{Gguf, put_byte_tokenizer};
use crate::support::library::{arch_file, off_by_recorded, open_target, refusal};
use candle_core::{DType, Device, Tensor};
use dovetail::library::Spec;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The tensors of a DeepSeek checkpoint, from its GGUF file.
fn deepseek_tensors(name: &str) -> HashMap<String, Tensor> {
    let file = Gguf::read(&arch_file(&format!("{name}.gguf")));
    let mut tensors = HashMap::new();
    let mut latent = HashMap::new();
    for (name, tensor) in &file.tensors {
        let tensor = tensor.dequantize(&Device::Cpu).unwrap();
        let Some((block, part)) = name.strip_prefix("blk.").and_then(|name| name.split_once('.'))
        else {
            let name = match name.as_str() {
                "token_embd.weight" => "model.embed_tokens.weight",
                "output_norm.weight" => "model.norm.weight",
                "output.weight" => "lm_head.weight",
                other => panic!("{other}"),
            };
            tensors.insert(name.to_owned(), tensor);
            continue;
        };
        let named = |part: &str| format!("model.layers.{block}.{part}");
        let (part, kind) = part.rsplit_once('.').unwrap();
        let whole = match part {
            "attn_norm" => "input_layernorm",
            "ffn_norm" => "post_attention_layernorm",
            "attn_q_a" => "self_attn.q_a_proj",
            "attn_q_a_norm" => "self_attn.q_a_layernorm",
            "attn_q_b" => "self_attn.q_b_proj",
            "attn_kv_a_mqa" => "self_attn.kv_a_proj_with_mqa",
            "attn_kv_a_norm" => "self_attn.kv_a_layernorm",
            "attn_output" => "self_attn.o_proj",
            "ffn_gate" => "mlp.gate_proj",
            "ffn_up" => "mlp.up_proj",
            "ffn_down" => "mlp.down_proj",
            "ffn_gate_inp" => "mlp.gate",
            "ffn_gate_shexp" => "mlp.shared_experts.gate_proj",
            "ffn_up_shexp" => "mlp.shared_experts.up_proj",
            "ffn_down_shexp" => "mlp.shared_experts.down_proj",
            "exp_probs_b" => {
                tensors.insert(named("mlp.gate.e_score_correction_bias"), tensor);
                continue;
            }
            "attn_k_b" | "attn_v_b" => {
                latent.insert((block.to_owned(), part.to_owned()), tensor);
                continue;
            }
            experts => {
                let part = experts.strip_prefix("ffn_").and_then(|p| p.strip_suffix("_exps"));
                let part = part.unwrap_or_else(|| panic!("{experts}"));
                for i in 0..tensor.dim(0).unwrap() {
                    let name = named(&format!("mlp.experts.{i}.{part}_proj.weight"));
                    tensors.insert(name, tensor.get(i).unwrap());
                }
                continue;
            }
        };
        tensors.insert(named(&format!("{whole}.{kind}")), tensor);
    }
    // The checkpoint has them in one tensor: for every head its keys, then its values.
    for ((block, _), keys) in latent.iter().filter(|((_, part), _)| part == "attn_k_b") {
        let values = &latent[&(block.clone(), "attn_v_b".to_owned())];
        let keys = keys.transpose(1, 2).unwrap().contiguous().unwrap();
        let both = Tensor::cat(&[&keys, values], 1).unwrap().flatten(0, 1).unwrap();
        tensors.insert(format!("model.layers.{block}.self_attn.kv_b_proj.weight"), both);
    }
    // They are published in 16 bits, as are the matrices of the golden file; norms and routers are
    // not.
    let half = |(name, tensor): (String, Tensor)| {
        let keep = tensor.rank() == 1 || name.ends_with("mlp.gate.weight");
        let tensor = if keep { tensor } else { tensor.to_dtype(DType::F16).unwrap() };
        (name, tensor.contiguous().unwrap())
    };
    tensors.into_iter().map(half).collect()
}

fn folder(config: &Value, tensors: &HashMap<String, Tensor>) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    candle_core::safetensors::save(tensors, folder.path().join("model.safetensors")).unwrap();
    put_byte_tokenizer(folder.path());
    folder
}

/// `config.json` as DeepSeek publishes it, with the golden model's numbers.
fn deepseek_config(version: usize) -> Value {
    let mut config = json!({
        "model_type": "deepseek_v2", "vocab_size": 267, "hidden_size": 64, "hidden_act": "silu",
        "intermediate_size": 96, "moe_intermediate_size": 16, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 20480,
        "n_shared_experts": 1, "n_routed_experts": 8, "num_experts_per_tok": 2,
        "routed_scaling_factor": 1.5, "norm_topk_prob": false, "scoring_func": "softmax",
        "topk_method": "greedy", "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1,
        "moe_layer_freq": 1, "kv_lora_rank": 32, "q_lora_rank": 32, "qk_nope_head_dim": 16,
        "qk_rope_head_dim": 8, "v_head_dim": 16, "rms_norm_eps": 1e-6, "rope_theta": 10000,
        "attention_bias": false, "tie_word_embeddings": false,
        "rope_scaling": {"type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1,
            "mscale": 0.707, "mscale_all_dim": 0.707, "original_max_position_embeddings": 512},
    });
    if version == 3 {
        for (field, value) in [
            ("model_type", json!("deepseek_v3")),
            ("scoring_func", json!("sigmoid")),
            ("topk_method", json!("noaux_tc")),
            ("norm_topk_prob", json!(true)),
            ("routed_scaling_factor", json!(2.5)),
            ("n_group", json!(4)),
            ("topk_group", json!(2)),
        ] {
            config[field] = value;
        }
        config["rope_scaling"]["mscale"] = json!(1.0);
        config["rope_scaling"]["mscale_all_dim"] = json!(1.0);
    }
    config
}

#[test]
fn deepseek_checkpoints_give_the_reference_logits() {
    for (name, version) in [("deepseek2", 2), ("deepseek3", 3)] {
        let folder = folder(&deepseek_config(version), &deepseek_tensors(name));
        let files = open_target(&Spec::Folder(folder.path().to_owned())).unwrap();
        let off = off_by_recorded(&files, name);
        assert!(off < 5e-5, "{name} is off by {off}");
    }
}

/// As many groups as experts gives the same choice as no groups, according to what is published
/// about DeepSeek V2.
#[test]
fn groups_of_one_expert_give_the_reference_logits() {
    let mut config = deepseek_config(2);
    config["topk_method"] = json!("group_limited_greedy");
    config["n_group"] = json!(8);
    config["topk_group"] = json!(2);
    let folder = folder(&config, &deepseek_tensors("deepseek2"));
    let files = open_target(&Spec::Folder(folder.path().to_owned())).unwrap();
    assert_eq!(files.config.block.experts.as_ref().unwrap().groups, Some((8, 2)));
    let off = off_by_recorded(&files, "deepseek2");
    assert!(off < 5e-5, "{off}");
}

#[test]
fn what_deepseek_checkpoints_may_not_have_is_refused_by_field() {
    let tensors = deepseek_tensors("deepseek2");
    for (field, value) in [
        ("topk_method", json!("best_of_three")),
        ("scoring_func", json!("relu")),
        ("moe_layer_freq", json!(2)),
        ("kv_lora_rank", json!(0)),
        ("n_routed_experts", json!(0)),
    ] {
        let mut config = deepseek_config(2);
        config[field] = value;
        let folder = folder(&config, &tensors);
        let error = refusal(open_target(&Spec::Folder(folder.path().to_owned())));
        assert!(error.contains("config.json"), "{field}: {error}");
    }
}
