//! From metadata to the transformer's numbers.

use super::file::File;
use super::names::ROPE_FACTORS;
use crate::kernels::Format;
use crate::library::LibraryError;
use crate::model::{Config, ConfigError, RopeLayout, RopeScaling};

/// The architectures whose blocks we run. Mistral's files say `llama`.
const ARCHITECTURES: [&str; 3] = ["llama", "qwen2", "qwen3"];

/// The configuration of a file.
pub(super) fn config(file: &File) -> Result<Config, LibraryError> {
    let unsupported = |what: &str, found: String, remedy: &str| LibraryError::Unsupported {
        origin: file.name().to_owned(),
        what: what.to_owned(),
        found,
        remedy: remedy.to_owned(),
    };
    let architecture = file.text("general.architecture")?.unwrap_or("absent");
    if !ARCHITECTURES.contains(&architecture) {
        return Err(unsupported(
            "general.architecture",
            format!("`{architecture}`"),
            "take a model of architecture llama (Mistral included), qwen2 or qwen3",
        ));
    }
    let fields = Fields { file, architecture };
    if let Some(experts) = fields.optional("expert_count")?.filter(|&n| n > 0) {
        return Err(unsupported("expert_count", experts.to_string(), "take a dense model"));
    }
    let (heads, hidden) = (fields.size("attention.head_count")?, fields.size("embedding_length")?);
    let head_dim = match fields.optional("attention.key_length")? {
        Some(width) => width,
        None => hidden.checked_div(heads).unwrap_or_default(),
    };
    for key in ["attention.value_length", "rope.dimension_count"] {
        if let Some(width) = fields.optional(key)?.filter(|&width| width != head_dim) {
            let remedy = format!("it must be the width of a head, {head_dim}");
            return Err(unsupported(&fields.key(key), width.to_string(), &remedy));
        }
    }
    let positions = fields.size("context_length")?;
    let window = fields.optional("attention.sliding_window")?.filter(|&window| window > 0);
    let has = |name: &str| file.tensors().contains_key(name);
    let config = Config {
        vocab: rows(file, "token_embd.weight")?,
        hidden,
        intermediate: fields.size("feed_forward_length")?,
        layers: fields.size("block_count")?,
        heads,
        kv_heads: fields.optional("attention.head_count_kv")?.unwrap_or(heads),
        head_dim,
        rms_eps: fields.float("attention.layer_norm_rms_epsilon")?.unwrap_or(1e-5) as f32,
        rope_theta: fields.float("rope.freq_base")?.unwrap_or(10_000.0),
        rope_scaling: fields.rope_scaling()?,
        rope_layout: match architecture {
            "llama" => RopeLayout::Interleaved,
            _ => RopeLayout::Halves,
        },
        qkv_bias: has("blk.0.attn_q.bias"),
        o_bias: has("blk.0.attn_output.bias"),
        qk_norm: has("blk.0.attn_q_norm.weight"),
        tied_head: !has("output.weight"),
        max_positions: window.map_or(positions, |window| positions.min(window)),
    };
    config
        .checked()
        .map_err(|source| LibraryError::Config { origin: file.name().to_owned(), source })
}

fn rows(file: &File, tensor: &str) -> Result<usize, LibraryError> {
    let missing = || LibraryError::damaged(file.name(), format!("tensor `{tensor}`"), "missing");
    file.tensors().get(tensor).and_then(|entry| entry.shape.first()).copied().ok_or_else(missing)
}

struct Fields<'a> {
    file: &'a File,
    architecture: &'a str,
}

impl Fields<'_> {
    fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture)
    }

    fn optional(&self, key: &str) -> Result<Option<usize>, LibraryError> {
        let value = self.file.number(&self.key(key))?;
        // What does not fit is refused by the check of the configuration.
        Ok(value.map(|value| usize::try_from(value).unwrap_or(usize::MAX)))
    }

    fn size(&self, key: &str) -> Result<usize, LibraryError> {
        self.optional(key)?.ok_or_else(|| {
            LibraryError::damaged(
                self.file.name(),
                format!("metadata `{}`", self.key(key)),
                "missing",
            )
        })
    }

    fn float(&self, key: &str) -> Result<Option<f64>, LibraryError> {
        self.file.float(&self.key(key))
    }

    fn rope_scaling(&self) -> Result<RopeScaling, LibraryError> {
        if let Some(factors) = self.rope_factors()? {
            return Ok(RopeScaling::Factors(factors));
        }
        let factor = match self.float("rope.scaling.factor")? {
            Some(factor) => Some(factor),
            None => self.float("rope.scale_linear")?,
        };
        let kind = self.file.text(&self.key("rope.scaling.type"))?;
        match (kind, factor) {
            (Some("none"), _) | (_, None) => Ok(RopeScaling::None),
            (None | Some("linear"), Some(factor)) if factor == 1.0 || factor == 0.0 => {
                Ok(RopeScaling::None)
            }
            (None | Some("linear"), Some(factor)) => Ok(RopeScaling::Linear { factor }),
            (Some(other), Some(_)) => Err(LibraryError::Config {
                origin: self.file.name().to_owned(),
                source: ConfigError {
                    field: "rope.scaling.type",
                    value: other.to_owned(),
                    reason: "only linear scaling and Llama 3's factors are supported".to_owned(),
                },
            }),
        }
    }

    fn rope_factors(&self) -> Result<Option<Vec<f32>>, LibraryError> {
        let Some(entry) = self.file.tensors().get(ROPE_FACTORS) else { return Ok(None) };
        if entry.format != Format::F32 {
            let problem = format!("it is {}, not F32", entry.format);
            let place = format!("tensor `{ROPE_FACTORS}`");
            return Err(LibraryError::damaged(self.file.name(), place, problem));
        }
        let words = self.file.blob()[entry.range.clone()].as_chunks().0;
        Ok(Some(words.iter().map(|&word| f32::from_le_bytes(word)).collect()))
    }
}
