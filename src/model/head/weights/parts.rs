//! The weights of a head, as stored. It must not depend on tensor names or a backend.

use std::collections::HashMap;

use candle_core::{DType, Device, Tensor};

use crate::model::candle::{BlockWeights, Linear, Table};
use crate::model::head::kind::FusionKind;
use crate::model::head::{DraftVocabulary, HeadConfig};

/// Where named tensors come from: a safetensors folder, a PyTorch file, the binary itself.
pub trait TensorSource {
    /// All names.
    fn names(&self) -> Vec<String>;
    /// The shape of a tensor, without reading it; `None` if there is no such tensor.
    fn shape(&self, name: &str) -> Option<Vec<usize>>;
    /// A tensor on the CPU, in the precision in which it is stored.
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

/// How feature and token become the blocks' input.
#[derive(Clone, Debug)]
pub enum FusionWeights {
    /// Plain matrices `[in, out]`: the transpose of a linear layer's weight.
    Dgf {
        /// `[H, H]`, applied to the feature.
        w_1: Tensor,
        /// `[H, H]`, applied to the token.
        w_2: Tensor,
        /// `[2H, H]`, for the gate.
        w_z: Tensor,
        /// `[H]`, the norm of the token's embedding.
        norm: Tensor,
        /// What computes the feature from tapped states; `None` if the head reads the target's
        /// feature.
        tapped: Option<TappedWeights>,
    },
    /// A linear layer.
    Eagle {
        /// `[H, 2H]`: out × in; the embedding comes first, the feature second.
        weight: Tensor,
        /// `[H]`.
        bias: Option<Tensor>,
    },
    /// The fusion of EAGLE-3.
    Eagle3(Box<Eagle3Weights>),
}

/// What a DGF head over tapped states has in addition to its gate and its blocks.
#[derive(Clone, Debug)]
pub struct TappedWeights {
    /// `[H, taps · target's H]`, applied to the tapped states: computes the feature of a true pair.
    pub fc: Tensor,
    /// `[H]`, the norm of the last block's output, before the LM head.
    pub norm: Tensor,
}

/// What an EAGLE-3 head has in addition to its block, whose q, k and v read `[.., 2H]`: the token's
/// embedding, then the state.
#[derive(Clone, Debug)]
pub struct Eagle3Weights {
    /// `[H, taps · target's H]`, applied to the tapped states.
    pub fc: Linear,
    /// `[taps · target's H]`: the weight of the norm of the tapped states.
    pub tap_norm: Option<Tensor>,
    /// `[H]`, the norm of the token's embedding.
    pub embedding_norm: Tensor,
    /// `[H]`, the norm of the state.
    pub state_norm: Tensor,
    /// `[H]`, the norm of the block's output, before the LM head.
    pub norm: Tensor,
}

impl Eagle3Weights {
    /// How many weights it has in all.
    pub fn elements(&self) -> usize {
        let optional = self.fc.bias.iter().chain(&self.tap_norm);
        let all = [&self.fc.weight, &self.embedding_norm, &self.state_norm, &self.norm];
        all.into_iter().chain(optional).map(Tensor::elem_count).sum()
    }
}

/// All weights of a head, as stored.
#[derive(Clone, Debug)]
pub struct HeadWeights {
    /// Shape and constants.
    pub config: HeadConfig,
    /// How feature and token become the block input.
    pub fusion: FusionWeights,
    /// The M blocks.
    pub blocks: Vec<BlockWeights>,
    /// `[V, H]`, if the checkpoint has its own.
    pub embedding: Option<Tensor>,
    /// The scored tokens, if not all.
    pub draft_vocab: Option<DraftVocabulary>,
    /// `[scored, H]`, if it has its own.
    pub lm_head: Option<Tensor>,
}

impl HeadWeights {
    /// Which fusion it has.
    pub fn kind(&self) -> FusionKind {
        match self.fusion {
            FusionWeights::Dgf { tapped: None, .. } => FusionKind::Dgf,
            FusionWeights::Dgf { tapped: Some(_), .. } => FusionKind::Dgf3,
            FusionWeights::Eagle { .. } => FusionKind::Eagle,
            FusionWeights::Eagle3(_) => FusionKind::Eagle3,
        }
    }

    /// A head with only the first `blocks` blocks, as an elastic head can be run. Tensors are
    /// shared.
    #[must_use]
    pub fn first_blocks(&self, blocks: usize) -> Self {
        let mut first = self.clone();
        first.blocks.truncate(blocks);
        first.config.body.layers = first.blocks.len();
        first
    }

    /// The same head, but it scores only these tokens of the target. A head that was trained with a
    /// draft vocabulary keeps its own.
    ///
    /// # Errors
    /// If its own LM head cannot be read.
    pub fn scoring(mut self, tokens: DraftVocabulary) -> candle_core::Result<Self> {
        if self.draft_vocab.is_none() && tokens.len() < self.config.body.vocab {
            if let Some(lm_head) = self.lm_head.take() {
                self.lm_head = Some(Table::Tensor(lm_head).rows(tokens.tokens())?);
            }
            self.config.draft_vocab = Some(tokens.len());
            self.draft_vocab = Some(tokens);
        }
        Ok(self)
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
            Self::Dgf { w_1, w_2, w_z, norm, tapped } => {
                let tapped = tapped.as_ref().map(|own| {
                    Ok::<_, candle_core::Error>(TappedWeights {
                        fc: put(&own.fc)?,
                        norm: put(&own.norm)?,
                    })
                });
                Self::Dgf {
                    w_1: put(w_1)?,
                    w_2: put(w_2)?,
                    w_z: put(w_z)?,
                    norm: put(norm)?,
                    tapped: tapped.transpose()?,
                }
            }
            Self::Eagle { weight, bias } => {
                Self::Eagle { weight: put(weight)?, bias: bias.as_ref().map(put).transpose()? }
            }
            Self::Eagle3(own) => Self::Eagle3(Box::new(Eagle3Weights {
                fc: Linear {
                    weight: put(&own.fc.weight)?,
                    bias: own.fc.bias.as_ref().map(put).transpose()?,
                },
                tap_norm: own.tap_norm.as_ref().map(put).transpose()?,
                embedding_norm: put(&own.embedding_norm)?,
                state_norm: put(&own.state_norm)?,
                norm: put(&own.norm)?,
            })),
        })
    }
}
