//! The decoder-only transformer as functions of tensors: configuration, KV cache, RoPE, tree
//! attention, the target on the CPU, the draft head. Must never know files or chat.

mod target;

pub use target::{Target, TargetError, Verified};
