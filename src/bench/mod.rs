//! Measurements and their tables. It must not depend on widgets.

use crate::kernels::OutOfMemory;
use crate::library::LibraryError;
use crate::model::{LoadError, TargetError};

pub(crate) mod paper;
pub mod pass;
pub(crate) mod prompts;
pub mod quality;
pub(crate) mod strategies;
pub(crate) mod sweep;
mod table;

pub use table::{Table, TableStyle};

/// A chart to draw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chart {
    /// The name of its file.
    pub name: String,
    /// Its SVG text.
    pub svg: String,
}

impl Chart {
    /// The file's name gets its ending here.
    fn new(name: String, svg: Option<String>) -> Option<Self> {
        svg.map(|svg| Self { name: name + ".svg", svg })
    }
}

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
