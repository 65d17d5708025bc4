//! The program's kernels, its models and draft heads on the CPU, drafting and decoding, and what
//! they need; nothing else of the program.
//!
//! Backends that need a library for GPUs are left out, with everything that depends on them.

// What only omitted parts and tests use is unused here.
#![allow(dead_code, unused_imports)]

// The program's integration tests are compiled with the unit tests, so that all of this is compiled
// once.
#[cfg(test)]
extern crate self as dovetail;

#[path = "../../src/caught.rs"]
mod caught;
#[path = "../../src/decode/mod.rs"]
pub mod decode;
#[path = "../../src/draft/mod.rs"]
pub mod draft;
#[path = "../../src/files/mod.rs"]
mod files;
mod hardware;
#[path = "../../src/kernels/mod.rs"]
pub mod kernels;
#[path = "cpu_model.rs"]
pub mod model;
#[path = "../../src/nearest.rs"]
mod nearest;
#[path = "../../src/overlap/mod.rs"]
pub mod overlap;
pub mod plan;
#[path = "../../src/speculate/mod.rs"]
pub mod speculate;
#[cfg(test)]
#[path = "suite.rs"]
mod suite;
#[cfg(test)]
#[path = "support.rs"]
mod support;
