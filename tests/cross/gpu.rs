//! `tests/support/gpu.rs` where there is none.

use std::sync::Arc;

use dovetail::model::head::Gpu;

/// The device that tests share: none.
pub fn gpu() -> Option<Arc<Gpu>> {
    None
}
