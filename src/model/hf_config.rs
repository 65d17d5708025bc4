//! Reads a Hugging Face `config.json` into a [`Config`], and refuses what would run incorrectly. It
//! must not depend on files.

use serde_json::Value;

use super::hf_families::{ARCHITECTURES, Family};
use super::hf_fields::{Fields, number};
use super::hf_local_heads::with_local_heads;
use super::hf_recurrent::with_mamba2;
use super::rope::{RopeScaling, yarn_temperature};
use super::{CANDLE_CHECKPOINTS, Config, ConfigError};

/// The names of the ε of norms.
const EPSILONS: [&str; 6] = [
    "rms_norm_eps",
    "norm_epsilon",
    "layer_norm_eps",
    "layernorm_epsilon",
    "layer_norm_epsilon",
    "norm_eps",
];

impl Config {
    /// Reads the `config.json` of a checkpoint of one of the families in [`ARCHITECTURES`].
    ///
    /// # Errors
    /// [`ConfigError`] if a field is missing or malformed, or asks for something that is not
    /// supported.
    pub fn from_hf_json(json: &Value) -> Result<Self, ConfigError> {
        Self::of_fields(json)?.checked()
    }

    /// [`Family::mtp_before_norm`] of a checkpoint's family.
    pub(crate) fn mtp_before_norm(json: &Value) -> Option<bool> {
        let fields = Fields(json.get("text_config").unwrap_or(json));
        family(&fields).ok()?.mtp_before_norm()
    }

    /// The same, before the numbers are checked against each other.
    ///
    /// # Errors
    /// As for [`Self::from_hf_json`].
    pub(crate) fn of_fields(json: &Value) -> Result<Self, ConfigError> {
        // Models that also take images keep the configuration of their text model in a separate
        // object.
        let json = json.get("text_config").unwrap_or(json);
        let own = with_mamba2(json)?.or_else(|| with_local_heads(json));
        let fields = Fields(own.as_ref().unwrap_or(json));
        let family = family(&fields)?;
        refuse_variants(&fields, family)?;

        let heads = fields.size("num_attention_heads")?;
        let hidden = fields.size("hidden_size")?;
        let head_dim = match fields.optional_size("head_dim")? {
            Some(width) => width,
            None => match family.default_head_dim() {
                Some(width) => width,
                None if heads > 0 && hidden.is_multiple_of(heads) => hidden / heads,
                None => {
                    let reason = format!(
                        "it must be a multiple of num_attention_heads, {heads}, when head_dim is \
                         missing"
                    );
                    return Err(ConfigError::new("hidden_size", hidden, reason));
                }
            },
        };
        let [qkv_bias, o_bias] = family.attention_biases(&fields)?;
        let max_positions = fields.size("max_position_embeddings")?;
        let block = family.options(&fields, head_dim)?;
        // Absorbed latent attention has one key head: the rotated part and the latent.
        let (head_dim, kv_heads) = match &block.latent {
            Some(latent) => (latent.rope_dim.saturating_add(latent.kv_rank), 1),
            None => (head_dim, fields.optional_size("num_key_value_heads")?.unwrap_or(heads)),
        };
        let (rope_theta, rope_scaling) = rope(&fields, max_positions, head_dim)?;
        // Models that also take images may say it next to their text model.
        let tied = |fields: &Fields<'_>| fields.flag("tie_word_embeddings");
        let tied = tied(&fields)?.or(tied(&Fields(json))?);
        let eps = EPSILONS.into_iter().find(|name| fields.get(name).is_some());
        let eps = eps.map_or(Ok(None), |name| fields.number(name))?.unwrap_or(1e-6);
        Ok(Self {
            vocab: fields.size("vocab_size")?,
            hidden,
            intermediate: family.intermediate(&fields)?,
            layers: fields.size("num_hidden_layers")?,
            heads,
            kv_heads,
            head_dim,
            rms_eps: eps as f32,
            rope_theta,
            rope_scaling,
            rope_layout: family.layout(),
            qkv_bias,
            o_bias,
            qk_norm: family.has_qk_norm(&fields)?,
            tied_head: tied.unwrap_or(family.ties_by_default()),
            max_positions,
            block,
        })
    }
}

fn family(fields: &Fields<'_>) -> Result<Family, ConfigError> {
    let known = || {
        let own = ARCHITECTURES.iter().map(|row| row.model_type);
        let others = CANDLE_CHECKPOINTS.iter().map(|row| row.model_type);
        let mut names: Vec<&str> = own.chain(others).collect();
        names.dedup();
        format!("the supported types are {}", names.join(", "))
    };
    let Some(value) = fields.get("model_type") else {
        return Err(ConfigError::new("model_type", "absent", known()));
    };
    // Nemotron-H has one name with experts and without.
    let has_experts = fields.get("n_routed_experts").or(fields.get("num_local_experts")).is_some();
    let named = || ARCHITECTURES.iter().filter(|row| value == row.model_type);
    let named = named().find(|row| row.family.has_experts() == has_experts).or(named().next());
    named.map(|row| row.family).ok_or_else(|| ConfigError::new("model_type", value, known()))
}

/// Refuses fields that turn a known family into something else.
fn refuse_variants(fields: &Fields<'_>, family: Family) -> Result<(), ConfigError> {
    for field in ["hidden_activation", "hidden_act"] {
        if let Some(value) = fields.get(field)
            && !value.as_str().is_some_and(|name| family.activations().contains(&name))
        {
            let reason = format!("this model family uses {}", family.activations().join(" or "));
            return Err(ConfigError::new(field, value, reason));
        }
        // Of Gemma's two fields, the older one (the second) is not what it runs.
        if fields.get(field).is_some() {
            break;
        }
    }
    if !family.has_experts() && !family.may_have_experts(fields) {
        for field in ["num_local_experts", "num_experts"] {
            if let Some(value) = fields.get(field)
                && value.as_u64() != Some(1)
            {
                let reason = "a mixture of experts is not supported for this family";
                return Err(ConfigError::new(field, value, reason));
            }
        }
    }
    if let Some(value) = fields.get("quantization_config") {
        let method = value.get("quant_method").unwrap_or(value);
        // gpt-oss is published with its experts in MXFP4.
        if family == Family::GptOss && method == "mxfp4" {
            return Ok(());
        }
        return Err(ConfigError::new(
            "quantization_config",
            method,
            "quantised safetensors are not supported; use the model's GGUF file",
        ));
    }
    if fields.flag("mlp_bias")?.unwrap_or(false) {
        return Err(ConfigError::new("mlp_bias", true, "biases in the MLP are not supported"));
    }
    // Biases of all matrices, the clipping of q, k and v, norms of q and k. A draft head's
    // configuration also has a `bias`, which is its own.
    let refused = match family {
        Family::InternLm2 => "bias",
        Family::OlMoe => "clip_qkv",
        Family::Phi2 => "qk_layernorm",
        _ => return Ok(()),
    };
    if let Some(value) = fields.get(refused).filter(|value| **value != false) {
        return Err(ConfigError::new(refused, value, "it is not supported for this family"));
    }
    Ok(())
}

/// θ and scaling, from `rope_theta` and `rope_scaling`, or from the `rope_parameters` that newer
/// checkpoints have instead.
fn rope(
    fields: &Fields<'_>,
    max_positions: usize,
    head_dim: usize,
) -> Result<(f64, RopeScaling), ConfigError> {
    let parameters = fields.get("rope_parameters");
    let inner = parameters.map(|p| number(p, "rope_theta", "rope_theta")).transpose()?.flatten();
    let theta = inner.or(fields.number("rope_theta")?).unwrap_or(10_000.0);
    let Some(scaling) = parameters.or(fields.get("rope_scaling")) else {
        return Ok((theta, RopeScaling::None));
    };
    let optional = |name: &'static str| number(scaling, name, "rope_scaling");
    let need = |name: &'static str| {
        optional(name)?.ok_or_else(|| {
            ConfigError::new("rope_scaling", scaling, format!("it must have `{name}`"))
        })
    };
    let kind = scaling.get("rope_type").or(scaling.get("type"));
    let scaling = match kind.and_then(Value::as_str) {
        Some("default") => RopeScaling::None,
        // A GGUF file's tensor of divisors.
        Some("factors") => RopeScaling::Factors(factors(scaling, "factors")?),
        // Hunyuan's stretches the base once and for all.
        Some("dynamic") if optional("alpha")?.is_some_and(|alpha| alpha > 0.0) => {
            let dim = head_dim as f64;
            return Ok((theta * libm::pow(need("alpha")?, dim / (dim - 2.0)), RopeScaling::None));
        }
        // Gemma 4's: pairs that are not rotated have a frequency of 0.
        Some("proportional") => {
            let pairs = head_dim.min(1 << 12) / 2;
            let part = optional("partial_rotary_factor")?.unwrap_or(1.0);
            let rotated = (part * pairs as f64) as usize;
            let divisor = |pair| if pair < rotated { 1.0 } else { 1e30 };
            RopeScaling::Factors((0..pairs).map(divisor).collect())
        }
        Some("linear") => RopeScaling::Linear { factor: need("factor")? },
        Some("llama3") => RopeScaling::Llama3 {
            factor: need("factor")?,
            low_freq_factor: need("low_freq_factor")?,
            high_freq_factor: need("high_freq_factor")?,
            original_positions: need("original_max_position_embeddings")? as usize,
        },
        Some("yarn") => {
            let factor = need("factor")?;
            let original = optional("original_max_position_embeddings")?;
            RopeScaling::Yarn {
                factor,
                original_positions: original.map_or(max_positions, |n| n as usize),
                beta_fast: optional("beta_fast")?.unwrap_or(32.0),
                beta_slow: optional("beta_slow")?.unwrap_or(1.0),
                attention_factor: match optional("attention_factor")? {
                    Some(factor) => factor,
                    // The part of DeepSeek's temperature that is not in the scale of the scores.
                    None => match (optional("mscale")?, optional("mscale_all_dim")?) {
                        (Some(part), Some(all)) if part != 0.0 && all != 0.0 => {
                            yarn_temperature(factor, part) / yarn_temperature(factor, all)
                        }
                        _ => yarn_temperature(factor, 1.0),
                    },
                },
                whole_pairs: scaling.get("truncate").and_then(Value::as_bool).unwrap_or(true),
            }
        }
        Some("longrope" | "su") => {
            let original = match fields.optional_size("original_max_position_embeddings")? {
                Some(positions) => positions,
                None => need("original_max_position_embeddings")? as usize,
            };
            let stretch = max_positions as f64 / original.max(1) as f64;
            // LongRoPE's equation for the attention temperature.
            let turns = libm::log(stretch.max(1.0)) / libm::log(original.max(2) as f64);
            let temperature = (1.0 + turns).sqrt();
            RopeScaling::Long {
                short: factors(scaling, "short_factor")?,
                long: factors(scaling, "long_factor")?,
                original_positions: original,
                attention_factor: optional("attention_factor")?.unwrap_or(temperature),
            }
        }
        _ => {
            let reason = "the supported types are default, linear, llama3, yarn and longrope";
            return Err(ConfigError::new("rope_scaling", scaling, reason));
        }
    };
    Ok((theta, scaling))
}

fn factors(scaling: &Value, name: &'static str) -> Result<Vec<f32>, ConfigError> {
    let listed = scaling.get(name).and_then(Value::as_array);
    let numbers =
        listed.and_then(|list| list.iter().map(|x| x.as_f64().map(|x| x as f32)).collect());
    numbers.ok_or_else(|| {
        let reason = format!("`{name}` must be a list of numbers");
        ConfigError::new("rope_scaling", scaling, reason)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Llama-3.2-1B's config, reduced to the fields that are read.
    fn llama() -> Value {
        json!({
            "model_type": "llama", "hidden_act": "silu", "attention_bias": false,
            "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
            "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
            "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "vocab_size": 128256,
            "max_position_embeddings": 131072, "tie_word_embeddings": true,
            "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                "original_max_position_embeddings": 8192, "rope_type": "llama3"}
        })
    }

    fn with(mut json: Value, changes: Value) -> Value {
        for (field, value) in changes.as_object().unwrap() {
            json[field] = value.clone();
        }
        json
    }

    fn read(changes: Value) -> Config {
        Config::from_hf_json(&with(llama(), changes)).unwrap()
    }

    #[test]
    fn reads_llama_3_in_both_spellings_of_rope() {
        let config = read(json!({}));
        assert_eq!((config.vocab, config.hidden, config.head_dim), (128_256, 2048, 64));
        assert_eq!((config.heads, config.kv_heads, config.layers), (32, 8, 16));
        assert!(config.tied_head && !config.qkv_bias && !config.o_bias && !config.qk_norm);
        assert_eq!(config.rope_theta, 500_000.0);
        let expected = RopeScaling::Llama3 {
            factor: 32.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_positions: 8192,
        };
        assert_eq!(config.rope_scaling, expected);
        let mut parameters = llama()["rope_scaling"].clone();
        parameters["rope_theta"] = json!(500_000.0);
        let newer = json!({"rope_parameters": parameters, "rope_scaling": null,
            "rope_theta": null});
        assert_eq!(read(newer), config);
        let without = read(json!({"num_key_value_heads": null, "head_dim": null,
            "rope_theta": null, "rope_scaling": null}));
        assert_eq!((without.kv_heads, without.head_dim), (32, 64));
        assert_eq!((without.rope_theta, without.rope_scaling), (10_000.0, RopeScaling::None));
    }

    #[test]
    fn families_bring_their_options() {
        let bits = |config: &Config| (config.qkv_bias, config.o_bias, config.qk_norm);
        let qwen2 = read(json!({"model_type": "qwen2", "sliding_window": 4096,
            "use_sliding_window": false}));
        assert_eq!((bits(&qwen2), qwen2.max_positions), ((true, false, false), 131_072));
        assert_eq!(bits(&read(json!({"model_type": "qwen3"}))), (false, false, true));
        assert_eq!(bits(&read(json!({"attention_bias": true}))), (true, true, false));

        let mistral = json!({"model_type": "mistral", "sliding_window": 4096});
        let windowed = |changes: Value, layers: [usize; 2]| {
            let block = read(changes).block;
            layers.map(|layer| block.window_of(layer))
        };
        let window = Some(4096);
        assert_eq!(windowed(mistral.clone(), [3, 4]), [window, window]);
        assert_eq!(windowed(with(mistral, json!({"sliding_window": null})), [3, 4]), [None, None]);
        let qwen = json!({"model_type": "qwen2", "sliding_window": 4096,
            "use_sliding_window": true, "max_window_layers": 12});
        assert_eq!(windowed(qwen, [11, 12]), [None, window]);
        let gemma = json!({"model_type": "gemma2", "hidden_act": "gelu_pytorch_tanh",
            "sliding_window": 4096, "query_pre_attn_scalar": 256});
        assert_eq!(windowed(gemma.clone(), [0, 1]), [window, None]);
        let exaone = json!({"model_type": "exaone4", "sliding_window": 4096,
            "sliding_window_pattern": "LLLG"});
        assert_eq!(windowed(exaone.clone(), [2, 3]), [window, None]);
        assert!(!read(exaone).block.global_rope);
        let hunyuan = json!({"model_type": "hunyuan_v1_dense",
            "rope_scaling": {"type": "dynamic", "alpha": 1000.0}});
        let stretched = 500_000.0 * 1000f64.powf(64.0 / 62.0);
        assert!((read(hunyuan).rope_theta / stretched - 1.0).abs() < 1e-9);
        let block = read(gemma).block;
        assert_eq!((block.attention_scale, block.norm_offset), (Some(1.0 / 16.0), 1.0));
    }

    #[test]
    fn what_would_run_wrong_is_refused_by_name() {
        for (changes, field) in [
            (json!({"model_type": "gemma5"}), "model_type"),
            (json!({"model_type": null}), "model_type"),
            (json!({"hidden_act": "gelu"}), "hidden_act"),
            (json!({"num_local_experts": 8}), "num_local_experts"),
            (json!({"model_type": "internlm2", "bias": true}), "bias"),
            (json!({"model_type": "olmoe", "clip_qkv": 8.0}), "clip_qkv"),
            (
                json!({"model_type": "phi", "hidden_act": "gelu_new", "qk_layernorm": true}),
                "qk_layernorm",
            ),
            (
                json!({"model_type": "gemma4_text", "hidden_act": "gelu_pytorch_tanh",
                    "num_kv_shared_layers": 16, "sliding_window": 512}),
                "attention.shared_kv_layers",
            ),
            (json!({"quantization_config": {"quant_method": "gptq"}}), "quantization_config"),
            (json!({"mlp_bias": true}), "mlp_bias"),
            (json!({"partial_rotary_factor": -0.5}), "rope.dimension_count"),
            (json!({"rope_scaling": {"rope_type": "yarn"}}), "rope_scaling"),
            (json!({"rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}), "rope_scaling"),
            (json!({"rope_scaling": {"type": "longrope", "short_factor": 3}}), "rope_scaling"),
            (json!({"rope_scaling": {"type": "linear"}}), "rope_scaling"),
            (json!({"hidden_size": null}), "hidden_size"),
            (json!({"hidden_size": "wide"}), "hidden_size"),
            (json!({"hidden_size": -4}), "hidden_size"),
            (json!({"num_attention_heads": 0, "head_dim": null}), "hidden_size"),
            (json!({"num_attention_heads": 0}), "num_attention_heads"),
            (json!({"tie_word_embeddings": 3}), "tie_word_embeddings"),
        ] {
            let error = Config::from_hf_json(&with(llama(), changes.clone())).unwrap_err();
            assert_eq!(error.field, field, "{changes}: {error}");
        }
        assert!(Config::from_hf_json(&Value::Null).is_err());
        assert!(Config::from_hf_json(&json!([1, 2])).is_err());
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let json = with(llama(), json!({"quantization_config": {"quant_method": "gptq"}}));
        insta::assert_snapshot!(Config::from_hf_json(&json).unwrap_err(), @"model config: \
            `quantization_config` is \"gptq\": quantised safetensors are not supported; use the \
            model's GGUF file");
    }
}
