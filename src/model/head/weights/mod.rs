//! The head's tensors by their published names (method.md, Published files of a head), checked as a
//! whole before any is used. Must never know a backend.

use std::collections::{BTreeMap, HashMap};

use candle_core::{DType, Device, Tensor};
use serde::{Deserialize, Serialize};

use super::{DraftVocabulary, HeadConfig, HeadError};
use crate::model::candle::{BlockWeights, Linear};

/// Where named tensors come from: a safetensors folder, a PyTorch file, the binary itself.
pub trait TensorSource {
    /// All names.
    fn names(&self) -> Vec<String>;
    /// The shape of one, without reading it; `None` if there is no such tensor.
    fn shape(&self, name: &str) -> Option<Vec<usize>>;
    /// One tensor on the CPU, in the precision it is stored in.
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

/// Which fusion a head has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FusionKind {
    /// Dynamic gated fusion (method.md, Draft heads).
    Dgf,
    /// EAGLE's `fc` (method.md, Draft heads).
    Eagle,
}

impl FusionKind {
    /// The fusion of a checkpoint with tensors of these names; `None` if it is no draft head.
    pub fn of<'a>(names: impl Iterator<Item = &'a str>) -> Option<Self> {
        let mut kind = None;
        for name in names {
            match published(name) {
                "W_1" | "W_2" | "W_z" => return Some(Self::Dgf),
                "fc.weight" => kind = Some(Self::Eagle),
                _ => {}
            }
        }
        kind
    }
}

/// How feature and token become the blocks' input.
#[derive(Clone, Debug)]
pub enum FusionWeights {
    /// Plain matrices `[in, out]`: the transpose of a linear layer's weight.
    Dgf {
        /// `[H, H]`, of the feature.
        w_1: Tensor,
        /// `[H, H]`, of the token.
        w_2: Tensor,
        /// `[2H, H]`, of the gate.
        w_z: Tensor,
        /// `[H]`, norm of the token's embedding.
        norm: Tensor,
    },
    /// A linear layer.
    Eagle {
        /// `[H, 2H]`: out × in; embedding first, feature second.
        weight: Tensor,
        /// `[H]`.
        bias: Option<Tensor>,
    },
}

/// All weights of a head, as stored.
#[derive(Clone, Debug)]
pub struct HeadWeights {
    /// Shape and constants.
    pub config: HeadConfig,
    /// Feature and token to block input.
    pub fusion: FusionWeights,
    /// The M blocks.
    pub blocks: Vec<BlockWeights>,
    /// `[V, H]`, if the checkpoint carries its own.
    pub embedding: Option<Tensor>,
    /// The tokens it scores, if not all.
    pub draft_vocab: Option<DraftVocabulary>,
}

impl HeadWeights {
    /// Takes the head's tensors out of `source`. Prefixes that training frameworks leave
    /// (`module.`, `model.`) are stripped.
    ///
    /// # Errors
    /// [`HeadError::Weights`] names every tensor that is missing, unknown or misshapen at once;
    /// [`HeadError::Unreadable`] if one that fits cannot be read.
    pub fn load(config: &HeadConfig, source: &dyn TensorSource) -> Result<Self, HeadError> {
        Loader::checked(config, source)?.load()
    }

    /// Which fusion it has.
    pub fn kind(&self) -> FusionKind {
        match self.fusion {
            FusionWeights::Dgf { .. } => FusionKind::Dgf,
            FusionWeights::Eagle { .. } => FusionKind::Eagle,
        }
    }

    /// A head of the first `blocks` blocks, as an elastic one can be run. Tensors are shared.
    #[must_use]
    pub fn first_blocks(&self, blocks: usize) -> Self {
        let mut first = self.clone();
        first.blocks.truncate(blocks);
        first.config.body.layers = first.blocks.len();
        first
    }

    /// The same head scoring only these tokens of the target. One that was trained with a draft
    /// vocabulary keeps its own.
    #[must_use]
    pub fn scoring(mut self, tokens: DraftVocabulary) -> Self {
        if self.draft_vocab.is_none() && tokens.len() < self.config.body.vocab {
            self.config.draft_vocab = Some(tokens.len());
            self.draft_vocab = Some(tokens);
        }
        self
    }
}

impl FusionWeights {
    /// The same weights on `device` in `dtype`.
    ///
    /// # Errors
    /// If the device has no room or fails.
    pub fn to(&self, device: &Device, dtype: DType) -> candle_core::Result<Self> {
        let put = |tensor: &Tensor| tensor.to_device(device)?.to_dtype(dtype);
        Ok(match self {
            Self::Dgf { w_1, w_2, w_z, norm } => {
                Self::Dgf { w_1: put(w_1)?, w_2: put(w_2)?, w_z: put(w_z)?, norm: put(norm)? }
            }
            Self::Eagle { weight, bias } => {
                Self::Eagle { weight: put(weight)?, bias: bias.as_ref().map(put).transpose()? }
            }
        })
    }
}

const EMBEDDING: &str = "embed_tokens.weight";
const FC_BIAS: &str = "fc.bias";
const D2T: &str = "d2t";

/// The tensors of a head of this shape by their published names (method.md, Published files of a
/// head), without the embedding and the biases of q, k and v, which only some checkpoints have.
pub fn layout(config: &HeadConfig, kind: FusionKind) -> BTreeMap<String, Vec<usize>> {
    let body = &config.body;
    let (h, i) = (body.hidden, body.intermediate);
    let (q, kv) = (body.q_width(), body.kv_width());
    let mut layout = BTreeMap::new();
    let mut put = |name: &str, shape: &[usize]| layout.insert(name.to_owned(), shape.to_vec());
    match kind {
        FusionKind::Dgf => {
            put("W_1", &[h, h]);
            put("W_2", &[h, h]);
            put("W_z", &[2 * h, h]);
            put("input_layernorm.weight", &[h]);
        }
        FusionKind::Eagle => {
            put("fc.weight", &[h, 2 * h]);
            put(FC_BIAS, &[h]);
        }
    }
    for block in 0..body.layers {
        let mut put = |part: &str, shape: &[usize]| put(&format!("layers.{block}.{part}"), shape);
        for (x, width) in [("q", q), ("k", kv), ("v", kv)] {
            put(&format!("self_attn.{x}_proj.weight"), &[width, h]);
        }
        put("self_attn.o_proj.weight", &[h, q]);
        put("mlp.gate_proj.weight", &[i, h]);
        put("mlp.up_proj.weight", &[i, h]);
        put("mlp.down_proj.weight", &[h, i]);
        put("post_attention_layernorm.weight", &[h]);
        if block > 0 {
            put("input_layernorm.weight", &[h]);
        }
    }
    layout
}

/// A source whose names and shapes were found right.
struct Loader<'a> {
    config: &'a HeadConfig,
    source: &'a dyn TensorSource,
    kind: FusionKind,
    /// Published name to the name in the source.
    names: BTreeMap<String, String>,
}

impl<'a> Loader<'a> {
    fn checked(config: &'a HeadConfig, source: &'a dyn TensorSource) -> Result<Self, HeadError> {
        let mut problems = Vec::new();
        let mut names = BTreeMap::new();
        let mut stored = source.names();
        stored.sort();
        for name in stored {
            if let Some(other) = names.insert(published(&name).to_string(), name.clone()) {
                problems.push(format!("`{other}` and `{name}` are the same tensor twice"));
            }
        }
        let Some(kind) = FusionKind::of(names.keys().map(String::as_str)) else {
            problems.push(
                "neither `W_z` (DGF) nor `fc.weight` (EAGLE) is there: this is not a draft head"
                    .into(),
            );
            return Err(HeadError::Weights { problems });
        };
        let mut loader = Self { config, source, kind, names };
        problems.extend(loader.compare());
        if !problems.is_empty() {
            return Err(HeadError::Weights { problems });
        }
        loader.names.retain(|name, _| !is_ignored(name, config));
        Ok(loader)
    }

    /// Every difference between the tensors present and those the config asks for.
    fn compare(&self) -> Vec<String> {
        let layout = self.layout();
        let mut problems = Vec::new();
        for (name, (expected, required)) in &layout {
            let found = self.names.get(name).and_then(|stored| self.source.shape(stored));
            match found {
                None if *required => {
                    problems.push(format!("`{name}` {expected:?} is missing"));
                }
                Some(found) if found != *expected => {
                    problems.push(format!("`{name}` is {found:?}, expected {expected:?}"));
                }
                _ => {}
            }
        }
        for (name, stored) in &self.names {
            if !layout.contains_key(name) && !is_ignored(name, self.config) {
                let shape = self.source.shape(stored).unwrap_or_default();
                problems.push(format!("`{stored}` {shape:?} is unknown"));
            }
        }
        problems
    }

    /// Name to shape, and whether it must be there.
    fn layout(&self) -> BTreeMap<String, (Vec<usize>, bool)> {
        let body = &self.config.body;
        let needed = layout(self.config, self.kind).into_iter();
        let mut layout: BTreeMap<_, _> = needed
            .map(|(name, shape)| {
                let required = name != FC_BIAS;
                (name, (shape, required))
            })
            .collect();
        layout.insert(EMBEDDING.into(), (vec![body.vocab, body.hidden], false));
        if let Some(count) = self.config.draft_vocab {
            layout.insert(D2T.into(), (vec![count], true));
        }
        // A head has the biases of q, k and v in every block or in none.
        let biases = (0..body.layers).flat_map(|block| {
            [("q", body.q_width()), ("k", body.kv_width()), ("v", body.kv_width())]
                .map(|(x, width)| (bias_name(block, x), (vec![width], true)))
        });
        let biases: Vec<_> = biases.collect();
        if biases.iter().any(|(name, _)| self.names.contains_key(name)) {
            layout.extend(biases);
        }
        layout
    }

    fn load(&self) -> Result<HeadWeights, HeadError> {
        let fusion = match self.kind {
            FusionKind::Dgf => FusionWeights::Dgf {
                w_1: self.take("W_1")?,
                w_2: self.take("W_2")?,
                w_z: self.take("W_z")?,
                norm: self.take("input_layernorm.weight")?,
            },
            FusionKind::Eagle => FusionWeights::Eagle {
                weight: self.take("fc.weight")?,
                bias: self.take_optional(FC_BIAS)?,
            },
        };
        let blocks = (0..self.config.blocks()).map(|block| self.block(block));
        Ok(HeadWeights {
            config: self.config.clone(),
            fusion,
            blocks: blocks.collect::<Result<_, _>>()?,
            embedding: self.take_optional(EMBEDDING)?,
            draft_vocab: self.config.draft_vocab.map(|_| self.draft_vocab()).transpose()?,
        })
    }

    fn draft_vocab(&self) -> Result<DraftVocabulary, HeadError> {
        let offsets = self.take(D2T)?.to_dtype(DType::I64)?.to_vec1::<i64>()?;
        DraftVocabulary::from_offsets(&offsets, self.config.body.vocab)
            .map_err(|problem| HeadError::Weights { problems: vec![problem] })
    }

    fn block(&self, block: usize) -> Result<BlockWeights, HeadError> {
        let at = format!("layers.{block}");
        let linear = |x: &str| -> Result<Linear, HeadError> {
            Ok(Linear {
                weight: self.take(&format!("{at}.self_attn.{x}_proj.weight"))?,
                bias: self.take_optional(&bias_name(block, x))?,
            })
        };
        Ok(BlockWeights {
            input_norm: self.take_optional(&format!("{at}.input_layernorm.weight"))?,
            q: linear("q")?,
            k: linear("k")?,
            v: linear("v")?,
            o: self.take(&format!("{at}.self_attn.o_proj.weight"))?,
            post_norm: self.take(&format!("{at}.post_attention_layernorm.weight"))?,
            gate: self.take(&format!("{at}.mlp.gate_proj.weight"))?,
            up: self.take(&format!("{at}.mlp.up_proj.weight"))?,
            down: self.take(&format!("{at}.mlp.down_proj.weight"))?,
        })
    }

    fn take(&self, name: &str) -> Result<Tensor, HeadError> {
        let stored = self.names.get(name).map_or(name, String::as_str);
        self.source.tensor(stored).map_err(|error| HeadError::Unreadable {
            name: stored.into(),
            reason: error.to_string(),
        })
    }

    fn take_optional(&self, name: &str) -> Result<Option<Tensor>, HeadError> {
        self.names.contains_key(name).then(|| self.take(name)).transpose()
    }
}

fn bias_name(block: usize, projection: &str) -> String {
    format!("layers.{block}.self_attn.{projection}_proj.bias")
}

/// The published name behind what a training framework wrote.
fn published(name: &str) -> &str {
    let mut name = name;
    while let Some(rest) = name.strip_prefix("module.").or(name.strip_prefix("model.")) {
        name = rest;
    }
    name
}

/// Tensors that checkpoints carry and a head has no use for: the target's head is used, the rotary
/// frequencies are computed, `t2d` says what `d2t` says, and that says nothing of a head that
/// scores every token.
fn is_ignored(name: &str, config: &HeadConfig) -> bool {
    match name {
        "lm_head.weight" | "t2d" => true,
        D2T => config.draft_vocab.is_none(),
        _ => name.ends_with("rotary_emb.inv_freq"),
    }
}

#[cfg(test)]
mod tests;
