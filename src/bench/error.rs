//! Why nothing could be measured. It must not depend on what is measured.

use crate::kernels::OutOfMemory;
use crate::library::LibraryError;
use crate::model::{LoadError, TargetError};

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// An option that cannot be followed.
    #[error("{0}")]
    Options(String),
    /// The model could not be opened.
    #[error(transparent)]
    Open(#[from] LibraryError),
    /// The weights could not be packed.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The machine's roofline could not be measured.
    #[error("cannot measure the machine's roofline: {0}")]
    Roofline(#[from] OutOfMemory),
    /// A pass failed.
    #[error(transparent)]
    Pass(#[from] TargetError),
    /// candle failed.
    #[error("candle: {0}")]
    Candle(#[from] candle_core::Error),
}
