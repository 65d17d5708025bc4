//! A target that candle-transformers computes. It must never guess what such a model holds: what
//! cannot be continued is read again.

use candle_core::Error;
use rayon::ThreadPool;

use super::{CandleFiles, CandleModel};
use crate::model::target::check_runnable;
use crate::model::{Config, FeatureSource, LoadError, Target, TargetError, Verified};
use crate::speculate::Tree;

/// One of candle-transformers' models as a target. It has no features, and the nodes of a tree take
/// a pass each, so only plain decoding makes sense.
pub struct CandleTarget {
    model: CandleModel,
    /// The threads of its passes.
    threads: ThreadPool,
    vocab: usize,
    capacity: usize,
    /// The tokens of the committed positions.
    committed: Vec<u32>,
    /// What the model has read. It differs from `committed` after a verified node was rejected, or
    /// after positions were rolled back.
    read: Vec<u32>,
    /// The text of each node of the last verified tree, after the committed positions.
    paths: Vec<Vec<u32>>,
}

impl CandleTarget {
    /// Builds the model with `config` from its files, with room for `capacity` positions.
    ///
    /// # Errors
    /// [`LoadError::Candle`].
    pub fn load(
        files: &CandleFiles,
        config: &Config,
        capacity: usize,
        threads: usize,
    ) -> Result<Self, LoadError> {
        let threads = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let threads = threads.map_err(|error| LoadError::Candle(error.to_string()))?;
        let model = files.load(capacity).map_err(|error| LoadError::Candle(words(&error)))?;
        let (committed, read, paths) = Default::default();
        Ok(Self { model, threads, vocab: config.vocab, capacity, committed, read, paths })
    }

    /// The logits after the last token of `text`, which is not empty.
    fn logits_after(&mut self, text: &[u32]) -> Result<Vec<f32>, TargetError> {
        if self.read.len() >= text.len() || !text.starts_with(&self.read) {
            self.read.clear();
        }
        let at = self.read.len();
        // What a pass that fails has read is unknown.
        self.read.clear();
        let model = &mut self.model;
        let logits = self.threads.install(|| model.read(&text[at..], at));
        let logits = logits.map_err(|error| TargetError::Device(words(&error)))?;
        self.read.extend_from_slice(text);
        Ok(logits)
    }
}

/// candle's message, without the backtrace that it may carry.
fn words(error: &Error) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

impl Target for CandleTarget {
    fn vocab(&self) -> usize {
        self.vocab
    }

    fn set_features(&mut self, _: FeatureSource) {}

    fn feature_width(&self) -> usize {
        0
    }

    fn capacity(&self) -> usize {
        self.capacity
    }

    fn len(&self) -> usize {
        self.committed.len()
    }

    fn next_rows(&self, rows: usize) -> usize {
        // Of a model that reads only its first tokens together, these are the whole prompt.
        if self.committed.is_empty() && !self.model.extends { usize::MAX } else { rows }
    }

    fn prefill(&mut self, tokens: &[u32]) -> Result<Verified, TargetError> {
        let needed = self.len() + tokens.len();
        check_runnable(tokens.iter().copied(), self.vocab, needed, self.capacity)?;
        if tokens.is_empty() {
            return Ok(Verified::default());
        }
        let text = [&self.committed[..], tokens].concat();
        let logits = self.logits_after(&text)?;
        self.committed = text;
        Ok(Verified { logits, features: Vec::new() })
    }

    fn verify(&mut self, tree: &Tree) -> Result<Verified, TargetError> {
        let nodes = tree.nodes();
        let tokens = nodes.iter().map(|node| node.token);
        check_runnable(tokens, self.vocab, self.len() + nodes.len(), self.capacity)?;
        let mut logits = Vec::new();
        self.paths.clear();
        for node in nodes {
            // The root, which is its own parent, has no path above it.
            let mut path = self.paths.get(node.parent).cloned().unwrap_or_default();
            path.push(node.token);
            let text = [&self.committed[..], &path].concat();
            logits.extend(self.logits_after(&text)?);
            self.paths.push(path);
        }
        Ok(Verified { logits, features: Vec::new() })
    }

    fn commit(&mut self, path: &[usize]) {
        let kept = path.last().and_then(|&last| self.paths.get(last));
        self.committed.extend(kept.into_iter().flatten());
        self.paths.clear();
    }

    fn truncate(&mut self, len: usize) {
        self.committed.truncate(len);
        self.paths.clear();
    }
}
