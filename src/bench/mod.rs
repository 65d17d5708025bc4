//! Measurements and their tables. Must never know widgets.

pub mod verify;
