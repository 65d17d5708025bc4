//! A whole model on the device except its embeddings, of which a token needs only one row: blocks,
//! final norm and LM head. A target and a drafting model share it. It must not depend on what a
//! pass is for.

use std::sync::Arc;

use super::block::GpuBlocks;
use super::block_steps::BlockBuffers;
use super::device::{bytes_of, floats_of};
use super::error::GpuError;
use super::layers::{ROWS, STREAMED_ROWS, Tapped, encoder};
use super::places::PassRows;
use super::scores::{LmHead, Scores};
use super::step::PassRecorder;
use crate::kernels::{Format, Matrix, Pool, TreeMask};
use crate::model::head::rows_of;
use crate::model::taps::Taps;
use crate::model::weights::{EMBEDDING, HEAD, HEAD_BIAS, NORM};
use crate::model::{CpuTarget, LoadError, LoadRequest, Target, TargetError, Verified};
use crate::speculate::Tree;

/// A model on a device.
pub(in crate::model) struct GpuModel {
    pub(in crate::model) blocks: GpuBlocks,
    /// How many positions it can be used for; the cache may have more slots after them.
    pub(super) capacity: usize,
    embedding: Arc<Matrix>,
    pool: Arc<Pool>,
    scores: Scores,
    /// The most rows in a pass that computes logits.
    rows: usize,
}

/// The rows for which a pass returns logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Logits {
    /// The last row.
    Last,
    /// Every row.
    All,
}

impl GpuModel {
    /// Adds the embedding, the final norm and the LM head to all blocks of a model.
    ///
    /// # Errors
    /// [`LoadError::Device`] if the device has no room or no kernels for them;
    /// [`LoadError::Weights`].
    pub(in crate::model) fn around(
        blocks: GpuBlocks,
        request: &LoadRequest<'_>,
        embedding: Arc<Matrix>,
    ) -> Result<Self, LoadError> {
        let &LoadRequest { config, source, ref pool, .. } = request;
        let gpu = &Arc::clone(&blocks.gpu);
        let mut packer = encoder(gpu, source, pool);
        let name = if config.tied_head { EMBEDDING } else { HEAD };
        let shape = [config.vocab, config.hidden];
        let matrix = packer.matrix(name, shape, None)?;
        let norm = packer.norm(&config.block, NORM, config.hidden)?;
        let bias = packer.vector_if(config.block.head_bias, HEAD_BIAS, config.vocab)?;
        let head = LmHead { matrix, norm: Some(&norm), bias: bias.as_deref() };
        Ok(Self::new(blocks, head, embedding, request)?)
    }

    /// Blocks with the tables around them.
    pub(super) fn new(
        blocks: GpuBlocks,
        head: LmHead<'_>,
        embedding: Arc<Matrix>,
        request: &LoadRequest<'_>,
    ) -> Result<Self, GpuError> {
        let &LoadRequest { ref pool, capacity, .. } = request;
        let wanted = if blocks.host_bytes() > 0 { STREAMED_ROWS } else { ROWS };
        let fit = blocks.gpu.limits.binding as usize / (4 * head.matrix.outputs) / ROWS * ROWS;
        let rows = fit.clamp(ROWS, wanted).min(blocks.rows);
        let scores = Scores::new(&blocks, head, rows)?;
        Ok(Self { blocks, capacity, embedding, pool: Arc::clone(pool), scores, rows })
    }

    /// [`Target::prefill`] of a target whose embedding, bookkeeping and nothing else is in `cpu`.
    ///
    /// # Errors
    /// [`TargetError`]; nothing is committed then.
    pub(in crate::model) fn prefill(
        &mut self,
        cpu: &mut CpuTarget,
        tokens: &[u32],
    ) -> Result<Verified, TargetError> {
        let count = tokens.len();
        cpu.check(tokens.iter().copied(), count)?;
        if count == 0 {
            return Ok(Verified::default());
        }
        let read = self.run(cpu, tokens, &TreeMask::causal(count), Logits::Last)?;
        self.blocks.cache.commit(&(0..count).collect::<Vec<_>>());
        cpu.count_committed(count);
        Ok(read)
    }

    /// [`Target::verify`] of such a target.
    ///
    /// # Errors
    /// [`TargetError`].
    pub(in crate::model) fn verify(
        &mut self,
        cpu: &mut CpuTarget,
        tree: &Tree,
    ) -> Result<Verified, TargetError> {
        let nodes = tree.nodes();
        let count = nodes.len();
        cpu.check(nodes.iter().map(|node| node.token), count)?;
        let tokens: Vec<u32> = nodes.iter().map(|node| node.token).collect();
        let mask = TreeMask::tree(nodes.iter().map(|node| node.parent));
        let verified = self.run(cpu, &tokens, &mask, Logits::All)?;
        cpu.count_pending(count);
        Ok(verified)
    }

    /// Runs rows after the committed positions and returns what `cpu` should.
    fn run(
        &mut self,
        cpu: &CpuTarget,
        tokens: &[u32],
        mask: &TreeMask,
        logits: Logits,
    ) -> Result<Verified, TargetError> {
        let mut features = vec![0.0; tokens.len() * cpu.feature_width()];
        let logits = match cpu.features().states() {
            [] => self.pass(tokens, mask, &mut features, &mut Taps::none(), logits)?,
            states => {
                let mut taps = Taps::new(states, self.blocks.config.hidden, &mut features);
                self.pass(tokens, mask, &mut [], &mut taps, logits)?
            }
        };
        Ok(Verified { logits, features })
    }

    /// Runs a row for each of `tokens`; their keys and values stay in flight. `features`
    /// gets the final norm's output, `[rows, H]`, if it has that length, and `taps` get the states
    /// on the way.
    ///
    /// # Errors
    /// [`GpuError`] if the device is lost or hangs.
    pub(super) fn pass(
        &mut self,
        tokens: &[u32],
        mask: &TreeMask,
        features: &mut [f32],
        taps: &mut Taps<'_>,
        logits: Logits,
    ) -> Result<Vec<f32>, GpuError> {
        let hidden = self.blocks.config.hidden;
        let layers = self.blocks.config.layers;
        let gpu = Arc::clone(&self.blocks.gpu);
        let wants_last = taps.want(layers);
        let mut tapped = Tapped::below(layers, taps);
        let mut all = Vec::new();
        let vocab = self.scores.vocab();
        let most = if logits == Logits::All { self.rows } else { self.blocks.rows };
        for (slice, tokens) in tokens.chunks(most).enumerate() {
            let first = slice * most;
            let count = tokens.len();
            gpu.write(&self.blocks.buffers.stream, 0, &bytes_of(&self.embed(tokens)));
            let mut recorder = PassRecorder::new(&gpu);
            let rows = PassRows { mask, first, count };
            tapped.record(&mut self.blocks, rows, &mut recorder)?;
            self.scores.record_norm(&mut recorder, count);
            if logits == Logits::All {
                self.scores.record_product(&mut recorder, count);
            }
            let floats = count * hidden;
            let mut parts = vec![(&self.blocks.buffers.branch, 0, floats)];
            if wants_last {
                parts.push((&self.blocks.buffers.stream, 0, floats));
            }
            if logits == Logits::All {
                parts.push((self.scores.logits(), 0, count * vocab));
            }
            let read = floats_of(&tapped.submit_and_read(recorder, &parts, floats)?);
            let (normed, mut rest) = read.split_at(floats);
            if let Some(features) = features.get_mut(first * hidden..first * hidden + floats) {
                features.copy_from_slice(normed);
            }
            if wants_last {
                taps.take(layers, first, &rest[..floats]);
                rest = &rest[floats..];
            }
            if logits == Logits::All {
                all.extend_from_slice(&rest[..count * vocab]);
                rest = &rest[count * vocab..];
            }
            tapped.keep(rest, floats, first, taps);
        }
        if logits == Logits::Last {
            all = self.last_logits((tokens.len() - 1) % most)?;
        }
        self.blocks.config.block.finish_logits(&self.pool, &mut all);
        Ok(all)
    }

    /// The logits of one row of the last slice, whose norms are still there.
    fn last_logits(&self, row: usize) -> Result<Vec<f32>, GpuError> {
        let gpu = &self.blocks.gpu;
        let mut recorder = PassRecorder::new(gpu);
        if row > 0 {
            let BlockBuffers { stream, branch, .. } = &self.blocks.buffers;
            let hidden = self.blocks.config.hidden;
            // It goes through the stream, because a buffer cannot be copied into itself.
            recorder.copy(branch, row * hidden, stream, 0, hidden);
            recorder.copy(stream, 0, branch, 0, hidden);
        }
        self.scores.record_product(&mut recorder, 1);
        let parts = [(self.scores.logits(), 0, self.scores.vocab())];
        Ok(floats_of(&recorder.submit_and_read(&parts)?))
    }

    fn embed(&self, tokens: &[u32]) -> Vec<f32> {
        let mut rows = rows_of(&self.embedding, tokens);
        self.blocks.config.block.scale_embedding(&mut rows);
        rows
    }

    /// The format of most weights.
    pub(super) fn format(&self) -> Format {
        self.blocks.format().unwrap_or(Format::F16)
    }

    /// Bytes on the device.
    pub(in crate::model) fn bytes(&self) -> u64 {
        self.blocks.bytes() + self.scores.bytes()
    }
}
