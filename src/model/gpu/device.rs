//! One open device: its queue, its pipelines, transfers in both directions, the bytes held there,
//! and whether it still answers. It must not depend on what is computed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::time::Duration;

use wgpu::{BufferUsages, PollType};

use super::buffer::GpuBuffer;
use super::error::GpuError;
use super::kernels::{self, Kernels};
use super::traffic::{Traffic, TrafficMeter};
use crate::hardware::{GpuAdapter, ready};

/// How many bytes of weights may wait in main memory for their transfer.
const UNSENT: u64 = 64 << 20;

/// The limits within which we use a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuLimits {
    /// The most bytes that we hold there.
    pub room: u64,
    /// The most bytes in one buffer, if that is less than the device supports.
    pub binding: u64,
    /// How long a pass may take before the device counts as hanging.
    pub patience: Duration,
}

impl Default for GpuLimits {
    fn default() -> Self {
        Self { room: u64::MAX, binding: u64::MAX, patience: Duration::from_secs(20) }
    }
}

/// An open device, shared by everything that is stored on it.
pub struct Gpu {
    name: String,
    pub(super) device: wgpu::Device,
    queue: wgpu::Queue,
    pub(super) kernels: Kernels,
    pub(super) limits: GpuLimits,
    /// The most workgroups in one dimension.
    pub(super) most_groups: u32,
    held: Arc<AtomicU64>,
    traffic: TrafficMeter,
    unsent: AtomicU64,
    /// Why it can no longer be used.
    failure: Arc<OnceLock<GpuError>>,
    /// Buffers from which results are read, reused by the next pass: one, or two if the following
    /// work is submitted before they are read.
    landings: Mutex<Vec<GpuBuffer>>,
}

/// Submitted work whose results are to be read.
pub(super) struct Reading {
    submission: wgpu::SubmissionIndex,
    landing: GpuBuffer,
    bytes: u64,
    mapped: mpsc::Receiver<Result<(), wgpu::BufferAsyncError>>,
}

impl Reading {
    /// A handle to wait for.
    pub(super) fn submission(&self) -> wgpu::SubmissionIndex {
        self.submission.clone()
    }
}

impl Gpu {
    /// Opens the device.
    ///
    /// # Errors
    /// [`GpuError`] if it cannot be opened or does not support what every kernel needs.
    pub fn open(adapter: &GpuAdapter, given: GpuLimits) -> Result<Arc<Self>, GpuError> {
        let name = adapter.info.name.clone();
        let raw = &adapter.raw;
        let limits = raw.limits();
        let lacks = |what: String| Err(GpuError(format!("{name} does not support {what}")));
        if !raw.features().contains(wgpu::Features::IMMEDIATES) {
            return lacks("immediate data (push constants)".to_owned());
        }
        for (what, has, needs) in [
            ("bytes of immediate data", limits.max_immediate_size, kernels::IMMEDIATE_BYTES),
            ("threads per workgroup", limits.max_compute_invocations_per_workgroup, 256),
            ("buffers per shader", limits.max_storage_buffers_per_shader_stage, 6),
        ] {
            if has < needs {
                return lacks(format!("{needs} {what} (only {has})"));
            }
        }
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("dovetail"),
            required_features: wgpu::Features::IMMEDIATES,
            required_limits: limits.clone(),
            memory_hints: wgpu::MemoryHints::MemoryUsage,
            ..Default::default()
        };
        let (device, queue) = ready(raw.request_device(&descriptor))
            .map_err(|error| GpuError(format!("cannot open {name}: {error}")))?;
        let failure = Arc::new(OnceLock::new());
        let lost = Arc::clone(&failure);
        device.set_device_lost_callback(move |reason, message| {
            let told = if message.is_empty() { format!("{reason:?}") } else { message };
            let _ = lost.set(lost_by(&told));
        });
        // Without our own handler the library would panic.
        let failed = Arc::clone(&failure);
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            tracing::error!("GPU: {error}");
            let told = error.to_string();
            let words: Vec<&str> = told.split_whitespace().collect();
            let _ = failed.set(lost_by(&words.join(" ")));
        }));
        Ok(Arc::new(Self {
            name,
            device,
            queue,
            kernels: Kernels::default(),
            most_groups: limits.max_compute_workgroups_per_dimension,
            limits: GpuLimits {
                binding: given
                    .binding
                    .min(limits.max_storage_buffer_binding_size)
                    .min(limits.max_buffer_size),
                ..given
            },
            held: Arc::default(),
            traffic: TrafficMeter::default(),
            unsent: AtomicU64::new(0),
            failure,
            landings: Mutex::default(),
        }))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes that we hold there: every buffer is counted when it is created and when it is
    /// released.
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// What was sent to it and back so far; the counters continue.
    pub fn traffic_meter(&self) -> TrafficMeter {
        self.traffic.clone()
    }

    /// Whether it can still be used.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn check(&self) -> Result<(), GpuError> {
        self.failure.get().cloned().map_or(Ok(()), Err)
    }

    /// Takes the device away, as if a card had been unplugged or reset: every later pass fails. For
    /// tests of what happens then.
    pub fn destroy(&self) {
        self.device.destroy();
    }

    /// A buffer of at least `bytes` zeros that kernels can bind.
    ///
    /// # Errors
    /// [`GpuError`] if the device is full or lost, or allows no buffer of this size.
    pub(in crate::model) fn buffer(&self, bytes: u64) -> Result<GpuBuffer, GpuError> {
        let usage = BufferUsages::STORAGE | BufferUsages::COPY_DST | BufferUsages::COPY_SRC;
        self.allocate(bytes, usage)
    }

    /// A buffer that holds `data`.
    ///
    /// # Errors
    /// As for [`Self::buffer`].
    pub(in crate::model) fn filled(&self, data: &[f32]) -> Result<GpuBuffer, GpuError> {
        let buffer = self.buffer(4 * data.len() as u64)?;
        self.write(&buffer, 0, &bytes_of(data));
        Ok(buffer)
    }

    fn allocate(&self, bytes: u64, usage: BufferUsages) -> Result<GpuBuffer, GpuError> {
        self.check()?;
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        let bytes = bytes.next_multiple_of(16).max(16);
        if bytes > self.limits.binding {
            let most = self.limits.binding >> 20;
            let asked = mib(bytes);
            return Err(GpuError(format!(
                "the GPU allows buffers of at most {most} MiB, not {asked} MiB; use a shorter \
                 context"
            )));
        }
        let full = || {
            let held = mib(self.held());
            let asked = mib(bytes);
            GpuError(format!(
                "the GPU's memory is full: cannot allocate {asked} MiB in addition to {held} MiB"
            ))
        };
        if self.held().saturating_add(bytes) > self.limits.room {
            return Err(full());
        }
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let raw = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: bytes,
            usage,
            mapped_at_creation: false,
        });
        match ready(scope.pop()) {
            Some(_) => Err(full()),
            None => Ok(GpuBuffer::new(raw, bytes, Arc::clone(&self.held))),
        }
    }

    /// Checks that the device would hold this many more bytes.
    ///
    /// # Errors
    /// As for [`Self::buffer`] if not.
    pub(super) fn check_room(&self, bytes: u64) -> Result<(), GpuError> {
        let most = (self.limits.binding / 16 * 16).max(16);
        let mut taken = Vec::new();
        let mut left = bytes;
        while left > 0 {
            let buffer = self.buffer(left.min(most))?;
            left = left.saturating_sub(buffer.bytes());
            taken.push(buffer);
        }
        Ok(())
    }

    /// Sends `data` to `buffer`, from byte `at` on; it arrives before the next submission.
    pub(in crate::model) fn write(&self, buffer: &GpuBuffer, at: u64, data: &[u8]) {
        if !data.is_empty() && self.check().is_ok() {
            self.queue.write_buffer(buffer.raw(), at, data);
            self.traffic.add(Traffic { up: data.len() as u64, ..Traffic::default() });
        }
    }

    /// [`Self::write`] for weights during loading, which are sent before too many of them wait in
    /// main memory. They do not count as traffic of a pass.
    pub(super) fn write_weights(&self, buffer: &GpuBuffer, at: u64, data: &[u8]) {
        if data.is_empty() || self.check().is_err() {
            return;
        }
        self.queue.write_buffer(buffer.raw(), at, data);
        let unsent = self.unsent.fetch_add(data.len() as u64, Ordering::Relaxed);
        if unsent + data.len() as u64 > UNSENT {
            self.unsent.store(0, Ordering::Relaxed);
            let sent = self.queue.submit([]);
            let _ = self.wait(sent);
        }
    }

    /// Submits recorded work; returns a handle to wait for.
    ///
    /// # Errors
    /// [`GpuError`] if the device is lost.
    pub(super) fn submit(
        &self,
        work: wgpu::CommandBuffer,
    ) -> Result<wgpu::SubmissionIndex, GpuError> {
        self.check()?;
        let submission = self.queue.submit([work]);
        self.traffic.add(Traffic { submissions: 1, ..Traffic::default() });
        self.check()?;
        Ok(submission)
    }

    /// Submits recorded work, the last of which copies `bytes` to a buffer of [`Self::landing`],
    /// from which [`Self::read`] reads them.
    ///
    /// # Errors
    /// [`GpuError`] if the device is already lost.
    pub(super) fn submit_to_read(
        &self,
        work: wgpu::CommandBuffer,
        landing: GpuBuffer,
        bytes: u64,
    ) -> Result<Reading, GpuError> {
        let submission = self.submit(work)?;
        let (answer, mapped) = mpsc::channel();
        let slice = landing.raw().slice(..bytes);
        slice.map_async(wgpu::MapMode::Read, move |result| _ = answer.send(result));
        Ok(Reading { submission, landing, bytes, mapped })
    }

    /// Waits for submitted work and returns the bytes that it produced.
    ///
    /// # Errors
    /// [`GpuError`] if the device is lost or hangs.
    pub(super) fn read(&self, reading: Reading) -> Result<Vec<u8>, GpuError> {
        let Reading { submission, landing, bytes, mapped } = reading;
        let slice = landing.raw().slice(..bytes);
        self.wait(submission)?;
        // Another thread that waits for its own work may be the one that gets the callback.
        match mapped.recv_timeout(self.limits.patience) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(self.fail(lost_by(&error))),
            Err(_) => return Err(self.fail(self.hangs())),
        }
        let view = slice.get_mapped_range();
        let view = view.map_err(|error| self.fail(lost_by(&error)))?;
        let data = view.to_vec();
        drop(view);
        landing.raw().unmap();
        self.traffic.add(Traffic { down: bytes, ..Traffic::default() });
        self.check()?;
        self.landings.lock().unwrap_or_else(PoisonError::into_inner).push(landing);
        Ok(data)
    }

    /// A buffer that results are read from, of at least `bytes`.
    pub(super) fn landing(&self, bytes: u64) -> Result<GpuBuffer, GpuError> {
        let kept = self.landings.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match kept {
            Some(buffer) if buffer.bytes() >= bytes => Ok(buffer),
            _ => {
                let room = bytes.next_power_of_two();
                self.allocate(room, BufferUsages::MAP_READ | BufferUsages::COPY_DST)
            }
        }
    }

    /// Waits until submitted work is done.
    ///
    /// # Errors
    /// [`GpuError`] if the device is lost or hangs.
    pub(super) fn wait(&self, submission: wgpu::SubmissionIndex) -> Result<(), GpuError> {
        let timeout = Some(self.limits.patience);
        let poll = PollType::Wait { submission_index: Some(submission), timeout };
        let polled = self.device.poll(poll);
        self.check()?;
        match polled {
            Ok(_) => Ok(()),
            Err(wgpu::PollError::Timeout) => Err(self.fail(self.hangs())),
            Err(error) => Err(self.fail(lost_by(&error))),
        }
    }

    fn hangs(&self) -> GpuError {
        let seconds = self.limits.patience.as_secs();
        GpuError(format!("the GPU has not responded for {seconds} s"))
    }

    /// Notes that the device can no longer be used; returns the first such reason.
    fn fail(&self, error: GpuError) -> GpuError {
        self.failure.get_or_init(|| error).clone()
    }
}

impl std::fmt::Debug for Gpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Gpu({}, {} bytes)", self.name, self.held())
    }
}

/// The device was removed, reset or destroyed, or its driver failed.
fn lost_by(reason: &dyn std::fmt::Display) -> GpuError {
    GpuError(format!("the GPU was lost ({reason})"))
}

/// Floats in the device's byte order.
pub(in crate::model) fn bytes_of(data: &[f32]) -> Vec<u8> {
    data.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// 32-bit words in the device's byte order.
pub(in crate::model) fn bytes_of_words(data: &[u32]) -> Vec<u8> {
    data.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// Bytes from the device, as floats.
pub(in crate::model) fn floats_of(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|&word| f32::from_le_bytes(word)).collect()
}
