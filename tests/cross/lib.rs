//! The program's kernels, and nothing else of it.

#[path = "../../src/kernels/mod.rs"]
pub mod kernels;
