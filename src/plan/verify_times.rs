//! T_V by the number of nodes, small enough to be passed with every round's options, and the size
//! of tree that pays off: for drafters that know how likely each of their tokens is before it is
//! verified.

use super::Costs;

/// The sizes at which T_V is stored; between them it is interpolated.
const SIZES: [usize; 12] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64];

/// T_V(γ) in milliseconds, and what else takes time in a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VerifyTimes {
    ms: [f64; SIZES.len()],
    /// How many passes each size has learned from.
    seen: [f64; SIZES.len()],
    /// Acceptance, commit, text: the same in every round, for any tree.
    other: f64,
}

/// The weight of a deviation in all sizes: what slows one pass (a longer context, a busy machine)
/// slows all.
const COMMON: f64 = 0.1;
/// The number of passes after which half of that weight applies. Before a size is known, a
/// deviation of its passes means that its measurement at the start was wrong, not that the machine
/// has changed.
const KNOWN: f64 = 4.0;
/// The additional weight in the two sizes around a round's own, and in that of the root alone: its
/// passes are rare if a draft pays off, and it must not seem expensive because it followed the
/// others.
const OWN: f64 = 0.1;
const OWN_ROOT: f64 = 0.2;
/// The weight of a newly measured value of a round's other work.
const OTHER: f64 = 0.2;

impl VerifyTimes {
    /// The times of a cost model.
    pub fn of(costs: &Costs) -> Self {
        Self { ms: SIZES.map(|gamma| costs.verify_ms(gamma)), seen: [0.0; SIZES.len()], other: 0.0 }
    }

    /// Milliseconds of a pass over `nodes` nodes, including the root. Beyond the largest stored
    /// size, the last slope continues.
    pub fn at(&self, nodes: usize) -> f64 {
        let (low, share) = around(nodes);
        (self.ms[low] + share * (self.ms[low + 1] - self.ms[low])).max(f64::MIN_POSITIVE)
    }

    /// Learns from a pass over `nodes` nodes. A stalled pass counts as at most twice the expected
    /// time. Returns the factor by which all passes seem to have changed: rounds that were timed
    /// earlier would take that much longer now.
    pub fn learn(&mut self, nodes: usize, ms: f64) -> f64 {
        let off = (ms / self.at(nodes)).clamp(0.5, 2.0) - 1.0;
        if !off.is_finite() {
            return 1.0;
        }
        let (low, share) = around(nodes);
        let near = |at: usize| match at {
            _ if at == low => 1.0 - share.min(1.0),
            _ if at == low + 1 => share.min(1.0),
            _ => 0.0,
        };
        let passes = near(low) * self.seen[low] + near(low + 1) * self.seen[low + 1];
        let common = COMMON * passes / (passes + KNOWN);
        let own = if nodes > 1 { OWN } else { OWN_ROOT };
        let own = (own + COMMON - common).max(1.0 / (2.0 + passes));
        for at in 0..SIZES.len() {
            // The first trees show how far the times of other sizes, which were measured together
            // with theirs, are off.
            let alike = if nodes > 1 && at > 0 && self.seen[at] == 0.0 { 1.0 } else { near(at) };
            self.ms[at] *= 1.0 + off * (common + own * alike);
        }
        for at in [low, low + 1] {
            self.seen[at] += near(at);
        }
        // More nodes never take less time: of two sizes, the one that is known less well is
        // changed.
        for at in (1..SIZES.len()).rev() {
            if self.ms[at - 1] > self.ms[at] && self.seen[at - 1] <= self.seen[at] {
                self.ms[at - 1] = self.ms[at];
            }
        }
        for at in 1..SIZES.len() {
            self.ms[at] = self.ms[at].max(self.ms[at - 1]);
        }
        1.0 + off * common
    }

    /// Learns how long everything else in a round takes, apart from drafting and verifying.
    pub fn learn_other(&mut self, ms: f64) {
        // A stalled round says nothing about the others.
        if (0.0..self.at(1)).contains(&ms) {
            self.other += OTHER * (ms - self.other);
        }
    }

    /// Tokens per millisecond of a round that is expected to give `tokens`, verifies `nodes` nodes
    /// and has spent `spent_ms` on drafting.
    pub fn rate(&self, tokens: f64, nodes: usize, spent_ms: f64) -> f64 {
        tokens / (self.at(nodes) + self.other + spent_ms)
    }

    /// Tokens per millisecond without a draft.
    pub fn plain_rate(&self) -> f64 {
        self.rate(1.0, 1, 0.0)
    }

    /// The path probability below which no further node can pay off in any tree: its time, even at
    /// the cheapest, would give more tokens without a draft than the node gains.
    pub fn least_path(&self) -> f64 {
        let steps = SIZES.windows(2).zip(self.ms.windows(2));
        let slopes = steps.map(|(size, ms)| (ms[1] - ms[0]) / (size[1] - size[0]) as f64);
        self.plain_rate() * slopes.fold(f64::INFINITY, f64::min).max(0.0)
    }

    /// How many nodes to verify, including the root, in a tree whose further nodes are accepted
    /// with probabilities `paths` (each path's, largest first): the size with the most expected
    /// tokens per millisecond, which is (1 + Σ p) over T_V, `spent_ms` and the rest of a round; and
    /// that rate.
    pub fn best_size(&self, paths: impl IntoIterator<Item = f64>, spent_ms: f64) -> (usize, f64) {
        let mut best = (1, self.rate(1.0, 1, spent_ms));
        let mut expected = 1.0;
        for (nodes, path) in (2..).zip(paths) {
            expected += path;
            let rate = self.rate(expected, nodes, spent_ms);
            if rate > best.1 {
                best = (nodes, rate);
            }
        }
        best
    }
}

/// The largest stored size that is at most `nodes` and not the last, and how far `nodes` is towards
/// the next.
fn around(nodes: usize) -> (usize, f64) {
    let above = SIZES.iter().position(|&size| size > nodes).unwrap_or(SIZES.len() - 1);
    let low = above.saturating_sub(1);
    let (from, to) = (SIZES[low] as f64, SIZES[low + 1] as f64);
    (low, (nodes as f64 - from) / (to - from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A pass with `base` ms, and `step` more for each node beyond `free`.
    fn times(base: f64, step: f64, free: usize) -> VerifyTimes {
        VerifyTimes {
            ms: SIZES.map(|nodes| base + step * nodes.saturating_sub(free) as f64),
            seen: [0.0; SIZES.len()],
            other: 0.0,
        }
    }

    #[test]
    fn between_two_sizes_and_beyond_the_last_the_slope_goes_on() {
        let times = times(10.0, 1.0, 1);
        for nodes in [1, 2, 5, 7, 20, 33, 64, 100] {
            assert!((times.at(nodes) - (9.0 + nodes as f64)).abs() < 1e-9, "{nodes}");
        }
    }

    #[test]
    fn a_node_is_verified_if_it_brings_more_than_the_round_does_on_average() {
        // A tenth of a pass per node: worth it from a probability of about a tenth on.
        let times = times(10.0, 1.0, 1);
        let size = |paths: &[f64]| times.best_size(paths.iter().copied(), 0.0).0;
        assert_eq!(size(&[]), 1);
        assert_eq!(size(&[0.05; 5]), 1);
        assert_eq!(size(&[0.9, 0.8, 0.05, 0.04]), 3);
        assert_eq!(size(&[0.5, 0.5, 0.5]), 4);
        // If nodes are free, all of them are worth it.
        let free = times_free();
        assert_eq!(free.best_size([0.5, 0.01, 0.01], 0.0).0, 4);
        // The time for the draft is already spent, so more nodes pay off.
        assert_eq!(times.best_size([0.9, 0.12, 0.12], 30.0).0, 4);
        assert_eq!(size(&[0.9, 0.12, 0.12]), 2);
    }

    fn times_free() -> VerifyTimes {
        times(10.0, 1.0, 8)
    }

    #[test]
    fn a_size_learns_most_from_its_own_passes() {
        let mut times = times(10.0, 0.0, 64);
        for _ in 0..60 {
            times.learn(16, 30.0);
            times.learn(1, 10.0);
        }
        assert!((times.at(16) - 30.0).abs() < 4.0, "{times:?}");
        assert!((times.at(1) - 10.0).abs() < 2.0, "{times:?}");
        times.learn(1, f64::NAN);
        times.learn(1, 0.0);
        assert!(times.at(1) > 1.0);
    }

    /// If trees were measured too cheap, the first rounds correct them without the root's time,
    /// together with the sizes that never occurred; later, all sizes follow what slows one.
    #[test]
    fn first_passes_set_their_sizes_right_and_later_ones_all() {
        let mut times = times(10.0, 0.5, 1);
        let mut all = 1.0;
        for _ in 0..8 {
            all *= times.learn(4, 18.0);
        }
        assert!((times.at(4) - 18.0).abs() < 1.5, "{times:?}");
        assert!(times.at(1) < 11.5 && times.at(16) > 21.0, "{times:?}");
        assert!(all < 1.15, "{all}");
        for _ in 0..40 {
            all *= times.learn(4, 36.0);
        }
        assert!((times.at(4) - 36.0).abs() < 1.0 && times.at(1) > 13.0, "{times:?}");
        assert!(all > 1.3, "{all}");
    }

    proptest! {
        #[test]
        fn nodes_below_the_least_path_are_never_verified(
            passes in prop::collection::vec((1usize..100, 0.5f64..50.0), 0..40),
            mut paths in prop::collection::vec(0.0f64..1.0, 0..60),
        ) {
            let mut times = times(5.0, 0.3, 4);
            for (nodes, ms) in passes {
                times.learn(nodes, ms);
            }
            paths.sort_by(|a, b| b.total_cmp(a));
            let (nodes, _) = times.best_size(paths.iter().copied(), 0.0);
            prop_assert!(nodes < 2 || paths[nodes - 2] >= times.least_path() * (1.0 - 1e-9));
        }

        #[test]
        fn times_stay_in_order_whatever_is_measured(
            passes in prop::collection::vec((1usize..100, 0.01f64..100.0), 0..80),
        ) {
            let mut times = times(5.0, 0.3, 4);
            for (nodes, ms) in passes {
                times.learn(nodes, ms);
                prop_assert!((1..70).all(|n| times.at(n) <= times.at(n + 1) + 1e-9));
            }
        }
    }
}
