//! A buffer on the device, counted from its creation to its end. It must not depend on what it
//! holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A buffer on a device. Its memory is returned when it is dropped.
pub(in crate::model) struct GpuBuffer {
    raw: wgpu::Buffer,
    bytes: u64,
    held: Arc<AtomicU64>,
}

impl GpuBuffer {
    pub(super) fn new(raw: wgpu::Buffer, bytes: u64, held: Arc<AtomicU64>) -> Self {
        held.fetch_add(bytes, Ordering::Relaxed);
        Self { raw, bytes, held }
    }

    /// Its size.
    pub(in crate::model) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn raw(&self) -> &wgpu::Buffer {
        &self.raw
    }
}

impl Drop for GpuBuffer {
    fn drop(&mut self) {
        // Destroyed at once, although bind groups may still refer to it: they are never used again.
        self.raw.destroy();
        self.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
