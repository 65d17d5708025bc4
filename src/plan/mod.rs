//! Cost model, first choice of γ and M with its reasons, the live controller.
//! Pure functions; must never know tensors.

mod choice;

pub use choice::{BLOCKS, Choice, DEPTH, DeviceChoice, GAMMA, Limits, Prefer, WIDTH, Wishes};
