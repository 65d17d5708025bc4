//! Why a head cannot be used.

use super::Misfit;
use crate::model::ConfigError;

/// Why a head cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HeadError {
    /// Its `config.json` does not describe a head that we can run.
    #[error("draft head: {0}")]
    Config(#[from] ConfigError),
    /// It was made for another target.
    #[error(transparent)]
    Misfit(#[from] Misfit),
    /// Tensors are missing, unknown or misshapen; all of them are named.
    #[error("the draft head's tensors do not match its config.json:\n  {}", .problems.join("\n  "))]
    Weights {
        /// One line per tensor.
        problems: Vec<String>,
    },
    /// A tensor that should be there could not be read.
    #[error("cannot read tensor `{name}` of the draft head: {reason}; is the file damaged?")]
    Unreadable {
        /// Its name in the file.
        name: String,
        /// What the reader said.
        reason: String,
    },
    /// The device failed or is full.
    #[error("the draft device failed: {0}")]
    Device(String),
}

impl From<candle_core::Error> for HeadError {
    fn from(error: candle_core::Error) -> Self {
        Self::Device(error.to_string())
    }
}
