//! The head's tensors by their published names (method.md, Published files of a head), checked as a
//! whole before any is used. It must not depend on where they come from or on a backend.

mod layout;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use candle_core::{DType, Tensor};

use super::kind::{FusionKind, published};
use super::{DraftVocabulary, HeadConfig, HeadError, HeadKind};
use crate::kernels::Format;
use crate::model::{RawTensor, WeightSource};
use layout::{D2T, QK, T2D, bias_name, expected, is_ignored, qk_norm_name};

pub use layout::layout;
pub(super) use layout::{
    EMBEDDING, FC, FC_BIAS, JOINED_TAP_NORM, LM_HEAD, NORM, block_name, tap_norm,
};

/// Where named tensors come from: a safetensors folder, a PyTorch file, the binary itself.
pub trait TensorSource {
    /// All names.
    fn names(&self) -> Vec<String>;
    /// The shape of a tensor, without reading it; `None` if there is no such tensor.
    fn shape(&self, name: &str) -> Option<Vec<usize>>;
    /// A tensor on the CPU, in the precision in which it is stored. Matrices in Q4_1 are their
    /// blocks' bytes, `[rows, bytes]`.
    ///
    /// # Errors
    /// If it cannot be read.
    fn tensor(&self, name: &str) -> candle_core::Result<Tensor>;
}

impl TensorSource for HashMap<String, Tensor> {
    fn names(&self) -> Vec<String> {
        self.keys().cloned().collect()
    }

    fn shape(&self, name: &str) -> Option<Vec<usize>> {
        self.get(name).map(|tensor| tensor.dims().to_vec())
    }

    fn tensor(&self, name: &str) -> candle_core::Result<Tensor> {
        self.get(name)
            .cloned()
            .ok_or_else(|| candle_core::Error::CannotFindTensor { path: name.into() }.bt())
    }
}

/// The block of an EAGLE-3 head by its authors' name, and by the name in speculators.
const MIDLAYER: &str = "midlayer.";
const BLOCK_0: &str = "layers.0.";

const NO_HEAD: &str = "this is not a draft head: it has no `W_z` (DGF) and no `fc.weight` (EAGLE)";
const GATED_TAPS: &str = "it has `W_z` (DGF) and `fc.weight` (EAGLE); a head that gates the states \
    of several layers is not supported: train one of the kind dgf or eagle3";

/// All weights of a head, as stored. The matrices of dynamic gated fusion are `[in, out]`, the
/// transpose of a linear layer's weight; all others are `[out, in]`.
#[derive(Clone, Debug)]
pub struct HeadWeights {
    /// Shape and constants.
    pub config: HeadConfig,
    /// By the names that [`layout`] gives them.
    tensors: BTreeMap<String, Tensor>,
    /// The scored tokens, if not all.
    pub draft_vocab: Option<DraftVocabulary>,
}

impl HeadWeights {
    /// Reads the head's tensors from `source`; those of a head in its target's file and of an
    /// assistant are read when it is packed. Prefixes left by training frameworks (`module.`,
    /// `model.`) are stripped.
    ///
    /// # Errors
    /// [`HeadError::Weights`] names at once every tensor that is missing, unknown or misshapen;
    /// [`HeadError::Unreadable`] if one that fits cannot be read.
    pub fn load(config: &HeadConfig, source: &dyn TensorSource) -> Result<Self, HeadError> {
        if config.kind.format().is_some() {
            let config = config.clone();
            return Ok(Self { config, tensors: BTreeMap::new(), draft_vocab: None });
        }
        let names = checked(config, source)?;
        let read = |(name, stored): (String, String)| match source.tensor(&stored) {
            Ok(tensor) => Ok((name, tensor)),
            Err(error) => Err(HeadError::Unreadable { name: stored, reason: error.to_string() }),
        };
        let mut tensors: BTreeMap<_, _> = names.into_iter().map(read).collect::<Result<_, _>>()?;
        let d2t = tensors.remove(D2T);
        let t2d = tensors.remove(T2D);
        let vocab = config.body.vocab;
        let draft_vocab = d2t.map(|d2t| draft_vocabulary(&d2t, t2d.as_ref(), vocab)).transpose()?;
        let mut config = config.clone();
        let block = block_name(&config.kind, 0);
        config.body.qk_norm = tensors.contains_key(&qk_norm_name(&block, QK[0]));
        config.body.qkv_bias = tensors.contains_key(&bias_name(&block, QK[0]));
        Ok(Self { config, tensors, draft_vocab })
    }

    /// The tensor with this name, if the head has one.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(name)
    }

    /// A tensor that every head of this kind has.
    pub(super) fn tensor(&self, name: &str) -> Result<&Tensor, HeadError> {
        let missing = || HeadError::Weights { problems: vec![format!("`{name}` is missing")] };
        self.get(name).ok_or_else(missing)
    }

    /// A head with only the first `blocks` blocks, as an elastic head can be run. Tensors are
    /// shared.
    #[must_use]
    pub(crate) fn first_blocks(&self, blocks: usize) -> Self {
        let mut first = self.clone();
        first.config.body.layers = blocks.min(self.config.blocks());
        for block in first.config.blocks()..self.config.blocks() {
            let at = format!("{}.", block_name(&self.config.kind, block));
            first.tensors.retain(|name, _| !name.starts_with(&at));
        }
        first
    }

    /// The same head, but it scores only these tokens of the target. A head that was trained with a
    /// draft vocabulary keeps its own.
    ///
    /// # Errors
    /// If its own LM head cannot be read.
    pub fn scoring(mut self, tokens: DraftVocabulary) -> candle_core::Result<Self> {
        if self.draft_vocab.is_none() && tokens.len() < self.config.body.vocab {
            if let Some(lm_head) = self.tensors.get_mut(LM_HEAD) {
                let scored = Tensor::new(tokens.tokens(), lm_head.device())?;
                *lm_head = lm_head.index_select(&scored, 0)?;
            }
            self.config.draft_vocab = Some(tokens.len());
            self.draft_vocab = Some(tokens);
        }
        Ok(self)
    }
}

/// The matrices are those of linear layers, `[out, in]`.
impl WeightSource for HeadWeights {
    fn describe(&self) -> String {
        "the draft head".to_owned()
    }

    fn tensor(&self, name: &str) -> Option<RawTensor<'_>> {
        let mut stored = self.get(name)?.clone();
        if name.starts_with("W_") {
            stored = stored.t().ok()?;
        }
        let mut shape = stored.dims().to_vec();
        let format = stored_as(stored.dtype());
        match format {
            Format::Q4_1 => {
                let columns = shape.last_mut()?;
                *columns = *columns / format.block_bytes() * format.block();
            }
            Format::F32 => stored = stored.to_dtype(DType::F32).ok()?,
            _ => {}
        }
        let mut bytes = Vec::new();
        stored.write_bytes(&mut bytes).ok()?;
        Some(RawTensor { format, shape, bytes: Cow::Owned(bytes) })
    }
}

/// The format of a [`TensorSource`]'s tensor of this type.
pub(crate) fn stored_as(dtype: DType) -> Format {
    match dtype {
        DType::U8 => Format::Q4_1,
        DType::F16 => Format::F16,
        DType::BF16 => Format::BF16,
        _ => Format::F32,
    }
}

/// Checks the names and shapes of all tensors. Returns for each published name the name in the
/// source.
fn checked(
    config: &HeadConfig,
    source: &dyn TensorSource,
) -> Result<BTreeMap<String, String>, HeadError> {
    let mut problems = Vec::new();
    let mut names = BTreeMap::new();
    let mut stored = source.names();
    stored.sort();
    let is_head = FusionKind::of(stored.iter().map(String::as_str)).is_some();
    for name in stored {
        if let Some(other) = names.insert(canonical(&name, &config.kind), name.clone()) {
            problems.push(format!("`{other}` and `{name}` are the same tensor"));
        }
    }
    if !is_head {
        let gated = names.contains_key("W_z");
        problems.push(if gated { GATED_TAPS } else { NO_HEAD }.to_owned());
        return Err(HeadError::Weights { problems });
    }
    let layout = expected(config, |name| names.contains_key(name));
    let told = |name: &str| {
        let speculators = names.values().any(|stored| published(stored).starts_with(BLOCK_0));
        match name.strip_prefix(MIDLAYER) {
            Some(part) if speculators => format!("{BLOCK_0}{part}"),
            _ => name.to_owned(),
        }
    };
    for (name, (expected, required)) in &layout {
        match names.get(name).and_then(|stored| source.shape(stored)) {
            None if *required => {
                problems.push(format!("`{}` {expected:?} is missing", told(name)));
            }
            Some(found) if found != *expected => {
                problems.push(format!("`{}` is {found:?}, expected {expected:?}", told(name)));
            }
            _ => {}
        }
    }
    for (name, stored) in &names {
        if !layout.contains_key(name) && !is_ignored(name, config) {
            let shape = source.shape(stored).unwrap_or_default();
            problems.push(format!("`{stored}` {shape:?} is not a tensor of a draft head"));
        }
    }
    if !problems.is_empty() {
        return Err(HeadError::Weights { problems });
    }
    names.retain(|name, _| !is_ignored(name, config));
    Ok(names)
}

/// The name that we use for a tensor.
fn canonical(name: &str, kind: &HeadKind) -> String {
    let name = published(name);
    match name.strip_prefix(BLOCK_0) {
        Some(part) if kind.eagle3().is_some() => format!("{MIDLAYER}{part}"),
        _ => name.to_owned(),
    }
}

fn draft_vocabulary(
    d2t: &Tensor,
    t2d: Option<&Tensor>,
    vocab: usize,
) -> Result<DraftVocabulary, HeadError> {
    let offsets = d2t.to_dtype(DType::I64)?.to_vec1::<i64>()?;
    let wrong = |problem| HeadError::Weights { problems: vec![problem] };
    let tokens = DraftVocabulary::from_offsets(&offsets, vocab).map_err(wrong)?;
    let Some(t2d) = t2d else { return Ok(tokens) };
    let scored = t2d.to_dtype(DType::U8)?.to_vec1::<u8>()?;
    match (0u32..).zip(scored).find(|&(token, scored)| (scored != 0) != tokens.contains(token)) {
        None => Ok(tokens),
        Some((token, _)) => {
            Err(wrong(format!("`d2t` and `t2d` disagree on whether the head scores token {token}")))
        }
    }
}

#[cfg(test)]
mod tests;
