//! Measurements and their tables. Must never know widgets.

pub mod ablation;
mod error;
pub mod gpu;
pub mod paper;
pub mod prompts;
pub mod quality;
pub mod round;
pub mod strategies;
mod table;
pub mod verify;

pub use error::MeasureError;
pub use table::{Table, TableStyle};
