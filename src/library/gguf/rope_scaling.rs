//! The scaling of rotary positions, from a file's metadata and its tensors of divisors. It must not
//! depend on how the rotation is computed.

use super::fields::ArchitectureFields;
use super::file::GgufFile;
use crate::kernels::Format;
use crate::library::LibraryError;
use crate::model::RopeScaling;

/// Divisors of the rotary frequencies (Llama 3).
pub(super) const ROPE_FACTORS: &str = "rope_freqs.weight";
/// Divisors for long contexts (Phi-3).
pub(super) const ROPE_FACTORS_LONG: &str = "rope_factors_long.weight";
/// Divisors for short contexts (Phi-3).
pub(super) const ROPE_FACTORS_SHORT: &str = "rope_factors_short.weight";

/// The scaling of a file's rotary positions. For latent attention, YaRN's temperature is in the
/// scale of its scores and not here.
pub(super) fn rope_scaling(
    fields: &ArchitectureFields<'_>,
    latent: bool,
) -> Result<RopeScaling, LibraryError> {
    if let Some(factors) = divisors(fields.file, ROPE_FACTORS)? {
        return Ok(RopeScaling::Factors(factors));
    }
    let original = fields.optional("rope.scaling.original_context_length")?;
    if let (Some(long), Some(short)) =
        (divisors(fields.file, ROPE_FACTORS_LONG)?, divisors(fields.file, ROPE_FACTORS_SHORT)?)
    {
        return Ok(RopeScaling::Long {
            short,
            long,
            original_positions: original.unwrap_or(4096),
            attention_factor: fields.float("rope.scaling.attn_factor")?.unwrap_or(1.0),
        });
    }
    let factor = match fields.float("rope.scaling.factor")? {
        Some(factor) => Some(factor),
        None => fields.float("rope.scale_linear")?,
    };
    let kind = fields.file.text(&fields.key("rope.scaling.type"))?;
    match (kind, factor) {
        (Some("none"), _) | (_, None) => Ok(RopeScaling::None),
        (_, Some(factor)) if factor == 1.0 || factor == 0.0 => Ok(RopeScaling::None),
        (None | Some("linear"), Some(factor)) => Ok(RopeScaling::Linear { factor }),
        (Some("yarn"), Some(factor)) => Ok(RopeScaling::Yarn {
            factor,
            original_positions: match original {
                Some(positions) => positions,
                None => fields.size("context_length")?,
            },
            beta_fast: 32.0,
            beta_slow: 1.0,
            attention_factor: if latent { 1.0 } else { 1.0 + 0.1 * libm::log(factor) },
            whole_pairs: true,
        }),
        (Some(other), Some(_)) => Err(fields.wrong(
            "rope.scaling.type",
            other,
            "the supported types are linear, yarn, longrope and Llama 3's factors",
        )),
    }
}

fn divisors(file: &GgufFile, name: &str) -> Result<Option<Vec<f32>>, LibraryError> {
    let Some(entry) = file.tensors().get(name) else { return Ok(None) };
    if entry.format != Format::F32 {
        let problem = format!("it is {} instead of F32", entry.format);
        let place = format!("tensor `{name}`");
        return Err(LibraryError::damaged(file.name(), place, problem));
    }
    let words = file.bytes(entry).as_chunks().0;
    Ok(Some(words.iter().map(|&word| f32::from_le_bytes(word)).collect()))
}
