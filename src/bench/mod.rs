//! Measurements and their tables. Must never know widgets.

pub mod ablation;
pub mod prompts;
pub mod quality;
pub mod strategies;
mod table;
pub mod verify;

pub use table::{Table, TableStyle};
