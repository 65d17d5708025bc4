//! The LM head on the device: logits of rows of the stream, or for a draft only the likeliest
//! tokens with their log-probabilities. It must not depend on trees.

use std::sync::Arc;

use super::block::GpuBlocks;
use super::buffer::GpuBuffer;
use super::device::{Gpu, floats_of};
use super::error::GpuError;
use super::kernels::Shader;
use super::matrix::{GpuMatrix, GpuProduct};
use super::norm::{NormColumns, norm_step};
use super::step::{At, PassRecorder, ShaderStep, Workgroups};
use crate::speculate::Ranking;

/// The most candidates per row that are found on the device.
const MOST_RANKED: usize = 256;
/// The token written where a row has no more candidates.
const NONE: u32 = u32::MAX;

/// An LM head with its buffers.
pub(in crate::model) struct Scores {
    gpu: Arc<Gpu>,
    matrix: GpuMatrix,
    /// `[rows, V]`.
    logits: GpuBuffer,
    /// `[rows, most ranked]` of (token, log-probability).
    ranked: GpuBuffer,
    steps: Vec<ShaderStep>,
    /// How many steps come before the product: a norm or nothing.
    norms: usize,
    kept: Vec<GpuBuffer>,
}

impl Scores {
    /// Reads the stream of `blocks`, normed if a weight and an epsilon are given, with at most
    /// `rows` rows.
    ///
    /// # Errors
    /// [`GpuError`] if the device is full or lost.
    pub(in crate::model) fn new(
        blocks: &GpuBlocks,
        matrix: GpuMatrix,
        norm: Option<(&GpuBuffer, f32)>,
        rows: usize,
    ) -> Result<Self, GpuError> {
        let gpu = Arc::clone(blocks.gpu());
        let vocab = matrix.outputs();
        let hidden = matrix.inputs();
        let logits = gpu.buffer(4 * (rows * vocab) as u64)?;
        let ranked = gpu.buffer(8 * (rows * MOST_RANKED.min(vocab)) as u64)?;
        let mut steps = Vec::new();
        let mut kept = Vec::new();
        let mut input = blocks.stream();
        if let Some((weight, eps)) = norm {
            let columns = NormColumns { width: hidden, segments: 1, into: (0, hidden) };
            steps.push(norm_step(&gpu, weight, eps, input, blocks.branch(), columns, None));
            input = blocks.branch();
        }
        let norms = steps.len();
        steps.extend(GpuProduct::new(&matrix, input, &logits).steps(&gpu, &mut kept)?);
        Ok(Self { gpu, matrix, logits, ranked, steps, norms, kept })
    }

    /// How many numbers a row of logits has.
    pub(in crate::model) fn vocab(&self) -> usize {
        self.matrix.outputs()
    }

    /// The logits, `[rows, V]`.
    pub(in crate::model) fn logits(&self) -> &GpuBuffer {
        &self.logits
    }

    /// Records the logits of the first rows of the stream.
    pub(in crate::model) fn record(&self, recorder: &mut PassRecorder<'_>, rows: usize) {
        let at = At { rows: rows as u32, ..At::default() };
        recorder.run_all(&self.steps, at);
    }

    /// Records the norms of the first rows of the stream, which the branch then holds.
    pub(in crate::model) fn record_norm(&self, recorder: &mut PassRecorder<'_>, rows: usize) {
        let at = At { rows: rows as u32, ..At::default() };
        recorder.run_all(&self.steps[..self.norms], at);
    }

    /// Records the logits of the first rows whose norms the branch holds.
    pub(in crate::model) fn record_product(&self, recorder: &mut PassRecorder<'_>, rows: usize) {
        let at = At { rows: rows as u32, ..At::default() };
        recorder.run_all(&self.steps[self.norms..], at);
    }

    /// Submits what was recorded and ranks the rows' candidates; logit i is that of `token(i)`.
    /// Coupled ranking may prefer any token, so it reads whole rows.
    ///
    /// # Errors
    /// [`GpuError`] if the device is lost or hangs.
    pub(in crate::model) fn rank(
        &self,
        mut recorder: PassRecorder<'_>,
        rows: usize,
        ranking: &Ranking,
        token: impl Fn(u32) -> u32,
    ) -> Result<Vec<Vec<(u32, f32)>>, GpuError> {
        let vocab = self.vocab();
        let width = ranking.width().min(self.vocab());
        if ranking.is_coupled() || width > MOST_RANKED || width == 0 {
            let read = recorder.submit_and_read(&[(&self.logits, 0, rows * vocab)])?;
            let logits = floats_of(&read);
            let rank = |row: &[f32]| ranking.candidates_among(row, &token);
            return Ok(logits.chunks_exact(vocab).map(rank).collect());
        }
        let words = [vocab as u32, width as u32];
        let buffers = [&self.logits, &self.ranked];
        let step = ShaderStep::new(&self.gpu, Shader::Rank, &buffers, 0, &words, Workgroups::Row);
        recorder.run(&step, At { rows: rows as u32, ..At::default() });
        let read = recorder.submit_and_read(&[(&self.ranked, 0, 2 * rows * width)])?;
        let pairs: &[[u8; 8]] = read.as_chunks().0;
        let rank = |row: &[[u8; 8]]| {
            let read = row.iter().map(|&[a, b, c, d, e, f, g, h]| {
                (u32::from_le_bytes([a, b, c, d]), f32::from_le_bytes([e, f, g, h]))
            });
            let found = read.take_while(|&(id, _)| id != NONE);
            found.map(|(id, log_prob)| (token(id), log_prob)).collect()
        };
        Ok(pairs.chunks_exact(width).map(rank).collect())
    }

    /// Bytes of weights and buffers.
    pub(in crate::model) fn bytes(&self) -> u64 {
        let kept: u64 = self.kept.iter().map(GpuBuffer::bytes).sum();
        self.matrix.bytes() + self.logits.bytes() + self.ranked.bytes() + kept
    }
}
