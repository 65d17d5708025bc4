//! The experts of gpt-oss as its authors publish them. Each layer has one tensor with all experts'
//! codes in MXFP4 (`…_blocks`), one with their scales (`…_scales`) and one with their biases; the
//! rows of gate and up alternate. Here they are split into the matrices that the model requests,
//! block by block in the order of GGUF. It must never compute a weight.

use std::borrow::Cow;

use super::hf_names::expert_part;
use super::safetensors::Tensors;
use crate::kernels::Format;
use crate::model::{RawTensor, WeightSource};

/// Codes of one block, in bytes.
const CODES: usize = 16;

/// A matrix or a bias of one expert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExpertPart {
    /// The name in the file, without `_blocks`, `_scales` or `_bias`.
    stored: String,
    expert: usize,
    /// The first row and the distance between rows, within the expert's.
    rows: (usize, usize),
    is_bias: bool,
}

impl ExpertPart {
    /// The part that the model requests as `model.layers.3.mlp.experts.5.up_proj.weight`.
    pub(super) fn named(name: &str) -> Option<Self> {
        let (layer, expert, part) = expert_part(name)?;
        let (part, kind) = part.split_once('.')?;
        let (stored, rows) = match part {
            "gate_proj" => ("gate_up_proj", (0, 2)),
            "up_proj" => ("gate_up_proj", (1, 2)),
            "down_proj" => ("down_proj", (0, 1)),
            _ => return None,
        };
        Some(Self {
            stored: format!("{layer}.mlp.experts.{stored}"),
            expert,
            rows,
            is_bias: kind == "bias",
        })
    }

    /// The items of this part among those of its expert.
    fn rows_of<'a, T>(&self, rows: impl Iterator<Item = T> + 'a) -> impl Iterator<Item = T> + 'a {
        rows.skip(self.rows.0).step_by(self.rows.1)
    }
}

/// The tensor of a part; `None` if the file does not have it in the published shape.
pub(super) fn tensor(tensors: &Tensors, part: &ExpertPart) -> Option<RawTensor<'static>> {
    if part.is_bias { bias(tensors, part) } else { matrix(tensors, part) }
}

fn matrix(tensors: &Tensors, part: &ExpertPart) -> Option<RawTensor<'static>> {
    let (shape, codes) = tensors.fp4(&format!("{}_blocks", part.stored))?;
    let (scales_shape, scales) = tensors.fp4(&format!("{}_scales", part.stored))?;
    let &[experts, rows, blocks, CODES] = shape else { return None };
    if scales_shape != [experts, rows, blocks] || part.expert >= experts || blocks == 0 {
        return None;
    }
    let codes = codes.chunks_exact(rows * blocks * CODES).nth(part.expert)?;
    let scales = scales.chunks_exact(rows * blocks).nth(part.expert)?;
    let pairs = codes.chunks_exact(blocks * CODES).zip(scales.chunks_exact(blocks));
    let mut bytes = Vec::with_capacity(codes.len().div_ceil(part.rows.1) / CODES * (CODES + 1));
    let mut count = 0;
    for (codes, scales) in part.rows_of(pairs) {
        for (codes, scale) in codes.as_chunks::<CODES>().0.iter().zip(scales) {
            bytes.push(*scale);
            bytes.extend(halves(codes));
        }
        count += 1;
    }
    let shape = vec![count, blocks * 2 * CODES];
    Some(RawTensor { format: Format::Mxfp4, shape, bytes: Cow::Owned(bytes) })
}

/// Rearranges codes with two neighbours per byte to GGUF's order: byte i holds code i and, above
/// it, code i + 16.
fn halves(codes: &[u8; CODES]) -> [u8; CODES] {
    let code = |i: usize| codes[i / 2] >> (4 * (i % 2)) & 15;
    std::array::from_fn(|i| code(i) | code(i + CODES) << 4)
}

fn bias(tensors: &Tensors, part: &ExpertPart) -> Option<RawTensor<'static>> {
    let all = WeightSource::tensor(tensors, &format!("{}_bias", part.stored))?;
    let &[experts, rows] = all.shape.as_slice() else { return None };
    let size = all.bytes.len() / experts.checked_mul(rows).filter(|&all| all > 0)?;
    let own = all.bytes.chunks_exact(rows * size).nth(part.expert)?;
    let bytes: Vec<u8> = part.rows_of(own.chunks_exact(size)).flatten().copied().collect();
    let shape = vec![bytes.len() / size];
    Some(RawTensor { format: all.format, shape, bytes: Cow::Owned(bytes) })
}

/// Releases the memory of an expert's part once nothing else is read there: gate and up are stored
/// together, and up is read second.
pub(super) fn release(tensors: &Tensors, part: &ExpertPart) {
    if !part.is_bias && part.rows != (0, 2) {
        for kind in ["blocks", "scales"] {
            let rows = part.expert..part.expert + 1;
            tensors.release_rows(&format!("{}_{kind}", part.stored), Some(rows));
        }
    }
}
