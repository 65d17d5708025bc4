//! Reads a Hugging Face `config.json` into a [`Config`]; refuses what would run wrong.

use serde_json::Value;

use super::rope::RopeScaling;
use super::{BlockOptions, Config, ConfigError, RopeLayout};

const FAMILIES: &str = "the model must be of type llama, mistral, qwen2 or qwen3";

impl Config {
    /// Reads the `config.json` of a Llama, Mistral, Qwen2 or Qwen3 checkpoint. A sliding window
    /// caps `max_positions`: within it the window hides nothing, so the text is the model's own.
    ///
    /// # Errors
    /// [`ConfigError`] if a field is missing, malformed or asks for what is not supported.
    pub fn from_hf_json(json: &Value) -> Result<Self, ConfigError> {
        let fields = Fields(json);
        let family = fields.family()?;
        fields.refuse_variants()?;

        let heads = fields.size("num_attention_heads")?;
        let hidden = fields.size("hidden_size")?;
        let head_dim = match fields.optional_size("head_dim")? {
            Some(width) => width,
            // The default of Hugging Face's Qwen3 class, whatever the hidden size.
            None if family == Family::Qwen3 => 128,
            None if heads > 0 && hidden.is_multiple_of(heads) => hidden / heads,
            None => {
                return Err(ConfigError::new(
                    "hidden_size",
                    hidden,
                    format!("num_attention_heads, {heads}, must divide it when head_dim is absent"),
                ));
            }
        };
        let attention_bias = fields.flag("attention_bias")?;
        let trained_positions = fields.size("max_position_embeddings")?;
        let max_positions = match fields.sliding_window(family)? {
            Some(window) => trained_positions.min(window),
            None => trained_positions,
        };
        let (rope_theta, rope_scaling) = fields.rope()?;
        Self {
            vocab: fields.size("vocab_size")?,
            hidden,
            intermediate: fields.size("intermediate_size")?,
            layers: fields.size("num_hidden_layers")?,
            heads,
            kv_heads: fields.optional_size("num_key_value_heads")?.unwrap_or(heads),
            head_dim,
            rms_eps: fields.number("rms_norm_eps")?.unwrap_or(1e-6) as f32,
            rope_theta,
            rope_scaling,
            rope_layout: RopeLayout::Halves,
            qkv_bias: attention_bias || family == Family::Qwen2,
            o_bias: attention_bias && family != Family::Qwen2,
            qk_norm: family == Family::Qwen3,
            tied_head: fields.flag("tie_word_embeddings")?,
            max_positions,
            block: BlockOptions::default(),
        }
        .checked()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    Llama,
    Mistral,
    Qwen2,
    Qwen3,
}

struct Fields<'a>(&'a Value);

impl<'a> Fields<'a> {
    /// The field; a JSON null is as good as absent.
    fn get(&self, field: &str) -> Option<&'a Value> {
        self.0.get(field).filter(|value| !value.is_null())
    }

    fn family(&self) -> Result<Family, ConfigError> {
        let Some(value) = self.get("model_type") else {
            return Err(ConfigError::new("model_type", "absent", FAMILIES));
        };
        match value.as_str() {
            Some("llama") => Ok(Family::Llama),
            Some("mistral") => Ok(Family::Mistral),
            Some("qwen2") => Ok(Family::Qwen2),
            Some("qwen3") => Ok(Family::Qwen3),
            _ => Err(ConfigError::new("model_type", value, FAMILIES)),
        }
    }

    /// Fields that turn a known family into something else.
    fn refuse_variants(&self) -> Result<(), ConfigError> {
        if let Some(value) = self.get("hidden_act")
            && !matches!(value.as_str(), Some("silu" | "swish"))
        {
            return Err(ConfigError::new("hidden_act", value, "only silu is supported"));
        }
        for field in ["num_local_experts", "num_experts"] {
            if let Some(value) = self.get(field)
                && value.as_u64() != Some(1)
            {
                let reason = "mixtures of experts are not supported; take a dense model";
                return Err(ConfigError::new(field, value, reason));
            }
        }
        if let Some(value) = self.get("quantization_config") {
            let method = value.get("quant_method").unwrap_or(value);
            return Err(ConfigError::new(
                "quantization_config",
                method,
                "quantised safetensors are not supported; take the GGUF file of the same model",
            ));
        }
        if self.flag("mlp_bias")? {
            return Err(ConfigError::new("mlp_bias", true, "biases in the MLP are not supported"));
        }
        if let Some(part) = self.number("partial_rotary_factor")?
            && part != 1.0
        {
            let reason = "rotary positions on a part of a head are not supported";
            return Err(ConfigError::new("partial_rotary_factor", part, reason));
        }
        Ok(())
    }

    fn optional_size(&self, field: &'static str) -> Result<Option<usize>, ConfigError> {
        self.get(field)
            .map(|value| {
                value
                    .as_u64()
                    .and_then(|size| usize::try_from(size).ok())
                    .ok_or_else(|| ConfigError::new(field, value, "it must be a whole number"))
            })
            .transpose()
    }

    fn size(&self, field: &'static str) -> Result<usize, ConfigError> {
        self.optional_size(field)?
            .ok_or_else(|| ConfigError::new(field, "absent", "config.json must have it"))
    }

    fn number(&self, field: &'static str) -> Result<Option<f64>, ConfigError> {
        number(self.0, field, field)
    }

    fn flag(&self, field: &'static str) -> Result<bool, ConfigError> {
        match self.get(field) {
            None => Ok(false),
            Some(value) => value
                .as_bool()
                .ok_or_else(|| ConfigError::new(field, value, "it must be true or false")),
        }
    }

    fn sliding_window(&self, family: Family) -> Result<Option<usize>, ConfigError> {
        let in_use = match family {
            Family::Llama => false,
            Family::Mistral => true,
            // Their configs name a window that is not used unless they say so.
            Family::Qwen2 | Family::Qwen3 => self.flag("use_sliding_window")?,
        };
        if in_use { self.optional_size("sliding_window") } else { Ok(None) }
    }

    /// θ and scaling, from `rope_theta` and `rope_scaling`, or from the `rope_parameters` that
    /// newer checkpoints have in their place.
    fn rope(&self) -> Result<(f64, RopeScaling), ConfigError> {
        let parameters = self.get("rope_parameters");
        let inner =
            parameters.map(|p| number(p, "rope_theta", "rope_theta")).transpose()?.flatten();
        let theta = inner.or(self.number("rope_theta")?).unwrap_or(10_000.0);
        let Some(scaling) = parameters.or(self.get("rope_scaling")) else {
            return Ok((theta, RopeScaling::None));
        };
        let need = |name: &'static str| {
            number(scaling, name, "rope_scaling")?.ok_or_else(|| {
                ConfigError::new("rope_scaling", scaling, format!("it must have `{name}`"))
            })
        };
        let kind = scaling.get("rope_type").or(scaling.get("type"));
        let scaling = match kind.and_then(Value::as_str) {
            Some("default") => RopeScaling::None,
            Some("linear") => RopeScaling::Linear { factor: need("factor")? },
            Some("llama3") => RopeScaling::Llama3 {
                factor: need("factor")?,
                low_freq_factor: need("low_freq_factor")?,
                high_freq_factor: need("high_freq_factor")?,
                original_positions: need("original_max_position_embeddings")? as usize,
            },
            _ => {
                let reason = "only the types default, linear and llama3 are supported";
                return Err(ConfigError::new("rope_scaling", scaling, reason));
            }
        };
        Ok((theta, scaling))
    }
}

fn number(object: &Value, name: &str, field: &'static str) -> Result<Option<f64>, ConfigError> {
    object
        .get(name)
        .filter(|value| !value.is_null())
        .map(|value| {
            let reason = format!("`{name}` must be a number");
            value.as_f64().ok_or_else(|| ConfigError::new(field, value, reason))
        })
        .transpose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Llama-3.2-1B's config, shortened to what is read.
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

    #[test]
    fn reads_llama_3() {
        let config = Config::from_hf_json(&llama()).unwrap();
        assert_eq!((config.vocab, config.hidden, config.head_dim), (128_256, 2048, 64));
        assert_eq!((config.heads, config.kv_heads, config.layers), (32, 8, 16));
        assert!(config.tied_head && !config.qkv_bias && !config.o_bias && !config.qk_norm);
        assert_eq!(config.rope_theta, 500_000.0);
        let RopeScaling::Llama3 { factor, original_positions, .. } = config.rope_scaling else {
            panic!("{:?}", config.rope_scaling);
        };
        assert_eq!((factor, original_positions), (32.0, 8192));
    }

    #[test]
    fn the_newer_spelling_of_rope_reads_the_same() {
        let mut newer = with(
            llama(),
            json!({"rope_parameters": llama()["rope_scaling"], "rope_scaling": null,
                "rope_theta": null}),
        );
        newer["rope_parameters"]["rope_theta"] = json!(500_000.0);
        assert_eq!(Config::from_hf_json(&newer), Config::from_hf_json(&llama()));
    }

    #[test]
    fn absent_fields_take_their_familys_defaults() {
        let mut json = llama();
        for field in ["num_key_value_heads", "head_dim", "rope_theta", "rope_scaling"] {
            json.as_object_mut().unwrap().remove(field);
        }
        let config = Config::from_hf_json(&json).unwrap();
        assert_eq!((config.kv_heads, config.head_dim), (32, 64));
        assert_eq!((config.rope_theta, config.rope_scaling), (10_000.0, RopeScaling::None));
    }

    #[test]
    fn families_bring_their_options() {
        let qwen2 = with(
            llama(),
            json!({"model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": false}),
        );
        let qwen2 = Config::from_hf_json(&qwen2).unwrap();
        assert!(qwen2.qkv_bias && !qwen2.o_bias && !qwen2.qk_norm);
        assert_eq!(qwen2.max_positions, 131_072);
        let qwen3 = Config::from_hf_json(&with(llama(), json!({"model_type": "qwen3"}))).unwrap();
        assert!(qwen3.qk_norm && !qwen3.qkv_bias);
        let biased = with(llama(), json!({"attention_bias": true}));
        let biased = Config::from_hf_json(&biased).unwrap();
        assert!(biased.qkv_bias && biased.o_bias);
    }

    #[test]
    fn a_sliding_window_caps_the_context() {
        let mistral = with(llama(), json!({"model_type": "mistral", "sliding_window": 4096}));
        assert_eq!(Config::from_hf_json(&mistral).unwrap().max_positions, 4096);
        let without = with(mistral, json!({"sliding_window": null}));
        assert_eq!(Config::from_hf_json(&without).unwrap().max_positions, 131_072);
    }

    #[test]
    fn what_would_run_wrong_is_refused_by_name() {
        for (changes, field) in [
            (json!({"model_type": "gemma2"}), "model_type"),
            (json!({"model_type": null}), "model_type"),
            (json!({"hidden_act": "gelu"}), "hidden_act"),
            (json!({"num_local_experts": 8}), "num_local_experts"),
            (json!({"quantization_config": {"quant_method": "gptq"}}), "quantization_config"),
            (json!({"mlp_bias": true}), "mlp_bias"),
            (json!({"partial_rotary_factor": 0.5}), "partial_rotary_factor"),
            (json!({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}), "rope_scaling"),
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
        insta::assert_snapshot!(Config::from_hf_json(&json).unwrap_err(), @r#"model config: `quantization_config` is "gptq": quantised safetensors are not supported; take the GGUF file of the same model"#);
    }
}
