//! The trainer of draft heads (method.md, Training a head): losses, data and optimisation. It owns
//! the differentiable head, its losses, the optimiser and the checkpoints. It must not depend on
//! terminals.
//!
//! A head learns from [`Example`]s: tokens and the features that the target computed for them.
//! Batches come from any [`Examples`]: a folder of shards, or a few examples in memory.

mod batch;
pub mod chats;
mod checkpoint;
mod draft_vocab;
mod example;
mod export;
mod loss;
mod net;
pub mod ngrams;
mod ops;
mod optimiser;
mod options;
pub mod render;
mod report;
pub mod run;
pub mod shards;
mod softmax;
mod tensors_file;
mod trainer;

use std::path::PathBuf;

pub use batch::{Batch, FeatureNoise};
pub use checkpoint::TrainPosition;
pub use draft_vocab::{DraftVocabSize, draft_vocabulary};
pub use example::{Columns, Example, Examples};
pub use export::{head_config, head_config_of, head_json};
pub use loss::{Estimate, LossComputer, LossOutput, LossSums};
pub use net::{DraftNet, Past};
pub use optimiser::{AdamW, Moments, rate};
pub use options::{Elastic, FirstWeights, Length, MaskRule, Options, Used};
pub use report::{Measure, StepReport};
pub use trainer::Trainer;

/// Why training cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// An option is outside of its sensible range.
    #[error("training option `{name}` is {value}, but must be {reason}")]
    Option {
        /// Its name, as on the command line.
        name: &'static str,
        /// Its value.
        value: String,
        /// Which values would be right.
        reason: &'static str,
    },
    /// An example cannot be read.
    #[error("training example {index} cannot be used: {reason}")]
    Example {
        /// Its number.
        index: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The examples are not those with which the training began.
    #[error(
        "the training started with {} examples of {} tokens, but now there are {} examples of {} \
         tokens; continue with the same data, or start over with a new --out",
        before.0, before.1, now.0, now.1
    )]
    Changed {
        /// Examples and tokens at the start.
        before: (usize, u64),
        /// Now.
        now: (usize, u64),
    },
    /// The loss became infinite or not a number.
    #[error(
        "the training diverged: the loss of step {step} is not a number; try an --lr below {rate}"
    )]
    Diverged {
        /// The step that failed.
        step: u64,
        /// The peak learning rate.
        rate: f64,
    },
    /// A checkpoint cannot be used.
    #[error("cannot use the checkpoint {}: {reason}; start over without --resume", path.display())]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// File or folder.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Head and target do not fit together, or the weights are not those of a head.
    #[error(transparent)]
    Head(#[from] crate::model::head::HeadError),
    /// The device failed or is full.
    #[error("the training device failed: {0}; a smaller --batch-tokens needs less memory")]
    Device(#[from] candle_core::Error),
}
