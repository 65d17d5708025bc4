//! The whole target on a GPU: blocks, final norm and LM head. Main memory holds the embedding and
//! the LM head too, for embeddings and for the drafts that share them. It must not depend on where
//! a tree came from.

use std::sync::Arc;

use super::device::Gpu;
use super::model::{GpuModel, Logits};
use crate::kernels::TreeMask;
use crate::model::taps::Taps;
use crate::model::target::count_runnable;
use crate::model::{
    CpuTarget, FeatureSource, LoadError, LoadRequest, Progress, Target, TargetError, TrafficMeter,
    Verified,
};
use crate::speculate::Tree;

/// A target on a GPU. On one device a token's logits have the same bits in plain decoding and
/// inside a tree; another device gives other bits.
pub struct GpuTarget {
    /// Embedding and LM head, without blocks.
    tables: CpuTarget,
    model: GpuModel,
    /// How many rows the last verified tree had, which `commit` may still keep.
    pending: usize,
    features: FeatureSource,
}

impl GpuTarget {
    /// Puts the target on `gpu` with a KV cache for the request's positions, including the rows of
    /// a tree.
    ///
    /// # Errors
    /// [`LoadError`]; [`LoadError::Device`] if the device has no room or no kernels for it.
    pub fn load(
        gpu: &Arc<Gpu>,
        request: &LoadRequest<'_>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Self, LoadError> {
        let tables = CpuTarget::load_above(request.config.layers, request, progress)?;
        let model = GpuModel::load(gpu, request, tables.embedding(), 0, progress)?;
        Ok(Self { tables, model, pending: 0, features: FeatureSource::default() })
    }

    /// Leaves the weights of the blocks in main memory, from where every pass sends them to `gpu`,
    /// alternating between two stages; the norm, the LM head and the KV cache stay there.
    ///
    /// # Errors
    /// As for [`Self::load`].
    pub fn stream(
        gpu: &Arc<Gpu>,
        request: &LoadRequest<'_>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Self, LoadError> {
        let tables = CpuTarget::load_above(request.config.layers, request, progress)?;
        let model = GpuModel::stream(gpu, request, tables.embedding(), progress)?;
        Ok(Self { tables, model, pending: 0, features: FeatureSource::default() })
    }

    /// Bytes of blocks in main memory that every pass sends to the device: none unless they are
    /// streamed.
    pub fn streamed_bytes(&self) -> u64 {
        self.model.host_bytes()
    }

    /// What main memory holds in addition to streamed blocks: embedding and LM head.
    pub fn cpu(&self) -> &CpuTarget {
        &self.tables
    }

    /// Bytes on the device: weights, KV cache and buffers.
    pub fn device_bytes(&self) -> u64 {
        self.model.bytes()
    }

    fn check(&self, tokens: impl IntoIterator<Item = u32>) -> Result<usize, TargetError> {
        count_runnable(tokens, self.vocab(), (self.len(), self.capacity()))
    }

    /// Runs rows after the committed positions.
    fn run(
        &mut self,
        tokens: &[u32],
        (positions, mask): (&[usize], &TreeMask),
        logits: Logits,
    ) -> Result<Verified, TargetError> {
        let width = self.feature_width();
        let mut features = vec![0.0; tokens.len() * width];
        let source = self.features.clone();
        let hidden = self.hidden();
        let places = (positions, mask);
        let logits = match source.states() {
            [] => {
                let mut none = Taps::none();
                self.model.pass(tokens, places, (&mut features, &mut none), logits)?
            }
            states => {
                let mut taps = Taps::new(states, hidden, &mut features);
                self.model.pass(tokens, places, (&mut [], &mut taps), logits)?
            }
        };
        Ok(Verified { logits, features })
    }
}

impl Target for GpuTarget {
    fn vocab(&self) -> usize {
        self.model.config.vocab
    }

    fn hidden(&self) -> usize {
        self.model.config.hidden
    }

    fn set_features(&mut self, source: FeatureSource) {
        self.features = source;
    }

    fn feature_width(&self) -> usize {
        self.features.width(self.hidden())
    }

    fn capacity(&self) -> usize {
        self.model.capacity
    }

    fn len(&self) -> usize {
        self.model.blocks.len()
    }

    fn prefill(&mut self, tokens: &[u32]) -> Result<Verified, TargetError> {
        let count = self.check(tokens.iter().copied())?;
        self.pending = 0;
        if count == 0 {
            return Ok(Verified::default());
        }
        let begin = self.len();
        let positions: Vec<usize> = (begin..begin + count).collect();
        let mask = TreeMask::causal(count);
        let read = self.run(tokens, (&positions, &mask), Logits::Last)?;
        self.model.blocks.commit(&(0..count).collect::<Vec<_>>());
        Ok(read)
    }

    fn verify(&mut self, tree: &Tree) -> Result<Verified, TargetError> {
        let nodes = tree.nodes();
        let count = self.check(nodes.iter().map(|node| node.token))?;
        let tokens: Vec<u32> = nodes.iter().map(|node| node.token).collect();
        let positions: Vec<usize> = nodes.iter().map(|node| self.len() + node.depth).collect();
        let mask = TreeMask::tree(nodes.iter().map(|node| node.parent));
        let verified = self.run(&tokens, (&positions, &mask), Logits::All)?;
        self.pending = count;
        Ok(verified)
    }

    fn commit(&mut self, path: &[usize]) {
        assert!(
            path.iter().all(|&node| node < self.pending),
            "commit of {path:?} after a tree of {}",
            self.pending
        );
        self.model.blocks.commit(path);
        self.pending = 0;
    }

    fn truncate(&mut self, len: usize) {
        self.model.blocks.truncate(len);
        self.pending = 0;
    }

    fn traffic(&self) -> Option<TrafficMeter> {
        Some(self.model.blocks.gpu().traffic_meter())
    }
}
