//! Checkpoints that candle-transformers runs: their `config.json` in our words for sizes and in
//! candle's for the model. What candle would run incorrectly is refused.

use std::collections::HashMap;

use candle_core::{DType, Device, Error, Result, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::{chatglm, falcon, helium, llama, mamba, olmo, qwen2, qwen3};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{CandleModel, ModelEngine};
use crate::model::head::TensorSource;
use crate::model::hf_fields::Fields;
use crate::model::{Config, ConfigError};

/// A configuration, or the field that is wrong.
type Checked<T> = std::result::Result<T, ConfigError>;

/// An architecture whose checkpoints candle-transformers runs, and our engine does not.
pub struct CandleRow {
    /// The models, as people call them.
    pub title: &'static str,
    /// `model_type` of a `config.json`.
    pub model_type: &'static str,
    /// Checks that candle runs a model with these fields correctly; its sizes, as the fields of a
    /// Llama of that size.
    sizes: fn(&Fields<'_>) -> Checked<Value>,
    build: Build,
    /// The name that candle requests and the one under which published checkpoints have it.
    alias: Option<(&'static str, &'static str)>,
}

/// Builds a model with the fields of its `config.json`.
type Build = fn(&Value, VarBuilder<'_>) -> Result<CandleModel>;

/// Every architecture whose checkpoints candle-transformers runs, and our engine does not.
pub const CANDLE_CHECKPOINTS: &[CandleRow] = &[
    CandleRow {
        title: "Falcon",
        model_type: "falcon",
        sizes: falcon_sizes,
        build: build_falcon,
        alias: Some(("lm_head.weight", "transformer.word_embeddings.weight")),
    },
    CandleRow {
        title: "ChatGLM2 and ChatGLM3",
        model_type: "chatglm",
        sizes: chatglm_sizes,
        build: build_chatglm,
        alias: None,
    },
    CandleRow {
        title: "Helium",
        model_type: "helium",
        sizes: llama_sizes,
        build: build_helium,
        alias: None,
    },
    CandleRow {
        title: "OLMo",
        model_type: "olmo",
        sizes: llama_sizes,
        build: build_olmo,
        alias: None,
    },
    CandleRow {
        title: "Mamba",
        model_type: "mamba",
        sizes: mamba_sizes,
        build: build_mamba,
        alias: Some(("backbone.embedding.weight", "backbone.embeddings.weight")),
    },
];

/// Architectures that both engines run, for comparing them.
const COMPARED: [(&str, Build); 3] =
    [("llama", build_llama), ("qwen2", build_qwen2), ("qwen3", build_qwen3)];

/// Positions that Falcon's rotary table of candle has.
const FALCON_POSITIONS: usize = 5000;
/// Mamba has no positions; the context is limited all the same.
const MAMBA_POSITIONS: usize = 1 << 20;

/// The row of a `config.json`, if candle-transformers runs its model and our engine does not.
fn row(config: &Value) -> Option<&'static CandleRow> {
    CANDLE_CHECKPOINTS.iter().find(|row| config["model_type"] == row.model_type)
}

impl Config {
    /// Reads the `config.json` of a checkpoint, and says who runs its model. If that is
    /// candle-transformers, the numbers are those of a Llama of the model's size.
    ///
    /// # Errors
    /// As for [`Self::from_hf_json`].
    pub fn of_checkpoint(json: &Value) -> Checked<(Self, ModelEngine)> {
        let Some(row) = row(json) else {
            return Ok((Self::from_hf_json(json)?, ModelEngine::Dovetail));
        };
        let mut sizes = (row.sizes)(&Fields(json))?;
        sizes["model_type"] = "llama".into();
        Ok((Self::from_hf_json(&sizes)?, ModelEngine::Candle))
    }
}

/// Builds the model of a checkpoint for `positions` tokens.
pub(super) fn load(
    config: &Value,
    tensors: &dyn TensorSource,
    positions: usize,
) -> Result<CandleModel> {
    let name = config["model_type"].as_str().unwrap_or_default();
    let own = row(config).map(|row| (row.build, row.alias));
    let compared = COMPARED.iter().find(|(model_type, _)| *model_type == name);
    let Some((build, alias)) = own.or(compared.map(|(_, build)| (*build, None))) else {
        let others = COMPARED.map(|(name, _)| name).join(", ");
        candle_core::bail!("the model type `{name}` cannot be compared, only {others}");
    };
    // Its tables of angles need not be longer than the context.
    let mut config = config.clone();
    for field in ["max_position_embeddings", "seq_length"] {
        if config.get(field).is_some() {
            config[field] = positions.into();
        }
    }
    let mut map = HashMap::new();
    for name in tensors.names() {
        map.insert(name.clone(), tensors.tensor(&name)?.to_dtype(DType::F32)?);
    }
    if let Some((requested, stored)) = alias
        && !map.contains_key(requested)
        && let Some(tensor) = map.get(stored).cloned()
    {
        map.insert(requested.to_owned(), tensor);
    }
    build(&config, VarBuilder::from_tensors(map, DType::F32, &Device::Cpu))
}

/// Refuses a model in which a field has another value than the one that candle runs.
fn only(fields: &Fields<'_>, all: &[(&'static str, Value)]) -> Checked<()> {
    for (field, runs) in all {
        let alike = |value: &Value| match (value.as_f64(), runs.as_f64()) {
            (Some(value), Some(runs)) => value == runs,
            _ => value == runs,
        };
        if let Some(value) = fields.get(field).filter(|value| !alike(value)) {
            let reason = format!("candle-transformers, which runs this family, has only {runs}");
            return Err(ConfigError::new(field, value, reason));
        }
    }
    // candle would ignore it.
    match fields.get("rope_scaling") {
        Some(scaling) => {
            let reason = "candle-transformers, which runs this family, scales no positions";
            Err(ConfigError::new("rope_scaling", scaling, reason))
        }
        None => Ok(()),
    }
}

/// candle's configuration: the fields of a `config.json`, `fixed` instead of those that change
/// nothing here, and `usual` where there is none.
fn settings<T: DeserializeOwned>(config: &Value, usual: Value, fixed: Value) -> Result<T> {
    let mut all = usual;
    for part in [config, &fixed] {
        for (field, value) in part.as_object().into_iter().flatten() {
            all[field] = value.clone();
        }
    }
    serde_json::from_value(all).map_err(|error| Error::Msg(format!("config.json: {error}")))
}

fn falcon_sizes(fields: &Fields<'_>) -> Checked<Value> {
    only(
        fields,
        &[
            ("alibi", false.into()),
            ("new_decoder_architecture", false.into()),
            ("multi_query", true.into()),
            ("rope_theta", 10_000.into()),
            ("activation", "gelu".into()),
        ],
    )?;
    let hidden = fields.size("hidden_size")?;
    let positions = fields.optional_size("max_position_embeddings")?.unwrap_or(2048);
    Ok(json!({
        "vocab_size": fields.size("vocab_size")?,
        "hidden_size": hidden,
        "intermediate_size": hidden.saturating_mul(4),
        "num_hidden_layers": fields.size("num_hidden_layers")?,
        "num_attention_heads": fields.size("num_attention_heads")?,
        "num_key_value_heads": 1,
        "max_position_embeddings": positions.min(FALCON_POSITIONS),
    }))
}

fn build_falcon(config: &Value, tensors: VarBuilder<'_>) -> Result<CandleModel> {
    let usual = json!({
        "layer_norm_epsilon": 1e-5,
        "initializer_range": 0.02,
        "hidden_dropout": 0.0,
        "attention_dropout": 0.0,
        "alibi": false,
        "new_decoder_architecture": false,
        "multi_query": true,
        "parallel_attn": true,
        "bias": false,
    });
    let fixed = json!({"use_cache": true, "n_head_kv": null, "bos_token_id": 0, "eos_token_id": 0});
    let model = falcon::Falcon::load(tensors, settings(config, usual, fixed)?)?;
    let forward = |model: &mut falcon::Falcon, input: &Tensor, _| model.forward(input);
    Ok(CandleModel::of(model, falcon::Falcon::clear_kv_cache, forward).stepping())
}

fn chatglm_sizes(fields: &Fields<'_>) -> Checked<Value> {
    only(
        fields,
        &[
            ("multi_query_attention", true.into()),
            ("rope_ratio", 1.into()),
            ("add_bias_linear", false.into()),
            ("fp32_residual_connection", false.into()),
            ("rmsnorm", true.into()),
        ],
    )?;
    Ok(json!({
        "vocab_size": fields.size("padded_vocab_size")?,
        "hidden_size": fields.size("hidden_size")?,
        "intermediate_size": fields.size("ffn_hidden_size")?,
        "num_hidden_layers": fields.size("num_layers")?,
        "num_attention_heads": fields.size("num_attention_heads")?,
        "num_key_value_heads": fields.size("multi_query_group_num")?,
        "head_dim": fields.size("kv_channels")?,
        "max_position_embeddings": fields.size("seq_length")?,
    }))
}

fn build_chatglm(config: &Value, tensors: VarBuilder<'_>) -> Result<CandleModel> {
    let fields = Fields(config);
    let wrong = |error: ConfigError| Error::Msg(error.to_string());
    let size = |field| fields.size(field).map_err(wrong);
    let flag = |field, usual| fields.flag(field).map(|flag| flag.unwrap_or(usual)).map_err(wrong);
    let config = chatglm::Config {
        num_layers: size("num_layers")?,
        padded_vocab_size: size("padded_vocab_size")?,
        hidden_size: size("hidden_size")?,
        ffn_hidden_size: size("ffn_hidden_size")?,
        kv_channels: size("kv_channels")?,
        num_attention_heads: size("num_attention_heads")?,
        multi_query_group_num: size("multi_query_group_num")?,
        seq_length: size("seq_length")?,
        layernorm_epsilon: fields.number("layernorm_epsilon").map_err(wrong)?.unwrap_or(1e-5),
        apply_residual_connection_post_layernorm: flag(
            "apply_residual_connection_post_layernorm",
            false,
        )?,
        post_layer_norm: flag("post_layer_norm", true)?,
        add_qkv_bias: flag("add_qkv_bias", true)?,
        // The others change nothing, or have the one value that is not refused.
        ..chatglm::Config::glm3_6b()
    };
    let model = chatglm::Model::new(&config, tensors)?;
    let forward = |model: &mut chatglm::Model, input: &Tensor, _| model.forward(input);
    Ok(CandleModel::of(model, chatglm::Model::reset_kv_cache, forward).stepping())
}

/// The sizes in a `config.json` that has Llama's names for them.
fn llama_sizes(fields: &Fields<'_>) -> Checked<Value> {
    only(fields, &[])?;
    let mut sizes = json!({});
    for field in [
        "vocab_size",
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "max_position_embeddings",
        "tie_word_embeddings",
        "rope_theta",
    ] {
        sizes[field] = fields.get(field).cloned().unwrap_or_default();
    }
    Ok(sizes)
}

fn build_helium(config: &Value, tensors: VarBuilder<'_>) -> Result<CandleModel> {
    let heads = &config["num_attention_heads"];
    let usual = json!({
        "attention_bias": false,
        "mlp_bias": false,
        "hidden_act": "silu",
        "num_key_value_heads": heads,
        "rms_norm_eps": 1e-8,
        "rope_theta": 100_000.0,
        "tie_word_embeddings": false,
    });
    let fixed = json!({"bos_token_id": 0, "eos_token_id": 0, "use_flash_attn": false});
    let model = helium::Model::new(&settings(config, usual, fixed)?, tensors)?;
    Ok(CandleModel::of(model, helium::Model::clear_kv_cache, helium::Model::forward))
}

fn build_olmo(config: &Value, tensors: VarBuilder<'_>) -> Result<CandleModel> {
    let heads = &config["num_attention_heads"];
    let usual = json!({
        "attention_bias": false,
        "hidden_act": "silu",
        "num_key_value_heads": heads,
        "rope_theta": 10_000.0,
        "tie_word_embeddings": false,
        "clip_qkv": null,
    });
    let model = olmo::Model::new(&settings(config, usual, json!({}))?, tensors)?;
    Ok(CandleModel::of(model, olmo::Model::clear_kv_cache, olmo::Model::forward))
}

fn mamba_sizes(fields: &Fields<'_>) -> Checked<Value> {
    let hidden = fields.size("hidden_size")?;
    only(
        fields,
        &[
            ("state_size", 16.into()),
            ("conv_kernel", 4.into()),
            ("expand", 2.into()),
            ("intermediate_size", hidden.saturating_mul(2).into()),
            ("time_step_rank", hidden.div_ceil(16).into()),
            ("layer_norm_epsilon", 1e-5.into()),
            ("use_bias", false.into()),
            ("use_conv_bias", true.into()),
            ("hidden_act", "silu".into()),
            ("tie_word_embeddings", true.into()),
        ],
    )?;
    Ok(json!({
        "vocab_size": fields.size("vocab_size")?,
        "hidden_size": hidden,
        // Its two projections have as many weights as the three of such a gated MLP, and it has
        // hardly more attention than this, and no cache.
        "intermediate_size": hidden.saturating_mul(2),
        "num_hidden_layers": fields.size("num_hidden_layers")?,
        "num_attention_heads": 1,
        "head_dim": 2,
        "max_position_embeddings": MAMBA_POSITIONS,
        "tie_word_embeddings": true,
    }))
}

fn build_mamba(config: &Value, tensors: VarBuilder<'_>) -> Result<CandleModel> {
    let fields = Fields(config);
    let size = |field| fields.size(field).map_err(|error| Error::Msg(error.to_string()));
    let config = mamba::Config {
        d_model: size("hidden_size")?,
        n_layer: size("num_hidden_layers")?,
        vocab_size: size("vocab_size")?,
        pad_vocab_size_multiple: 1,
    };
    let model = mamba::Model::new(&config, tensors.pp("backbone"))?;
    let fresh = move || mamba::State::new(1, &config, DType::F32, &Device::Cpu);
    let mut state = fresh()?;
    Ok(CandleModel::new(move |input, position| {
        if position == 0 {
            state = fresh()?;
        }
        let mut logits = None;
        for token in input.flatten_all()?.to_vec1::<u32>()? {
            let token = Tensor::new(&[token], &Device::Cpu)?;
            logits = Some(model.forward(&token, &mut state)?);
        }
        logits.ok_or_else(|| Error::Msg("there is no token to read".to_owned()))
    }))
}

fn build_llama(config: &Value, tensors: VarBuilder<'_>) -> Result<CandleModel> {
    let config: llama::LlamaConfig = settings(config, json!({}), json!({}))?;
    let config = config.into_config(false);
    let model = llama::Llama::load(tensors, &config)?;
    let fresh = move || llama::Cache::new(true, DType::F32, &config, &Device::Cpu);
    let mut cache = fresh()?;
    let model = CandleModel::new(move |input, position| {
        if position == 0 {
            cache = fresh()?;
        }
        model.forward(input, position, &mut cache)
    });
    Ok(model.stepping())
}

/// What Qwen's configurations of candle require and recent checkpoints may leave out.
fn qwen_usual() -> Value {
    json!({
        "attention_bias": false,
        "sliding_window": 0,
        "max_window_layers": 0,
        "tie_word_embeddings": false,
        "use_sliding_window": false,
    })
}

fn build_qwen2(config: &Value, tensors: VarBuilder<'_>) -> Result<CandleModel> {
    use qwen2::ModelForCausalLM;
    let model = ModelForCausalLM::new(&settings(config, qwen_usual(), json!({}))?, tensors)?;
    let clear = ModelForCausalLM::clear_kv_cache;
    Ok(CandleModel::of(model, clear, ModelForCausalLM::forward).stepping())
}

fn build_qwen3(config: &Value, tensors: VarBuilder<'_>) -> Result<CandleModel> {
    use qwen3::ModelForCausalLM;
    let model = ModelForCausalLM::new(&settings(config, qwen_usual(), json!({}))?, tensors)?;
    let clear = ModelForCausalLM::clear_kv_cache;
    Ok(CandleModel::of(model, clear, ModelForCausalLM::forward).stepping())
}
