//! T_V by the number of nodes, small enough to be passed with every round's options: estimated or
//! measured at the start, then learned from the rounds, once for all strategies. It gives the size
//! of tree that pays off for drafters that know how likely each of their tokens is before it is
//! verified.

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
    /// How many times as long all passes take as at the start.
    slowdown: f64,
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
    /// Times through these points (nodes, ms), and on the line through the last two beyond them.
    pub fn of(points: &[(usize, f64)]) -> Self {
        let points = in_order(points);
        let ms = SIZES.map(|nodes| interpolated(&points, nodes));
        Self { ms, seen: [0.0; SIZES.len()], other: 0.0, slowdown: 1.0 }
    }

    /// The same with measured times (nodes, ms) instead of estimated ones. For more nodes than were
    /// measured, the estimated time is scaled by the largest measured one.
    #[must_use]
    pub fn measured(self, found: &[(usize, f64)]) -> Self {
        let mut points = in_order(found);
        let Some(&(largest, ms)) = points.last() else { return self };
        let scale = ms / self.at(largest);
        let beyond = SIZES.iter().zip(self.ms).filter(|&(&nodes, _)| nodes > largest);
        points.extend(beyond.map(|(&nodes, ms)| (nodes, ms * scale)));
        Self::of(&points)
    }

    /// Milliseconds of a pass over `nodes` nodes, including the root. Beyond the largest stored
    /// size, the last slope continues.
    pub fn at(&self, nodes: usize) -> f64 {
        let (low, share) = around(nodes);
        (self.ms[low] + share * (self.ms[low + 1] - self.ms[low])).max(f64::MIN_POSITIVE)
    }

    /// Learns from a round that verified `nodes` nodes in `ms`, and took `other_ms` for everything
    /// but drafting and verifying. A stalled pass counts as at most twice the expected time.
    pub fn learn(&mut self, nodes: usize, ms: f64, other_ms: f64) {
        let off = (ms / self.at(nodes)).clamp(0.5, 2.0) - 1.0;
        if off.is_finite() {
            self.learn_pass(nodes, off);
        }
        // A stalled round says nothing about the others.
        if (0.0..self.at(1)).contains(&other_ms) {
            self.other += OTHER * (other_ms - self.other);
        }
    }

    /// Learns from a pass over `nodes` nodes that took longer than expected by the fraction `off`:
    /// `ms[i] *= 1 + off · (common + own · near[i])`, where `common` grows with what is known of
    /// these sizes, and `own` is the rest of a running mean's weight.
    fn learn_pass(&mut self, nodes: usize, off: f64) {
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
        self.slowdown *= 1.0 + off * common;
        self.put_in_order();
    }

    /// More nodes never take less time: of two sizes, the one that is known less well is changed.
    fn put_in_order(&mut self) {
        for at in (1..SIZES.len()).rev() {
            if self.ms[at - 1] > self.ms[at] && self.seen[at - 1] <= self.seen[at] {
                self.ms[at - 1] = self.ms[at];
            }
        }
        for at in 1..SIZES.len() {
            self.ms[at] = self.ms[at].max(self.ms[at - 1]);
        }
    }

    /// How many times as long all passes seem to take as at the start, because of a busy machine or
    /// a longer context.
    pub fn slowdown(&self) -> f64 {
        self.slowdown
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

/// The sound ones of these points (nodes, ms), in ascending order. A larger tree never takes less
/// time: measurements that say so were disturbed.
fn in_order(points: &[(usize, f64)]) -> Vec<(usize, f64)> {
    let sound = points.iter().copied().filter(|&(nodes, ms)| nodes >= 1 && ms > 0.0);
    let mut points: Vec<_> = sound.collect();
    points.sort_by_key(|&(nodes, _)| nodes);
    points.dedup_by_key(|&mut (nodes, _)| nodes);
    for at in (1..points.len()).rev() {
        points[at - 1].1 = points[at - 1].1.min(points[at].1);
    }
    points
}

/// T_V of `nodes` nodes, on the line between points (nodes, ms) in ascending order.
fn interpolated(points: &[(usize, f64)], nodes: usize) -> f64 {
    let last = points.len().saturating_sub(1);
    let high = points.iter().position(|&(size, _)| size >= nodes).unwrap_or(last);
    match points.get(high.saturating_sub(1)..=high) {
        Some(&[(from, low), (to, high)]) => {
            low + (nodes as f64 - from as f64) / (to - from) as f64 * (high - low)
        }
        Some(&[(_, ms)]) => ms,
        _ => 0.0,
    }
}

/// The largest stored size that is at most `nodes` and not the last, and how far `nodes` is towards
/// the next.
fn around(nodes: usize) -> (usize, f64) {
    let above = SIZES.iter().position(|&size| size > nodes).unwrap_or(SIZES.len() - 1);
    let low = above.saturating_sub(1);
    let from = SIZES[low] as f64;
    let to = SIZES[low + 1] as f64;
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
            ..VerifyTimes::of(&[])
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
    fn times_lie_on_lines_between_the_measured_ones_and_go_on_as_estimated() {
        let estimated = VerifyTimes::of(&[(1, 10.0), (64, 73.0)]);
        let measured = estimated.measured(&[(8, 22.0), (1, 8.0), (16, 38.0), (4, 0.0)]);
        assert_eq!([1, 8, 12, 16].map(|nodes| measured.at(nodes)), [8.0, 22.0, 30.0, 38.0]);
        let scale = 38.0 / 25.0;
        for nodes in [24, 64, 100] {
            assert!((measured.at(nodes) - scale * (9.0 + nodes as f64)).abs() < 1e-9, "{nodes}");
        }
        assert_eq!(estimated.measured(&[(1, 30.0), (8, 20.0)]).at(1), 20.0, "disturbed");
        assert_eq!(estimated.measured(&[]), estimated);
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
            times.learn(16, 30.0, 0.0);
            times.learn(1, 10.0, 0.0);
        }
        assert!((times.at(16) - 30.0).abs() < 4.0, "{times:?}");
        assert!((times.at(1) - 10.0).abs() < 2.0, "{times:?}");
        times.learn(1, f64::NAN, 0.0);
        times.learn(1, 0.0, 0.0);
        assert!(times.at(1) > 1.0);
    }

    /// If trees were measured too cheap, the first rounds correct them without the root's time,
    /// together with the sizes that never occurred; later, all sizes follow what slows one.
    #[test]
    fn first_passes_set_their_sizes_right_and_later_ones_all() {
        let mut times = times(10.0, 0.5, 1);
        for _ in 0..8 {
            times.learn(4, 18.0, 0.0);
        }
        assert!((times.at(4) - 18.0).abs() < 1.5, "{times:?}");
        assert!(times.at(1) < 11.5 && times.at(16) > 21.0, "{times:?}");
        assert!(times.slowdown() < 1.15, "{times:?}");
        for _ in 0..40 {
            times.learn(4, 36.0, 0.0);
        }
        assert!((times.at(4) - 36.0).abs() < 1.0 && times.at(1) > 13.0, "{times:?}");
        assert!(times.slowdown() > 1.3, "{times:?}");
    }

    proptest! {
        #[test]
        fn nodes_below_the_least_path_are_never_verified(
            passes in prop::collection::vec((1usize..100, 0.5f64..50.0), 0..40),
            mut paths in prop::collection::vec(0.0f64..1.0, 0..60),
        ) {
            let mut times = times(5.0, 0.3, 4);
            for (nodes, ms) in passes {
                times.learn(nodes, ms, 0.0);
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
                times.learn(nodes, ms, 0.0);
                prop_assert!((1..70).all(|n| times.at(n) <= times.at(n + 1) + 1e-9));
            }
        }
    }
}
