//! The GPU that tests run on: the first one that the machine has, which is a software GPU in most
//! places.

use std::sync::{Arc, OnceLock};

use dovetail::hardware::adapters;
use dovetail::model::{Gpu, GpuLimits};

/// The device that tests share. Without one, it is reported once that these tests are left out.
pub fn gpu() -> Option<Arc<Gpu>> {
    static SHARED: OnceLock<Option<Arc<Gpu>>> = OnceLock::new();
    SHARED.get_or_init(|| another_gpu(GpuLimits::default())).clone()
}

/// A separate device for a test, with its own counters, for example to be destroyed.
pub fn another_gpu(limits: GpuLimits) -> Option<Arc<Gpu>> {
    match adapters().first() {
        Some(adapter) => Some(Gpu::open(adapter, limits).unwrap()),
        None => {
            println!("left out: everything on a GPU, for there is none (mesa-vulkan-drivers)");
            None
        }
    }
}
