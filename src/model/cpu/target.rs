//! The target on the CPU: it runs prompts and trees through the model, and through the blocks that
//! may come before its own. It must not depend on where a tree came from.

use std::ops::Range;
use std::sync::Arc;

use super::CHUNK;
use super::model::CpuModel;
use super::scratch::PassTiming;
use crate::kernels::{Format, KvCache, KvFormat, KvShape, Matrix, Pool, TreeMask, random_row};
use crate::model::head::rows_of;
use crate::model::lower::Lower;
use crate::model::taps::Taps;
use crate::model::target::check_runnable;
use crate::model::{
    Config, FeatureSource, LoadError, LoadRequest, RandomWeights, Target, TargetError, Verified,
};
use crate::speculate::Tree;

/// Runs embedded rows `[rows, H]`, which follow the positions in the cache, through all blocks in
/// place on another device. Leaves their keys and values in the cache and gives taps the states
/// that enter blocks.
pub(in crate::model) type RunBlocks<'a> =
    &'a mut dyn FnMut(&mut [f32], &mut KvCache, &Pool, &mut Taps<'_>) -> Result<(), TargetError>;

/// A target model on the CPU.
pub struct CpuTarget {
    pub(super) model: CpuModel,
    /// How many rows the last verified tree had, which `commit` may still keep.
    pending: usize,
    features: FeatureSource,
}

impl CpuTarget {
    /// Packs the weights and allocates a KV cache for the request's positions, including the rows
    /// of a tree.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn load(request: &LoadRequest<'_>) -> Result<Self, LoadError> {
        Self::load_above(0, request)
    }

    /// As [`Self::load`], without the blocks before `first`, which another device runs.
    pub(in crate::model) fn load_above(
        first: usize,
        request: &LoadRequest<'_>,
    ) -> Result<Self, LoadError> {
        let model = CpuModel::load(request, first, 0)?;
        Ok(Self { model, pending: 0, features: FeatureSource::default() })
    }

    /// A target with random weights of this configuration, for measuring and for tests.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn random(
        config: &Config,
        format: Format,
        seed: u64,
        pool: Arc<Pool>,
        capacity: usize,
        kv: KvFormat,
    ) -> Result<Self, LoadError> {
        let source = &RandomWeights::new(config, format, seed);
        Self::load(&LoadRequest::new(config, source, pool, capacity, kv))
    }

    /// Its configuration.
    pub fn config(&self) -> &Config {
        &self.model.config
    }

    /// How many blocks it runs: all of them, unless another device has the first ones.
    pub fn layers(&self) -> usize {
        self.model.weights.layers.len()
    }

    /// The threads it runs on.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.model.pool
    }

    /// Runs on other threads from the next pass on.
    pub fn use_pool(&mut self, pool: Arc<Pool>) {
        self.model.pool = pool;
    }

    /// The embedding matrix `[V, H]`, for sharing with a draft head.
    pub fn embedding(&self) -> Arc<Matrix> {
        Arc::clone(&self.model.weights.embedding)
    }

    /// The LM head `[V, H]`, for sharing with a draft head; in a tied model it is the embedding
    /// itself.
    pub fn lm_head(&self) -> Arc<Matrix> {
        Arc::clone(self.model.weights.head())
    }

    /// Bytes of the packed weights.
    pub fn weight_bytes(&self) -> u64 {
        self.model.weights.bytes()
    }

    /// Bytes of weights that one pass reads.
    pub fn pass_bytes(&self) -> u64 {
        self.model.weights.pass_bytes()
    }

    /// Bytes of the KV cache; only the part already filled is resident.
    pub(crate) fn kv_bytes(&self) -> u64 {
        self.model.caches[0].bytes() as u64
    }

    /// The number format of the KV cache.
    pub fn kv_format(&self) -> KvFormat {
        self.model.caches[0].format()
    }

    /// Where the last `prefill` or `verify` spent its time.
    pub(crate) fn last_pass(&self) -> PassTiming {
        self.model.timing
    }

    /// Key (after RoPE) and value of a committed position in one layer, `[kv_heads · d]` each.
    ///
    /// # Panics
    /// If there is no such layer or position.
    pub fn kv_row(&self, layer: usize, position: usize) -> (Vec<f32>, Vec<f32>) {
        assert!(position < self.len(), "position {position} of {}", self.len());
        self.model.caches[0].row(layer, position)
    }

    /// [`KvCache::recurrent_state`] of a recurrent layer, counted without the others.
    pub fn recurrent_state(&self, layer: usize) -> Option<[Vec<f32>; 2]> {
        self.model.caches[0].recurrent_state(layer)
    }

    /// Replaces what is committed by `len` made-up positions, for measuring: the cost of a pass
    /// does not depend on the contents of the cache.
    ///
    /// # Panics
    /// If `len` is beyond the capacity.
    pub(crate) fn assume_context(&mut self, len: usize) {
        assert!(len <= self.model.capacity, "{len} positions of {}", self.model.capacity);
        self.truncate(0);
        while self.model.caches[0].len() < len {
            let rows = (len - self.model.caches[0].len()).min(CHUNK);
            let cache = &mut self.model.caches[0];
            let shapes: Vec<KvShape> =
                (0..cache.layers()).map(|layer| cache.layer(layer)).collect();
            let width =
                shapes.iter().map(|shape| shape.keys().max(shape.values())).max().unwrap_or(0);
            let bytes = random_row(Format::F32, rows * width, cache.len() as u64);
            let made_up: Vec<f32> =
                bytes.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b)).collect();
            let shapes = shapes.into_iter().enumerate();
            for (layer, shape) in shapes.filter(|(_, shape)| shape.heads > 0) {
                let [k, v] = [shape.keys(), shape.values()];
                cache.write(&self.model.pool, layer, &made_up[..rows * k], &made_up[..rows * v]);
            }
            self.keep_where_they_lie(rows);
        }
    }

    /// What passes return as features.
    pub(in crate::model) fn features(&self) -> &FeatureSource {
        &self.features
    }

    /// Checks that `count` further `tokens` can be run now.
    ///
    /// # Errors
    /// [`TargetError::Token`] or [`TargetError::ContextFull`].
    pub(in crate::model) fn check(
        &self,
        tokens: impl IntoIterator<Item = u32>,
        count: usize,
    ) -> Result<(), TargetError> {
        check_runnable(tokens, self.vocab(), self.len() + count, self.capacity())
    }

    /// Counts `rows` positions as committed that another device computed in all of its blocks.
    pub(in crate::model) fn count_committed(&mut self, rows: usize) {
        self.pending = 0;
        self.keep_where_they_lie(rows);
    }

    /// Lets [`Target::commit`] keep any of `rows` rows of a tree that another device has in flight.
    pub(in crate::model) fn count_pending(&mut self, rows: usize) {
        self.pending = rows;
    }

    /// Commits the first `rows` rows of the last pass without moving them.
    fn keep_where_they_lie(&mut self, rows: usize) {
        self.model.caches[0].commit(&self.model.pool, &(0..rows).collect::<Vec<_>>());
    }
}

impl Target for CpuTarget {
    fn vocab(&self) -> usize {
        self.model.config.vocab
    }

    fn set_features(&mut self, source: FeatureSource) {
        self.features = source;
    }

    fn feature_width(&self) -> usize {
        self.features.width(&self.model.config)
    }

    fn capacity(&self) -> usize {
        self.model.capacity
    }

    fn len(&self) -> usize {
        self.model.caches[0].len()
    }

    fn begin_prompt(&mut self, _asked: &[Range<usize>], common: usize) -> usize {
        self.model.caches[0].reachable(common)
    }

    fn prefill(&mut self, tokens: &[u32]) -> Result<Verified, TargetError> {
        self.prefill_above(tokens, None)
    }

    fn verify(&mut self, tree: &Tree) -> Result<Verified, TargetError> {
        self.verify_above(tree, None)
    }

    fn commit(&mut self, path: &[usize]) {
        assert!(
            path.iter().all(|&node| node < self.pending),
            "commit of {path:?} after a tree of {}",
            self.pending
        );
        self.model.caches[0].commit(&self.model.pool, path);
        self.pending = 0;
    }

    fn reuse(&mut self, logits: Vec<f32>) {
        self.model.logits = logits;
    }

    fn truncate(&mut self, len: usize) {
        self.model.caches[0].truncate(len);
        self.pending = 0;
    }

    fn saved_kv(&self, most: usize) -> Option<Vec<u8>> {
        let cache = &self.model.caches[0];
        (!cache.is_empty() && cache.saved_bytes() <= most).then(|| cache.saved())
    }

    fn restore_kv(&mut self, len: usize, bytes: &[u8]) -> bool {
        if len > self.model.capacity || !self.model.caches[0].restore(len, bytes) {
            return false;
        }
        self.pending = 0;
        true
    }
}

impl CpuTarget {
    /// [`Target::prefill`] when states are tapped: returns the states, `[rows, feature width]`, and
    /// the outputs of the final norm, `[rows, H]`. It computes no logits.
    ///
    /// # Errors
    /// [`TargetError`]; nothing is changed then.
    pub(crate) fn prefill_with_norm(
        &mut self,
        tokens: &[u32],
    ) -> Result<(Vec<f32>, Vec<f32>), TargetError> {
        let mut all = Vec::with_capacity(tokens.len() * self.model.config.hidden);
        let keep = &mut |normed: &[f32]| all.extend_from_slice(normed);
        let (features, _) = self.rows_above(tokens, None, keep)?;
        Ok((features, all))
    }

    /// [`Target::prefill`] with all blocks run on another device, in one pass.
    ///
    /// # Errors
    /// [`TargetError`]; nothing is changed then.
    pub(in crate::model) fn prefill_by(
        &mut self,
        tokens: &[u32],
        run: RunBlocks<'_>,
    ) -> Result<Verified, TargetError> {
        let count = tokens.len();
        self.check(tokens.iter().copied(), count)?;
        self.pending = 0;
        if count == 0 {
            return Ok(Verified::default());
        }
        let mut features = vec![0.0; count * self.feature_width()];
        let CpuModel { config, pool, caches, weights, .. } = &mut self.model;
        let mut stream = rows_of(&weights.embedding, tokens);
        config.block.scale_embedding(&mut stream);
        let mut normed = Vec::new();
        let size = [count, config.hidden];
        let mut rows = ResultRows::of(&self.features, size, &mut features, &mut normed);
        run(&mut stream, &mut caches[0], pool, &mut rows.taps)?;
        rows.taps.take(config.layers, 0, &stream);
        weights.norm.apply(pool, &stream, config.rms_eps, rows.normed);
        let last = rows.normed[(count - 1) * config.hidden..].to_vec();
        let mut logits = vec![0.0; config.vocab];
        self.join_keys_and_values(&normed, &mut features);
        self.keep_where_they_lie(count);
        self.model.pass().head(&last, &mut logits);
        Ok(Verified { logits, features })
    }

    /// [`Target::prefill`] with `lower` before the blocks.
    pub(in crate::model) fn prefill_above(
        &mut self,
        tokens: &[u32],
        lower: Option<&mut dyn Lower>,
    ) -> Result<Verified, TargetError> {
        let (features, normed) = self.rows_above(tokens, lower, &mut |_| {})?;
        if features.is_empty() {
            return Ok(Verified::default());
        }
        let mut logits = vec![0.0; self.model.config.vocab];
        self.model.pass().head(&normed, &mut logits);
        Ok(Verified { logits, features })
    }

    /// Commits `tokens`; returns their features and the last row's output of the final norm. `keep`
    /// receives these outputs of all rows, chunk by chunk.
    fn rows_above(
        &mut self,
        tokens: &[u32],
        mut lower: Option<&mut dyn Lower>,
        keep: &mut dyn FnMut(&[f32]),
    ) -> Result<(Vec<f32>, Vec<f32>), TargetError> {
        let count = tokens.len();
        self.check(tokens.iter().copied(), count)?;
        self.pending = 0;
        self.model.timing = PassTiming::default();
        let hidden = self.model.config.hidden;
        let begin = self.model.caches[0].len();
        let source = self.features.clone();
        let width = self.feature_width();
        let mut features = vec![0.0; count * width];
        let mut normed = Vec::new();
        let mut last = Vec::new();
        for (tokens, features) in tokens.chunks(CHUNK).zip(features.chunks_mut(CHUNK * width)) {
            let mask = TreeMask::causal(tokens.len());
            self.model.caches[0].will_commit(tokens.len());
            let mut pass = self.model.pass();
            let stream = pass.embed(tokens, &mask);
            let size = [tokens.len(), hidden];
            let mut rows = ResultRows::of(&source, size, features, &mut normed);
            if let Some(lower) = &mut lower
                && let Err(error) = lower.pass(stream, &mask, &mut rows.taps)
            {
                self.truncate(begin);
                lower.truncate(begin);
                return Err(error);
            }
            pass.transform(&mask, rows.normed, &mut rows.taps);
            keep(rows.normed);
            last.clear();
            last.extend_from_slice(&rows.normed[rows.normed.len() - hidden..]);
            self.join_keys_and_values(&normed, features);
            self.keep_where_they_lie(tokens.len());
            if let Some(lower) = &mut lower {
                lower.commit(&(0..tokens.len()).collect::<Vec<_>>());
            }
        }
        Ok((features, last))
    }

    /// [`Target::verify`] with `lower` before the blocks.
    pub(in crate::model) fn verify_above(
        &mut self,
        tree: &Tree,
        lower: Option<&mut dyn Lower>,
    ) -> Result<Verified, TargetError> {
        let nodes = tree.nodes();
        let count = nodes.len();
        self.check(nodes.iter().map(|node| node.token), count)?;
        self.model.timing = PassTiming::default();
        let tokens: Vec<u32> = nodes.iter().map(|node| node.token).collect();
        let mask = TreeMask::tree(nodes.iter().map(|node| node.parent));
        let hidden = self.model.config.hidden;
        let mut features = vec![0.0; count * self.feature_width()];
        let mut normed = Vec::new();
        let size = [count, hidden];
        let mut rows = ResultRows::of(&self.features, size, &mut features, &mut normed);
        let mut logits = std::mem::take(&mut self.model.logits);
        logits.resize(count * self.model.config.vocab, 0.0);
        let mut pass = self.model.pass();
        let stream = pass.embed(&tokens, &mask);
        if let Some(lower) = lower {
            lower.pass(stream, &mask, &mut rows.taps)?;
        }
        pass.transform(&mask, rows.normed, &mut rows.taps);
        pass.head(rows.normed, &mut logits);
        self.join_keys_and_values(&normed, &mut features);
        self.pending = count;
        Ok(Verified { logits, features })
    }

    /// Makes the features of the rows in flight from their outputs of the final norm and what is in
    /// the cache for them, if these are the features.
    fn join_keys_and_values(&self, normed: &[f32], features: &mut [f32]) {
        if self.features != FeatureSource::LastKeysAndValues {
            return;
        }
        let (hidden, cache) = (self.model.config.hidden, &self.model.caches[0]);
        let layers = self.model.config.last_caches().into_iter().flatten();
        let layers: Vec<usize> = layers.collect();
        let features = features.chunks_exact_mut(self.feature_width());
        for ((row, feature), normed) in features.enumerate().zip(normed.chunks_exact(hidden)) {
            let (own, mut rest) = feature.split_at_mut(hidden);
            own.copy_from_slice(normed);
            for &layer in &layers {
                let (keys, values) = cache.row(layer, cache.len() + row);
                for part in [keys, values] {
                    rest[..part.len()].copy_from_slice(&part);
                    rest = &mut rest[part.len()..];
                }
            }
        }
    }
}

/// Where the rows of a pass leave the requested results.
struct ResultRows<'a> {
    /// The final norm's output, `[rows, hidden]`: these are the features, unless others were
    /// requested.
    normed: &'a mut [f32],
    taps: Taps<'a>,
}

impl<'a> ResultRows<'a> {
    /// For `features`, `[rows, feature width]`; `room` holds the final norm's output if that is not
    /// the feature.
    fn of(
        source: &'a FeatureSource,
        [rows, hidden]: [usize; 2],
        features: &'a mut [f32],
        room: &'a mut Vec<f32>,
    ) -> Self {
        match source {
            FeatureSource::FinalNorm => Self { normed: features, taps: Taps::none() },
            FeatureSource::LastKeysAndValues => {
                room.resize(rows * hidden, 0.0);
                Self { normed: room, taps: Taps::none() }
            }
            FeatureSource::States(states) => {
                room.resize(rows * hidden, 0.0);
                Self { normed: room, taps: Taps::new(states, hidden, features) }
            }
        }
    }
}
