//! The paper's drafter: a feature head (DGF or EAGLE) that grows the dynamic tree (spec §3–4).

use super::{Ask, Depths, DraftError, Drafter};
use crate::model::head::{FusionKind, HeadBackend, HeadConfig, HeadError};
use crate::speculate::{Growth, Tree};

/// Makes a backend on a device that is always there, for when the first one fails.
pub type Fallback = Box<dyn FnOnce() -> Result<Box<dyn HeadBackend>, HeadError> + Send>;

/// Rows of one causal pass: bounds the attention scores of a long prefill.
const CHUNK: usize = 256;

/// A feature head as a [`Drafter`].
///
/// It keeps every observed pair in memory and runs the head over them only when a tree is asked
/// for. So plain decoding costs nothing, a block that was left out catches up when M rises, and a
/// failed device's work can be done again on another.
pub struct FeatureHead {
    kind: FusionKind,
    depths: Depths,
    hidden: usize,
    capacity: usize,
    backend: Box<dyn HeadBackend>,
    fallback: Option<Fallback>,
    /// `[pairs, H]`.
    features: Vec<f32>,
    /// `[pairs]`: the token after each feature.
    tokens: Vec<u32>,
    /// For each block, how many pairs' stable KV rows it holds.
    held: Vec<usize>,
}

impl FeatureHead {
    /// A drafter on `backend` for up to `capacity` positions.
    pub fn new(
        config: &HeadConfig,
        kind: FusionKind,
        backend: Box<dyn HeadBackend>,
        capacity: usize,
    ) -> Self {
        let blocks = config.blocks();
        Self {
            kind,
            depths: if config.elastic { Depths::Elastic(blocks) } else { Depths::Fixed(blocks) },
            hidden: config.body.hidden,
            capacity: config.capacity(capacity),
            backend,
            fallback: None,
            features: Vec::new(),
            tokens: Vec::new(),
            held: vec![0; blocks],
        }
    }

    /// With a way to go on when the backend's device fails.
    #[must_use]
    pub fn with_fallback(mut self, fallback: Fallback) -> Self {
        self.fallback = Some(fallback);
        self
    }

    /// Pairs observed and kept.
    pub fn observed(&self) -> usize {
        self.tokens.len()
    }

    /// Stable KV rows of `block`.
    pub fn stable_len(&self, block: usize) -> usize {
        self.held[block]
    }

    fn blocks_for(&self, wanted: usize) -> usize {
        match self.depths {
            Depths::Fixed(blocks) => blocks,
            Depths::Elastic(most) => wanted.clamp(1, most),
        }
    }

    /// Runs what the first `blocks` blocks lack, at least the last pair, whose output the tree
    /// starts from.
    fn catch_up(&mut self, blocks: usize) -> Result<(), HeadError> {
        let pairs = self.tokens.len();
        let held = self.held[..blocks].iter().copied().min().unwrap_or(0);
        let mut start = held.min(pairs.saturating_sub(1));
        while start < pairs {
            let end = pairs.min(start + CHUNK);
            // Until the pass is done, nothing from `start` on can be relied upon.
            self.held[..blocks].iter_mut().for_each(|held| *held = (*held).min(start));
            let features = &self.features[start * self.hidden..end * self.hidden];
            self.backend.extend(start, features, &self.tokens[start..end], blocks)?;
            self.held[..blocks].iter_mut().for_each(|held| *held = end);
            start = end;
        }
        Ok(())
    }

    fn grow(&mut self, ask: &Ask<'_>) -> Result<Tree, HeadError> {
        self.catch_up(self.blocks_for(ask.budget.blocks))?;
        let first = self.backend.rank_root(&ask.ranking(1))?;
        let mut growth = Growth::new(ask.budget.shape, &first);
        let mut depth = 1;
        while !growth.beam().is_empty() {
            depth += 1;
            let candidates = self.backend.step(growth.beam(), &ask.ranking(depth))?;
            growth.expand(&candidates);
        }
        Ok(growth.finish(ask.root))
    }
}

fn lost(error: HeadError) -> DraftError {
    DraftError::Device(match error {
        HeadError::Device(reason) => reason,
        other => other.to_string(),
    })
}

impl Drafter for FeatureHead {
    fn describe(&self) -> String {
        let kind = match self.kind {
            FusionKind::Dgf => "DGF",
            FusionKind::Eagle => "EAGLE",
        };
        let blocks = match self.held.len() {
            1 => "1 block".into(),
            blocks => format!("{blocks} blocks"),
        };
        format!("{kind} head, {blocks}, {}", self.backend.describe())
    }

    fn depths(&self) -> Depths {
        self.depths
    }

    fn capacity(&self) -> usize {
        self.capacity
    }

    fn truncate(&mut self, len: usize) {
        self.tokens.truncate(len);
        self.features.truncate(len * self.hidden);
        self.held.iter_mut().for_each(|held| *held = (*held).min(len));
    }

    fn observe(&mut self, features: &[f32], tokens: &[u32]) -> Result<(), DraftError> {
        debug_assert_eq!(features.len(), tokens.len() * self.hidden);
        self.features.extend_from_slice(features);
        self.tokens.extend_from_slice(tokens);
        Ok(())
    }

    fn prepare(&mut self, blocks: usize) -> Result<(), DraftError> {
        if self.tokens.len() > self.capacity {
            return Ok(());
        }
        self.catch_up(self.blocks_for(blocks)).map_err(lost)
    }

    fn propose(&mut self, ask: &Ask<'_>) -> Result<Tree, DraftError> {
        let &Ask { root, budget, .. } = ask;
        let nothing_to_go_on = self.tokens.is_empty() || self.tokens.len() > self.capacity;
        if nothing_to_go_on || budget.shape.gamma <= 1 || budget.shape.width == 0 {
            return Ok(Tree::root(root));
        }
        debug_assert_eq!(self.tokens.last(), Some(&root));
        self.grow(ask).map_err(lost)
    }

    fn device_bytes(&self) -> u64 {
        self.backend.device_bytes()
    }

    fn fall_back(&mut self) -> Result<(), DraftError> {
        let make = self
            .fallback
            .take()
            .ok_or_else(|| DraftError::Device("there is no other device to draft on".into()))?;
        self.backend = make().map_err(lost)?;
        self.held.fill(0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draft::Budget;
    use crate::model::head::Candidates;
    use crate::speculate::{BeamRow, Ranking, Shape};
    use serde_json::json;
    use std::sync::{Arc, Mutex};

    /// A head that proposes token + 1, writes down what it ran and can fail.
    #[derive(Default)]
    struct Counting {
        passes: Arc<Mutex<Vec<(usize, usize, usize)>>>,
        last: u32,
        fail_at_step: bool,
    }

    impl HeadBackend for Counting {
        fn describe(&self) -> String {
            "f32 on paper".into()
        }

        fn extend(
            &mut self,
            start: usize,
            features: &[f32],
            tokens: &[u32],
            blocks: usize,
        ) -> Result<(), HeadError> {
            assert_eq!(features.len(), 2 * tokens.len());
            self.passes.lock().unwrap().push((start, start + tokens.len(), blocks));
            self.last = *tokens.last().unwrap();
            Ok(())
        }

        fn rank_root(&mut self, _: &Ranking) -> Result<Vec<(u32, f32)>, HeadError> {
            Ok(vec![(self.last + 1, -0.1)])
        }

        fn step(&mut self, beam: &[BeamRow], _: &Ranking) -> Result<Candidates, HeadError> {
            if self.fail_at_step {
                return Err(HeadError::Device("out of memory".into()));
            }
            Ok(beam.iter().map(|row| vec![(row.token + 1, -0.1)]).collect())
        }

        fn outputs(&self) -> Result<Vec<f32>, HeadError> {
            Ok(Vec::new())
        }

        fn keys_and_values(&self, _: usize) -> Result<(Vec<f32>, Vec<f32>), HeadError> {
            Ok((Vec::new(), Vec::new()))
        }

        fn device_bytes(&self) -> u64 {
            7
        }
    }

    type Passes = Arc<Mutex<Vec<(usize, usize, usize)>>>;

    fn head(blocks: usize, fail_at_step: bool) -> (FeatureHead, Passes) {
        let config = HeadConfig::from_json(&json!({
            "hidden_act": "silu", "hidden_size": 2, "intermediate_size": 2,
            "max_position_embeddings": 64, "num_attention_heads": 1, "num_hidden_layers": blocks,
            "rms_norm_eps": 1e-6, "vocab_size": 900, "elastic_depth": true
        }));
        let backend = Counting { fail_at_step, ..Counting::default() };
        let passes = backend.passes.clone();
        let backend = Box::new(backend);
        (FeatureHead::new(&config.unwrap(), FusionKind::Dgf, backend, 800), passes)
    }

    fn budget(blocks: usize) -> Budget {
        Budget::new(Shape { gamma: 4, width: 1, depth: 2 }, blocks)
    }

    fn observe(head: &mut FeatureHead, tokens: std::ops::Range<u32>) {
        let tokens: Vec<u32> = tokens.collect();
        head.observe(&vec![0.0; 2 * tokens.len()], &tokens).unwrap();
    }

    fn tokens(tree: &Tree) -> Vec<u32> {
        tree.nodes().iter().map(|node| node.token).collect()
    }

    #[test]
    fn only_what_is_lacking_is_run_and_only_when_asked() {
        let (mut head, passes) = head(4, false);
        observe(&mut head, 1..6);
        assert!(passes.lock().unwrap().is_empty());
        assert_eq!(tokens(&head.propose(&Ask::new(5, &budget(2))).unwrap()), [5, 6, 7, 8]);
        observe(&mut head, 6..8);
        head.propose(&Ask::new(7, &budget(1))).unwrap();
        head.propose(&Ask::new(7, &budget(2))).unwrap(); // block 1 lacks the two newest
        head.propose(&Ask::new(7, &budget(2))).unwrap(); // nothing new: the last row again
        head.propose(&Ask::new(7, &budget(4))).unwrap(); // blocks 2 and 3 have nothing yet
        let expected = [(0, 5, 2), (5, 7, 1), (5, 7, 2), (6, 7, 2), (0, 7, 4)];
        assert_eq!(*passes.lock().unwrap(), expected);
    }

    #[test]
    fn a_long_prefill_runs_in_chunks() {
        let (mut head, passes) = head(1, false);
        observe(&mut head, 0..600);
        head.propose(&Ask::new(599, &budget(1))).unwrap();
        assert_eq!(*passes.lock().unwrap(), [(0, 256, 1), (256, 512, 1), (512, 600, 1)]);
    }

    #[test]
    fn without_a_budget_or_a_context_nothing_is_run() {
        let (mut head, passes) = head(1, false);
        assert_eq!(head.propose(&Ask::new(3, &budget(1))).unwrap(), Tree::root(3));
        observe(&mut head, 0..4);
        let plain = Budget::new(Shape { gamma: 1, width: 1, depth: 2 }, 1);
        assert_eq!(head.propose(&Ask::new(3, &plain)).unwrap(), Tree::root(3));
        observe(&mut head, 4..801); // one more than the capacity
        assert_eq!(head.propose(&Ask::new(800, &budget(1))).unwrap(), Tree::root(800));
        assert!(passes.lock().unwrap().is_empty());
    }

    #[test]
    fn a_lost_device_is_replaced_with_nothing_forgotten() {
        let (head, _) = head(2, true);
        let passes = Passes::default();
        let log = passes.clone();
        let mut head = head.with_fallback(Box::new(move || {
            Ok(Box::new(Counting { passes: log, ..Counting::default() }))
        }));
        observe(&mut head, 1..6);
        let error = head.propose(&Ask::new(5, &budget(2))).unwrap_err();
        assert_eq!(error.to_string(), "the draft device failed: out of memory");
        head.fall_back().unwrap();
        assert_eq!(tokens(&head.propose(&Ask::new(5, &budget(2))).unwrap()), [5, 6, 7, 8]);
        assert_eq!(*passes.lock().unwrap(), [(0, 5, 2)]);
        assert!(head.fall_back().is_err(), "there is only one reserve");
    }

    #[test]
    fn it_says_what_it_is() {
        let (head, _) = head(4, false);
        assert_eq!(head.describe(), "DGF head, 4 blocks, f32 on paper");
        assert_eq!(
            (head.depths(), head.capacity(), head.device_bytes()),
            (Depths::Elastic(4), 800, 7)
        );
    }
}
