//! The table of architectures, and what each family of Hugging Face checkpoints does differently
//! from Llama, according to the fields of its `config.json`. This is the only place in `model` that
//! knows families by name.

use serde_json::Value;

use super::hf_fields::{Fields, number, whole_number};
use super::hf_local_heads::{gemma4, listed_widths, local_heads};
use super::{
    BlockOptions, ConfigError, Experts, Gating, LatentAttention, NormKind, QkNorm, RecurrentLayers,
    RopeLayout, SlidingWindow,
};
use crate::kernels::{Activation, RecurrentShape, StateKind};

/// The field with the width of all shared experts together.
pub(crate) const SHARED_WIDTH: &str = "shared_expert_intermediate_size";
/// The field that says whether the other fields are those of a GGUF file.
pub(crate) const OF_GGUF: &str = "of_gguf";

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
    Glm4,
    Glm4Moe,
    Cohere,
    Cohere2,
    InternLm2,
    SeedOss,
    Ernie,
    ErnieMoe,
    Hunyuan,
    Exaone4,
    OlMoe,
    MiniCpm,
    StableLm,
    Phi2,
    BitNet,
    Gemma4,
    Mimo2,
    Qwen3Next,
    Qwen35,
    Qwen35Moe,
    Lfm2,
    Lfm2Moe,
    Mamba2,
    FalconH1,
    GraniteHybrid,
    NemotronH,
    NemotronHMoe,
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
    /// How GGUF files store q and k.
    pub(crate) gguf_layout: RopeLayout,
}

pub(super) const fn row(
    title: &'static str,
    gguf: &'static str,
    model_type: &'static str,
    family: Family,
    gguf_layout: RopeLayout,
) -> ArchitectureRow {
    ArchitectureRow { title, gguf, model_type, family, gguf_layout }
}

/// Every architecture that can be run, by both of its names. GGUF files of Mistral have the name of
/// Llama, and the first row with a name describes its files.
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
        row("GLM-4", "glm4", "glm4", Family::Glm4, Interleaved),
        row("GLM-4.5 and 4.6", "glm4moe", "glm4_moe", Family::Glm4Moe, Halves),
        row("Command R", "command-r", "cohere", Family::Cohere, Interleaved),
        row("Command A and R7B", "cohere2", "cohere2", Family::Cohere2, Interleaved),
        row("InternLM2 and 2.5", "internlm2", "internlm2", Family::InternLm2, Interleaved),
        row("Seed-OSS", "seed_oss", "seed_oss", Family::SeedOss, Halves),
        row("ERNIE 4.5", "ernie4_5", "ernie4_5", Family::Ernie, Interleaved),
        row("ERNIE 4.5 MoE", "ernie4_5-moe", "ernie4_5_moe", Family::ErnieMoe, Interleaved),
        row("Hunyuan", "hunyuan-dense", "hunyuan_v1_dense", Family::Hunyuan, Halves),
        row("EXAONE 4", "exaone4", "exaone4", Family::Exaone4, Halves),
        row("OLMoE", "olmoe", "olmoe", Family::OlMoe, Halves),
        row("MiniCPM", "minicpm", "minicpm", Family::MiniCpm, Interleaved),
        row("StableLM", "stablelm", "stablelm", Family::StableLm, Halves),
        row("Phi-2", "phi2", "phi", Family::Phi2, Halves),
        row("BitNet b1.58", "bitnet", "bitnet", Family::BitNet, Halves),
        row("Gemma 4, its text part", "gemma4", "gemma4_text", Family::Gemma4, Halves),
        row("MiMo-V2-Flash", "mimo2", "mimo_v2_flash", Family::Mimo2, Halves),
        row("Qwen3-Next", "qwen3next", "qwen3_next", Family::Qwen3Next, Halves),
        row("Qwen3.5 and 3.6, their text part", "qwen35", "qwen3_5_text", Family::Qwen35, Halves),
        row(
            "Qwen3.5-MoE and 3.6-MoE, their text part",
            "qwen35moe",
            "qwen3_5_moe_text",
            Family::Qwen35Moe,
            Halves,
        ),
        row("LFM2", "lfm2", "lfm2", Family::Lfm2, Halves),
        row("LFM2-MoE", "lfm2moe", "lfm2_moe", Family::Lfm2Moe, Halves),
        row("Mamba-2", "mamba2", "mamba2", Family::Mamba2, Halves),
        row("Falcon-H1", "falcon-h1", "falcon_h1", Family::FalconH1, Halves),
        row(
            "Granite 4.0, hybrid",
            "granitehybrid",
            "granitemoehybrid",
            Family::GraniteHybrid,
            Interleaved,
        ),
        row("Nemotron-H", "nemotron_h", "nemotron_h", Family::NemotronH, Halves),
        row(
            "Nemotron 3 Nano and Super",
            "nemotron_h_moe",
            "nemotron_h_moe",
            Family::NemotronHMoe,
            Halves,
        ),
    ]
};

impl ArchitectureRow {
    /// Whether only GGUF files of it can be run. What the converters of Mamba-2's families fold
    /// into the weights is not read from checkpoints.
    pub fn is_only_gguf(&self) -> bool {
        self.family.is_mamba2()
    }

    /// The row for GGUF files with this `general.architecture`. A mixture of experts may have the
    /// name of a dense architecture.
    pub(crate) fn of_gguf(name: &str, has_experts: bool) -> Option<&'static Self> {
        let named = || ARCHITECTURES.iter().filter(|row| row.gguf == name);
        let fits = |row: &&Self| row.family.has_experts() == has_experts;
        named().find(fits).or_else(|| named().next())
    }
}

impl Family {
    /// The width of a head if `config.json` does not give it, independent of the hidden size.
    pub(super) fn default_head_dim(self) -> Option<usize> {
        match self {
            Self::Qwen3 | Self::Qwen3Moe => Some(128),
            Self::GptOss => Some(64),
            Self::Gemma2 | Self::Gemma3 => Some(256),
            Self::Qwen3Next | Self::Qwen35 | Self::Qwen35Moe => Some(256),
            _ => None,
        }
    }

    pub(super) fn has_qk_norm(self, fields: &Fields<'_>) -> Result<bool, ConfigError> {
        let field = match self {
            Self::Qwen3 | Self::Qwen3Moe | Self::Olmo2 | Self::Gemma3 => return Ok(true),
            Self::Hunyuan | Self::Exaone4 | Self::OlMoe | Self::Gemma4 => return Ok(true),
            Self::Lfm2 | Self::Lfm2Moe => return Ok(true),
            _ if self.is_gated_delta() => return Ok(true),
            Self::Cohere | Self::Glm4Moe => "use_qk_norm",
            Self::StableLm => "qk_layernorm",
            _ => return Ok(false),
        };
        Ok(fields.flag(field)?.unwrap_or(false))
    }

    pub(super) fn has_experts(self) -> bool {
        matches!(
            self,
            Self::Mixtral | Self::Qwen3Moe | Self::GptOss | Self::DeepSeekV2 | Self::DeepSeekV3
        ) || matches!(self, Self::Glm4Moe | Self::ErnieMoe | Self::OlMoe | Self::Mimo2)
            || matches!(self, Self::Qwen3Next | Self::Qwen35Moe | Self::Lfm2Moe)
            || self == Self::NemotronHMoe
    }

    /// Whether layers have the states of Mamba-2.
    pub(super) fn is_mamba2(self) -> bool {
        matches!(self, Self::Mamba2 | Self::FalconH1 | Self::GraniteHybrid)
            || matches!(self, Self::NemotronH | Self::NemotronHMoe)
    }

    /// Whether most of its layers are gated DeltaNet, and the others gated attention.
    pub(crate) fn is_gated_delta(self) -> bool {
        matches!(self, Self::Qwen3Next | Self::Qwen35 | Self::Qwen35Moe)
    }

    /// Whether a model of a family in which only some have experts has them.
    pub(super) fn may_have_experts(self, fields: &Fields<'_>) -> bool {
        let names = ["num_experts", "num_local_experts"];
        matches!(self, Self::Gemma4 | Self::GraniteHybrid)
            && names.into_iter().any(|name| fields.get(name).is_some())
    }

    /// How its checkpoints store q and k.
    pub(super) fn layout(self) -> RopeLayout {
        match self {
            Self::DeepSeekV2 | Self::DeepSeekV3 => RopeLayout::Interleaved,
            Self::Glm4 | Self::Cohere | Self::Cohere2 => RopeLayout::Interleaved,
            Self::Ernie | Self::ErnieMoe => RopeLayout::Interleaved,
            _ => RopeLayout::Halves,
        }
    }

    /// Whether q, k and v have biases, and whether the output projection of attention has one.
    pub(super) fn attention_biases(self, fields: &Fields<'_>) -> Result<[bool; 2], ConfigError> {
        let flag = |field, usual| fields.flag(field).map(|flag| flag.unwrap_or(usual));
        Ok(match self {
            Self::Qwen2 => [true, false],
            Self::Phi2 => [true; 2],
            Self::StarCoder2 => [flag("use_bias", true)?; 2],
            Self::Ernie | Self::ErnieMoe => [flag("use_bias", false)?; 2],
            Self::StableLm => [flag("use_qkv_bias", false)?, false],
            Self::SeedOss => [flag("attention_bias", true)?, flag("attention_out_bias", false)?],
            Self::Glm4 | Self::Glm4Moe => [flag("attention_bias", false)?, false],
            _ => [flag("attention_bias", false)?; 2],
        })
    }

    /// Whether the LM head is the embedding if `config.json` does not say.
    pub(super) fn ties_by_default(self) -> bool {
        matches!(self, Self::Gemma2 | Self::Gemma3 | Self::SmolLm3 | Self::StarCoder2)
            || matches!(self, Self::Cohere | Self::Cohere2 | Self::Ernie | Self::ErnieMoe)
            || matches!(self, Self::Gemma4 | Self::Lfm2 | Self::Lfm2Moe)
    }

    /// The width of its MLP.
    pub(super) fn intermediate(self, fields: &Fields<'_>) -> Result<usize, ConfigError> {
        let given = fields.size("intermediate_size");
        if self != Self::Lfm2 {
            return given;
        }
        let width = fields.optional_size("block_ff_dim")?.map_or(given, Ok)?;
        if !fields.flag("block_auto_adjust_ff_dim")?.unwrap_or(true) {
            return Ok(width);
        }
        let factor = fields.number("block_ffn_dim_multiplier")?.unwrap_or(1.0);
        let width = (width.saturating_mul(2) / 3) as f64 * factor;
        let multiple = fields.optional_size("block_multiple_of")?.unwrap_or(256).max(1);
        Ok((width as usize).div_ceil(multiple).saturating_mul(multiple))
    }

    /// The names of its activation function.
    pub(super) fn activations(self) -> &'static [&'static str] {
        match self {
            Self::Gemma2 | Self::Gemma3 | Self::Gemma4 | Self::StarCoder2 | Self::Phi2 => {
                &["gelu_pytorch_tanh", "gelu_new"]
            }
            _ => &["silu", "swish"],
        }
    }

    /// What its blocks do differently.
    pub(super) fn options(
        self,
        fields: &Fields<'_>,
        head_dim: usize,
    ) -> Result<BlockOptions, ConfigError> {
        let part = match fields.get("rope_parameters") {
            // What Gemma 4 does not rotate has a frequency of 0.
            Some(rope) if self != Self::Gemma4 => {
                number(rope, "partial_rotary_factor", "rope_parameters")?
            }
            _ => None,
        };
        let part = part.or(fields.number("partial_rotary_factor")?);
        let part = part.map(|part| (head_dim as f64 * part) as usize);
        let mut options = BlockOptions {
            window: self.window(fields)?,
            rotary_dim: fields.optional_size("rotary_dim")?.or(part).filter(|&dim| dim != head_dim),
            experts: match self.has_experts() || self.may_have_experts(fields) {
                true => Some(self.experts(fields)?),
                false => None,
            },
            ..BlockOptions::default()
        };
        match self {
            Self::Granite => granite(&mut options, fields)?,
            Self::Olmo2 => {
                options.input_norms = false;
                options.output_norms = true;
                options.qk_norm = QkNorm::OverHeads;
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
            Self::GptOss => {
                let limit = fields.float("swiglu_limit")?.unwrap_or(7.0);
                options.activation = Activation::ClampedSwiGlu { alpha: 1.702, limit };
                options.sinks = true;
            }
            Self::DeepSeekV2 | Self::DeepSeekV3 => latent(&mut options, fields)?,
            Self::Glm4 => options.output_norms = true,
            Self::Cohere | Self::Cohere2 => {
                options.norm = NormKind::LayerWithoutBias;
                options.parallel = true;
                options.qk_norm = QkNorm::LayerPerHead;
                options.logit_divisor = 1.0 / fields.float("logit_scale")?.unwrap_or(0.0625);
                options.global_rope = self == Self::Cohere;
            }
            Self::Hunyuan => options.qk_norm = QkNorm::PerHeadAfterRope,
            Self::Exaone4 => {
                options.input_norms = false;
                options.output_norms = true;
                options.global_rope = options.window.is_none();
            }
            Self::OlMoe => options.qk_norm = QkNorm::OverHeads,
            Self::MiniCpm => {
                let layers = fields.size("num_hidden_layers")? as f32;
                let width = fields.size("hidden_size")? as f32;
                let [embedding, depth] = [fields.float("scale_emb")?, fields.float("scale_depth")?];
                options.embedding_scale = embedding.unwrap_or(12.0);
                options.residual_scale = depth.unwrap_or(1.4) / layers.sqrt();
                options.logit_divisor = width / fields.float("dim_model_base")?.unwrap_or(256.0);
                granite(&mut options, fields)?;
            }
            Self::StableLm => {
                options.norm = NormKind::Layer;
                options.qk_norm = QkNorm::LayerPerHead;
                options.parallel = fields.flag("use_parallel_residual")?.unwrap_or(false);
            }
            Self::Phi2 => {
                options.norm = NormKind::Layer;
                options.parallel = true;
                options.activation = Activation::GeluTanh;
                options.gated = false;
                options.mlp_bias = true;
                options.head_bias = true;
            }
            Self::BitNet => options.inner_norms = true,
            Self::Gemma4 => gemma4(&mut options, fields)?,
            Self::Mimo2 => {
                let value_dim = fields.optional_size("v_head_dim")?;
                options.value_dim = value_dim.filter(|&dim| dim != head_dim);
                let scale = fields.float("attention_value_scale")?;
                options.attention_out_scale = scale.unwrap_or(1.0);
                let flag = |field, usual| fields.flag(field).map(|flag| flag.unwrap_or(usual));
                options.sinks = flag("add_swa_attention_sink_bias", true)?;
                options.global_sinks = flag("add_full_attention_sink_bias", false)?;
                let rotated = options.rotary_dim.unwrap_or(head_dim);
                local_heads(&mut options, fields, rotated)?;
            }
            Self::Ernie | Self::ErnieMoe => {
                options.mlp_bias = fields.flag("use_bias")?.unwrap_or(false);
            }
            Self::Qwen3Next | Self::Qwen35 | Self::Qwen35Moe => {
                options.norm_offset = 1.0;
                options.output_gate = fields.flag("attn_output_gate")?.unwrap_or(true);
                options.recurrent = Some(self.gated_delta(fields)?);
            }
            Self::Lfm2 | Self::Lfm2Moe => options.recurrent = Some(short_convolutions(fields)?),
            Self::Mamba2 | Self::FalconH1 => options.recurrent = Some(self.mamba2(fields)?),
            Self::GraniteHybrid => {
                granite(&mut options, fields)?;
                options.recurrent = Some(self.mamba2(fields)?);
                options.global_rope = fields.flag("use_rope")?.unwrap_or(true);
            }
            Self::NemotronH | Self::NemotronHMoe => {
                options.recurrent = Some(self.mamba2(fields)?);
                options.global_rope = false;
                options.one_part = true;
                options.activation = Activation::ReluSquared;
                options.gated = false;
            }
            Self::Llama | Self::Mistral | Self::Mixtral | Self::Phi3 => {}
            Self::Qwen2 | Self::Qwen3 | Self::Qwen3Moe => {}
            Self::Glm4Moe | Self::InternLm2 | Self::SeedOss => {}
        }
        if self.is_mamba2() {
            options.intermediates = listed_widths(fields)?;
        }
        Ok(options)
    }

    /// The sliding window and its layers.
    fn window(self, fields: &Fields<'_>) -> Result<Option<SlidingWindow>, ConfigError> {
        let in_use = match self {
            Self::Mistral | Self::Mixtral | Self::Phi3 | Self::StarCoder2 => true,
            Self::Gemma2 | Self::Gemma3 | Self::GptOss => true,
            Self::Cohere2 | Self::Exaone4 | Self::Gemma4 | Self::Mimo2 => true,
            // Their configurations may name a window, but it is only used if they say so.
            _ => fields.flag("use_sliding_window")?.unwrap_or(false),
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
        // EXAONE writes a letter for each layer of a period.
        let pattern = fields.get("sliding_window_pattern").filter(|pattern| !pattern.is_string());
        let pattern = pattern.map(|period| whole_number("sliding_window_pattern", period));
        let period = match (pattern.transpose()?, self) {
            (Some(period), _) => period.max(1),
            (None, Self::Cohere2 | Self::Exaone4) => 4,
            (None, Self::Gemma2 | Self::GptOss) => 2,
            (None, Self::Gemma3 | Self::Gemma4) => 6,
            (None, _) => 0,
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

    /// The layers of gated DeltaNet.
    fn gated_delta(self, fields: &Fields<'_>) -> Result<RecurrentLayers, ConfigError> {
        let every = fields.optional_size("full_attention_interval")?.unwrap_or(4);
        let key_heads = fields.size("linear_num_key_heads")?;
        let heads = fields.size("linear_num_value_heads")?;
        let key = fields.size("linear_key_head_dim")?;
        let value = fields.size("linear_value_head_dim")?;
        let keys = key_heads.saturating_mul(key).saturating_mul(2);
        let shape = RecurrentShape {
            taps: fields.optional_size("linear_conv_kernel_dim")?.unwrap_or(4),
            channels: keys.saturating_add(heads.saturating_mul(value)),
            kind: StateKind::Delta,
            heads,
            key_heads,
            key,
            value,
            tiled: false,
        };
        let attends = |layer: usize| every > 0 && (layer + 1).is_multiple_of(every);
        let layers = recurrent_layers(fields, attends)?;
        Ok(RecurrentLayers {
            layers,
            beside_attention: false,
            norm: true,
            shape,
            log_decay: true,
            fused_gates: self == Self::Qwen3Next,
        })
    }

    /// The layers of Mamba-2.
    fn mamba2(self, fields: &Fields<'_>) -> Result<RecurrentLayers, ConfigError> {
        let heads = fields.size("mamba_n_heads")?;
        let key_heads = fields.size("mamba_n_groups")?;
        let key = fields.size("mamba_d_state")?;
        let inner = fields.size("mamba_d_ssm")?;
        let shape = RecurrentShape {
            taps: fields.size("mamba_d_conv")?,
            channels: inner.saturating_add(key_heads.saturating_mul(key).saturating_mul(2)),
            kind: StateKind::Mamba2,
            heads,
            key_heads,
            key,
            value: inner.checked_div(heads).unwrap_or(0),
            tiled: false,
        };
        Ok(RecurrentLayers {
            layers: recurrent_layers(fields, |_| false)?,
            beside_attention: self == Self::FalconH1,
            norm: fields.flag("mamba_rms_norm")?.unwrap_or(true),
            shape,
            log_decay: false,
            fused_gates: false,
        })
    }

    /// The mixture of experts of a family that has one.
    fn experts(self, fields: &Fields<'_>) -> Result<Experts, ConfigError> {
        let reason = "every layer after the first dense ones must have experts";
        for field in ["moe_layer_freq", "decoder_sparse_step", "moe_layer_interval"] {
            if let Some(every) = fields.optional_size(field)?.filter(|&every| every != 1) {
                return Err(ConfigError::new(field, every, reason));
            }
        }
        let dense = fields.get("mlp_only_layers");
        if let Some(list) = dense.filter(|list| !list.as_array().is_some_and(Vec::is_empty)) {
            return Err(ConfigError::new("mlp_only_layers", list, reason));
        }
        let text = |field| fields.get(field).and_then(Value::as_str);
        let gating = match text("scoring_func") {
            _ if self == Self::GptOss => Gating::SoftmaxOfChosen,
            None if matches!(
                self,
                Self::Glm4Moe | Self::Mimo2 | Self::Lfm2Moe | Self::NemotronHMoe
            ) =>
            {
                Gating::Sigmoid
            }
            Some("softmax") | None => Gating::Softmax,
            Some("sigmoid") => Gating::Sigmoid,
            Some(other) => {
                let reason = "it must be softmax or sigmoid";
                return Err(ConfigError::new("scoring_func", other, reason));
            }
        };
        let groups = fields.optional_size("n_group")?.filter(|&groups| groups > 1);
        let (groups, selection_bias) = match text("topk_method") {
            None if matches!(self, Self::Glm4Moe | Self::ErnieMoe | Self::Mimo2) => (groups, true),
            None if self == Self::Lfm2Moe => {
                (None, fields.flag("use_expert_bias")?.unwrap_or(true))
            }
            Some("greedy") | None => (None, false),
            // V3 ranks groups by the sum of their two best experts, with a bias that affects only
            // the choice.
            Some("noaux_tc") => (groups, true),
            // DeepSeek-V2 (not V2-Lite) ranks groups by their best expert.
            Some("group_limited_greedy") => (groups, false),
            Some(other) => {
                let reason = "it must be greedy, group_limited_greedy or noaux_tc";
                return Err(ConfigError::new("topk_method", other, reason));
            }
        };
        let intermediate = match fields.optional_size("moe_intermediate_size")? {
            Some(width) => width,
            None => fields.size("intermediate_size")?,
        };
        let any = |names: &[&'static str]| {
            let name = names.iter().find(|name| fields.get(name).is_some());
            *name.unwrap_or(&names[names.len() - 1])
        };
        let shared = any(&["n_shared_experts", "moe_num_shared_experts"]);
        let shared = fields.optional_size(shared)?.unwrap_or(0).saturating_mul(intermediate);
        let usual = matches!(self, Self::Mixtral | Self::ErnieMoe | Self::Gemma4 | Self::Mimo2)
            || self.is_gated_delta()
            || self == Self::Lfm2Moe;
        let normalised = fields.flag("norm_topk_prob")?.unwrap_or(usual);
        let count =
            any(&["n_routed_experts", "num_experts", "moe_num_experts", "num_local_experts"]);
        let dense = any(&["num_dense_layers", "first_k_dense_replace", "moe_layer_start_index"]);
        Ok(Experts {
            count: fields.size(count)?,
            used: fields.size(any(&["moe_k", "top_k_experts", "num_experts_per_tok"]))?,
            intermediate,
            dense_layers: fields.optional_size(dense)?.unwrap_or(0),
            gating,
            normalised: normalised && self != Self::GptOss,
            scale: fields.number("routed_scaling_factor")?.unwrap_or(1.0) as f32,
            groups: match groups {
                Some(groups) => Some((groups, fields.size("topk_group")?)),
                None => None,
            },
            shared_intermediate: fields.optional_size(SHARED_WIDTH)?.unwrap_or(shared),
            latent: fields.optional_size("moe_latent_size")?.unwrap_or(0),
            shared_gate: self.is_gated_delta(),
            bias: self == Self::GptOss,
            selection_bias,
            beside_mlp: self == Self::Gemma4,
        })
    }
}

/// The scales of Granite, if the fields have them.
fn granite(options: &mut BlockOptions, fields: &Fields<'_>) -> Result<(), ConfigError> {
    for (field, scale) in [
        ("embedding_multiplier", &mut options.embedding_scale),
        ("residual_multiplier", &mut options.residual_scale),
        ("logits_scaling", &mut options.logit_divisor),
    ] {
        *scale = fields.float(field)?.unwrap_or(*scale);
    }
    options.attention_scale = fields.float("attention_multiplier")?;
    Ok(())
}

/// For each layer whether it is recurrent: as `layer_types` says, otherwise if it is not one that
/// `attends`.
fn recurrent_layers(
    fields: &Fields<'_>,
    attends: impl Fn(usize) -> bool,
) -> Result<Vec<bool>, ConfigError> {
    if let Some(kinds) = fields.get("layer_types").and_then(Value::as_array) {
        let without = |kind: &Value| matches!(kind.as_str(), Some("full_attention" | "mlp"));
        return Ok(kinds.iter().map(|kind| !without(kind)).collect());
    }
    // The check of the configuration refuses a wrong count later.
    let layers = fields.size("num_hidden_layers")?.min(1 << 12);
    Ok((0..layers).map(|layer| !attends(layer)).collect())
}

/// The gated short convolutions of LFM2.
fn short_convolutions(fields: &Fields<'_>) -> Result<RecurrentLayers, ConfigError> {
    let shape = RecurrentShape {
        taps: fields.optional_size("conv_L_cache")?.unwrap_or(3),
        channels: fields.size("hidden_size")?,
        kind: StateKind::Delta,
        heads: 0,
        key_heads: 0,
        key: 0,
        value: 0,
        tiled: false,
    };
    let attending = fields.get("full_attn_idxs").and_then(Value::as_array);
    let attends = |layer: usize| attending.is_none_or(|list| list.contains(&layer.into()));
    let layers = recurrent_layers(fields, attends)?;
    Ok(RecurrentLayers {
        layers,
        beside_attention: false,
        norm: false,
        shape,
        log_decay: false,
        fused_gates: false,
    })
}

/// Adds the latent attention of DeepSeek V2 and V3.
fn latent(options: &mut BlockOptions, fields: &Fields<'_>) -> Result<(), ConfigError> {
    let latent = LatentAttention {
        q_rank: fields.optional_size("q_lora_rank")?,
        kv_rank: fields.size("kv_lora_rank")?,
        nope_dim: fields.size("qk_nope_head_dim")?,
        rope_dim: fields.size("qk_rope_head_dim")?,
        value_dim: fields.size("v_head_dim")?,
    };
    // YaRN's temperature of all dimensions is in the scale of the scores.
    let scaling = fields.get("rope_parameters").or(fields.get("rope_scaling"));
    let part = |name| scaling.map_or(Ok(None), |scaling| number(scaling, name, "rope_scaling"));
    let all = 0.1 * part("mscale_all_dim")?.unwrap_or(0.0);
    let multiplier = part("yarn_log_multiplier")?.unwrap_or(all);
    let temperature = 1.0 + multiplier * libm::log(part("factor")?.unwrap_or(1.0).max(1.0));
    let width = latent.nope_dim.saturating_add(latent.rope_dim) as f64;
    options.attention_scale = Some((temperature * temperature / width.sqrt()) as f32);
    options.rotary_dim = Some(latent.rope_dim);
    options.latent = Some(latent);
    Ok(())
}
