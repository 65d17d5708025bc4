//! The cost model: T_V(γ) and T_D(M, tree), in milliseconds (method.md, Cost model).
//!
//! T_V = max(T_c, T_p) + β·min(T_c, T_p): computing γ rows and streaming the weights once overlap,
//! but not completely. While T_p dominates, further nodes of the tree are almost free; once T_c
//! dominates, each node costs its full share. With a tree, drafting costs 1 + D small passes, not
//! γ: one pass over what was just committed, which also yields the first level, and one per
//! expansion.

use serde::{Deserialize, Serialize};

use super::cost_inputs::{CostInputs, DraftSize, Throughput};
use super::overrides::WIDTH;
use super::verify_times::VerifyTimes;
use crate::speculate::Shape;

/// The weight of a deviation in T_D.
const NEAR: f64 = 0.15;

/// The values of γ at which T_V is estimated; between them it is interpolated.
pub(super) const PROBED_GAMMAS: [usize; 6] = [1, 4, 8, 16, 32, 64];

/// Milliseconds of one draft pass at the corners of the range of choices; bilinear between them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LevelCost {
    /// The smallest and largest M.
    pub blocks: [usize; 2],
    /// The smallest and largest k.
    pub widths: [usize; 2],
    /// `ms[i][j]`: a pass of `widths[j]` rows through `blocks[i]` blocks and the LM head.
    pub ms: [[f64; 2]; 2],
    /// Whether one pass drafts all levels.
    #[serde(default)]
    pub whole: bool,
}

impl LevelCost {
    /// That of a draft of this size on a device to which one pass and its results take `trip_ms`.
    pub(super) fn guess(draft: &DraftSize, throughput: &Throughput, trip_ms: f64) -> Self {
        let blocks: [usize; 2] = draft.range().into();
        let widths = [WIDTH.least, WIDTH.most];
        let ms = blocks.map(|m| {
            let weights = (draft.fixed + m as u64 * draft.block) as f64;
            let bytes = weights * draft.bytes_per_weight;
            let pass = |rows: usize| rows.max(draft.pass_rows);
            widths.map(|k| trip_ms + pass_ms(throughput, pass(k), weights, bytes, 7 * m + 4))
        });
        Self { blocks, widths, ms, whole: draft.pass_rows > 0 }
    }

    /// How many passes draft a tree of this depth.
    pub fn passes(&self, depth: usize) -> usize {
        if self.whole { 1 } else { 1 + depth }
    }

    /// Milliseconds of a pass of `width` rows through `blocks` blocks.
    pub fn at(&self, blocks: usize, width: usize) -> f64 {
        let fraction = |[low, high]: [usize; 2], x: usize| {
            if high > low { (x as f64 - low as f64) / (high as f64 - low as f64) } else { 0.0 }
        };
        let m = fraction(self.blocks, blocks);
        let k = fraction(self.widths, width);
        let row = |i: usize| self.ms[i][0] + k * (self.ms[i][1] - self.ms[i][0]);
        // Noise can make a measured corner cheaper than its smaller neighbour; the result is never
        // below 0.
        (row(0) + m * (row(1) - row(0))).max(0.0)
    }
}

/// The times of a round's parts, estimated from [`CostInputs`] or measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    /// T_V.
    pub(super) verify: VerifyTimes,
    /// `None` if there is no draft.
    pub(super) level: Option<LevelCost>,
    /// Whether `level` is based on any measurement.
    measured_draft: bool,
    /// T_D of a round without a tree: keeping the draft's cache up to date with the text.
    idle_ms: f64,
}

/// The result of the short measurement during loading.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// (γ, T_V(γ) in ms), in any order; empty if the target could not be measured.
    pub verify: Vec<(usize, f64)>,
    /// T_D by M and k; `None` if there is no draft or it could not be measured.
    pub level: Option<LevelCost>,
}

impl Costs {
    /// Times computed from what is known about the machine and the models.
    pub fn guess(inputs: &CostInputs) -> Self {
        let target = inputs.target;
        let verify = PROBED_GAMMAS.map(|gamma| {
            let weights = target.weights as f64;
            // Seven products per layer, one for the LM head.
            let products = 7 * target.layers + 1;
            (gamma, pass_ms(&inputs.verifier, gamma, weights, target.bytes_read(gamma), products))
        });
        let level =
            inputs.draft.map(|(draft, throughput)| LevelCost::guess(&draft, &throughput, 0.0));
        // Features can wait until a tree is wanted again, so no time is expected in idle rounds.
        let verify = VerifyTimes::of(&verify);
        Self { verify, level, measured_draft: false, idle_ms: 0.0 }
    }

    /// The same with measured times instead of estimated ones.
    pub fn measured(mut self, found: &Measured) -> Self {
        self.verify = self.verify.measured(&found.verify);
        if self.level.is_some() && found.level.is_some() {
            self.level.clone_from(&found.level);
            self.measured_draft = true;
        }
        self
    }

    /// T_V.
    pub fn verify_times(&self) -> &VerifyTimes {
        &self.verify
    }

    /// T_V(γ) in ms.
    pub fn verify_ms(&self, gamma: usize) -> f64 {
        self.verify.at(gamma)
    }

    /// T_D of a tree of this shape in ms. A tree with only the root costs the time to keep the
    /// draft's cache up to date with the text.
    pub fn draft_ms(&self, shape: &Shape, blocks: usize) -> f64 {
        match &self.level {
            None => 0.0,
            Some(_) if shape.gamma <= 1 => self.idle_ms,
            Some(level) => level.passes(shape.depth) as f64 * level.at(blocks, shape.width),
        }
    }

    /// How long one more row of a draft pass through `blocks` blocks takes, in ms.
    pub fn row_ms(&self, blocks: usize) -> f64 {
        let [narrow, wide] = [WIDTH.least, WIDTH.most];
        self.level.as_ref().map_or(0.0, |level| {
            (level.at(blocks, wide) - level.at(blocks, narrow)).max(0.0) / (wide - narrow) as f64
        })
    }

    /// T_D + T_V of a round in ms.
    pub fn round_ms(&self, shape: &Shape, blocks: usize) -> f64 {
        self.verify_ms(shape.gamma) + self.draft_ms(shape, blocks)
    }

    /// Learns T_D from a round that drafted a tree of this shape, or none (γ = 1). The first such
    /// round replaces what was only an estimate.
    pub fn learn_draft(&mut self, shape: &Shape, blocks: usize, ms: f64) {
        if shape.gamma <= 1 {
            self.idle_ms += NEAR * (ms - self.idle_ms);
            return;
        }
        let expected = self.draft_ms(shape, blocks);
        let change =
            if std::mem::replace(&mut self.measured_draft, true) || expected <= 0.0 || ms <= 0.0 {
                1.0 + NEAR * surprise(ms, expected)
            } else {
                ms / expected
            };
        if let Some(level) = &mut self.level {
            for ms in level.ms.iter_mut().flatten() {
                *ms *= change;
            }
        }
    }
}

/// By what fraction `seen` exceeds `expected`. It is bounded, because one stalled round must not
/// overturn the table.
fn surprise(seen: f64, expected: f64) -> f64 {
    if seen > 0.0 && expected > 0.0 { (seen / expected).clamp(0.5, 2.0) - 1.0 } else { 0.0 }
}

/// T = max(T_c, T_p) + β·min(T_c, T_p) of one forward pass, plus the overhead of each of its
/// products.
pub(super) fn pass_ms(
    throughput: &Throughput,
    rows: usize,
    weights: f64,
    bytes: f64,
    products: usize,
) -> f64 {
    let compute = rows as f64 * weights / throughput.multiply_adds;
    let stream = bytes / throughput.bandwidth;
    let seconds = compute.max(stream) + throughput.beta * compute.min(stream);
    (seconds + products as f64 * throughput.overhead) * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::CostInputs;

    #[test]
    fn a_guessed_draft_time_is_set_right_by_the_first_round_a_measured_one_drifts() {
        let inputs = CostInputs::for_tests();
        let shape = Shape { gamma: 16, width: 4, depth: 3 };
        let mut costs = Costs::guess(&inputs);
        costs.learn_draft(&shape, 0, 50.0);
        assert!((costs.draft_ms(&shape, 0) - 50.0).abs() < 1e-9);
        costs.learn_draft(&shape, 0, 100.0);
        let after = costs.draft_ms(&shape, 0);
        assert!((50.1..60.0).contains(&after), "{after}");
    }
}
