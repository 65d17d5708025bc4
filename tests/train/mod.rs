//! Training a head: its arithmetic, and a run as a whole.

mod golden;
mod run;
mod tapped;
