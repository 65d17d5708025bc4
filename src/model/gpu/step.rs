//! A kernel with its buffers, made once and run in many passes, and the recording of a pass, which
//! is one submission. It must not depend on what a pass computes.

use super::buffer::GpuBuffer;
use super::device::{Gpu, Reading};
use super::error::GpuError;
use super::kernels::{Pipeline, Shader, WORDS};

/// How many rows of a product one workgroup computes.
const PRODUCT_ROWS: u32 = 8;

/// What differs from pass to pass.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::model) struct At {
    /// Rows of the pass.
    pub(in crate::model) rows: u32,
    /// Cache slot of the first row.
    pub(in crate::model) base: u32,
    /// Committed positions.
    pub(in crate::model) stable: u32,
}

impl At {
    /// For steps that read only the number of rows.
    pub(in crate::model) fn rows(rows: usize) -> Self {
        Self { rows: rows as u32, ..Self::default() }
    }
}

/// How many workgroups a step has.
#[derive(Clone, Copy, Debug)]
pub(in crate::model) enum Workgroups {
    /// This many for each row.
    ForRow(u32),
    /// This many for every eight rows.
    ForEight(u32),
    /// One for each row, along x.
    Row,
    /// This many, however many rows there are.
    Fixed(u32),
}

/// A kernel with its buffers and the numbers that do not change.
pub(in crate::model) struct ShaderStep {
    pipeline: wgpu::ComputePipeline,
    bind: wgpu::BindGroup,
    flags: u32,
    words: Vec<u32>,
    grid: Workgroups,
}

impl ShaderStep {
    /// A step on `buffers`, in the order of the kernel's bindings; `words` are the kernel's own
    /// numbers.
    pub(in crate::model) fn new(
        gpu: &Gpu,
        kernel: Shader,
        buffers: &[&GpuBuffer],
        flags: u32,
        words: &[u32],
        grid: Workgroups,
    ) -> Self {
        let entries: Vec<wgpu::BindGroupEntry<'_>> = (0u32..)
            .zip(buffers)
            .map(|(binding, buffer)| wgpu::BindGroupEntry {
                binding,
                resource: buffer.raw().as_entire_binding(),
            })
            .collect();
        let Pipeline { raw: pipeline, layout } = gpu.kernels.get(&gpu.device, kernel);
        let bind = gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &layout,
            entries: &entries,
        });
        Self { pipeline, bind, flags, words: words.to_vec(), grid }
    }
}

/// Records the work of a submission, or of several submissions one after the other.
pub(in crate::model) struct PassRecorder<'a> {
    gpu: &'a Gpu,
    encoder: wgpu::CommandEncoder,
    pass: Option<wgpu::ComputePass<'static>>,
}

impl<'a> PassRecorder<'a> {
    pub(in crate::model) fn new(gpu: &'a Gpu) -> Self {
        let encoder = gpu.device.create_command_encoder(&Default::default());
        Self { gpu, encoder, pass: None }
    }

    /// Runs a step after everything that has been recorded.
    pub(in crate::model) fn run(&mut self, step: &ShaderStep, at: At) {
        let grid = match step.grid {
            Workgroups::ForRow(x) => (x, at.rows),
            Workgroups::ForEight(x) => (x, at.rows.div_ceil(PRODUCT_ROWS)),
            Workgroups::Row => (at.rows, 1),
            Workgroups::Fixed(x) => (x, 1),
        };
        if grid.0 == 0 || grid.1 == 0 {
            return;
        }
        let pass = self.pass.get_or_insert_with(|| {
            self.encoder.begin_compute_pass(&Default::default()).forget_lifetime()
        });
        let mut words = [0u32; WORDS];
        words[..4].copy_from_slice(&[at.rows, at.base, at.stable, step.flags]);
        words[4..4 + step.words.len()].copy_from_slice(&step.words);
        let bytes = words.map(u32::to_le_bytes);
        pass.set_pipeline(&step.pipeline);
        pass.set_bind_group(0, &step.bind, &[]);
        pass.set_immediates(0, bytes.as_flattened());
        pass.dispatch_workgroups(grid.0, grid.1, 1);
    }

    /// Runs steps one after the other.
    pub(in crate::model) fn run_all<'s>(
        &mut self,
        steps: impl IntoIterator<Item = &'s ShaderStep>,
        at: At,
    ) {
        for step in steps.into_iter() {
            self.run(step, at);
        }
    }

    /// Copies `floats` floats, from the `from_at`-th of a buffer to the `to_at`-th of another.
    pub(in crate::model) fn copy(
        &mut self,
        from: &GpuBuffer,
        from_at: usize,
        to: &GpuBuffer,
        to_at: usize,
        floats: usize,
    ) {
        self.pass = None;
        let [from_at, to_at, bytes] = [from_at, to_at, floats].map(|floats| 4 * floats as u64);
        self.encoder.copy_buffer_to_buffer(from.raw(), from_at, to.raw(), to_at, bytes);
    }

    /// Submits what has been recorded so far and continues recording after it; returns a handle to
    /// wait for.
    ///
    /// # Errors
    /// [`GpuError`] if the device is lost.
    pub(in crate::model) fn submit_so_far(&mut self) -> Result<wgpu::SubmissionIndex, GpuError> {
        self.pass = None;
        let next = self.gpu.device.create_command_encoder(&Default::default());
        let recorded = std::mem::replace(&mut self.encoder, next);
        self.gpu.submit(recorded.finish())
    }

    /// Submits what was recorded, waits for it and reads these parts of buffers, one after the
    /// other: (buffer, first word, words).
    ///
    /// # Errors
    /// [`GpuError`] if the device is lost, full or hangs.
    pub(in crate::model) fn submit_and_read(
        self,
        parts: &[(&GpuBuffer, usize, usize)],
    ) -> Result<Vec<u8>, GpuError> {
        let gpu = self.gpu;
        gpu.read(self.submit_to_read(parts)?)
    }

    /// As [`Self::submit_and_read`], but the results are read later.
    ///
    /// # Errors
    /// [`GpuError`] if the device is lost or full.
    pub(super) fn submit_to_read(
        mut self,
        parts: &[(&GpuBuffer, usize, usize)],
    ) -> Result<Reading, GpuError> {
        let bytes: u64 = parts.iter().map(|part| 4 * part.2 as u64).sum();
        let landing = self.gpu.landing(bytes)?;
        let mut to = 0;
        for &(buffer, first, words) in parts {
            self.copy(buffer, first, &landing, to, words);
            to += words;
        }
        self.gpu.submit_to_read(self.encoder.finish(), landing, bytes)
    }
}
