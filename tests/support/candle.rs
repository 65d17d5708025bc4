//! Tiny random checkpoints of the architectures that candle-transformers runs, and its own models
//! of them, which read a whole text at once.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use candle_nn::{VarBuilder, VarMap};
use candle_transformers::models::{chatglm, falcon, helium, mamba, olmo};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::library::DEMO;

/// Their model types.
pub const CANDLE_FAMILIES: [&str; 5] = ["falcon", "chatglm", "helium", "olmo", "mamba"];

/// The bundled tokenizer's tokens.
const VOCAB: usize = 4096;

/// The `config.json` of a tiny model.
pub fn candle_config(family: &str) -> Value {
    let config = match family {
        "falcon" => json!({
            "vocab_size": VOCAB, "hidden_size": 32, "num_hidden_layers": 2,
            "num_attention_heads": 4, "layer_norm_epsilon": 1e-5, "initializer_range": 0.02,
            "hidden_dropout": 0.0, "attention_dropout": 0.0, "use_cache": true,
            "bos_token_id": 1, "eos_token_id": 2, "alibi": false,
            "new_decoder_architecture": false, "multi_query": true, "parallel_attn": true,
            "bias": false,
        }),
        "chatglm" => json!({
            "padded_vocab_size": VOCAB, "hidden_size": 32, "ffn_hidden_size": 48, "num_layers": 2,
            "num_attention_heads": 4, "kv_channels": 8, "multi_query_attention": true,
            "multi_query_group_num": 2, "seq_length": 512, "layernorm_epsilon": 1e-5,
            "rmsnorm": true, "add_qkv_bias": true, "add_bias_linear": false, "eos_token_id": 2,
        }),
        "helium" => json!({
            "vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 48,
            "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
            "head_dim": 8, "max_position_embeddings": 512, "rms_norm_eps": 1e-8,
            "rope_theta": 100_000.0, "hidden_act": "silu", "attention_bias": false,
            "mlp_bias": false, "tie_word_embeddings": false, "bos_token_id": 1, "eos_token_id": 2,
        }),
        "olmo" => json!({
            "vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 48,
            "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4,
            "max_position_embeddings": 512, "rope_theta": 10_000.0, "hidden_act": "silu",
            "attention_bias": false, "tie_word_embeddings": true, "clip_qkv": null,
            "eos_token_id": 2,
        }),
        "mamba" => json!({
            "vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 64,
            "num_hidden_layers": 2, "state_size": 16, "conv_kernel": 4, "expand": 2,
            "time_step_rank": 2, "layer_norm_epsilon": 1e-5, "use_bias": false,
            "use_conv_bias": true, "tie_word_embeddings": true, "eos_token_id": 2,
        }),
        other => panic!("no tiny {other}"),
    };
    let mut config = config;
    config["model_type"] = family.into();
    config
}

/// candle-transformers' model: the logits after a text.
type WholeText = Box<dyn FnMut(&Tensor) -> candle_core::Result<Tensor>>;

fn build(family: &str, vb: VarBuilder<'_>) -> candle_core::Result<WholeText> {
    let json = candle_config(family);
    let size = |field: &str| json[field].as_u64().unwrap() as usize;
    Ok(match family {
        "falcon" => {
            let mut model = falcon::Falcon::load(vb, serde_json::from_value(json).unwrap())?;
            Box::new(move |text| model.forward(text))
        }
        "chatglm" => {
            let config = chatglm::Config {
                num_layers: size("num_layers"),
                padded_vocab_size: VOCAB,
                hidden_size: size("hidden_size"),
                ffn_hidden_size: size("ffn_hidden_size"),
                kv_channels: size("kv_channels"),
                num_attention_heads: size("num_attention_heads"),
                multi_query_group_num: size("multi_query_group_num"),
                seq_length: size("seq_length"),
                ..chatglm::Config::glm3_6b()
            };
            let mut model = chatglm::Model::new(&config, vb)?;
            Box::new(move |text| model.forward(text))
        }
        "helium" => {
            let mut model = helium::Model::new(&serde_json::from_value(json).unwrap(), vb)?;
            Box::new(move |text| model.forward(text, 0))
        }
        "olmo" => {
            let mut model = olmo::Model::new(&serde_json::from_value(json).unwrap(), vb)?;
            Box::new(move |text| model.forward(text, 0))
        }
        _ => {
            let config = mamba::Config {
                d_model: size("hidden_size"),
                n_layer: size("num_hidden_layers"),
                vocab_size: VOCAB,
                pad_vocab_size_multiple: 8,
            };
            let model = mamba::Model::new(&config, vb.pp("backbone"))?;
            Box::new(move |text| {
                let mut state = mamba::State::new(1, &config, DType::F32, &Device::Cpu)?;
                let mut logits = text.to_dtype(DType::F32)?;
                for token in text.flatten_all()?.to_vec1::<u32>()? {
                    logits = model.forward(&Tensor::new(&[token], &Device::Cpu)?, &mut state)?;
                }
                Ok(logits)
            })
        }
    })
}

/// Random tensors under the names that candle requests, the same every time.
fn tensors(family: &str) -> HashMap<String, Tensor> {
    let variables = VarMap::new();
    drop(build(family, VarBuilder::from_varmap(&variables, DType::F32, &Device::Cpu)).unwrap());
    let shapes = variables.data().lock().unwrap();
    let mut names: Vec<&String> = shapes.keys().collect();
    names.sort();
    let mut seed = 7u32;
    let mut random = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    let mut all = HashMap::new();
    for name in names {
        let shape = shapes[name].shape().clone();
        let around = if name.contains("norm") || name.contains("ln_f") { 1.0 } else { 0.0 };
        let values: Vec<f32> = (0..shape.elem_count()).map(|_| around + 0.3 * random()).collect();
        all.insert(name.clone(), Tensor::from_vec(values, shape, &Device::Cpu).unwrap());
    }
    // As in published checkpoints, whose LM head is the embedding.
    if family == "falcon" {
        let embedding = all["transformer.word_embeddings.weight"].clone();
        all.insert("lm_head.weight".to_owned(), embedding);
    }
    all
}

/// candle-transformers' own model of a family.
pub struct CandleReference {
    family: &'static str,
    tensors: HashMap<String, Tensor>,
}

impl CandleReference {
    pub fn of(family: &'static str) -> Self {
        Self { family, tensors: tensors(family) }
    }

    /// The logits after a text that a fresh model reads at once.
    pub fn logits(&self, text: &[u32]) -> Vec<f32> {
        let weights = VarBuilder::from_tensors(self.tensors.clone(), DType::F32, &Device::Cpu);
        let mut model = build(self.family, weights).unwrap();
        let text = Tensor::new(text, &Device::Cpu).unwrap().unsqueeze(0).unwrap();
        model(&text).unwrap().flatten_all().unwrap().to_vec1().unwrap()
    }
}

/// A checkpoint of the family, as published, with the bundled tokenizer and its template.
pub fn candle_checkpoint(family: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_checkpoint(family, folder.path());
    folder
}

/// The same in a folder that exists.
pub fn write_checkpoint(family: &str, folder: &Path) {
    for file in ["tokenizer.json", "tokenizer_config.json"] {
        fs::copy(Path::new(DEMO).join(file), folder.join(file)).unwrap();
    }
    fs::write(folder.join("config.json"), candle_config(family).to_string()).unwrap();
    let mut all = tensors(family);
    match family {
        "falcon" => drop(all.remove("lm_head.weight")),
        "mamba" => {
            let embedding = all.remove("backbone.embedding.weight").unwrap();
            all.insert("backbone.embeddings.weight".to_owned(), embedding);
        }
        _ => {}
    }
    candle_core::safetensors::save(&all, folder.join("model.safetensors")).unwrap();
}
