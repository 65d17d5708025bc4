//! The program's kernels, its models on the CPU and what they need, and nothing else of it.
//!
//! A backend that needs a library for tensors or for GPUs is left out, with what stands on it.

#[path = "../../src/kernels/mod.rs"]
pub mod kernels;
#[path = "cpu_model.rs"]
pub mod model;
#[path = "../../src/speculate/mod.rs"]
pub mod speculate;
