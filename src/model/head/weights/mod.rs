//! The head's tensors by their published names (method.md, Published files of a head), checked as a
//! whole before any is used. It must not depend on a backend.

mod layout;
mod loader;
mod parts;

pub use layout::layout;
pub use parts::{BlockWeights, Eagle3Weights, FusionWeights, HeadWeights, Linear, TensorSource};

#[cfg(test)]
mod tests;
