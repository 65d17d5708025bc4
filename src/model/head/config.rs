//! The head's `config.json` (method.md, Published files of a head): a small Llama configuration and
//! our own optional fields. It must not depend on tensors.

use serde_json::Value;

use super::eagle3::Eagle3Config;
use super::kind::{FusionKind, HeadKind};
use super::misfit::Misfit;
use crate::model::hf_fields::Fields;
use crate::model::{Config, ConfigError, FeatureSource, RopeScaling};

/// Shape and constants of a draft head.
#[derive(Clone, Debug, PartialEq)]
pub struct HeadConfig {
    /// The backbone; its `layers` is M. It does not decide biases: the tensors present do.
    pub body: Config,
    /// Whether any first m ≤ M blocks are usable: the output of block m is then an estimate of the
    /// feature like the last one's (`"elastic_depth": true`).
    pub elastic: bool,
    /// How many tokens the head scores, if it does not score the whole vocabulary
    /// (`draft_vocab_size`).
    pub draft_vocab: Option<usize>,
    /// The position beyond which we do not implement the rotary scaling (`"dynamic"`).
    pub position_limit: Option<usize>,
    /// What kind of head it is.
    pub kind: HeadKind,
}

impl HeadConfig {
    /// Reads the `config.json` of a head with tensors of this kind: `config.json` alone does not
    /// identify an EAGLE-3 head.
    ///
    /// # Errors
    /// [`ConfigError`] if a field is missing or malformed, or asks for something that is not
    /// supported.
    pub fn from_json(json: &Value, kind: FusionKind) -> Result<Self, ConfigError> {
        match kind {
            FusionKind::Dgf => Self::with_blocks(json, HeadKind::Dgf),
            FusionKind::Eagle => Self::with_blocks(json, HeadKind::Eagle),
            FusionKind::Eagle3 => {
                let (eagle3, block) = Eagle3Config::from_json(json)?;
                Self::with_blocks(&block, HeadKind::Eagle3(eagle3))
            }
        }
    }

    /// A head of this kind whose blocks this `config.json` describes.
    fn with_blocks(json: &Value, kind: HeadKind) -> Result<Self, ConfigError> {
        let fields = Fields(json);
        let elastic = fields.flag("elastic_depth")?.unwrap_or(false);
        let draft_vocab = match fields.optional_size("draft_vocab_size") {
            Ok(Some(0)) | Err(_) => {
                let value = &json["draft_vocab_size"];
                let reason = "it must be a number of tokens";
                return Err(ConfigError::new("draft_vocab_size", value, reason));
            }
            Ok(count) => count,
        };
        let mut llama = json.clone();
        let dynamic = has_dynamic_scaling(json);
        if let Some(fields) = llama.as_object_mut() {
            // Heads for Qwen2 or Mistral have their target's type, but their blocks are Llama's.
            fields.insert("model_type".into(), "llama".into());
            fields.insert("attention_bias".into(), Value::Null);
            if dynamic {
                fields.insert("rope_scaling".into(), Value::Null);
            }
        }
        let body = Config::from_hf_json(&llama)?;
        if matches!(body.rope_scaling, RopeScaling::Yarn { .. } | RopeScaling::Long { .. }) {
            let reason = "a draft head supports default, linear, llama3 and dynamic";
            return Err(ConfigError::new("rope_scaling", &json["rope_scaling"], reason));
        }
        if draft_vocab.is_some_and(|count| count > body.vocab) {
            let reason = "a head cannot score more tokens than `vocab_size`";
            return Err(ConfigError::new("draft_vocab_size", &json["draft_vocab_size"], reason));
        }
        let draft_vocab = draft_vocab.filter(|&count| count < body.vocab);
        // Dynamic scaling changes nothing up to the trained length, and rotates again after it.
        let position_limit = dynamic.then_some(body.max_positions);
        Ok(Self { elastic, draft_vocab, position_limit, ..Self::of_body(body, kind) })
    }

    /// A head with these blocks, which scores all tokens.
    pub(crate) fn of_body(body: Config, kind: HeadKind) -> Self {
        Self { body, elastic: false, draft_vocab: None, position_limit: None, kind }
    }

    /// M: how many blocks the head has.
    pub fn blocks(&self) -> usize {
        self.body.layers
    }

    /// How many positions the head can draft at if `wanted` are requested.
    pub fn capacity(&self, wanted: usize) -> usize {
        self.position_limit.map_or(wanted, |limit| wanted.min(limit))
    }

    /// How many tokens the head scores.
    pub fn scored(&self) -> usize {
        self.draft_vocab.unwrap_or(self.body.vocab)
    }

    /// H of its target.
    pub(crate) fn target_hidden(&self) -> usize {
        match &self.kind {
            HeadKind::Eagle3(own) => own.target_hidden,
            HeadKind::Assistant(own) => own.target_hidden,
            HeadKind::Dgf | HeadKind::Eagle | HeadKind::Mtp(_) => self.body.hidden,
        }
    }

    /// How many numbers the feature in a pair has.
    pub fn feature_width(&self) -> usize {
        match &self.kind {
            HeadKind::Eagle3(own) => own.feature_width(),
            HeadKind::Assistant(own) => own.target_hidden + self.read_width(),
            HeadKind::Dgf | HeadKind::Eagle | HeadKind::Mtp(_) => self.body.hidden,
        }
    }

    /// What it reads of a target with `layers` layers.
    ///
    /// # Errors
    /// [`Misfit`] if the target does not have it.
    pub fn features(&self, layers: usize) -> Result<FeatureSource, Misfit> {
        match &self.kind {
            HeadKind::Eagle3(own) => own.states(layers).map(FeatureSource::States),
            HeadKind::Mtp(own) if own.before_norm => Ok(FeatureSource::States(vec![layers])),
            HeadKind::Assistant(_) => Ok(FeatureSource::LastKeysAndValues),
            HeadKind::Dgf | HeadKind::Eagle | HeadKind::Mtp(_) => Ok(FeatureSource::FinalNorm),
        }
    }

    /// Checks that this head was made for a target of this size.
    ///
    /// # Errors
    /// [`Misfit`] with the figures of both.
    pub fn fits(&self, target_hidden: usize, target_vocab: usize) -> Result<(), Misfit> {
        Misfit::unless_equal([
            ("hidden size", self.target_hidden(), target_hidden),
            ("vocabulary size", self.body.vocab, target_vocab),
        ])
    }

    /// Checks that this head was made for a target like this one.
    ///
    /// # Errors
    /// [`Misfit`] with the figures of both.
    pub(crate) fn fits_target(&self, target: &Config) -> Result<(), Misfit> {
        self.fits(target.hidden, target.vocab)?;
        self.features(target.layers)?;
        if let HeadKind::Assistant(_) = self.kind { self.reads(target) } else { Ok(()) }
    }
}

fn has_dynamic_scaling(json: &Value) -> bool {
    json.get("rope_scaling")
        .and_then(|scaling| scaling.get("rope_type").or(scaling.get("type")))
        .and_then(Value::as_str)
        == Some("dynamic")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The config of the paper's head for Llama-2-chat-7B with five blocks, as published.
    fn llama_2_head() -> Value {
        json!({
            "architectures": ["LlamaForCausalLM"], "bos_token_id": 1, "eos_token_id": 2,
            "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
            "intermediate_size": 11008, "max_position_embeddings": 4096, "model_type": "llama",
            "num_attention_heads": 32, "num_hidden_layers": 5, "num_key_value_heads": 32,
            "pretraining_tp": 1, "rms_norm_eps": 1e-6, "rope_scaling": null,
            "tie_word_embeddings": false, "torch_dtype": "float16", "use_cache": true,
            "vocab_size": 32000
        })
    }

    fn read(json: &Value) -> Result<HeadConfig, ConfigError> {
        HeadConfig::from_json(json, FusionKind::Dgf)
    }

    fn with(field: &str, value: Value) -> Value {
        let mut json = llama_2_head();
        json[field] = value;
        json
    }

    #[test]
    fn a_published_config_reads() {
        let config = read(&llama_2_head()).unwrap();
        assert_eq!((config.blocks(), config.body.hidden, config.body.head_dim), (5, 4096, 128));
        assert_eq!((config.body.rms_eps, config.body.rope_theta), (1e-6, 10_000.0));
        assert!(!config.elastic);
        assert_eq!(config.capacity(100_000), 100_000);
        // The type of a head's target does not change the head.
        assert_eq!(read(&with("model_type", json!("qwen3"))), Ok(config));
    }

    #[test]
    fn own_fields_are_read_and_checked() {
        assert!(read(&with("elastic_depth", json!(true))).unwrap().elastic);
        for (count, found) in [(8000, Some(8000)), (32_000, None)] {
            let config = read(&with("draft_vocab_size", json!(count))).unwrap();
            assert_eq!(config.draft_vocab, found);
        }
        for (field, wrong) in [
            ("elastic_depth", json!("yes")),
            ("draft_vocab_size", json!(0)),
            ("draft_vocab_size", json!(-1)),
            ("draft_vocab_size", json!("all")),
            ("draft_vocab_size", json!(32_001)),
        ] {
            assert_eq!(read(&with(field, wrong)).unwrap_err().field, field);
        }
        // Dynamic scaling ends at the trained length.
        let scaling = json!({"type": "dynamic", "factor": 2.0});
        let config = read(&with("rope_scaling", scaling)).unwrap();
        assert_eq!((config.capacity(100_000), config.capacity(1000)), (4096, 1000));
    }

    #[test]
    fn a_head_for_another_target_is_refused_with_both_figures() {
        let config = read(&llama_2_head()).unwrap();
        assert_eq!(config.fits(4096, 32_000), Ok(()));
        insta::assert_snapshot!(config.fits(4096, 128_256).unwrap_err(), @"the draft head does not \
            fit the target: its vocabulary size is 32000, but the target's is 128256; use a head \
            trained for this target");
        let error = config.fits(2048, 32_000).unwrap_err();
        assert!(matches!(error, Misfit::Size { what: "hidden size", .. }), "{error}");
    }
}
