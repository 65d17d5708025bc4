//! The paper's drafter: a feature head (DGF or EAGLE) that grows the dynamic tree (spec §3–4).

mod ahead;
mod forest;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::{Ask, Depths, DraftError, Drafter};
use crate::kernels::Pool;
use crate::model::head::{Candidates, FusionKind, HeadBackend, HeadConfig, HeadError};
use crate::speculate::{BeamRow, Tree};
use ahead::Foreseen;
use forest::{Forest, Sprout};

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
    /// What was run behind the stable rows.
    forest: Forest,
    /// Pairs and blocks of the stable rows that the forest stands on.
    settled: Option<(usize, usize)>,
    foreseen: Option<Foreseen>,
    /// Whether the last tree came from it.
    foresaw: bool,
    /// The pool it works apart on while the target verifies.
    cores: Option<Arc<Pool>>,
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
            forest: Forest::default(),
            settled: None,
            foreseen: None,
            foresaw: false,
            cores: None,
        }
    }

    /// With a way to go on when the backend's device fails.
    #[must_use]
    pub fn with_fallback(mut self, fallback: Fallback) -> Self {
        self.fallback = Some(fallback);
        self
    }

    /// With the pool that is parted from the target's while both work: the backend's own, or for a
    /// backend on another device one that keeps a core free to serve it.
    #[must_use]
    pub fn with_cores(mut self, cores: Arc<Pool>) -> Self {
        self.cores = Some(cores);
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
        self.clear_forest();
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

    /// Forgets what stands on the stable rows as they were.
    fn clear_forest(&mut self) {
        self.forest = Forest::default();
        self.settled = None;
        self.foreseen = None;
    }

    /// Begins a forest on the stable rows, brought up to the last pair.
    fn plant(&mut self, ask: &Ask<'_>) -> Result<(), HeadError> {
        let blocks = self.blocks_for(ask.budget.blocks);
        self.catch_up(blocks)?;
        self.forest = Forest::new(self.backend.rank_root(&ask.ranking(1))?);
        self.settled = Some((self.tokens.len(), blocks));
        Ok(())
    }

    /// Runs rows whose children stand `depth` below the root that `ask` is for. Returns the first
    /// row's number, `None` if there is no room for them, and the candidates below each.
    fn step(
        &mut self,
        beam: Vec<BeamRow>,
        ask: &Ask<'_>,
        depth: usize,
    ) -> Result<(Option<usize>, Candidates), HeadError> {
        let candidates = self.backend.step(&beam, &ask.ranking(depth))?;
        Ok((self.forest.add(beam, &candidates), candidates))
    }

    /// Grows a tree, whose own root stands `above` below the root that `ask` is for, by a level.
    fn advance(
        &mut self,
        sprout: &mut Sprout,
        ask: &Ask<'_>,
        above: usize,
    ) -> Result<(), HeadError> {
        let beam = sprout.beam(&self.forest);
        let rows = beam.len();
        let (first, candidates) = self.step(beam, ask, above + sprout.levels + 1)?;
        sprout.rows.extend(first.into_iter().flat_map(|first| first..first + rows));
        sprout.growth.expand(&candidates);
        sprout.levels += 1;
        Ok(())
    }

    fn grow(&mut self, ask: &Ask<'_>) -> Result<Tree, HeadError> {
        let foreseen = self.take_foreseen(ask);
        self.foresaw = foreseen.is_some();
        let mut sprout = match foreseen {
            Some(sprout) => sprout,
            None => {
                self.plant(ask)?;
                Sprout::new(ask.growth(self.forest.children(None)), None)
            }
        };
        while !sprout.growth.beam().is_empty() {
            self.advance(&mut sprout, ask, 0)?;
        }
        Ok(sprout.growth.finish(ask.root))
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
        self.clear_forest();
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

    fn ahead(&mut self, tree: &Tree, ask: &Ask<'_>, stop: &AtomicBool) -> Result<(), DraftError> {
        if self.tokens.is_empty()
            || self.tokens.len() > self.capacity
            || ask.budget.shape.width == 0
        {
            return Ok(());
        }
        let cores = self.cores.clone();
        let _apart = cores.as_ref().map(|cores| cores.work_apart());
        self.foresee(tree, ask, stop).map_err(lost)
    }

    fn foresaw(&self) -> bool {
        self.foresaw
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
        self.clear_forest();
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

    /// A head that proposes token + 1 and, as far as the width allows, token + 100; it writes down
    /// what it ran and can fail.
    #[derive(Default)]
    struct Counting {
        passes: Arc<Mutex<Vec<(usize, usize, usize)>>>,
        last: u32,
        scratch: usize,
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
            self.scratch = 0;
            Ok(())
        }

        fn rank_root(&mut self, ranking: &Ranking) -> Result<Vec<(u32, f32)>, HeadError> {
            Ok(children(self.last, ranking))
        }

        fn step(&mut self, beam: &[BeamRow], ranking: &Ranking) -> Result<Candidates, HeadError> {
            if self.fail_at_step {
                return Err(HeadError::Device("out of memory".into()));
            }
            for row in beam {
                assert_eq!(row.ancestors.last(), row.source.as_ref());
                assert!(row.ancestors.iter().all(|&above| above < self.scratch));
            }
            self.scratch += beam.len();
            Ok(beam.iter().map(|row| children(row.token, ranking)).collect())
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

    fn children(token: u32, ranking: &Ranking) -> Vec<(u32, f32)> {
        let both = [(token + 1, -0.1), (token + 100, -2.4)];
        both.into_iter().take(ranking.width()).collect()
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

    /// Proposes, goes ahead without being stopped, and takes the passes made so far away.
    fn go_ahead(head: &mut FeatureHead, root: u32, budget: &Budget, passes: &Passes) -> Tree {
        let ask = Ask::new(root, budget);
        let tree = head.propose(&ask).unwrap();
        head.ahead(&tree, &ask, &AtomicBool::new(false)).unwrap();
        passes.lock().unwrap().clear();
        tree
    }

    #[test]
    fn what_comes_as_foreseen_is_there_without_a_pass() {
        let (mut head, passes) = head(1, false);
        observe(&mut head, 1..6);
        let chain = budget(1);
        go_ahead(&mut head, 5, &chain, &passes);
        assert_eq!(head.foreseen().collect::<Vec<_>>(), [[6, 7, 8, 9]]);
        observe(&mut head, 6..10);
        let tree = head.propose(&Ask::new(9, &chain)).unwrap();
        assert_eq!((tokens(&tree), head.foresaw()), (vec![9, 10, 11, 12], true));
        assert!(passes.lock().unwrap().is_empty());
        // Only then the true features are caught up with, beside the target's next pass.
        head.ahead(&tree, &Ask::new(9, &chain), &AtomicBool::new(false)).unwrap();
        assert_eq!(*passes.lock().unwrap(), [(5, 9, 1)]);
        assert_eq!(head.foreseen().collect::<Vec<_>>(), [[10, 11, 12, 13]]);
        // Another end: everything anew.
        observe(&mut head, 10..12);
        head.observe(&[0.0; 2], &[40]).unwrap();
        let tree = head.propose(&Ask::new(40, &chain)).unwrap();
        assert_eq!((tokens(&tree), head.foresaw()), (vec![40, 41, 42, 43], false));
        assert_eq!(passes.lock().unwrap().last(), Some(&(9, 12, 1)));
    }

    #[test]
    fn the_likeliest_outcomes_come_first() {
        let (mut head, passes) = head(1, false);
        observe(&mut head, 1..6);
        // 5 → 6 → 7, and beside 6 its sibling 105: what the tree has no room for may come too.
        let wide = Budget::new(Shape { gamma: 4, width: 2, depth: 1 }, 1);
        let tree = go_ahead(&mut head, 5, &wide, &passes);
        assert_eq!(tokens(&tree), [5, 6, 105, 7]);
        let outcomes: Vec<&[u32]> = head.foreseen().collect();
        // −0.3, −2.5, −2.5, −2.6: of equals the one found later.
        let expected: [&[u32]; 4] = [&[6, 7, 8], &[105, 106], &[6, 106], &[6, 7, 107]];
        assert_eq!(outcomes[0], expected[0]);
        assert_eq!(outcomes.len(), 4);
        assert!(expected.iter().all(|outcome| outcomes.contains(outcome)), "{outcomes:?}");
    }

    #[test]
    fn what_was_foreseen_for_other_wishes_or_another_text_is_not_taken() {
        let (mut head, passes) = head(2, false);
        let (chain, other) = (budget(1), budget(2));
        for (asked, text, taken) in
            [(chain, 6..10, true), (other, 6..10, false), (chain, 6..9, false)]
        {
            head.truncate(0);
            observe(&mut head, 1..6);
            go_ahead(&mut head, 5, &chain, &passes);
            observe(&mut head, text.clone());
            head.propose(&Ask::new(text.end - 1, &asked)).unwrap();
            assert_eq!(head.foresaw(), taken, "{asked:?} {text:?}");
        }
        // Nor when the text was another for a while.
        go_ahead(&mut head, 8, &chain, &passes);
        observe(&mut head, 9..13);
        head.truncate(8);
        observe(&mut head, 9..13);
        head.propose(&Ask::new(12, &chain)).unwrap();
        assert!(!head.foresaw());
    }

    #[test]
    fn who_is_stopped_at_once_has_nothing_and_loses_nothing() {
        let (mut head, _) = head(1, false);
        observe(&mut head, 1..6);
        let chain = budget(1);
        let ask = Ask::new(5, &chain);
        let tree = head.propose(&ask).unwrap();
        head.ahead(&tree, &ask, &AtomicBool::new(true)).unwrap();
        assert_eq!(head.foreseen().count(), 0);
        observe(&mut head, 6..10);
        assert_eq!(tokens(&head.propose(&Ask::new(9, &chain)).unwrap()), [9, 10, 11, 12]);
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
