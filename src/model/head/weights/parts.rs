//! The weights of a head, as stored. It must not depend on tensor names or a backend.

use std::collections::HashMap;

use candle_core::Tensor;

use crate::model::head::kind::FusionKind;
use crate::model::head::{DraftVocabulary, HeadConfig, SharedTables, Table};

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

/// How feature and token become the blocks' input: as stored, or with matrices and vectors as a
/// backend holds them.
#[derive(Clone, Debug)]
pub enum FusionWeights<M = Tensor, V = Tensor> {
    /// Dynamic gated fusion. Checkpoints store its matrices as `[in, out]`: the transpose of a
    /// linear layer's weight.
    Dgf {
        /// `[H, H]`, applied to the feature.
        w_1: M,
        /// `[H, H]`, applied to the token.
        w_2: M,
        /// `[2H, H]`, for the gate.
        w_z: M,
        /// `[H]`, the norm of the token's embedding.
        norm: V,
    },
    /// A linear layer.
    Eagle {
        /// `[H, 2H]`: out × in; the embedding comes first, the feature second.
        fc: M,
        /// `[H]`.
        bias: Option<V>,
    },
    /// The fusion of EAGLE-3.
    Eagle3(Box<Eagle3Weights<M, V>>),
}

/// What an EAGLE-3 head has in addition to its block, whose q, k and v read `[.., 2H]`: the token's
/// embedding, then the state.
#[derive(Clone, Debug)]
pub struct Eagle3Weights<M = Tensor, V = Tensor> {
    /// `[H, taps · target's H]`, applied to the tapped states.
    pub fc: M,
    /// `[H]`.
    pub bias: Option<V>,
    /// `[taps · target's H]`: the weight of the norm of the tapped states.
    pub tap_norm: Option<V>,
    /// How many numbers of the tapped states are normed together.
    pub normed_together: usize,
    /// `[H]`, the norm of the token's embedding.
    pub embedding_norm: V,
    /// `[H]`, the norm of the state.
    pub state_norm: V,
    /// `[H]`, the norm of the block's output, before the LM head.
    pub norm: V,
    /// Whether attention adds to the normed state.
    pub norm_before_residual: bool,
    /// Whether the next row reads the normed output.
    pub norm_output: bool,
}

/// A linear layer, weight `[out, in]`.
#[derive(Clone, Debug)]
pub struct Linear {
    /// `[out, in]`.
    pub weight: Tensor,
    /// `[out]`.
    pub bias: Option<Tensor>,
}

/// One decoder block.
#[derive(Clone, Debug)]
pub struct BlockWeights {
    /// `[H]`; missing in block 0.
    pub input_norm: Option<Tensor>,
    /// `[d]` each: the norms of every head of q and of k, before the rotation.
    pub qk_norm: Option<[Tensor; 2]>,
    /// `[heads · d, H]`; the input of attention may be wider than H.
    pub q: Linear,
    /// `[kv_heads · d, H]`.
    pub k: Linear,
    /// `[kv_heads · d, H]`.
    pub v: Linear,
    /// `[H, heads · d]`.
    pub o: Tensor,
    /// `[H]`.
    pub post_norm: Tensor,
    /// `[I, H]`.
    pub gate: Tensor,
    /// `[I, H]`.
    pub up: Tensor,
    /// `[H, I]`.
    pub down: Tensor,
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
            FusionWeights::Dgf { .. } => FusionKind::Dgf,
            FusionWeights::Eagle { .. } => FusionKind::Eagle,
            FusionWeights::Eagle3(_) => FusionKind::Eagle3,
        }
    }

    /// A head with only the first `blocks` blocks, as an elastic head can be run. Tensors are
    /// shared.
    #[must_use]
    pub(crate) fn first_blocks(&self, blocks: usize) -> Self {
        let mut first = self.clone();
        first.blocks.truncate(blocks);
        first.config.body.layers = first.blocks.len();
        first
    }

    /// The LM head that it does not share with the target: its own, or the scored rows of the
    /// target's. `None` if it scores with all of the target's.
    ///
    /// # Errors
    /// If the rows cannot be read.
    pub(in crate::model::head) fn own_lm_head(
        &self,
        shared: &SharedTables,
    ) -> candle_core::Result<Option<Tensor>> {
        match (&self.lm_head, &self.draft_vocab) {
            (Some(own), _) => Ok(Some(own.clone())),
            (None, Some(scored)) => shared.lm_head.rows(scored.tokens()).map(Some),
            (None, None) => Ok(None),
        }
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
