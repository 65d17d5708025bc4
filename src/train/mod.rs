//! The trainer of draft heads (spec §11): what is learnt, from what and how. Owns the differentiable
//! head, its losses, the optimiser and the checkpoints; must never know terminals.
//!
//! A head learns from [`Example`]s: tokens and the features the target gave them. Batches of them
//! come from any [`Examples`], a folder of shards or a few in memory.

mod example;
mod options;
mod report;

pub use example::{Example, Examples};
pub use options::{Elastic, Length, MaskRule, Options, Used};
pub use report::{Measure, StepReport};

/// Why training cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// An option is outside of what makes sense.
    #[error("training option `{name}` is {value}: {reason}")]
    Option {
        /// Its name, as on the command line.
        name: &'static str,
        /// Its value.
        value: String,
        /// What would be right.
        reason: &'static str,
    },
    /// An example cannot be had.
    #[error("training example {index} cannot be used: {reason}")]
    Example {
        /// Its number.
        index: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The device failed or is full.
    #[error("the training device failed: {0}; a smaller --batch-tokens needs less memory")]
    Device(#[from] candle_core::Error),
}
