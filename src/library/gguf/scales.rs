//! Scales of whole tensors, as in NVFP4 files: next to `blk.0.attn_q.weight` there is
//! `blk.0.attn_q.scale` with one number, or one for each expert, by which the product is
//! multiplied. It must not depend on what a tensor is for.

use std::collections::BTreeMap;

use super::file::TensorEntry;
use super::names::{Named, ROUTER_SCALE};
use crate::kernels::Format;
use crate::library::blob::Blob;
use crate::library::{LibraryError, Result};

const ENDING: &str = ".scale";

/// Scales that are being assigned to the names that the model requests.
pub(super) struct Scales {
    /// By the names of the file's tensors to which they belong, without `.weight`.
    open: BTreeMap<String, Vec<f32>>,
    placed: BTreeMap<String, f32>,
}

impl Scales {
    /// Extracts the scales from a file's tensors.
    pub(super) fn take(
        tensors: &mut BTreeMap<String, TensorEntry>,
        blobs: &[Blob],
    ) -> Result<Self> {
        let mut open = BTreeMap::new();
        let all = std::mem::take(tensors).into_iter();
        let (found, others): (BTreeMap<_, _>, _) =
            all.partition(|(name, _)| name.ends_with(ENDING) && !name.ends_with(ROUTER_SCALE));
        *tensors = others;
        for (name, entry) in found {
            let blob = &blobs[entry.file];
            let wrong = |problem: String| {
                LibraryError::damaged(blob.name(), format!("tensor `{name}`"), problem)
            };
            if entry.format != Format::F32 {
                return Err(wrong(format!("scales must be F32, not {}", entry.format)));
            }
            let words = blob[entry.range.clone()].as_chunks().0.iter();
            let numbers: Vec<f32> = words.map(|&word| f32::from_le_bytes(word)).collect();
            if numbers.is_empty() || !numbers.iter().all(|scale| scale.is_finite()) {
                return Err(wrong("scales must be finite numbers".to_owned()));
            }
            let of = name.strip_suffix(ENDING).unwrap_or(&name);
            open.insert(of.to_owned(), numbers);
        }
        Ok(Self { open, placed: BTreeMap::new() })
    }

    /// Assigns the scales of tensor `name` to its parts: one scale to all, or one to each.
    pub(super) fn place(&mut self, name: &str, parts: &[Named], blob: &Blob) -> Result<()> {
        let Some(of) = name.strip_suffix(".weight") else { return Ok(()) };
        let Some(scales) = self.open.remove(of) else { return Ok(()) };
        if scales.len() != 1 && scales.len() != parts.len() {
            let problem = format!("{} scales for {} matrices", scales.len(), parts.len());
            let place = format!("tensor `{of}{ENDING}`");
            return Err(LibraryError::damaged(blob.name(), place, problem));
        }
        let each = parts.iter().zip(scales.iter().cycle());
        self.placed.extend(each.map(|((part, _), scale)| (part.clone(), *scale)));
        Ok(())
    }

    /// All scales, if none is left over: an ignored scale would change every answer.
    pub(super) fn finish(self, blob: &Blob) -> Result<BTreeMap<String, f32>> {
        match self.open.into_keys().next() {
            Some(of) => Err(LibraryError::damaged(
                blob.name(),
                format!("tensor `{of}{ENDING}`"),
                format!("its tensor `{of}.weight` is missing"),
            )),
            None => Ok(self.placed),
        }
    }
}
