//! Training a head: its arithmetic, and a complete run.

mod golden;
mod run;
mod tapped;
