//! Growth of the draft tree: compared with a literal implementation of method.md, Tree growth, and
//! with the recorded trees.

use crate::support::recorded::json;
use dovetail::speculate::{
    Growth, Method, Node, SEARCH_BEAM, SEARCH_DECAY, Shape, Tree, top_log_probs,
};
use proptest::prelude::*;
use serde_json::Value;
use std::collections::HashMap;

/// A drafter without a model: the row of logits is a function of the drafted path.
trait Oracle {
    fn row(&self, path: &[u32]) -> Vec<f32>;
}

/// Logits from a hash of the path, coarse enough for many ties, with holes.
#[derive(Debug)]
struct Hashed {
    seed: u64,
    vocab: usize,
    levels: u64,
}

impl Oracle for Hashed {
    fn row(&self, path: &[u32]) -> Vec<f32> {
        let mut state = self.seed;
        for &token in path {
            state =
                (state ^ u64::from(token + 1)).wrapping_mul(0x2545_F491_4F6C_DD1D).rotate_left(23);
        }
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state >> 20
        };
        next();
        let value = |bits: u64| match bits % 23 {
            0 => f32::NAN,
            1 => f32::NEG_INFINITY,
            _ => (bits / 23 % self.levels) as f32,
        };
        (0..self.vocab).map(|_| value(next())).collect()
    }
}

/// The literal description: every beam row is expanded, and the whole pool is kept and ranked at
/// the end.
fn literal(shape: Shape, oracle: &dyn Oracle) -> Tree {
    struct Candidate {
        path: Vec<u32>,
        parent: Option<usize>,
        log_prob: f32,
        score: f32,
    }
    let mut pool: Vec<Candidate> = Vec::new();
    let mut beam: Vec<Option<usize>> = vec![None];
    for _ in 0..=shape.depth {
        let level = pool.len();
        for &parent in &beam {
            let (path, above) =
                parent.map_or((Vec::new(), 0.0), |p| (pool[p].path.clone(), pool[p].score));
            for (token, log_prob) in top_log_probs(&oracle.row(&path), shape.width) {
                let path = [path.as_slice(), &[token]].concat();
                pool.push(Candidate { path, parent, log_prob, score: above + log_prob });
            }
        }
        let mut newest: Vec<usize> = (level..pool.len()).collect();
        newest.sort_by(|&a, &b| pool[b].score.total_cmp(&pool[a].score));
        newest.truncate(shape.width);
        beam = newest.into_iter().map(Some).collect();
    }
    let mut kept: Vec<usize> = (0..pool.len()).collect();
    kept.sort_by(|&a, &b| pool[b].score.total_cmp(&pool[a].score));
    kept.truncate(shape.gamma - 1);
    kept.sort_unstable();
    let mut tree = Tree::root(ROOT);
    for &id in &kept {
        let parent = pool[id].parent.map_or(0, |p| kept.iter().position(|&k| k == p).unwrap() + 1);
        tree.push(parent, *pool[id].path.last().unwrap(), pool[id].log_prob);
    }
    tree
}

const ROOT: u32 = 7;

/// SpecExec's search, literally (method.md, Strategies): the best unexpanded nodes of all levels, a
/// threshold at the K-th best of everything, and the end when nothing new is above it.
fn searched(shape: Shape, oracle: &dyn Oracle) -> Tree {
    struct Found {
        path: Vec<u32>,
        parent: usize,
        log_prob: f32,
        score: f32,
        expanded: bool,
    }
    let root = Found { path: Vec::new(), parent: 0, log_prob: 0.0, score: 0.0, expanded: false };
    let mut all = vec![root];
    let better = |a: &Found, b: &Found| b.score.total_cmp(&a.score);
    // The first iteration expands the root.
    for _ in 0..=shape.depth {
        let mut best: Vec<usize> = (0..all.len()).filter(|&i| !all[i].expanded).collect();
        best.sort_by(|&a, &b| better(&all[a], &all[b]));
        best.truncate(SEARCH_BEAM);
        best.sort_unstable();
        let mut fresh = Vec::new();
        for parent in best {
            all[parent].expanded = true;
            for (token, log_prob) in top_log_probs(&oracle.row(&all[parent].path), shape.width) {
                let path = [all[parent].path.as_slice(), &[token]].concat();
                let score = all[parent].score + SEARCH_DECAY.ln() + log_prob;
                fresh.push(Found { path, parent, log_prob, score, expanded: false });
            }
        }
        let mut scores: Vec<f32> = all.iter().chain(&fresh).map(|found| found.score).collect();
        scores.sort_by(|a, b| b.total_cmp(a));
        let threshold = scores.get(shape.gamma - 1).copied().unwrap_or(f32::NEG_INFINITY);
        fresh.retain(|found| found.score >= threshold);
        if fresh.is_empty() {
            break;
        }
        all.extend(fresh);
    }
    let mut kept: Vec<usize> = (0..all.len()).collect();
    kept.sort_by(|&a, &b| better(&all[a], &all[b]));
    kept.truncate(shape.gamma);
    kept.sort_unstable();
    let mut tree = Tree::root(ROOT);
    for &i in kept.iter().filter(|&&i| i != 0) {
        let parent = kept.iter().position(|&k| k == all[i].parent).expect("closed under parents");
        tree.push(parent, *all[i].path.last().unwrap(), all[i].log_prob);
    }
    tree
}

/// Drives a growth as a drafter does, by scratch rows only; also returns how many rows were
/// computed.
fn driven(shape: Shape, oracle: &dyn Oracle) -> (Tree, usize) {
    driven_by(Method::Tree, shape, oracle)
}

fn driven_by(method: Method, shape: Shape, oracle: &dyn Oracle) -> (Tree, usize) {
    let first = top_log_probs(&oracle.row(&[]), shape.width);
    let mut growth = Growth::new(method, shape, &first);
    let mut scratch: Vec<Vec<u32>> = Vec::new();
    while !growth.beam().is_empty() {
        let mut paths = Vec::new();
        for row in growth.beam() {
            assert_eq!(row.ancestors.last().copied(), row.source);
            let mut path: Vec<u32> = row.source.map_or_else(Vec::new, |s| scratch[s].clone());
            let seen: Vec<u32> =
                row.ancestors.iter().map(|&a| *scratch[a].last().unwrap()).collect();
            assert_eq!(path, seen, "a row sees exactly its own path");
            path.push(row.token);
            paths.push(path);
        }
        let rows: Vec<_> =
            paths.iter().map(|path| top_log_probs(&oracle.row(path), shape.width)).collect();
        scratch.extend(paths);
        growth.expand(&rows);
    }
    (growth.finish(ROOT), scratch.len())
}

/// Oracles with fewer than `vocab` tokens and fewer than `levels` different logits.
fn oracles(vocab: usize, levels: u64) -> impl Strategy<Value = Hashed> {
    let parts = (any::<u64>(), 1..vocab, 1..levels);
    parts.prop_map(|(seed, vocab, levels)| Hashed { seed, vocab, levels })
}

/// Shapes up to these values.
fn shapes(gamma: usize, width: usize, depth: usize) -> impl Strategy<Value = Shape> {
    let parts = (1..=gamma, 1..=width, 0..=depth);
    parts.prop_map(|(gamma, width, depth)| Shape { gamma, width, depth })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn skipping_hopeless_rows_changes_no_tree(
        oracle in oracles(24, 6), shape in shapes(64, 12, 9),
    ) {
        let Shape { gamma, width, depth } = shape;
        let (tree, rows) = driven(shape, &oracle);
        prop_assert_eq!(&tree, &literal(shape, &oracle));
        prop_assert!(tree.len() <= gamma && tree.height() <= depth + 1);
        prop_assert!(rows <= depth * width.min(gamma.saturating_sub(2)));
    }

    #[test]
    fn a_search_finds_the_best_nodes(
        oracle in oracles(40, 30), shape in shapes(128, 32, 31),
    ) {
        let Shape { gamma, depth, .. } = shape;
        let (tree, rows) = driven_by(Method::Search, shape, &oracle);
        let expected = searched(shape, &oracle);
        prop_assert_eq!(tree.len(), expected.len());
        // Tied candidates may be taken in another order, and both are right then.
        let score = |tree: &Tree| -> Vec<f32> {
            let decayed = |node: &Node| node.score + node.depth as f32 * SEARCH_DECAY.ln();
            let mut scores: Vec<f32> = tree.nodes().iter().map(decayed).collect();
            scores.sort_by(f32::total_cmp);
            scores
        };
        for (found, expected) in score(&tree).iter().zip(score(&expected)) {
            prop_assert!((found - expected).abs() < 1e-3, "{found} instead of {expected}");
        }
        prop_assert!(tree.len() <= gamma && tree.height() <= depth + 1);
        prop_assert!(rows <= depth * SEARCH_BEAM.min(gamma.saturating_sub(2)));
    }

    #[test]
    fn certain_tokens_keep_their_parents(shape in shapes(39, 5, 8)) {
        /// Log-probability 0 everywhere: every score ties.
        struct Certain;
        impl Oracle for Certain {
            fn row(&self, _: &[u32]) -> Vec<f32> {
                vec![0.0, f32::NEG_INFINITY, -200.0, -200.0]
            }
        }
        let (tree, _) = driven(shape, &Certain);
        prop_assert_eq!(&tree, &literal(shape, &Certain));
        let chain = tree.ancestors(tree.len() - 1).count();
        prop_assert!(chain >= 2 || tree.len() == 1);
    }
}

#[test]
fn a_search_prefers_the_shallow_of_equals_and_goes_deep_for_the_certain() {
    /// One certain token at first; after that it is one of two.
    struct Forked(bool);
    impl Oracle for Forked {
        fn row(&self, path: &[u32]) -> Vec<f32> {
            let other = if self.0 && path.is_empty() { 0.0 } else { f32::NEG_INFINITY };
            vec![0.0, other]
        }
    }
    let shape = Shape { gamma: 128, width: 32, depth: 31 };
    let (chain, rows) = driven_by(Method::Search, shape, &Forked(false));
    assert_eq!((chain.len(), chain.height(), rows), (33, 32, 31));
    // The two branches have the same scores, so they have the same length.
    let shape = Shape { gamma: 41, ..shape };
    let (tree, _) = driven_by(Method::Search, shape, &Forked(true));
    assert_eq!((tree.len(), tree.height()), (41, 20));
}

#[test]
fn the_smallest_shapes() {
    let oracle = Hashed { seed: 3, vocab: 50, levels: 1000 };
    let tree = |gamma, width, depth| driven(Shape { gamma, width, depth }, &oracle);
    assert_eq!(tree(1, 10, 7), (Tree::root(ROOT), 0));
    assert_eq!((tree(2, 10, 7).0.len(), tree(2, 10, 7).1), (2, 0));
    let (chain, rows) = tree(5, 1, 4);
    assert_eq!((chain.len(), chain.height(), rows), (5, 4, 3));
    assert_eq!(tree(64, 3, 0).0.len(), 4, "a pool smaller than γ − 1 is kept whole");
}

// ---- recorded trees ------------------------------------------------------------------------

fn numbers<T: TryFrom<i64>>(value: &Value) -> Vec<T> {
    let number = |v: &Value| T::try_from(v.as_i64().unwrap()).ok().unwrap();
    value.as_array().unwrap().iter().map(number).collect()
}

fn reals(value: &Value) -> Vec<f32> {
    value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap() as f32).collect()
}

fn recorded(tree: &Value) -> (Vec<u32>, Vec<i64>) {
    (numbers(&tree["tokens"]), numbers(&tree["parents"]))
}

fn all_trees(golden: &Value) -> impl Iterator<Item = (String, &Value)> {
    let drafts = golden["trees"].as_object().unwrap().iter();
    drafts.flat_map(|(draft, trees)| {
        let trees = trees.as_object().unwrap().iter();
        trees.map(move |(key, tree)| (format!("{draft}/{key}"), tree))
    })
}

#[test]
fn depth_masks_and_leaves_of_every_recorded_tree() {
    let golden = json("trees.json");
    let mut count = 0;
    for (key, want) in all_trees(&golden) {
        let (tokens, parents) = recorded(want);
        let mut tree = Tree::root(tokens[0]);
        for (&token, &parent) in tokens.iter().zip(&parents).skip(1) {
            tree.push(parent as usize, token, -1.0);
        }
        let depths: Vec<usize> = tree.nodes().iter().map(|n| n.depth).collect();
        assert_eq!(depths, numbers::<usize>(&want["position_ids"]), "{key}");
        if let Some(rows) = want["mask_rows"].as_array() {
            for (node, row) in rows.iter().enumerate() {
                let seen = (0..tree.len())
                    .map(|o| if tree.ancestors(node).any(|it| it == o) { '1' } else { '0' });
                assert_eq!(seen.collect::<String>(), row.as_str().unwrap(), "{key} node {node}");
            }
        }
        for path in want["retrieve_indices"].as_array().unwrap() {
            let path: Vec<usize> =
                numbers::<i64>(path).into_iter().filter(|&i| i >= 0).map(|i| i as usize).collect();
            let leaf = *path.last().unwrap();
            let mut up: Vec<usize> = tree.ancestors(leaf).collect();
            up.reverse();
            assert_eq!(up, path, "{key}");
            assert_eq!(tree.children(leaf).count(), 0, "{key}");
        }
        count += 1;
    }
    assert_eq!(count, 130);
}

/// The recorded candidates of one step, with the log-probabilities that can be derived from the
/// recorded scores. A candidate in neither the beam nor the tree gets one that keeps it out.
fn candidates(
    tokens: &Value,
    above: &[f32],
    scores: &HashMap<(usize, usize), f32>,
) -> Vec<Vec<(u32, f32)>> {
    let rows = tokens.as_array().unwrap().iter().enumerate();
    rows.map(|(r, row)| {
        let known = |(j, token)| {
            let score = scores.get(&(r, j)).copied().unwrap_or(-1e3);
            (token, score - above[r])
        };
        numbers::<u32>(row).into_iter().enumerate().map(known).collect()
    })
    .collect()
}

#[test]
fn recorded_candidates_grow_the_recorded_tree() {
    let golden = json("trees.json");
    let mut count = 0;
    for (key, want) in all_trees(&golden) {
        let Some(steps) = want["steps"].as_array() else { continue };
        let (tokens, parents) = recorded(want);
        let scores = reals(&want["node_scores"]);
        let chosen: Vec<usize> = numbers(&want["top_scores_index_sorted"]);
        let first: Vec<u32> = numbers(&steps[0]["topk_tokens"]);
        let width = first.len();
        let shape = Shape { gamma: tokens.len(), width, depth: steps.len() - 1 };
        let logs = reals(&steps[0]["topk_logprobs"]);
        let pairs: Vec<(u32, f32)> = first.into_iter().zip(logs.iter().copied()).collect();
        let mut growth = Growth::new(Method::Tree, shape, &pairs);
        let mut above = logs;
        for (s, step) in steps.iter().enumerate().skip(1) {
            let beam_tokens: Vec<u32> = growth.beam().iter().map(|row| row.token).collect();
            let inputs: Vec<u32> = numbers(&step["input_ids"]);
            // Rows that cannot matter are left out; they are the last ones.
            assert!(inputs.starts_with(&beam_tokens), "{key} step {s}");
            if beam_tokens.is_empty() {
                break;
            }
            let mut known = HashMap::new();
            let beam: Vec<usize> = numbers(&step["beam_index"]);
            let beam_scores = reals(&step["beam_scores"]);
            for (&at, &score) in beam.iter().zip(&beam_scores) {
                known.insert((at / width, at % width), score);
            }
            let base = width + (s - 1) * width * width;
            for (&id, &score) in chosen.iter().zip(&scores) {
                if (base..base + width * width).contains(&id) {
                    known.insert(((id - base) / width, (id - base) % width), score);
                }
            }
            growth.expand(&candidates(&step["topk_tokens"], &above, &known));
            above = beam_scores;
        }
        let tree = growth.finish(tokens[0]);
        let got: Vec<(u32, i64)> =
            tree.nodes().iter().map(|n| (n.token, n.parent as i64)).collect();
        let want: Vec<(u32, i64)> =
            tokens.into_iter().zip(parents.into_iter().map(|p| p.max(0))).collect();
        assert_eq!(got, want, "{key}");
        for (node, score) in tree.nodes()[1..].iter().zip(scores) {
            assert!((node.score - score).abs() < 1e-4, "{key}: {} for {score}", node.score);
        }
        count += 1;
    }
    assert_eq!(count, 35);
}
