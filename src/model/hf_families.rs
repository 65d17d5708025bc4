//! The table of architectures, and the plain facts in which families of Hugging Face checkpoints
//! differ. What their blocks do differently is in `hf_options`.

use super::hf_fields::Fields;
use super::{ConfigError, RopeLayout};

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
            "nemotron_h",
            Family::NemotronHMoe,
            Halves,
        ),
    ]
};

impl ArchitectureRow {
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

    /// For a family whose files may hold an MTP head that we run: whether the head reads states of
    /// the stream before the final norm.
    pub(crate) fn mtp_before_norm(self) -> Option<bool> {
        match self {
            Self::Mimo2 => Some(true),
            Self::Glm4Moe => Some(false),
            _ => self.is_gated_delta().then_some(false),
        }
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
}
