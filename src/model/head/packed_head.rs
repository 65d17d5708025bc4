//! The head on the CPU's kernels: packed weights, the target's own blocks, embedding and LM head.
//! It must not depend on drafting.

use std::borrow::Cow;
use std::sync::Arc;

use super::backend::{FeatureOrigin, check_room, feature_of};
use super::draft_vocab::ranked;
use super::pack::{self, Eagle3Fusion, PackedFusion};
use super::{Candidates, DraftVocabulary, HeadBackend, HeadError, HeadRequest, Pairs, TREE_ROWS};
use crate::kernels::{
    Activation, KvCache, Matrix, Pool, TreeMask, activate, rms_norm, sigmoid_blend,
};
use crate::model::cpu::layer::{Layer, format_of};
use crate::model::cpu::packer::Packer;
use crate::model::cpu::scratch::{CpuBlocks, PassScratch, PassTiming, add_bias};
use crate::model::{Config, RopeTable};
use crate::speculate::{BeamRow, Ranking};

/// A head on the CPU with its caches.
pub struct PackedHead {
    config: Config,
    pool: Arc<Pool>,
    fusion: PackedFusion,
    layers: Vec<Layer>,
    embedding: Arc<Matrix>,
    /// `[scored tokens, H]`.
    lm_head: Arc<Matrix>,
    /// The scored tokens, if not all.
    draft_vocab: Option<DraftVocabulary>,
    /// Bytes of embedding and LM head, if the head has its own.
    own_tables: usize,
    rope: Vec<RopeTable>,
    cache: KvCache,
    blocks: usize,
    /// Scratch rows so far.
    scratch_rows: usize,
    /// The outputs of the last pass, `[rows, H]`.
    outputs: Vec<f32>,
    /// The outputs of the last stable row and of every scratch row, `[1 + scratch, H]`, from which
    /// rows can continue.
    sources: Vec<f32>,
    buffers: HeadBuffers,
    scratch: PassScratch,
    timing: PassTiming,
}

/// Buffers for intermediate numbers, reused so that a step allocates nothing.
#[derive(Default)]
struct HeadBuffers {
    features: Vec<f32>,
    embeddings: Vec<f32>,
    normed: Vec<f32>,
    h1: Vec<f32>,
    h2: Vec<f32>,
    /// `[rows, 2H]`.
    joined: Vec<f32>,
    fused: Vec<f32>,
    logits: Vec<f32>,
}

impl PackedHead {
    /// Packs a head; of several in a target's file, the first. What it shares with the target is
    /// not copied if it is already packed.
    ///
    /// # Errors
    /// [`HeadError`] if a tensor is missing or misshapen, or there is not enough memory.
    pub fn new(request: &HeadRequest<'_>) -> Result<Self, HeadError> {
        Self::of_block(request, 0)
    }

    /// The same for the block of this number in a target's file.
    pub(super) fn of_block(request: &HeadRequest<'_>, block: usize) -> Result<Self, HeadError> {
        let &HeadRequest { weights, shared, ref pool, capacity, kv, .. } = request;
        let config = &weights.config.body;
        // The row before the pairs has a slot too.
        let capacity = capacity.saturating_add(usize::from(weights.config.kind.opens()));
        let narrowed = request.narrowed()?;
        let mut packer = Packer::new(&narrowed, pool);
        let (fusion, layers) = pack::parts(&mut packer, request, block)?;
        let [embedding, lm_head] = pack::tables(request, block)?;
        let draft_vocab = weights.draft_vocab.clone();
        let slots = capacity.saturating_add(TREE_ROWS);
        let cache = KvCache::of_layers(config.kv_shapes(0..config.layers), slots, kv)
            .map_err(|error| HeadError::Device(error.to_string()))?;
        let own_tables = embedding.iter().chain(&lm_head).map(Matrix::bytes).sum();
        let table = |own: Option<Matrix>, shared| own.map_or_else(|| Arc::clone(shared), Arc::new);
        Ok(Self {
            fusion,
            layers,
            own_tables,
            embedding: table(embedding, &shared.embedding),
            lm_head: table(lm_head, &shared.lm_head),
            draft_vocab,
            rope: RopeTable::of(config, capacity),
            cache,
            blocks: config.layers,
            config: config.clone(),
            pool: Arc::clone(pool),
            scratch_rows: 0,
            outputs: Vec::new(),
            sources: Vec::new(),
            buffers: HeadBuffers::default(),
            scratch: PassScratch::default(),
            timing: PassTiming::default(),
        })
    }

    /// Runs rows of a tree on this mask and keeps none of them. Ranks the children of those from
    /// `first` on, whose outputs it leaves.
    pub(super) fn run_tree(
        &mut self,
        pairs: Pairs<'_>,
        mask: &TreeMask,
        first: usize,
        ranking: &Ranking,
    ) -> Candidates {
        self.buffers.features.clear();
        self.buffers.features.extend_from_slice(pairs.features);
        self.pass(pairs.tokens, FeatureOrigin::Head, mask);
        self.outputs.drain(..first * self.config.hidden);
        self.rank(ranking)
    }

    /// Runs the pairs of `buffers.features` and `tokens` through the blocks. Leaves the last
    /// block's output in `outputs`.
    fn pass(&mut self, tokens: &[u32], origin: FeatureOrigin, mask: &TreeMask) {
        let Self { config, pool, buffers, cache, scratch, timing, .. } = self;
        let caches = std::slice::from_mut(cache);
        let mut blocks = CpuBlocks::begin(config, pool, caches, scratch, timing);
        buffers.embed(tokens, &self.embedding, pool);
        blocks.place(mask, &self.rope);
        buffers.fuse(&self.fusion, origin, &mut blocks);
        blocks.scratch.stream.copy_from_slice(&buffers.fused);
        for (index, layer) in self.layers.iter().take(self.blocks).enumerate() {
            match &self.fusion {
                PackedFusion::Eagle3(_) => blocks.run_on(index, layer, mask, &buffers.joined),
                _ => blocks.run(index, layer, mask),
            }
        }
        if let Some((norm, true)) = self.fusion.output_norm() {
            let stream = &mut blocks.scratch.stream;
            norm.apply(pool, stream, config.rms_eps, &mut buffers.normed);
            stream.copy_from_slice(&buffers.normed);
        }
        self.outputs.clear();
        self.outputs.extend_from_slice(&blocks.scratch.stream);
        blocks.lap();
    }

    /// The LM head's candidates for each row of `outputs`.
    fn rank(&mut self, ranking: &Ranking) -> Candidates {
        let Self { config, pool, buffers, cache, scratch, timing, .. } = self;
        let count = self.outputs.len() / config.hidden;
        let scored = self.lm_head.outputs();
        let caches = std::slice::from_mut(cache);
        let mut blocks = CpuBlocks::begin(config, pool, caches, scratch, timing);
        let HeadBuffers { normed, logits, .. } = buffers;
        logits.resize(count * scored, 0.0);
        let outputs = match self.fusion.output_norm() {
            Some((norm, false)) => {
                normed.resize(self.outputs.len(), 0.0);
                norm.apply(pool, &self.outputs, config.rms_eps, normed);
                &normed[..]
            }
            _ => &self.outputs,
        };
        blocks.products(outputs, &mut [(&self.lm_head, &mut *logits)]);
        config.block.finish_logits(pool, logits);
        ranked(pool, logits, scored, self.draft_vocab.as_ref(), ranking)
    }
}

impl HeadBuffers {
    fn embed(&mut self, tokens: &[u32], table: &Matrix, pool: &Pool) {
        let hidden = table.inputs();
        self.embeddings.resize(tokens.len() * hidden, 0.0);
        pool.chunks(&mut self.embeddings, hidden, |row, embedding| {
            table.row(tokens[row] as usize, embedding);
        });
    }

    /// Computes `fused` from `features` and `embeddings` (method.md, Draft heads and EAGLE-3). In
    /// an EAGLE-3 head, `joined` is then what its attention reads.
    fn fuse(&mut self, fusion: &PackedFusion, origin: FeatureOrigin, blocks: &mut CpuBlocks<'_>) {
        let pool = blocks.pool;
        let hidden = blocks.config.hidden;
        let eps = blocks.config.rms_eps;
        let size = self.embeddings.len();
        for buffer in [&mut self.fused, &mut self.normed, &mut self.h1, &mut self.h2] {
            buffer.resize(size, 0.0);
        }
        match fusion {
            PackedFusion::Dgf { w_1, w_2, w_z, norm } => {
                blocks.products(&self.features, &mut [(w_1, &mut self.h1)]);
                rms_norm(pool, &self.embeddings, norm, eps, &mut self.normed);
                blocks.products(&self.normed, &mut [(w_2, &mut self.h2)]);
                activate(pool, Activation::Silu, &mut self.h2);
                join(&self.h1, &self.h2, hidden, &mut self.joined);
                blocks.products(&self.joined, &mut [(w_z, &mut self.fused)]);
                sigmoid_blend(pool, &mut self.fused, &self.h1, &self.h2);
            }
            PackedFusion::Eagle { fc, bias } => {
                join(&self.embeddings, &self.features, hidden, &mut self.joined);
                blocks.products(&self.joined, &mut [(fc, &mut self.fused)]);
                if let Some(bias) = bias {
                    add_bias(&mut self.fused, bias);
                }
            }
            PackedFusion::Eagle3(own) => {
                let Self { features, embeddings, h1: state, h2: embedding, normed, .. } = self;
                match origin {
                    FeatureOrigin::Head => state.copy_from_slice(features),
                    FeatureOrigin::Target => {
                        let taps = own.normed_taps(features, pool, eps);
                        blocks.products(&taps, &mut [(&own.fc, &mut *state)]);
                        if let Some(bias) = &own.bias {
                            add_bias(state, bias);
                        }
                    }
                }
                rms_norm(pool, embeddings, &own.embedding_norm, eps, embedding);
                rms_norm(pool, state, &own.state_norm, eps, normed);
                join(embedding, normed, hidden, &mut self.joined);
                let residual = if own.config.norm_before_residual { normed } else { state };
                self.fused.copy_from_slice(residual);
            }
            PackedFusion::Mtp(own) => {
                let Self { features, embeddings, h1: state, h2: embedding, .. } = self;
                own.embedding_norm.apply(pool, embeddings, eps, embedding);
                own.state_norm.apply(pool, features, eps, state);
                join(embedding, state, hidden, &mut self.joined);
                blocks.products(&self.joined, &mut [(&own.fc, &mut self.fused)]);
            }
        }
    }
}

impl Eagle3Fusion {
    /// The tapped states as `fc` reads them.
    fn normed_taps<'a>(&self, features: &'a [f32], pool: &Pool, eps: f32) -> Cow<'a, [f32]> {
        let Some(weight) = &self.tap_norm else { return Cow::Borrowed(features) };
        let mut taps = vec![0.0; features.len()];
        // Each run of ones is normed in the same way, then multiplied by the weight.
        let ones = vec![1.0; self.config.normed_together()];
        rms_norm(pool, features, &ones, eps, &mut taps);
        for row in taps.chunks_exact_mut(weight.len()) {
            for (x, weight) in row.iter_mut().zip(weight) {
                *x *= weight;
            }
        }
        Cow::Owned(taps)
    }
}

/// Concatenates rows of `a` and `b`, each `[rows, width]`.
fn join(a: &[f32], b: &[f32], width: usize, joined: &mut Vec<f32>) {
    joined.clear();
    for (a, b) in a.chunks_exact(width).zip(b.chunks_exact(width)) {
        joined.extend_from_slice(a);
        joined.extend_from_slice(b);
    }
}

impl HeadBackend for PackedHead {
    fn describe(&self) -> String {
        format!("{} on CPU", pack::called(format_of(&self.layers)))
    }

    fn extend(&mut self, start: usize, pairs: Pairs<'_>, blocks: usize) -> Result<(), HeadError> {
        let Pairs { features, tokens } = pairs;
        let rows = tokens.len();
        check_room(start + rows, self.cache.capacity() - TREE_ROWS)?;
        self.blocks = blocks;
        self.cache.truncate(start);
        self.buffers.features.clear();
        self.buffers.features.extend_from_slice(features);
        let mask = TreeMask::causal(rows);
        self.pass(tokens, FeatureOrigin::Target, &mask);
        self.cache.commit(&self.pool, &(0..rows).collect::<Vec<_>>());
        self.scratch_rows = 0;
        let others = self.outputs.len().saturating_sub(self.config.hidden);
        self.sources.clear();
        self.sources.extend_from_slice(&self.outputs[others..]);
        Ok(())
    }

    fn rank_root(&mut self, ranking: &Ranking) -> Result<Vec<(u32, f32)>, HeadError> {
        self.outputs.clear();
        self.outputs.extend_from_slice(&self.sources[..self.config.hidden.min(self.sources.len())]);
        Ok(self.rank(ranking).pop().unwrap_or_default())
    }

    fn step(&mut self, beam: &[BeamRow], ranking: &Ranking) -> Result<Candidates, HeadError> {
        if self.cache.len() + self.scratch_rows + beam.len() > self.cache.capacity() {
            // The tree has reached its largest size.
            return Ok(Vec::new());
        }
        let hidden = self.config.hidden;
        self.buffers.features.clear();
        for row in beam {
            let at = feature_of(row) * hidden;
            self.buffers.features.extend_from_slice(&self.sources[at..at + hidden]);
        }
        let tokens: Vec<u32> = beam.iter().map(|row| row.token).collect();
        let ancestors = beam.iter().map(|row| row.ancestors.as_slice());
        let mask = TreeMask::level(self.scratch_rows, ancestors);
        self.pass(&tokens, FeatureOrigin::Head, &mask);
        self.scratch_rows += beam.len();
        self.sources.extend_from_slice(&self.outputs);
        Ok(self.rank(ranking))
    }

    fn outputs(&self) -> Result<Vec<f32>, HeadError> {
        Ok(self.outputs.clone())
    }

    fn device_bytes(&self) -> u64 {
        let blocks: usize =
            self.layers.iter().flat_map(Layer::matrices).map(|matrix| matrix.bytes()).sum();
        (blocks + self.fusion.bytes() + self.own_tables + self.cache.bytes()) as u64
    }
}
