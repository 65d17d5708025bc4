//! The decoder-only transformer as functions of tensors: configuration, KV cache, RoPE, tree
//! attention, the target on the CPU, the draft head. Must never know files or chat.

mod config;
pub mod head;
mod hf_config;
mod rope;
mod target;

pub use config::{Config, ConfigError, RopeLayout};
pub use rope::{RopeScaling, Rotations, frequencies};
pub use target::{Target, TargetError, Verified};
