//! `tests/support/gpu.rs` for a machine without a GPU.

use std::sync::Arc;

use dovetail::model::head::Gpu;

/// The device that tests share: none.
pub fn gpu() -> Option<Arc<Gpu>> {
    None
}
