//! Ω before any observation: the expected number of tokens per round.
//!
//! The shape of the curve is an assumption; its height is the paper's: a 5-block DGF head
//! commits 4.73 tokens per round with γ = 16, k = 10, D = 7 (Dovetail, Table III, "DGF+4":
//! MT-bench, Llama-2-chat 7B). It is only used until rounds have been measured
//! (`super::AcceptanceHistory`).

use crate::speculate::Budget;

/// How many tokens beyond the first the paper's best head commits with its published tree.
const PAPER_GAIN: f64 = 4.73 - 1.0;

/// The expected number of tokens per round: 1 (the target's own choice) plus [`gain`].
pub fn omega(budget: &Budget) -> f64 {
    1.0 + gain(budget)
}

/// Accepted tokens per round, without the target's own choice. It rises with γ (ever more slowly,
/// because the draft's likelier guesses come first), with k and D (until the tree has γ nodes), and
/// with M.
pub fn gain(budget: &Budget) -> f64 {
    let shape = budget.shape;
    // A beam of k over D expansions offers at most this many nodes.
    let pool = 1 + shape.width + shape.depth * shape.width * shape.width;
    let nodes = shape.gamma.min(pool) - 1;
    if nodes == 0 {
        return 0.0;
    }
    let by_nodes = (1.0 + nodes as f64 / 2.0).ln() / (1.0f64 + 15.0 / 2.0).ln();
    let unbounded = PAPER_GAIN * by_nodes * by_width(shape.width) * quality(budget.blocks);
    // As if every level were accepted with the same probability p: p + p² + … = unbounded, cut
    // after D + 1 terms.
    let p = unbounded / (1.0 + unbounded);
    let levels = |depth: usize| 1.0 - p.powi(depth as i32 + 1);
    (unbounded * levels(shape.depth) / levels(7)).min(nodes as f64)
}

/// The probability that a token of a chain is right, under the same assumption.
pub fn chain_acceptance(blocks: usize) -> f64 {
    let unbounded = PAPER_GAIN * by_width(1) * quality(blocks);
    unbounded / (1.0 + unbounded)
}

/// How much a tree of this width gains, as a fraction of a tree of width ten.
fn by_width(width: usize) -> f64 {
    (1.0 - 0.25 / width as f64) / (1.0 - 0.25 / 10.0)
}

/// How much a head of `blocks` blocks gains, as a fraction of a head of five: each further block
/// adds half of what the previous one added. A draft without blocks counts as a head of one.
fn quality(blocks: usize) -> f64 {
    let of = |m: usize| 1.0 - 0.3 * 0.5f64.powi(m.max(1) as i32 - 1);
    of(blocks) / of(5)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::speculate::Shape;

    fn budget(gamma: usize, width: usize, depth: usize, blocks: usize) -> Budget {
        Budget::new(Shape { gamma, width, depth }, blocks)
    }

    #[test]
    fn it_meets_the_paper_where_the_paper_measured() {
        assert!((omega(&budget(16, 10, 7, 5)) - 4.73).abs() < 1e-9);
    }

    #[test]
    fn more_of_anything_never_gains_less() {
        for gamma in 1..64 {
            for width in 1..10 {
                for depth in 0..8 {
                    for blocks in 1..6 {
                        let here = gain(&budget(gamma, width, depth, blocks));
                        for more in [
                            budget(gamma + 1, width, depth, blocks),
                            budget(gamma, width + 1, depth, blocks),
                            budget(gamma, width, depth + 1, blocks),
                            budget(gamma, width, depth, blocks + 1),
                        ] {
                            assert!(gain(&more) >= here - 1e-12, "{more:?}");
                        }
                        assert!(here <= (gamma - 1) as f64 && here <= (depth + 1) as f64 + 0.5);
                    }
                }
            }
        }
    }
}
