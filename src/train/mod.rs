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
mod error;
mod example;
mod export;
mod files;
mod loss;
mod net;
pub mod ngrams;
mod ops;
mod optimiser;
mod options;
pub mod render;
pub mod run;
pub mod shards;
mod sharegpt;
mod softmax;
mod trainer;

use error::Result;

pub use batch::{Batch, FeatureNoise};
pub use checkpoint::TrainPosition;
pub use draft_vocab::{DraftVocabSize, draft_vocabulary};
pub use error::TrainError;
pub use example::{Columns, Example, Examples};
pub use export::{head_config, head_json};
pub use loss::{Estimate, LossComputer, LossOutput, Measure};
pub use net::{DraftNet, Past};
pub use optimiser::{AdamW, Moments, rate};
pub use options::{Betas, Elastic, FirstWeights, Length, MaskRule, Options, TrainPrecision, Used};
pub use trainer::{StepReport, Trainer};
