//! The tests under `tests/decode` on recorded models.

#[path = "../decode/lossless.rs"]
mod lossless;
