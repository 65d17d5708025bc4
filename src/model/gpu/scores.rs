//! The LM head on the device: logits of rows of the stream, or for a draft only the likeliest
//! tokens with their log-probabilities. It must not depend on trees.

use std::sync::Arc;

use super::block::GpuBlocks;
use super::buffer::GpuBuffer;
use super::device::{Gpu, floats_of};
use super::error::GpuError;
use super::kernels::Shader;
use super::maker::{GpuNorm, GpuProduct, StepMaker};
use super::matrix::GpuMatrix;
use super::step::{At, PassRecorder, ShaderStep, Workgroups};
use crate::model::cpu::layer::NormWeights;
use crate::speculate::Ranking;

/// The most candidates per row that are found on the device.
const MOST_RANKED: usize = 256;
/// The token written where a row has no more candidates.
const NONE: u32 = u32::MAX;

/// An LM head as it is loaded.
pub(in crate::model) struct LmHead<'a> {
    pub(in crate::model) matrix: GpuMatrix,
    /// The norm of what it reads, if that is the stream itself.
    pub(in crate::model) norm: Option<&'a NormWeights>,
    pub(in crate::model) bias: Option<&'a [f32]>,
}

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
    /// Reads the stream of `blocks`, with at most `rows` rows.
    ///
    /// # Errors
    /// [`GpuError`] if the device is full or lost.
    pub(in crate::model) fn new(
        blocks: &GpuBlocks,
        head: LmHead<'_>,
        rows: usize,
    ) -> Result<Self, GpuError> {
        let LmHead { matrix, norm, bias } = head;
        let gpu = Arc::clone(&blocks.gpu);
        let vocab = matrix.outputs;
        let logits = gpu.buffer(4 * (rows * vocab) as u64)?;
        let ranked = gpu.buffer(8 * (rows * MOST_RANKED.min(vocab)) as u64)?;
        let mut maker = StepMaker::new(&gpu, blocks.config.rms_eps);
        let mut input = &blocks.buffers.stream;
        if let Some(norm) = norm {
            maker.norm(GpuNorm::of(norm, input, &blocks.buffers.branch))?;
            input = &blocks.buffers.branch;
        }
        let norms = maker.steps.len();
        maker.product(GpuProduct { bias, ..GpuProduct::new(&matrix, input, &logits) })?;
        let StepMaker { steps, vectors: kept, .. } = maker;
        Ok(Self { gpu, matrix, logits, ranked, steps, norms, kept })
    }

    /// How many numbers a row of logits has.
    pub(in crate::model) fn vocab(&self) -> usize {
        self.matrix.outputs
    }

    /// The logits, `[rows, V]`.
    pub(in crate::model) fn logits(&self) -> &GpuBuffer {
        &self.logits
    }

    /// Records the norms of the first rows of the stream, which the branch then holds.
    pub(in crate::model) fn record_norm(&self, recorder: &mut PassRecorder<'_>, rows: usize) {
        recorder.run_all(&self.steps[..self.norms], At::rows(rows));
    }

    /// Records the logits of the first rows, whose norms the branch holds.
    pub(in crate::model) fn record_product(&self, recorder: &mut PassRecorder<'_>, rows: usize) {
        recorder.run_all(&self.steps[self.norms..], At::rows(rows));
    }

    /// Records the logits of the first `rows` rows of the stream and submits what was recorded;
    /// returns the rows' candidates; logit i is that of `token(i)`.
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
        let width = ranking.width().min(vocab);
        self.record_norm(&mut recorder, rows);
        self.record_product(&mut recorder, rows);
        if ranking.is_coupled() || width > MOST_RANKED || width == 0 {
            let read = recorder.submit_and_read(&[(&self.logits, 0, rows * vocab)])?;
            let logits = floats_of(&read);
            let rank = |row: &[f32]| ranking.candidates_among(row, &token);
            return Ok(logits.chunks_exact(vocab).map(rank).collect());
        }
        let words = [vocab as u32, width as u32];
        let buffers = [&self.logits, &self.ranked];
        let step = ShaderStep::new(&self.gpu, Shader::Rank, &buffers, 0, &words, Workgroups::Row);
        recorder.run(&step, At::rows(rows));
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
