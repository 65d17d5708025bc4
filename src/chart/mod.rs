//! Curves, bars and heat maps as SVG text that reads well on light and on dark paper. It owns
//! colours, ticks and the legend; plotters does the drawing. It must not depend on what is
//! measured.

mod bars;
mod heat;
mod lines;
mod scale;
mod style;

use std::path::Path;

pub use bars::{Bar, Bars};
pub use heat::Heat;
pub use lines::{Lines, Series};

/// Why there is no chart.
#[derive(Debug, thiserror::Error)]
pub enum ChartError {
    /// There is no finite value to draw.
    #[error("the chart \"{0}\" has no values to draw")]
    Empty(String),
    /// The drawing library failed.
    #[error("the chart could not be drawn: {0}")]
    Draw(#[from] plotters::drawing::DrawingAreaErrorKind<std::io::Error>),
    /// The file could not be written.
    #[error("cannot write the chart {path}: {source}")]
    Write {
        /// The file.
        path: String,
        /// The reason.
        source: std::io::Error,
    },
}

/// What an axis shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What is counted, with its unit: `T_V, ms`.
    pub label: String,
    /// Whether equal distances are doublings; values must then be above 0.
    pub doublings: bool,
}

impl Axis {
    /// An axis on which equal distances are equal differences.
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), doublings: false }
    }

    /// An axis on which equal distances are doublings, as for γ from 1 to 64.
    pub fn doublings(label: impl Into<String>) -> Self {
        Self { label: label.into(), doublings: true }
    }
}

impl From<&str> for Axis {
    fn from(label: &str) -> Self {
        Self::linear(label)
    }
}

/// Writes a chart's SVG to a file.
///
/// # Errors
/// [`ChartError::Write`].
pub fn save(svg: &str, path: &Path) -> Result<(), ChartError> {
    std::fs::write(path, svg)
        .map_err(|source| ChartError::Write { path: path.display().to_string(), source })
}
