//! A whole model on the device except its embeddings, of which a token needs only one row: blocks,
//! final norm and LM head. A target and a drafting model share it. It must not depend on what a
//! pass is for.

use std::sync::Arc;

use super::block::GpuBlocks;
use super::buffer::GpuBuffer;
use super::device::{Gpu, bytes_of, floats_of};
use super::error::GpuError;
use super::layers::{ROWS, Tapped, load_blocks, of_device, stream_blocks, uploader};
use super::places::PassRows;
use super::scores::Scores;
use super::step::PassRecorder;
use crate::kernels::{Format, Matrix, Pool, TreeMask};
use crate::model::taps::Taps;
use crate::model::weights::{EMBEDDING, HEAD, NORM};
use crate::model::{
    Config, CpuTarget, LoadError, LoadRequest, Progress, Target, TargetError, Verified,
};
use crate::speculate::Tree;

/// A model on a device.
pub(in crate::model) struct GpuModel {
    pub(super) config: Config,
    pub(in crate::model) blocks: GpuBlocks,
    /// How many positions it can be used for; the cache may have more slots after them.
    pub(super) capacity: usize,
    embedding: Arc<Matrix>,
    pool: Arc<Pool>,
    scores: Scores,
    norm: GpuBuffer,
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
    /// Puts a model with these embeddings on `gpu`, with `in_flight` cache slots after the
    /// request's positions.
    ///
    /// # Errors
    /// [`LoadError::Device`] if the device has no room or no kernels for the model;
    /// [`LoadError::Weights`].
    pub(in crate::model) fn load(
        gpu: &Arc<Gpu>,
        request: &LoadRequest<'_>,
        embedding: Arc<Matrix>,
        in_flight: usize,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Self, LoadError> {
        let config = request.config;
        let blocks = load_blocks(gpu, config.layers, request, in_flight, progress)?;
        Self::around(blocks, request, embedding, progress)
    }

    /// A model whose blocks' weights stay in main memory and are sent to `gpu` in every pass.
    ///
    /// # Errors
    /// As for [`Self::load`].
    pub(in crate::model) fn stream(
        gpu: &Arc<Gpu>,
        request: &LoadRequest<'_>,
        embedding: Arc<Matrix>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Self, LoadError> {
        let blocks = stream_blocks(gpu, request.config.layers, request, progress)?;
        Self::around(blocks, request, embedding, progress)
    }

    /// Adds the final norm and the LM head to the blocks.
    fn around(
        blocks: GpuBlocks,
        request: &LoadRequest<'_>,
        embedding: Arc<Matrix>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Self, LoadError> {
        let &LoadRequest { config, source, ref pool, capacity, .. } = request;
        let layers = config.layers;
        let gpu = &Arc::clone(blocks.gpu());
        let failed = |error: GpuError| LoadError::Device { layers, reason: error.to_string() };
        let mut packer = uploader(gpu, source, pool, 1, progress);
        let of_device = |error| of_device(layers, error);
        let name = if config.tied_head { EMBEDDING } else { HEAD };
        let shape = [config.vocab, config.hidden];
        let head = packer.matrix(name, shape, None).map_err(of_device)?;
        let norm = packer.norm(&config.block, NORM, config.hidden).map_err(of_device)?;
        drop(packer);
        let norm = gpu.filled(&norm.weight).map_err(failed)?;
        let weight = Some((&norm, config.rms_eps));
        let scores = Scores::new(&blocks, head, weight, ROWS).map_err(failed)?;
        Ok(Self {
            config: config.clone(),
            blocks,
            capacity,
            embedding,
            pool: Arc::clone(pool),
            scores,
            norm,
        })
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
        let count = cpu.check(tokens.iter().copied())?;
        if count == 0 {
            return Ok(Verified::default());
        }
        let begin = cpu.len();
        let positions: Vec<usize> = (begin..begin + count).collect();
        let read = self.run(cpu, tokens, (&positions, &TreeMask::causal(count)), Logits::Last)?;
        self.blocks.commit(&(0..count).collect::<Vec<_>>());
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
        let count = cpu.check(nodes.iter().map(|node| node.token))?;
        let tokens: Vec<u32> = nodes.iter().map(|node| node.token).collect();
        let positions: Vec<usize> = nodes.iter().map(|node| cpu.len() + node.depth).collect();
        let mask = TreeMask::tree(nodes.iter().map(|node| node.parent));
        let verified = self.run(cpu, &tokens, (&positions, &mask), Logits::All)?;
        cpu.count_pending(count);
        Ok(verified)
    }

    /// Runs rows after the committed positions and returns what `cpu` should.
    fn run(
        &mut self,
        cpu: &CpuTarget,
        tokens: &[u32],
        places: (&[usize], &TreeMask),
        logits: Logits,
    ) -> Result<Verified, TargetError> {
        let mut features = vec![0.0; tokens.len() * cpu.feature_width()];
        let logits = match cpu.features().states() {
            [] => self.pass(tokens, places, (&mut features, &mut Taps::none()), logits)?,
            states => {
                let mut taps = Taps::new(states, self.config.hidden, &mut features);
                self.pass(tokens, places, (&mut [], &mut taps), logits)?
            }
        };
        Ok(Verified { logits, features })
    }

    /// Runs a row for each of `tokens`. Row i is at `positions[i]` and sees the committed positions
    /// and `mask.visible(i)`; the rows' keys and values stay in flight. `features` gets the final
    /// norm's output, `[rows, H]`, if it has that length, and `taps` get the states on the way.
    ///
    /// # Errors
    /// [`GpuError`] if the device is lost or hangs.
    pub(super) fn pass(
        &mut self,
        tokens: &[u32],
        (positions, mask): (&[usize], &TreeMask),
        (features, taps): (&mut [f32], &mut Taps<'_>),
        logits: Logits,
    ) -> Result<Vec<f32>, GpuError> {
        let hidden = self.config.hidden;
        let layers = self.config.layers;
        let gpu = Arc::clone(self.blocks.gpu());
        let wants_last = taps.want(layers);
        let mut tapped = Tapped::below(layers, taps);
        let mut last = Vec::new();
        let mut all = Vec::new();
        let vocab = self.scores.vocab();
        let most = if logits == Logits::All { ROWS } else { self.blocks.rows() };
        for (slice, tokens) in tokens.chunks(most).enumerate() {
            let first = slice * most;
            let rows = tokens.len();
            gpu.write(self.blocks.stream(), 0, &bytes_of(&self.embed(tokens)));
            let mut recorder = PassRecorder::new(&gpu);
            let positions = &positions[first..first + rows];
            tapped.record(&mut self.blocks, PassRows { positions, mask, first }, &mut recorder)?;
            match logits {
                Logits::All => self.scores.record(&mut recorder, rows),
                Logits::Last => self.scores.record_norm(&mut recorder, rows),
            }
            let floats = rows * hidden;
            let mut parts = vec![(self.blocks.branch(), 0, floats)];
            if wants_last {
                parts.push((self.blocks.stream(), 0, floats));
            }
            if logits == Logits::All {
                parts.push((self.scores.logits(), 0, rows * vocab));
            }
            let read = floats_of(&tapped.submit_and_read(recorder, &parts, floats)?);
            let (normed, mut rest) = read.split_at(floats);
            if let Some(features) = features.get_mut(first * hidden..first * hidden + floats) {
                features.copy_from_slice(normed);
            }
            if wants_last {
                last.extend_from_slice(&rest[..floats]);
                rest = &rest[floats..];
            }
            if logits == Logits::All {
                all.extend_from_slice(&rest[..rows * vocab]);
                rest = &rest[rows * vocab..];
            }
            tapped.keep(rest, floats);
        }
        tapped.give(taps);
        if wants_last {
            taps.take(layers, &last);
        }
        if logits == Logits::Last {
            all = self.last_logits((tokens.len() - 1) % most)?;
        }
        self.config.block.finish_logits(&self.pool, &mut all);
        Ok(all)
    }

    /// The logits of one row of the last slice, whose norms are still there.
    fn last_logits(&self, row: usize) -> Result<Vec<f32>, GpuError> {
        let gpu = self.blocks.gpu();
        let mut recorder = PassRecorder::new(gpu);
        if row > 0 {
            let branch = self.blocks.branch();
            let hidden = self.config.hidden;
            // It goes through the stream, because a buffer cannot be copied into itself.
            recorder.copy((branch, row * hidden), (self.blocks.stream(), 0), hidden);
            recorder.copy((self.blocks.stream(), 0), (branch, 0), hidden);
        }
        self.scores.record_product(&mut recorder, 1);
        let parts = [(self.scores.logits(), 0, self.scores.vocab())];
        Ok(floats_of(&recorder.submit_and_read(&parts)?))
    }

    fn embed(&self, tokens: &[u32]) -> Vec<f32> {
        let hidden = self.config.hidden;
        let mut rows = vec![0.0; tokens.len() * hidden];
        for (&token, row) in tokens.iter().zip(rows.chunks_exact_mut(hidden)) {
            self.embedding.row(token as usize, row);
            self.config.block.scale_embedding(row);
        }
        rows
    }

    /// The format of most weights.
    pub(super) fn format(&self) -> Format {
        self.blocks.format().unwrap_or(Format::F16)
    }

    /// Bytes of blocks in main memory.
    pub(in crate::model) fn host_bytes(&self) -> u64 {
        self.blocks.host_bytes()
    }

    /// Bytes on the device.
    pub(in crate::model) fn bytes(&self) -> u64 {
        self.blocks.bytes() + self.scores.bytes() + self.norm.bytes()
    }
}
