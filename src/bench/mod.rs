//! Measurements and their tables. It must not depend on widgets.

mod error;
pub(crate) mod paper;
pub mod pass;
pub(crate) mod prompts;
pub mod quality;
pub(crate) mod strategies;
pub(crate) mod sweep;
mod table;
mod targets;

pub use error::MeasureError;
pub use table::{Table, TableStyle};
pub use targets::{load_cpu, random_cpu};

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
