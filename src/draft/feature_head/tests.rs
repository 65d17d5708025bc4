use super::*;
use crate::draft::Budget;
use crate::model::head::{Candidates, FusionKind, Pairs};
use crate::speculate::{BeamRow, Ranking, Shape};
use serde_json::json;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

/// A head that proposes token + 1 and, as far as the width allows, token + 100; it records
/// its passes and can fail.
#[derive(Default)]
struct Counting {
    passes: Arc<Mutex<Vec<(usize, usize, usize)>>>,
    last: u32,
    scratch: usize,
    /// The most scratch rows, if there is a limit.
    room: Option<usize>,
    fail_at_step: bool,
}

impl HeadBackend for Counting {
    fn describe(&self) -> String {
        "f32 on paper".into()
    }

    fn extend(&mut self, start: usize, pairs: Pairs<'_>, blocks: usize) -> Result<(), HeadError> {
        let Pairs { features, tokens } = pairs;
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
        if self.room.is_some_and(|room| self.scratch + beam.len() > room) {
            return Ok(Vec::new());
        }
        self.scratch += beam.len();
        Ok(beam.iter().map(|row| children(row.token, ranking)).collect())
    }

    fn outputs(&self) -> Result<Vec<f32>, HeadError> {
        Ok(Vec::new())
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
    head_on(blocks, Counting { fail_at_step, ..Counting::default() })
}

fn head_on(blocks: usize, backend: Counting) -> (FeatureHead, Passes) {
    let json = json!({
        "hidden_act": "silu", "hidden_size": 2, "intermediate_size": 2,
        "max_position_embeddings": 64, "num_attention_heads": 1, "num_hidden_layers": blocks,
        "rms_norm_eps": 1e-6, "vocab_size": 900, "elastic_depth": true
    });
    let config = HeadConfig::from_json(&json, FusionKind::Dgf);
    let passes = backend.passes.clone();
    let backend = Box::new(backend);
    (FeatureHead::new(&config.unwrap(), backend, 800), passes)
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
    assert_eq!(tokens(&head.propose(&[], &DraftRequest::new(5, budget(2))).unwrap()), [5, 6, 7, 8]);
    observe(&mut head, 6..8);
    head.propose(&[], &DraftRequest::new(7, budget(1))).unwrap();
    head.propose(&[], &DraftRequest::new(7, budget(2))).unwrap(); // Two are missing in block 1.
    head.propose(&[], &DraftRequest::new(7, budget(2))).unwrap(); // nothing new: the last row again
    head.propose(&[], &DraftRequest::new(7, budget(4))).unwrap(); // Blocks 2 and 3 are empty.
    let expected = [(0, 5, 2), (5, 7, 1), (5, 7, 2), (6, 7, 2), (0, 7, 4)];
    assert_eq!(*passes.lock().unwrap(), expected);
}

#[test]
fn no_level_follows_paths_that_are_too_unlikely() {
    let (mut head, _) = head(1, false);
    observe(&mut head, 1..6);
    let budget = Budget::new(Shape { gamma: 9, width: 1, depth: 6 }, 1);
    // Each token has the probability e^-0.1: after two of them 0.82, after three 0.74.
    for (least_pass, levels) in [(0.0, 7), (0.7, 4), (0.8, 3), (1.0, 1)] {
        let request = DraftRequest { least_pass, ..DraftRequest::new(5, budget) };
        assert_eq!(head.propose(&[], &request).unwrap().height(), levels, "{least_pass}");
    }
}

#[test]
fn a_long_prefill_runs_in_chunks() {
    let (mut head, passes) = head(1, false);
    observe(&mut head, 0..600);
    head.propose(&[], &DraftRequest::new(599, budget(1))).unwrap();
    assert_eq!(*passes.lock().unwrap(), [(0, 256, 1), (256, 512, 1), (512, 600, 1)]);
}

#[test]
fn a_prompt_is_read_as_its_pairs_come() {
    let (mut head, passes) = head(1, false);
    let go_on = AtomicBool::new(false);
    observe(&mut head, 0..300);
    head.read(&[], 1, &AtomicBool::new(true)).unwrap();
    head.read(&[], 1, &go_on).unwrap();
    observe(&mut head, 300..310);
    head.read(&[], 1, &go_on).unwrap();
    observe(&mut head, 310..311);
    head.propose(&[], &DraftRequest::new(310, budget(1))).unwrap();
    assert_eq!(*passes.lock().unwrap(), [(0, 256, 1), (256, 300, 1), (300, 310, 1), (310, 311, 1)]);
}

#[test]
fn without_a_budget_or_a_context_nothing_is_run() {
    let (mut head, passes) = head(1, false);
    assert_eq!(head.propose(&[], &DraftRequest::new(3, budget(1))).unwrap(), Tree::root(3));
    observe(&mut head, 0..4);
    let plain = Budget::new(Shape { gamma: 1, width: 1, depth: 2 }, 1);
    assert_eq!(head.propose(&[], &DraftRequest::new(3, plain)).unwrap(), Tree::root(3));
    observe(&mut head, 4..801); // One more than the capacity.
    assert_eq!(head.propose(&[], &DraftRequest::new(800, budget(1))).unwrap(), Tree::root(800));
    assert!(passes.lock().unwrap().is_empty());
}

#[test]
fn a_lost_device_is_replaced_and_every_pair_kept() {
    let (head, _) = head(2, true);
    let passes = Passes::default();
    let log = passes.clone();
    let mut head = head.with_fallback(Box::new(move || {
        Ok(Box::new(Counting { passes: log, ..Counting::default() }))
    }));
    observe(&mut head, 1..6);
    let error = head.propose(&[], &DraftRequest::new(5, budget(2))).unwrap_err();
    assert_eq!(error.to_string(), "the draft device failed: out of memory");
    head.fall_back().unwrap();
    assert_eq!(tokens(&head.propose(&[], &DraftRequest::new(5, budget(2))).unwrap()), [5, 6, 7, 8]);
    assert_eq!(*passes.lock().unwrap(), [(0, 5, 2)]);
    assert!(head.fall_back().is_err(), "there is only one reserve");
}

/// Drafts ahead of `tree` to the end, or is stopped before it begins.
fn ahead(head: &mut FeatureHead, tree: &Tree, request: &DraftRequest, stopped: bool) {
    let stop = &AtomicBool::new(stopped);
    head.draft_ahead(&AheadRequest { tree, request, stop, grown: None }).unwrap();
}

/// Proposes, drafts ahead to the end, and clears the recorded passes.
fn go_ahead(head: &mut FeatureHead, root: u32, budget: Budget, passes: &Passes) -> Tree {
    let request = DraftRequest::new(root, budget);
    let tree = head.propose(&[], &request).unwrap();
    ahead(head, &tree, &request, false);
    passes.lock().unwrap().clear();
    tree
}

#[test]
fn a_tree_drafted_ahead_is_used_without_a_pass() {
    let (mut head, passes) = head(1, false);
    observe(&mut head, 1..6);
    let chain = budget(1);
    go_ahead(&mut head, 5, chain, &passes);
    assert_eq!(head.drafted_ahead().collect::<Vec<_>>(), [[6, 7, 8, 9]]);
    observe(&mut head, 6..10);
    let tree = head.propose(&[], &DraftRequest::new(9, chain)).unwrap();
    assert_eq!((tokens(&tree), head.was_drafted_ahead()), (vec![9, 10, 11, 12], true));
    assert!(passes.lock().unwrap().is_empty());
    // The true features are prefilled only then, during the target's next pass.
    ahead(&mut head, &tree, &DraftRequest::new(9, chain), false);
    assert_eq!(*passes.lock().unwrap(), [(5, 9, 1)]);
    assert_eq!(head.drafted_ahead().collect::<Vec<_>>(), [[10, 11, 12, 13]]);
    // Another end: everything is drafted again.
    observe(&mut head, 10..12);
    head.observe(&[0.0; 2], &[40]).unwrap();
    let tree = head.propose(&[], &DraftRequest::new(40, chain)).unwrap();
    assert_eq!((tokens(&tree), head.was_drafted_ahead()), (vec![40, 41, 42, 43], false));
    assert_eq!(passes.lock().unwrap().last(), Some(&(9, 12, 1)));
}

#[test]
fn the_likeliest_outcomes_come_first() {
    let (mut head, passes) = head(1, false);
    observe(&mut head, 1..6);
    // 5 → 6 → 7, and next to 6 its sibling 105: outcomes outside the tree are possible too.
    let wide = Budget::new(Shape { gamma: 4, width: 2, depth: 1 }, 1);
    let tree = go_ahead(&mut head, 5, wide, &passes);
    assert_eq!(tokens(&tree), [5, 6, 105, 7]);
    let outcomes: Vec<&[u32]> = head.drafted_ahead().collect();
    // −0.3, −2.5, −2.5, −2.6: of equal ones, the one found later.
    let expected: [&[u32]; 4] = [&[6, 7, 8], &[105, 106], &[6, 106], &[6, 7, 107]];
    assert_eq!(outcomes[0], expected[0]);
    assert_eq!(outcomes.len(), 4);
    assert!(expected.iter().all(|outcome| outcomes.contains(outcome)), "{outcomes:?}");
}

#[test]
fn a_tree_drafted_ahead_under_another_request_or_text_is_not_used() {
    let (mut head, passes) = head(2, false);
    let chain = budget(1);
    let other = budget(2);
    for (asked, text, taken) in [(chain, 6..10, true), (other, 6..10, false), (chain, 6..9, false)]
    {
        head.truncate(0);
        observe(&mut head, 1..6);
        go_ahead(&mut head, 5, chain, &passes);
        observe(&mut head, text.clone());
        head.propose(&[], &DraftRequest::new(text.end - 1, asked)).unwrap();
        assert_eq!(head.was_drafted_ahead(), taken, "{asked:?} {text:?}");
    }
    // Nor if the text was different for a while.
    go_ahead(&mut head, 8, chain, &passes);
    observe(&mut head, 9..13);
    head.truncate(8);
    observe(&mut head, 9..13);
    head.propose(&[], &DraftRequest::new(12, chain)).unwrap();
    assert!(!head.was_drafted_ahead());
}

#[test]
fn drafting_ahead_that_is_stopped_at_once_changes_nothing() {
    let (mut head, _) = head(1, false);
    observe(&mut head, 1..6);
    let chain = budget(1);
    let request = DraftRequest::new(5, chain);
    let tree = head.propose(&[], &request).unwrap();
    ahead(&mut head, &tree, &request, true);
    assert_eq!(head.drafted_ahead().count(), 0);
    observe(&mut head, 6..10);
    assert_eq!(tokens(&head.propose(&[], &DraftRequest::new(9, chain)).unwrap()), [9, 10, 11, 12]);
}

#[test]
fn a_device_lost_while_drafting_ahead_is_replaced_and_every_pair_kept() {
    let (head, _) = head(1, true);
    let mut head = head.with_fallback(Box::new(|| Ok(Box::new(Counting::default()))));
    observe(&mut head, 1..6);
    // Without expansions the tree needs none of the steps that fail.
    let flat = Budget::new(Shape { gamma: 3, width: 2, depth: 0 }, 1);
    let request = DraftRequest::new(5, flat);
    let tree = head.propose(&[], &request).unwrap();
    let error = head
        .draft_ahead(&AheadRequest {
            tree: &tree,
            request: &request,
            stop: &AtomicBool::new(false),
            grown: None,
        })
        .unwrap_err();
    assert_eq!(error.to_string(), "the draft device failed: out of memory");
    head.fall_back().unwrap();
    assert_eq!(head.drafted_ahead().count(), 0);
    observe(&mut head, 6..8);
    assert_eq!(
        tokens(&head.propose(&[], &DraftRequest::new(7, budget(1))).unwrap()),
        [7, 8, 9, 10]
    );
    assert!(!head.was_drafted_ahead());
}

#[test]
fn without_room_for_more_rows_trees_end_early() {
    for room in 0..12 {
        let (mut head, _) = head_on(1, Counting { room: Some(room), ..Counting::default() });
        observe(&mut head, 1..6);
        let chain = budget(1);
        let request = DraftRequest::new(5, chain);
        let tree = head.propose(&[], &request).unwrap();
        assert_eq!(tree.len(), 2 + room.min(2));
        ahead(&mut head, &tree, &request, false);
        // Two rows belong to the tree and one to its last token; then each outcome needs at least
        // one.
        assert_eq!(head.drafted_ahead().count() > 0, room > 3, "room for {room}");
        let outcomes: Vec<Vec<u32>> = head.drafted_ahead().map(<[u32]>::to_vec).collect();
        for outcome in outcomes {
            head.observe(&vec![0.0; 2 * outcome.len()], &outcome).unwrap();
            let root = *outcome.last().unwrap();
            let tree = head.propose(&[], &DraftRequest::new(root, chain)).unwrap();
            assert_eq!(tree.nodes()[0].token, root);
        }
    }
}

#[test]
fn it_says_what_it_is() {
    let (head, _) = head(4, false);
    assert_eq!(head.describe(), "DGF head, 4 blocks, f32 on paper");
    assert_eq!((head.depths(), head.capacity(), head.device_bytes()), (Depths::Elastic(4), 800, 7));
}
