//! Acceptance of a small model's drafts, from recorded trees of it: narrower and smaller trees, a
//! chain, and DuoDecoding's sequences. Must never know times.
//!
//! A recorded tree of k candidates a node holds the narrower ones too, as far as their nodes were
//! among its best. A chain follows the likeliest token from node to node; how often it was right at
//! each step is counted over the rounds that got there, so that a tree that holds only its
//! beginning counts as far as it goes.

use crate::speculate::{Budget, Method, SEARCH_BEAM, SEARCH_DECAY, Shape, Tree};

/// A recorded round of a small model.
#[derive(Clone, Copy, Debug)]
pub(super) struct SmallRound<'a> {
    /// What was verified.
    pub(super) tree: &'a Tree,
    /// Its accepted nodes, from the root's child down.
    pub(super) accepted: &'a [usize],
    /// The target's choice behind them.
    pub(super) bonus: u32,
}

/// What DuoDecoding's rounds of one budget win.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SequenceRounds {
    /// Share of the rounds that verify a tail; the others verify the root alone.
    pub(super) with_tail: f64,
    /// Tokens a round, the target's own included.
    pub(super) tokens: f64,
}

/// The nodes that a tree of `gamma` nodes and `width` candidates a node would have kept.
pub(super) fn kept(tree: &Tree, gamma: usize, width: usize, method: Method) -> Vec<usize> {
    let (beam_width, step) = match method {
        Method::Search => (SEARCH_BEAM, SEARCH_DECAY.ln()),
        _ => (width, 0.0),
    };
    let nodes = tree.nodes();
    let rank = |node: usize| nodes[node].score + step * nodes[node].depth as f32;
    let sort = |all: &mut Vec<usize>| {
        all.sort_by(|&a, &b| rank(b).total_cmp(&rank(a)).then(a.cmp(&b)));
    };
    let (mut pool, mut beam) = (Vec::new(), vec![0]);
    while !beam.is_empty() {
        let mut level: Vec<usize> = beam.iter().flat_map(|&row| best(tree, row, width)).collect();
        pool.extend_from_slice(&level);
        sort(&mut level);
        level.truncate(beam_width);
        beam = level;
    }
    sort(&mut pool);
    pool.truncate(gamma.saturating_sub(1));
    pool
}

/// The likeliest children of a node.
fn best(tree: &Tree, node: usize, count: usize) -> Vec<usize> {
    let nodes = tree.nodes();
    let mut children: Vec<usize> = tree.children(node).collect();
    children.sort_by(|&a, &b| nodes[b].log_prob.total_cmp(&nodes[a].log_prob).then(a.cmp(&b)));
    children.truncate(count);
    children
}

/// Rows of the draft's passes for such a tree: one over what was committed, then those that were
/// worth expanding at each level, `depth` of them at most (method.md, Tree growth).
pub(super) fn passes(tree: &Tree, budget: &Budget) -> Vec<usize> {
    let (Shape { gamma, width, depth }, method) = (budget.shape, budget.method);
    let most = if method == Method::Search { SEARCH_BEAM } else { width };
    let kept = kept(tree, gamma, width, method);
    let hopeful = &kept[..kept.len().min(gamma.saturating_sub(2))];
    let rows = |level: usize| {
        let newest = hopeful.iter().filter(|&&node| tree.nodes()[node].depth == level).count();
        newest.min(most)
    };
    let levels = (1..=depth).map(rows).take_while(|rows| *rows > 0);
    std::iter::once(1).chain(levels).collect()
}

/// How many tokens of the accepted path such a tree holds.
pub(super) fn accepted(
    round: &SmallRound<'_>,
    gamma: usize,
    width: usize,
    method: Method,
) -> usize {
    let kept = kept(round.tree, gamma, width, method);
    round.accepted.iter().take_while(|node| kept.contains(node)).count()
}

/// The share of chains that are right as far as each of the first `tokens` tokens; `None` if no
/// round tells of one of them.
pub(super) fn survival(rounds: &[SmallRound<'_>], tokens: usize) -> Option<Vec<f64>> {
    let mut counts = vec![(0usize, 0usize); tokens];
    for round in rounds {
        let mut node = 0;
        for (at, (reached, right)) in counts.iter_mut().enumerate() {
            let Some(&next) = best(round.tree, node, 1).first() else { break };
            *reached += 1;
            if round.accepted.get(at) != Some(&next) {
                break;
            }
            *right += 1;
            node = next;
        }
    }
    let mut left = 1.0;
    let share = |(reached, right): (usize, usize)| {
        if left > 0.0 {
            left *= (reached > 0).then(|| right as f64 / reached as f64)?;
        }
        Some(left)
    };
    counts.into_iter().map(share).collect()
}

/// How often the target's first token is among the draft's `k` likeliest.
fn first_right(rounds: &[SmallRound<'_>], k: usize) -> f64 {
    let is_right = |round: &&SmallRound<'_>| {
        let nodes = round.tree.nodes();
        let chosen = round.accepted.first().map_or(round.bonus, |&node| nodes[node].token);
        best(round.tree, 0, k).into_iter().any(|node| nodes[node].token == chosen)
    };
    rounds.iter().filter(is_right).count() as f64 / rounds.len().max(1) as f64
}

/// What rounds of DuoDecoding win where `k` sequences share γ tokens. Rounds are of two kinds: with
/// a tail of γ/k − 1 tokens, or the root alone. Either is followed by one with a tail if all that
/// it verified was right and one of the sequences begins with the target's own token
/// (see [`crate::speculate::duo`]).
pub(super) fn sequences(
    rounds: &[SmallRound<'_>],
    gamma: usize,
    k: usize,
) -> Option<SequenceRounds> {
    if rounds.is_empty() {
        return None;
    }
    let right = survival(rounds, (gamma / k).checked_sub(1)?)?;
    let begun = first_right(rounds, k);
    let held = right.last().copied().unwrap_or(1.0);
    let with_tail = begun / (1.0 - held * begun + begun);
    let tokens = 1.0 + with_tail * right.iter().sum::<f64>();
    Some(SequenceRounds { with_tail, tokens })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Root → a(.6) → c(.9); b(.3) → d(.8): tokens 1 to 4 in the order a, b, c, d.
    fn tree() -> Tree {
        let mut tree = Tree::root(0);
        let a = tree.push(0, 1, 0.6f32.ln());
        let b = tree.push(0, 2, 0.3f32.ln());
        tree.push(a, 3, 0.9f32.ln());
        tree.push(b, 4, 0.8f32.ln());
        tree
    }

    #[test]
    fn a_narrower_tree_keeps_what_its_beam_reaches() {
        let tree = tree();
        assert_eq!(kept(&tree, 5, 2, Method::Tree), [1, 3, 2, 4]);
        assert_eq!(kept(&tree, 3, 2, Method::Tree), [1, 3]);
        assert_eq!(kept(&tree, 5, 1, Method::Tree), [1, 3], "a chain");
        // One row over the text, then a and b, then c and, of the best three, no d.
        let rows = |width, depth| passes(&tree, &Budget::new(Shape { gamma: 5, width, depth }, 0));
        assert_eq!((rows(2, 7), rows(2, 1), rows(1, 7)), (vec![1, 2, 1], vec![1, 2], vec![1; 3]));
        let round = SmallRound { tree: &tree, accepted: &[2, 4], bonus: 9 };
        assert_eq!(accepted(&round, 5, 2, Method::Tree), 2);
        assert_eq!(accepted(&round, 4, 2, Method::Tree), 1);
        assert_eq!(accepted(&round, 5, 1, Method::Tree), 0);
    }

    #[test]
    fn a_chain_counts_as_far_as_it_was_recorded() {
        let tree = tree();
        let mut short = Tree::root(0);
        short.push(0, 1, -0.1);
        let of = |tree, accepted, bonus| SmallRound { tree, accepted, bonus };
        let rounds = [
            of(&tree, &[1, 3][..], 7),
            of(&tree, &[1], 8),
            of(&tree, &[2], 9),
            of(&short, &[1], 7),
        ];
        // Three of four first tokens; of the two that go on, one.
        assert_eq!(survival(&rounds, 2), Some(vec![0.75, 0.375]));
        assert_eq!(survival(&rounds, 3), None, "no chain of three tokens was recorded");
        assert_eq!((first_right(&rounds, 1), first_right(&rounds, 2)), (0.75, 1.0));
        let never = [of(&short, &[], 9)];
        assert_eq!(survival(&never, 4), Some(vec![0.0; 4]), "what is wrong at once stays wrong");
        let none = sequences(&never, 8, 1).unwrap();
        assert_eq!((none.with_tail, none.tokens), (0.0, 1.0));
    }

    proptest! {
        /// Rounds of DuoDecoding played one after the other, with drafts that are right as often.
        #[test]
        fn sequences_win_what_simulated_rounds_win(
            right in 1u32..10, length in 1usize..6, seed in 1u64..1 << 40,
        ) {
            let mut chain = Tree::root(0);
            (0..length).fold(0, |parent, at| chain.push(parent, at as u32 + 1, -0.1));
            let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
            let mut is_right = || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 11) % 10 < u64::from(right)
            };
            let paths: Vec<Vec<usize>> = (0..4000)
                .map(|_| (1..=length).take_while(|_| is_right()).collect())
                .collect();
            let rounds: Vec<SmallRound<'_>> = paths
                .iter()
                .map(|path| SmallRound { tree: &chain, accepted: path, bonus: 99 })
                .collect();
            let found = sequences(&rounds, length + 1, 1).unwrap();
            let (mut tokens, mut tails, mut tail) = (0, 0, false);
            for _ in 0..40_000 {
                let nodes = if tail { length } else { 0 };
                tails += usize::from(tail);
                let held = (0..nodes).take_while(|_| is_right()).count();
                tokens += held + 1;
                tail = held == nodes && is_right();
            }
            let played = f64::from(tokens as u32) / 40_000.0;
            prop_assert!((found.tokens / played - 1.0).abs() < 0.06, "{found:?} {played}");
            let share = tails as f64 / 40_000.0;
            prop_assert!((found.with_tail - share).abs() < 0.06, "{found:?} {share}");
        }
    }
}
