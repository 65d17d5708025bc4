//! The draft head ahead of its target: trees grown from its own outputs equal those that would be
//! grown if the outputs were the target's features, and the stable cache stays unchanged.

use crate::support::golden::HEADS;
use crate::support::heads::{Backend, Case, backends};
use dovetail::draft::{Ahead, AheadRequest, Budget, DraftRequest, Drafter, FeatureHead};
use dovetail::model::head::Pairs;
use dovetail::speculate::{Coupling, SamplerSettings, Shape, Tree};
use std::sync::atomic::AtomicBool;

const SHAPES: [Shape; 3] = [
    Shape { gamma: 16, width: 4, depth: 3 },
    Shape { gamma: 5, width: 1, depth: 3 },
    Shape { gamma: 40, width: 10, depth: 5 },
];

/// What there is time for on a software GPU.
const SMALL: [Shape; 1] = [Shape { gamma: 6, width: 2, depth: 2 }];

fn shapes(backend: Backend) -> &'static [Shape] {
    match backend {
        Backend::Packed => &SHAPES,
        Backend::Gpu => &SMALL,
    }
}

/// A drafter that has observed prompt `p0` and drafted ahead of its tree.
fn ahead(case: &Case, backend: Backend, request: &DraftRequest) -> (FeatureHead, Ahead, Tree) {
    let (features, tokens) = case.input("p0");
    let mut drafter = case.drafter(backend);
    drafter.observe(&features, &tokens).unwrap();
    let tree = drafter.propose(&[], request).unwrap();
    let ahead = drafter
        .draft_ahead(&AheadRequest {
            tree: &tree,
            request,
            stop: &AtomicBool::new(false),
            grown: None,
        })
        .unwrap();
    (drafter, ahead, tree)
}

/// The head's own outputs along `tokens` after prompt `p0`: for each token, the output that
/// replaces the feature before it.
fn own_outputs(case: &Case, backend: Backend, blocks: usize, outcome: &[u32]) -> Vec<f32> {
    let (features, tokens) = case.input("p0");
    let hidden = case.weights.config.body.hidden;
    let mut head = case.backend(backend);
    head.extend(0, Pairs { features: &features, tokens: &tokens }, blocks).unwrap();
    let mut outputs = Vec::new();
    for (i, &token) in outcome.iter().enumerate() {
        let all = head.outputs().unwrap();
        let last = &all[all.len() - hidden..];
        outputs.extend_from_slice(last);
        head.extend(tokens.len() + i, Pairs { features: last, tokens: &[token] }, blocks).unwrap();
    }
    outputs
}

/// What is drafted ahead, and when, does not depend on the device: the CPU's kernels draft every
/// shape and outcome ahead, a GPU small trees and the outcomes at both ends of the list.
#[test]
fn a_tree_drafted_ahead_is_that_of_the_same_features() {
    let mut compared = 0;
    for name in HEADS {
        let case = Case::load(name);
        let root = *case.input("p0").1.last().unwrap();
        for backend in backends() {
            for &shape in shapes(backend) {
                let budget = Budget::new(shape, 2);
                let blocks = case.weights.config.blocks();
                let request = DraftRequest::new(root, budget);
                let (drafter, Ahead { outcomes: recorded, .. }, _) =
                    ahead(&case, backend, &request);
                assert!(!recorded.is_empty());
                assert_eq!(drafter.drafted_ahead().count(), recorded.len());
                let outcomes = drafter.drafted_ahead().map(<[u32]>::to_vec);
                let mut pairs: Vec<_> = outcomes.zip(recorded).collect();
                if matches!(backend, Backend::Gpu) && pairs.len() > 2 {
                    pairs.drain(1..pairs.len() - 1);
                }
                for (outcome, recorded) in pairs {
                    let stand_ins = own_outputs(&case, backend, blocks, &outcome);
                    let (mut drafter, ..) = ahead(&case, backend, &request);
                    drafter.observe(&stand_ins, &outcome).unwrap();
                    let next = DraftRequest::new(*outcome.last().unwrap(), budget);
                    let tree = drafter.propose(&[], &next).unwrap();
                    assert!(drafter.was_drafted_ahead(), "{name} {outcome:?}");
                    // What the record of the round holds is what the next round verifies.
                    assert_eq!(tree, recorded.tree, "{name} {outcome:?}");

                    let (features, tokens) = case.input("p0");
                    let mut fresh = case.drafter(backend);
                    fresh.observe(&features, &tokens).unwrap();
                    fresh.observe(&stand_ins, &outcome).unwrap();
                    assert_eq!(tree, fresh.propose(&[], &next).unwrap());
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 40, "{compared} trees compared");
}

#[test]
fn outcomes_are_ends_of_the_tree() {
    for name in HEADS {
        let case = Case::load(name);
        let root = *case.input("p0").1.last().unwrap();
        for shape in SHAPES {
            let budget = Budget::new(shape, 2);
            let (drafter, _, tree) =
                ahead(&case, Backend::Packed, &DraftRequest::new(root, budget));
            let mut seen: Vec<&[u32]> = Vec::new();
            for outcome in drafter.drafted_ahead() {
                let (&bonus, path) = outcome.split_last().unwrap();
                let end = path.iter().try_fold(0, |node, &token| tree.child(node, token));
                let end = end.unwrap_or_else(|| panic!("{outcome:?} is not in the tree"));
                assert_eq!(tree.child(end, bonus), None, "{outcome:?} goes on in the tree");
                assert!(!seen.contains(&outcome), "{outcome:?} twice");
                seen.push(outcome);
            }
        }
    }
}

/// What the target rejects leaves no trace, and drafting ahead of a tree that was itself drafted
/// ahead is correct too.
#[test]
fn the_stable_cache_is_not_touched() {
    for name in HEADS {
        let case = Case::load(name);
        let (features, tokens) = case.input("p0");
        let hidden = case.weights.config.body.hidden;
        for backend in backends() {
            let budget = Budget::new(shapes(backend)[0], 2);
            let mut busy = case.drafter(backend);
            // The committed pairs are rarely those that the head drafted ahead.
            for seen in 4..tokens.len() {
                let from = if seen == 4 { 0 } else { seen - 1 };
                busy.observe(&features[from * hidden..seen * hidden], &tokens[from..seen]).unwrap();
                let request = DraftRequest::new(tokens[seen - 1], budget);
                let tree = busy.propose(&[], &request).unwrap();
                busy.draft_ahead(&AheadRequest {
                    tree: &tree,
                    request: &request,
                    stop: &AtomicBool::new(false),
                    grown: None,
                })
                .unwrap();
                if busy.was_drafted_ahead() {
                    continue;
                }
                let mut idle = case.drafter(backend);
                idle.observe(&features[..seen * hidden], &tokens[..seen]).unwrap();
                assert_eq!(tree, idle.propose(&[], &request).unwrap());
            }
        }
    }
}

/// Under coupled drafting, a tree drafted ahead is ranked with the noise of its future positions.
#[test]
fn coupled_trees_are_drafted_ahead_with_the_noise_to_come() {
    let case = Case::load("draft_dgf_m2");
    let (features, tokens) = case.input("p0");
    let sampler = SamplerSettings { temperature: 1.0, seed: 7, ..SamplerSettings::default() };
    let budget = Budget::new(SHAPES[0], 2);
    let asked = |root, position| {
        let coupling = Some(Coupling { sampler, root: position });
        DraftRequest { coupling, ..DraftRequest::new(root, budget) }
    };
    let request = asked(tokens[10], tokens.len());
    let outcomes: Vec<Vec<u32>> =
        ahead(&case, Backend::Packed, &request).0.drafted_ahead().map(<[u32]>::to_vec).collect();
    for outcome in outcomes {
        let stand_ins = own_outputs(&case, Backend::Packed, 2, &outcome);
        let (mut drafter, ..) = ahead(&case, Backend::Packed, &request);
        drafter.observe(&stand_ins, &outcome).unwrap();
        let next = asked(*outcome.last().unwrap(), tokens.len() + outcome.len());
        let tree = drafter.propose(&[], &next).unwrap();
        assert!(drafter.was_drafted_ahead());
        let mut fresh = case.drafter(Backend::Packed);
        fresh.observe(&features, &tokens).unwrap();
        fresh.observe(&stand_ins, &outcome).unwrap();
        assert_eq!(tree, fresh.propose(&[], &next).unwrap());
    }
}
