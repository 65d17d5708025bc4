//! The draft head against the original program's numbers; the same tests run on every backend.

use std::sync::Arc;

use candle_core::{Device, Tensor};
use dovetail::draft::{Budget, Depths, DraftRequest, Drafter, FeatureHead};
use dovetail::kernels::{KvFormat, Pool};
use dovetail::model::head::{DraftPrecision, DraftVocabulary, HeadBackend, Pairs};
use dovetail::speculate::{Ranking, Shape, Tree, top_log_probs};
use serde_json::Value;

use crate::support::golden::{HEADS, floats, json, numbers, target_of, tensors};
use crate::support::heads::{
    Backend, Case, TOLERANCE, Trees, assert_tree, backends, recorded_beam,
};

fn every_case(check: impl Fn(&Case, Backend)) {
    for name in HEADS {
        let case = Case::load(name);
        for backend in backends() {
            check(&case, backend);
        }
    }
}

/// A pass through no block returns what the blocks would read.
#[test]
fn fusion_and_every_block_compute_the_originals_rows() {
    every_case(|case, backend| {
        case.is_near("fused", &case.filled(backend, "p0", 0).outputs().unwrap());
        for blocks in 1..=case.weights.config.blocks() {
            let head = case.filled(backend, "p0", blocks);
            case.is_near(&format!("block{}_out", blocks - 1), &head.outputs().unwrap());
        }
        let head = case.filled(backend, "p0", case.weights.config.blocks());
        case.is_near("out_hidden", &head.outputs().unwrap());
    });
}

#[test]
fn a_draft_vocabulary_ranks_its_own_tokens_among_each_other() {
    for name in HEADS {
        let mut case = Case::load(name);
        let scored = DraftVocabulary::new((0..256).filter(|token| token % 3 != 0).collect());
        case.weights = case.weights.scoring(scored.clone()).unwrap();
        let expected = floats(&case.forward["p0.last_logprobs"]);
        let among: f32 = scored.tokens().iter().map(|&t| expected[t as usize].exp()).sum();
        for backend in backends() {
            let mut head = case.filled(backend, "p0", case.weights.config.blocks());
            let ranked = head.rank_root(&Ranking::new(256)).unwrap();
            assert_eq!(ranked.len(), scored.len());
            for &(token, log_prob) in &ranked {
                assert!(scored.contains(token), "{token}");
                let expected = expected[token as usize] - among.ln();
                assert!((log_prob - expected).abs() <= TOLERANCE, "{name} {backend:?} {token}");
            }
        }
    }
}

#[test]
fn the_root_is_ranked_by_the_originals_log_probabilities() {
    every_case(|case, backend| {
        for prompt in ["p0", "p1"] {
            let mut head = case.filled(backend, prompt, case.weights.config.blocks());
            let out = &case.forward[&format!("{prompt}.out_hidden")];
            case.near("out_hidden", &head.outputs().unwrap(), out, TOLERANCE);
            let expected = floats(&case.forward[&format!("{prompt}.last_logprobs")]);
            let ranked = head.rank_root(&Ranking::new(256)).unwrap();
            assert_eq!(ranked.len(), 256);
            for &(token, log_prob) in &ranked {
                assert!((log_prob - expected[token as usize]).abs() <= TOLERANCE);
            }
            let best: Vec<u32> = top_log_probs(&expected, 3).iter().map(|best| best.0).collect();
            assert_eq!(ranked.iter().take(3).map(|best| best.0).collect::<Vec<_>>(), best);
        }
    });
}

/// Pairs fed one by one, in chunks and at once leave the same cache.
#[test]
fn the_stable_cache_does_not_depend_on_how_it_was_filled() {
    every_case(|case, backend| {
        let (features, tokens) = case.input("p0");
        let hidden = case.weights.config.body.hidden;
        let blocks = case.weights.config.blocks();
        for pieces in [vec![1; 11], vec![4, 5, 2], vec![10, 1]] {
            let mut head = case.backend(backend);
            let mut start = 0;
            for piece in pieces {
                let end = start + piece;
                let features = &features[start * hidden..end * hidden];
                head.extend(start, Pairs { features, tokens: &tokens[start..end] }, blocks)
                    .unwrap();
                start = end;
            }
            let last = floats(&case.forward["p0.out_hidden"]);
            let outputs = head.outputs().unwrap();
            let (found, expected) = (&outputs[outputs.len() - hidden..], &last[10 * hidden..]);
            for (a, b) in found.iter().zip(expected) {
                assert!((a - b).abs() <= TOLERANCE, "{}: {a} {b}", case.name);
            }
        }
    });
}

/// The original's own beams, fed step by step: outputs and candidates of every level.
#[test]
fn tree_steps_compute_the_originals_rows() {
    let trees = json("trees.json");
    every_case(|case, backend| {
        let rows = tensors(&format!("tree_{}.safetensors", case.name));
        let steps = trees["trees"][case.name]["k4d3t8.p0"]["steps"].as_array().unwrap().clone();
        let blocks = case.weights.config.blocks();
        let mut head = case.filled(backend, "p0", blocks);
        check_candidates(&steps[0], &[head.rank_root(&Ranking::new(4)).unwrap()]);
        let mut paths: Vec<Vec<usize>> = Vec::new();
        for (number, step) in steps.iter().enumerate().skip(1) {
            let beam = recorded_beam(&steps, number, 4, &mut paths);
            let candidates = head.step(&beam, &Ranking::new(4)).unwrap();
            check_candidates(step, &candidates);
            let at = |what: &str| rows.get(&format!("k4d3t8.p0.step{number}.{what}"));
            if let Some(expected) = at("out_hidden") {
                case.near("tree out_hidden", &head.outputs().unwrap(), expected, TOLERANCE);
            }
        }
    });
}

fn check_candidates(step: &Value, candidates: &[Vec<(u32, f32)>]) {
    let found: Vec<Vec<u32>> =
        candidates.iter().map(|row| row.iter().map(|child| child.0).collect()).collect();
    let expected = step["topk_tokens"].as_array().unwrap();
    if expected[0].is_array() {
        assert_eq!(found, expected.iter().map(numbers).collect::<Vec<_>>());
    } else {
        assert_eq!(found, [numbers(&step["topk_tokens"])]);
        let expected = step["topk_logprobs"].as_array().unwrap();
        for (child, expected) in candidates[0].iter().zip(expected) {
            assert!((f64::from(child.1) - expected.as_f64().unwrap()).abs() < 1e-4);
        }
    }
}

/// Every tree of the original from the target's features, and the tree after the commit; a GPU
/// drafts those of every head and shape once.
#[test]
fn trees_are_the_originals() {
    let golden = Trees::load("trees.json");
    let mut compared = 0;
    let mut second_rounds = 0;
    for name in HEADS {
        let case = Case::load(name);
        let prefill = tensors(&format!("prefill_{}.safetensors", target_of(name)));
        let verified = tensors(&format!("tree_{name}.safetensors"));
        for backend in backends() {
            for (shape, prompt, key, expected) in golden.of(name) {
                if matches!(backend, Backend::Gpu) && !key.ends_with(".p0") {
                    continue;
                }
                // All gaps between scores of the golden files exceed the error of these sums.
                assert!(expected["margin"].as_f64().unwrap() > 1e-4, "{name} {key}");
                let root = expected["root"].as_u64().unwrap() as u32;
                let tokens = [&prompt[1..], &[root]].concat();
                let prompt = key.split_once('.').unwrap().1;
                let features = floats(&prefill[&format!("{prompt}.hidden_postnorm")]);
                let budget = Budget::new(shape, 1);
                let mut drafter = case.drafter(backend);
                drafter.observe(&features, &tokens).unwrap();
                let tree = drafter.propose(&[], &DraftRequest::new(root, budget)).unwrap();
                assert_tree(&tree, expected, &format!("{name} {key}"), TOLERANCE);
                compared += 1;

                let node_features = verified.get(&format!("{key}.verify.node_hidden"));
                let (Some(round), Some(features)) = (expected.get("round2"), node_features) else {
                    continue;
                };
                let path: Vec<u32> = numbers(&expected["verify"]["accepted_nodes"]);
                let bonus = expected["verify"]["bonus_token"].as_u64().unwrap() as u32;
                let index = Tensor::from_slice(&path, path.len(), &Device::Cpu).unwrap();
                let features = floats(&features.index_select(&index, 0).unwrap());
                let mut tokens: Vec<u32> =
                    path[1..].iter().map(|&node| tree.nodes()[node as usize].token).collect();
                tokens.push(bonus);
                drafter.observe(&features, &tokens).unwrap();
                let tree = drafter.propose(&[], &DraftRequest::new(bonus, budget)).unwrap();
                assert_tree(&tree, round, &format!("{name} {key}, second round"), TOLERANCE);
                let stable = round["stable_kv_len"].as_u64().unwrap() as usize;
                assert_eq!(drafter.stable_len(0), stable);
                second_rounds += 1;
            }
        }
    }
    let gpu = backends().len() - 1;
    assert_eq!((compared, second_rounds), (130 + 30 * gpu, 4 + 2 * gpu));
}

/// A head whose depth may change between rounds gives the tree of a head that never changed.
#[test]
fn depth_can_change_between_rounds() {
    let mut case = Case::load("draft_dgf_m4");
    case.weights.config.elastic = true;
    let hidden = case.weights.config.body.hidden;
    let (features, tokens) = case.input("p0");
    let shape = Shape { gamma: 16, width: 4, depth: 4 };
    for backend in backends() {
        let mut changing = case.drafter(backend);
        assert_eq!(changing.depths(), Depths::Elastic(4));
        // Pairs seen by the end of each round, and the depth of its draft.
        for (seen, blocks) in [(3, 2), (4, 1), (7, 1), (8, 4), (8, 2), (11, 3), (11, 9)] {
            let from = changing.observed();
            let new = &features[from * hidden..seen * hidden];
            changing.observe(new, &tokens[from..seen]).unwrap();
            let budget = Budget::new(shape, blocks);
            let tree = changing.propose(&[], &DraftRequest::new(tokens[seen - 1], budget)).unwrap();
            let mut fresh = case.drafter(backend);
            fresh.observe(&features[..seen * hidden], &tokens[..seen]).unwrap();
            let expected =
                fresh.propose(&[], &DraftRequest::new(tokens[seen - 1], budget)).unwrap();
            assert_same_draft(&tree, &expected);
        }
        // The first of the last two rounds ran three blocks, the second all four.
        assert_eq!((0..4).map(|block| changing.stable_len(block)).collect::<Vec<_>>(), [11; 4]);
    }
}

/// Rolling back committed positions leaves no trace of them.
#[test]
fn truncation_forgets() {
    every_case(|case, backend| {
        let hidden = case.weights.config.body.hidden;
        let budget = Budget::new(Shape { gamma: 8, width: 3, depth: 2 }, 1);
        let (features, tokens) = case.input("p0");
        let (other_features, other_tokens) = case.input("p1");
        for kept in [0, 2, 6] {
            let mut drafter = case.drafter(backend);
            drafter.observe(&features, &tokens).unwrap();
            drafter.propose(&[], &DraftRequest::new(tokens[10], budget)).unwrap();
            drafter.truncate(kept);
            drafter.observe(&other_features[kept * hidden..], &other_tokens[kept..]).unwrap();
            let tree = drafter.propose(&[], &DraftRequest::new(other_tokens[6], budget)).unwrap();
            let mut fresh = case.drafter(backend);
            fresh.observe(&features[..kept * hidden], &tokens[..kept]).unwrap();
            fresh.observe(&other_features[kept * hidden..], &other_tokens[kept..]).unwrap();
            assert_same_draft(
                &tree,
                &fresh.propose(&[], &DraftRequest::new(other_tokens[6], budget)).unwrap(),
            );
        }
    });
}

fn assert_same_draft(tree: &Tree, expected: &Tree) {
    assert_eq!(tree.len(), expected.len());
    for (a, b) in tree.nodes().iter().zip(expected.nodes()) {
        assert_eq!((a.token, a.parent), (b.token, b.parent));
        assert!((a.score - b.score).abs() < 1e-4);
    }
}

/// 8-bit weights and 16-bit caches change log-probabilities only a little.
#[test]
fn packed_precision_is_close() {
    for name in ["draft_dgf_m4", "draft_eagle_m1", "draft_dgf_m2_gqa"] {
        let case = Case::load(name);
        let (features, tokens) = case.input("p0");
        let expected = floats(&case.forward["p0.last_logprobs"]);
        for (precision, kv, tolerance) in [
            (DraftPrecision::Stored, KvFormat::F16, 0.005),
            (DraftPrecision::Eight, KvFormat::F16, 0.1),
        ] {
            let mut head = case.packed(precision, kv, Arc::new(Pool::new(1)));
            head.extend(
                0,
                Pairs { features: &features, tokens: &tokens },
                case.weights.config.blocks(),
            )
            .unwrap();
            for (token, log_prob) in head.rank_root(&Ranking::new(5)).unwrap() {
                let error = (log_prob - expected[token as usize]).abs();
                assert!(error < tolerance, "{name} {precision:?}: off by {error}");
            }
        }
    }
}

/// The threads that share the work change nothing.
#[test]
fn threads_change_nothing() {
    let pool = Arc::new(Pool::new(3));
    let case = Case::load("draft_dgf_m2_gqa");
    let (features, tokens) = case.input("p0");
    let draft = |case: &Case, backend: Box<dyn HeadBackend>| {
        let mut drafter = FeatureHead::new(&case.weights.config, backend, 512);
        drafter.observe(&features, &tokens).unwrap();
        let shape = Shape { gamma: 60, width: 10, depth: 5 };
        drafter.propose(&[], &DraftRequest::new(tokens[10], Budget::new(shape, 2))).unwrap()
    };
    let one = case.packed(DraftPrecision::Stored, KvFormat::F32, Arc::new(Pool::new(1)));
    let alone = draft(&case, Box::new(one));
    let three = case.packed(DraftPrecision::Stored, KvFormat::F32, Arc::clone(&pool));
    assert_eq!(draft(&case, Box::new(three)), alone);
}
