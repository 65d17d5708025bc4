//! From metadata to the transformer's numbers.

use super::architectures::{ARCHITECTURES, Architecture};
use super::file::File;
use super::names::{ROPE_FACTORS, ROPE_FACTORS_LONG, ROPE_FACTORS_SHORT};
use crate::kernels::Format;
use crate::library::LibraryError;
use crate::model::{Config, ConfigError, RopeScaling};

/// The configuration of a file and its family.
pub(super) fn config(file: &File) -> Result<(Config, &'static Architecture), LibraryError> {
    let name = file.text("general.architecture")?.unwrap_or("absent");
    let Some(architecture) = Architecture::named(name) else {
        let known: Vec<&str> = ARCHITECTURES.iter().map(|row| row.name).collect();
        return Err(LibraryError::Unsupported {
            origin: file.name().to_owned(),
            what: "general.architecture".to_owned(),
            found: format!("`{name}`"),
            remedy: format!("take a model of one of {}", known.join(", ")),
        });
    };
    let fields = Fields { file, architecture: architecture.name };
    let mut block = architecture.options(&fields)?;
    let (heads, hidden) = (fields.size("attention.head_count")?, fields.size("embedding_length")?);
    let head_dim = match &block.latent {
        Some(latent) => latent.rope_dim.saturating_add(latent.kv_rank),
        None => match fields.optional("attention.key_length")? {
            Some(width) => width,
            None => hidden.checked_div(heads).unwrap_or_default(),
        },
    };
    if block.latent.is_none() {
        fields.expect_head_width("attention.value_length", head_dim)?;
        block.rotary_dim =
            fields.optional("rope.dimension_count")?.filter(|&width| width != head_dim);
    }
    let has = |name: &str| file.tensors().contains_key(name);
    let eps = match fields.float("attention.layer_norm_rms_epsilon")? {
        Some(eps) => Some(eps),
        None => fields.float("attention.layer_norm_epsilon")?,
    };
    let config = Config {
        vocab: rows(file, "token_embd.weight")?,
        hidden,
        intermediate: fields.size("feed_forward_length")?,
        layers: fields.size("block_count")?,
        heads,
        kv_heads: match &block.latent {
            Some(_) => 1,
            None => fields.optional("attention.head_count_kv")?.unwrap_or(heads),
        },
        head_dim,
        rms_eps: eps.unwrap_or(1e-5) as f32,
        rope_theta: fields.float("rope.freq_base")?.unwrap_or(10_000.0),
        rope_scaling: fields.rope_scaling()?,
        rope_layout: architecture.layout,
        qkv_bias: has("blk.0.attn_q.bias") || has("blk.0.attn_qkv.bias"),
        o_bias: has("blk.0.attn_output.bias"),
        qk_norm: has("blk.0.attn_q_norm.weight"),
        tied_head: !has("output.weight"),
        max_positions: fields.size("context_length")?,
        block,
    };
    let checked = config
        .checked()
        .map_err(|source| LibraryError::Config { origin: file.name().to_owned(), source })?;
    Ok((checked, architecture))
}

fn rows(file: &File, tensor: &str) -> Result<usize, LibraryError> {
    let missing = || LibraryError::damaged(file.name(), format!("tensor `{tensor}`"), "missing");
    file.tensors().get(tensor).and_then(|entry| entry.shape.first()).copied().ok_or_else(missing)
}

/// The metadata of one architecture.
pub(super) struct Fields<'a> {
    file: &'a File,
    pub(super) architecture: &'a str,
}

impl Fields<'_> {
    fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture)
    }

    pub(super) fn optional(&self, key: &str) -> Result<Option<usize>, LibraryError> {
        let value = self.file.number(&self.key(key))?;
        // What does not fit is refused by the check of the configuration.
        Ok(value.map(|value| usize::try_from(value).unwrap_or(usize::MAX)))
    }

    pub(super) fn size(&self, key: &str) -> Result<usize, LibraryError> {
        self.optional(key)?.ok_or_else(|| {
            LibraryError::damaged(
                self.file.name(),
                format!("metadata `{}`", self.key(key)),
                "missing",
            )
        })
    }

    pub(super) fn float(&self, key: &str) -> Result<Option<f64>, LibraryError> {
        self.file.float(&self.key(key))
    }

    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, LibraryError> {
        self.file.flag(&self.key(key))
    }

    /// A list of flags; a number is a period of which the last is off.
    pub(super) fn flags(&self, key: &str) -> Result<Option<Vec<bool>>, LibraryError> {
        let key = self.key(key);
        let layers = self.size("block_count")?.min(1 << 12);
        if let Some(period) = self.file.any_number(&key) {
            let period = period.max(1) as usize;
            return Ok(Some((0..layers).map(|layer| layer % period != period - 1).collect()));
        }
        self.file.flag_list(&key)
    }

    /// Whether any block has this tensor.
    pub(super) fn any_tensor(&self, part: &str) -> bool {
        self.file.tensors().keys().any(|name| name.starts_with("blk.") && name.ends_with(part))
    }

    fn expect_head_width(&self, key: &str, head_dim: usize) -> Result<(), LibraryError> {
        match self.optional(key)?.filter(|&width| width != head_dim) {
            None => Ok(()),
            Some(width) => Err(LibraryError::Unsupported {
                origin: self.file.name().to_owned(),
                what: self.key(key),
                found: width.to_string(),
                remedy: format!("it must be the width of a head, {head_dim}"),
            }),
        }
    }

    fn rope_scaling(&self) -> Result<RopeScaling, LibraryError> {
        if let Some(factors) = self.divisors(ROPE_FACTORS)? {
            return Ok(RopeScaling::Factors(factors));
        }
        let original = self.optional("rope.scaling.original_context_length")?;
        if let (Some(long), Some(short)) =
            (self.divisors(ROPE_FACTORS_LONG)?, self.divisors(ROPE_FACTORS_SHORT)?)
        {
            return Ok(RopeScaling::Long {
                short,
                long,
                original_positions: original.unwrap_or(4096),
                attention_factor: self.float("rope.scaling.attn_factor")?.unwrap_or(1.0),
            });
        }
        let factor = match self.float("rope.scaling.factor")? {
            Some(factor) => Some(factor),
            None => self.float("rope.scale_linear")?,
        };
        let kind = self.file.text(&self.key("rope.scaling.type"))?;
        match (kind, factor) {
            (Some("none"), _) | (_, None) => Ok(RopeScaling::None),
            (_, Some(factor)) if factor == 1.0 || factor == 0.0 => Ok(RopeScaling::None),
            (None | Some("linear"), Some(factor)) => Ok(RopeScaling::Linear { factor }),
            (Some("yarn"), Some(factor)) => {
                // Latent attention has the temperature in the scale of its scores.
                let latent = self.architecture == "deepseek2";
                Ok(RopeScaling::Yarn {
                    factor,
                    original_positions: match original {
                        Some(positions) => positions,
                        None => self.size("context_length")?,
                    },
                    beta_fast: 32.0,
                    beta_slow: 1.0,
                    attention_factor: if latent { 1.0 } else { 1.0 + 0.1 * factor.ln() },
                })
            }
            (Some(other), Some(_)) => Err(LibraryError::Config {
                origin: self.file.name().to_owned(),
                source: ConfigError {
                    field: "rope.scaling.type",
                    value: other.to_owned(),
                    reason: "only linear, yarn, longrope and Llama 3's factors are supported"
                        .to_owned(),
                },
            }),
        }
    }

    fn divisors(&self, name: &str) -> Result<Option<Vec<f32>>, LibraryError> {
        let Some(entry) = self.file.tensors().get(name) else { return Ok(None) };
        if entry.format != Format::F32 {
            let problem = format!("it is {}, not F32", entry.format);
            let place = format!("tensor `{name}`");
            return Err(LibraryError::damaged(self.file.name(), place, problem));
        }
        let words = self.file.bytes(entry).as_chunks().0;
        Ok(Some(words.iter().map(|&word| f32::from_le_bytes(word)).collect()))
    }
}
