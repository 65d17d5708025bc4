//! candle-transformers' models: the engine for architectures that ours does not know, and another
//! implementation to compare ours with. It must not depend on our kernels.
//!
//! A model of candle's holds its own state and reads a text from left to right, so it cannot verify
//! a tree: such a target decodes plainly, and goes back by starting again.

mod checkpoint;
mod gguf;
mod target;

use std::path::PathBuf;

use candle_core::{DType, Device, Result, Tensor};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::head::TensorSource;

pub use checkpoint::{CANDLE_CHECKPOINTS, CandleRow};
pub use target::CandleTarget;

/// Who computes a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelEngine {
    /// Our kernels and shaders.
    #[default]
    Dovetail,
    /// candle-transformers' model.
    Candle,
}

impl ModelEngine {
    /// The name that people know it by.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dovetail => "Dovetail",
            Self::Candle => "candle-transformers",
        }
    }

    /// Whether it is ours.
    pub fn is_own(&self) -> bool {
        *self == Self::Dovetail
    }
}

/// The files of a model for candle-transformers, which reads them by itself.
pub enum CandleFiles {
    /// A checkpoint: its `config.json` and its tensors by the names in its files.
    Checkpoint {
        /// `config.json`.
        config: Value,
        /// The tensors.
        tensors: Box<dyn TensorSource + Send>,
    },
    /// A GGUF file.
    Gguf(PathBuf),
}

impl CandleFiles {
    /// The model on the CPU, for texts of at most `positions` tokens. The tensors of a checkpoint
    /// are widened to 32 bits.
    ///
    /// # Errors
    /// candle's own, if a tensor is missing or candle-transformers has no such model.
    pub fn load(&self, positions: usize) -> Result<CandleModel> {
        match self {
            Self::Checkpoint { config, tensors } => {
                checkpoint::load(config, tensors.as_ref(), positions)
            }
            Self::Gguf(path) => gguf::load(path),
        }
    }
}

/// A pass over tokens `[1, n]` that begin at a position; position 0 begins another text. The logits
/// after the last token.
type Pass = dyn FnMut(&Tensor, usize) -> Result<Tensor> + Send;

/// One of candle-transformers' models with the text that it has read.
pub struct CandleModel {
    pass: Box<Pass>,
    /// Whether a pass may read several tokens after others.
    extends: bool,
}

impl CandleModel {
    fn new(pass: impl FnMut(&Tensor, usize) -> Result<Tensor> + Send + 'static) -> Self {
        Self { pass: Box::new(pass), extends: true }
    }

    /// From candle's functions of a model: the one that clears its cache, and its pass.
    fn of<M: Send + 'static>(
        mut model: M,
        clear: fn(&mut M),
        forward: fn(&mut M, &Tensor, usize) -> Result<Tensor>,
    ) -> Self {
        Self::new(move |input, position| {
            if position == 0 {
                clear(&mut model);
            }
            forward(&mut model, input, position)
        })
    }

    /// Only the first pass may read several tokens: the others would mask them incorrectly.
    fn stepping(self) -> Self {
        Self { extends: false, ..self }
    }

    /// Reads `tokens` after the `at` tokens that it has read, or a new text if that is 0; the
    /// logits after the last of them.
    ///
    /// # Errors
    /// candle's own.
    pub fn read(&mut self, tokens: &[u32], at: usize) -> Result<Vec<f32>> {
        let rows = if at == 0 || self.extends { tokens.len() } else { 1 };
        let mut logits = Vec::new();
        for (i, part) in tokens.chunks(rows.max(1)).enumerate() {
            let input = Tensor::new(part, &Device::Cpu)?.unsqueeze(0)?;
            let found = (self.pass)(&input, at + i * rows)?;
            logits = found.flatten_all()?.to_dtype(DType::F32)?.to_vec1()?;
        }
        Ok(logits)
    }
}
