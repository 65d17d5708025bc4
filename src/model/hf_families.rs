//! The table of architectures, and what each family of Hugging Face checkpoints does differently
//! from Llama, according to the fields of its `config.json`. This is the only place in `model` that
//! knows families by name.

use serde_json::Value;

use super::hf_fields::Fields;
use super::rope::yarn_temperature;
use super::{
    BlockOptions, ConfigError, Experts, Gating, LatentAttention, NormKind, RopeLayout,
    SlidingWindow,
};
use crate::kernels::Activation;

/// A family of checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Llama,
    Mistral,
    Mixtral,
    Qwen2,
    Qwen3,
    Qwen3Moe,
    SmolLm3,
    Granite,
    Olmo2,
    Phi3,
    Gemma2,
    Gemma3,
    StarCoder2,
    GptOss,
    DeepSeekV2,
    DeepSeekV3,
}

/// An architecture and its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchitectureRow {
    /// The models, as people call them.
    pub title: &'static str,
    /// `general.architecture` of a GGUF file.
    pub gguf: &'static str,
    /// `model_type` of a `config.json`.
    pub model_type: &'static str,
    pub(crate) family: Family,
    /// How GGUF files store q and k; checkpoints store them in halves.
    pub(crate) gguf_layout: RopeLayout,
}

const fn row(
    title: &'static str,
    gguf: &'static str,
    model_type: &'static str,
    family: Family,
    gguf_layout: RopeLayout,
) -> ArchitectureRow {
    ArchitectureRow { title, gguf, model_type, family, gguf_layout }
}

/// Every architecture that can be run, by both of its names. GGUF files of Mistral and Mixtral
/// are those of Llama, and the first row with a name describes its files.
pub const ARCHITECTURES: &[ArchitectureRow] = {
    use RopeLayout::{Halves, Interleaved};
    &[
        row(
            "Llama 2 and 3, Vicuna, TinyLlama, SmolLM2",
            "llama",
            "llama",
            Family::Llama,
            Interleaved,
        ),
        row("Mistral", "llama", "mistral", Family::Mistral, Interleaved),
        row("Mixtral", "llama", "mixtral", Family::Mixtral, Interleaved),
        row("Qwen2", "qwen2", "qwen2", Family::Qwen2, Halves),
        row("Qwen3", "qwen3", "qwen3", Family::Qwen3, Halves),
        row("Qwen3-MoE", "qwen3moe", "qwen3_moe", Family::Qwen3Moe, Halves),
        row("SmolLM3", "smollm3", "smollm3", Family::SmolLm3, Interleaved),
        row("Granite", "granite", "granite", Family::Granite, Interleaved),
        row("OLMo 2", "olmo2", "olmo2", Family::Olmo2, Halves),
        row("Phi-3", "phi3", "phi3", Family::Phi3, Halves),
        row("Gemma 2", "gemma2", "gemma2", Family::Gemma2, Halves),
        row("Gemma 3, its text part", "gemma3", "gemma3_text", Family::Gemma3, Halves),
        row("StarCoder2", "starcoder2", "starcoder2", Family::StarCoder2, Halves),
        row("gpt-oss", "gpt-oss", "gpt_oss", Family::GptOss, Halves),
        row("DeepSeek V2", "deepseek2", "deepseek_v2", Family::DeepSeekV2, Interleaved),
        row("DeepSeek V3", "deepseek2", "deepseek_v3", Family::DeepSeekV3, Interleaved),
    ]
};

impl ArchitectureRow {
    /// The row for GGUF files with this `general.architecture`.
    pub(crate) fn of_gguf(name: &str) -> Option<&'static Self> {
        ARCHITECTURES.iter().find(|row| row.gguf == name)
    }
}

impl Family {
    /// The family of a `model_type`.
    pub(super) fn named(name: &str) -> Option<Self> {
        ARCHITECTURES.iter().find(|row| row.model_type == name).map(|row| row.family)
    }

    /// The width of a head if `config.json` does not give it, independent of the hidden size.
    pub(super) fn default_head_dim(self) -> Option<usize> {
        match self {
            Self::Qwen3 | Self::Qwen3Moe => Some(128),
            Self::GptOss => Some(64),
            Self::Gemma2 | Self::Gemma3 => Some(256),
            _ => None,
        }
    }

    pub(super) fn has_qk_norm(self) -> bool {
        matches!(self, Self::Qwen3 | Self::Qwen3Moe | Self::Olmo2 | Self::Gemma3)
    }

    pub(super) fn has_experts(self) -> bool {
        matches!(
            self,
            Self::Mixtral | Self::Qwen3Moe | Self::GptOss | Self::DeepSeekV2 | Self::DeepSeekV3
        )
    }

    /// Whether the LM head is the embedding if `config.json` does not say.
    pub(super) fn ties_by_default(self) -> bool {
        matches!(self, Self::Gemma2 | Self::Gemma3 | Self::SmolLm3 | Self::StarCoder2)
    }

    /// The names of its activation function.
    pub(super) fn activations(self) -> &'static [&'static str] {
        match self {
            Self::Gemma2 | Self::Gemma3 | Self::StarCoder2 => &["gelu_pytorch_tanh", "gelu_new"],
            _ => &["silu", "swish"],
        }
    }

    /// What its blocks do differently.
    pub(super) fn options(
        self,
        fields: &Fields<'_>,
        head_dim: usize,
    ) -> Result<BlockOptions, ConfigError> {
        let mut options = BlockOptions {
            window: self.window(fields)?,
            rotary_dim: fields
                .number("partial_rotary_factor")?
                .map(|part| (head_dim as f64 * part) as usize)
                .filter(|&dim| dim != head_dim),
            ..BlockOptions::default()
        };
        match self {
            Self::Granite => {
                options.embedding_scale = fields.float("embedding_multiplier")?.unwrap_or(1.0);
                options.residual_scale = fields.float("residual_multiplier")?.unwrap_or(1.0);
                options.logit_divisor = fields.float("logits_scaling")?.unwrap_or(1.0);
                options.attention_scale = fields.float("attention_multiplier")?;
            }
            Self::Olmo2 => {
                options.input_norms = false;
                options.output_norms = true;
                options.qk_norm_over_heads = true;
            }
            Self::SmolLm3 => {
                options.no_rope_every =
                    fields.optional_size("no_rope_layer_interval")?.unwrap_or(4);
            }
            Self::Gemma2 | Self::Gemma3 => {
                options.output_norms = true;
                options.norm_offset = 1.0;
                options.activation = Activation::GeluTanh;
                options.embedding_scale = (fields.size("hidden_size")? as f32).sqrt();
                options.attention_scale =
                    fields.float("query_pre_attn_scalar")?.map(|scalar| 1.0 / scalar.sqrt());
                options.attention_softcap = fields.float("attn_logit_softcapping")?;
                options.final_softcap = fields.float("final_logit_softcapping")?;
                if self == Self::Gemma3 {
                    let theta = fields.number("rope_local_base_freq")?;
                    options.local_rope_theta = Some(theta.unwrap_or(10_000.0));
                }
            }
            Self::StarCoder2 => {
                options.norm = NormKind::Layer;
                options.activation = Activation::GeluTanh;
                options.gated = false;
                options.mlp_bias = fields.flag("use_bias")?.unwrap_or(true);
            }
            Self::Mixtral => {
                options.experts = Some(Experts {
                    intermediate: fields.size("intermediate_size")?,
                    ..experts(fields.size("num_local_experts")?, fields)?
                });
            }
            Self::Qwen3Moe => {
                if fields.optional_size("decoder_sparse_step")?.is_some_and(|step| step != 1)
                    || fields.get("mlp_only_layers").is_some_and(|list| !is_empty(list))
                {
                    let reason = "every layer must have experts";
                    return Err(ConfigError::new("decoder_sparse_step", "not 1", reason));
                }
                options.experts = Some(Experts {
                    intermediate: fields.size("moe_intermediate_size")?,
                    normalised: fields.flag("norm_topk_prob")?.unwrap_or(false),
                    ..experts(fields.size("num_experts")?, fields)?
                });
            }
            Self::GptOss => {
                let limit = fields.float("swiglu_limit")?.unwrap_or(7.0);
                options.activation = Activation::ClampedSwiGlu { alpha: 1.702, limit };
                options.sinks = true;
                options.experts = Some(Experts {
                    intermediate: fields.size("intermediate_size")?,
                    gating: Gating::SoftmaxOfChosen,
                    normalised: false,
                    bias: true,
                    ..experts(fields.size("num_local_experts")?, fields)?
                });
            }
            Self::DeepSeekV2 | Self::DeepSeekV3 => options = deepseek(fields)?,
            Self::Llama | Self::Mistral | Self::Qwen2 | Self::Qwen3 | Self::Phi3 => {}
        }
        Ok(options)
    }

    /// The sliding window and its layers.
    fn window(self, fields: &Fields<'_>) -> Result<Option<SlidingWindow>, ConfigError> {
        let in_use = match self {
            Self::Mistral | Self::Mixtral | Self::Phi3 | Self::StarCoder2 => true,
            Self::Gemma2 | Self::Gemma3 | Self::GptOss => true,
            // Their configurations name a window, but it is only used if they say so.
            Self::Qwen2 | Self::Qwen3 | Self::Qwen3Moe | Self::SmolLm3 => {
                fields.flag("use_sliding_window")?.unwrap_or(false)
            }
            Self::Llama | Self::Granite | Self::Olmo2 => false,
            Self::DeepSeekV2 | Self::DeepSeekV3 => false,
        };
        let Some(size) = fields.optional_size("sliding_window")?.filter(|_| in_use) else {
            return Ok(None);
        };
        // The check of the configuration refuses a wrong count later.
        let layers = fields.size("num_hidden_layers")?.min(1 << 12);
        if let Some(kinds) = fields.get("layer_types").and_then(Value::as_array) {
            let local = |kind: &Value| kind.as_str() == Some("sliding_attention");
            return Ok(Some(SlidingWindow { size, layers: kinds.iter().map(local).collect() }));
        }
        let period = match self {
            Self::Gemma2 | Self::GptOss => 2,
            Self::Gemma3 => fields.optional_size("sliding_window_pattern")?.unwrap_or(6).max(1),
            _ => 0,
        };
        // Qwen's first layers see everything.
        let first = match self {
            Self::Qwen2 | Self::Qwen3 => fields.optional_size("max_window_layers")?.unwrap_or(0),
            _ => 0,
        };
        let local =
            |layer: usize| layer >= first && (period == 0 || !(layer + 1).is_multiple_of(period));
        Ok(Some(SlidingWindow { size, layers: (0..layers).map(local).collect() }))
    }
}

fn experts(count: usize, fields: &Fields<'_>) -> Result<Experts, ConfigError> {
    Ok(Experts {
        count,
        used: fields.size("num_experts_per_tok")?,
        intermediate: 0,
        dense_layers: 0,
        gating: Gating::Softmax,
        normalised: true,
        scale: 1.0,
        groups: None,
        shared_intermediate: 0,
        bias: false,
        selection_bias: false,
    })
}

fn is_empty(list: &Value) -> bool {
    list.as_array().is_some_and(Vec::is_empty)
}

/// The blocks of DeepSeek V2 and V3: latent attention, and a mixture of experts after the first
/// dense layers.
fn deepseek(fields: &Fields<'_>) -> Result<BlockOptions, ConfigError> {
    let latent = LatentAttention {
        q_rank: fields.optional_size("q_lora_rank")?,
        kv_rank: fields.size("kv_lora_rank")?,
        nope_dim: fields.size("qk_nope_head_dim")?,
        rope_dim: fields.size("qk_rope_head_dim")?,
        value_dim: fields.size("v_head_dim")?,
    };
    // YaRN's temperature of all dimensions is in the scale of the scores.
    let temperature = match fields.get("rope_parameters").or(fields.get("rope_scaling")) {
        Some(scaling) => {
            let factor = scaling.get("factor").and_then(Value::as_f64);
            let all = scaling.get("mscale_all_dim").and_then(Value::as_f64);
            yarn_temperature(factor.unwrap_or(1.0), all.unwrap_or(0.0))
        }
        None => 1.0,
    };
    let width = latent.nope_dim.saturating_add(latent.rope_dim) as f64;
    Ok(BlockOptions {
        attention_scale: Some((temperature * temperature / width.sqrt()) as f32),
        rotary_dim: Some(latent.rope_dim),
        experts: Some(deepseek_experts(fields)?),
        latent: Some(latent),
        ..BlockOptions::default()
    })
}

fn deepseek_experts(fields: &Fields<'_>) -> Result<Experts, ConfigError> {
    if let Some(every) = fields.optional_size("moe_layer_freq")?.filter(|&every| every != 1) {
        let reason = "every layer after the first ones must have experts";
        return Err(ConfigError::new("moe_layer_freq", every, reason));
    }
    let text = |field| fields.get(field).and_then(Value::as_str);
    let gating = match text("scoring_func") {
        Some("softmax") | None => Gating::Softmax,
        Some("sigmoid") => Gating::Sigmoid,
        Some(other) => {
            return Err(ConfigError::new("scoring_func", other, "it must be softmax or sigmoid"));
        }
    };
    let groups = fields.optional_size("n_group")?.filter(|&groups| groups > 1);
    let (groups, selection_bias) = match text("topk_method") {
        Some("greedy") | None => (None, false),
        // V3 ranks groups by the sum of their two best experts, with a bias that affects only the
        // choice.
        Some("noaux_tc") => (groups, true),
        // DeepSeek-V2 (not V2-Lite) ranks groups by their best expert.
        Some("group_limited_greedy") => (groups, false),
        Some(other) => {
            let reason = "it must be greedy, group_limited_greedy or noaux_tc";
            return Err(ConfigError::new("topk_method", other, reason));
        }
    };
    let intermediate = fields.size("moe_intermediate_size")?;
    let shared = fields.optional_size("n_shared_experts")?.unwrap_or(0);
    Ok(Experts {
        intermediate,
        dense_layers: fields.optional_size("first_k_dense_replace")?.unwrap_or(0),
        gating,
        normalised: fields.flag("norm_topk_prob")?.unwrap_or(false),
        scale: fields.number("routed_scaling_factor")?.unwrap_or(1.0) as f32,
        groups: match groups {
            Some(groups) => Some((groups, fields.size("topk_group")?)),
            None => None,
        },
        shared_intermediate: shared.saturating_mul(intermediate),
        selection_bias,
        ..experts(fields.size("n_routed_experts")?, fields)?
    })
}
