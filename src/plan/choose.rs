//! The rule: of everything that may be chosen, what commits most tokens a second.

use super::overrides::{DEPTH, GAMMA, Setting, TreeOverrides, WIDTH};
use super::{CostInputs, Costs, Prefer, prior};
use crate::speculate::Shape;

/// A choice of all four: the tree's γ, width and depth, and M.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pick {
    /// γ, k, D.
    pub shape: Shape,
    /// M; 0 when there is no draft.
    pub blocks: usize,
}

/// γ worth trying: finer where a node more or less matters.
const GAMMAS: [usize; 17] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 32, 40, 48, 64];
/// k worth trying.
const WIDTHS: [usize; 7] = [1, 2, 3, 4, 6, 8, 10];
/// The smallest tree that `Prefer::Show` keeps: eight nodes over four levels, three abreast.
const SHOWN: Shape = Shape { gamma: 8, width: 3, depth: 3 };

/// What may be chosen from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchSpace {
    /// What the user holds.
    pub overrides: TreeOverrides,
    /// Smallest and largest M the head can run with; `None` without a draft.
    pub blocks: Option<(usize, usize)>,
    /// `Show` keeps a tree worth looking at; `Auto` counts as `Speed`.
    pub prefer: Prefer,
}

impl SearchSpace {
    fn values(held: Setting, all: &[usize], least: usize) -> Vec<usize> {
        match held {
            Setting::Fixed(value) => vec![value],
            Setting::Auto => all.iter().copied().filter(|&value| value >= least).collect(),
        }
    }

    /// Every pick allowed, from small to large. Without speculation width and depth mean nothing:
    /// such a pick comes once, with the smallest.
    pub fn picks(&self) -> Vec<Pick> {
        let Some((fewest, most)) = self.blocks else {
            return vec![Pick { shape: Shape { gamma: 1, width: 1, depth: 0 }, blocks: 0 }];
        };
        let least = if self.prefer == Prefer::Show {
            SHOWN
        } else {
            Shape { gamma: GAMMA.least, width: WIDTH.least, depth: DEPTH.least }
        };
        let depths: Vec<_> = (DEPTH.least..=DEPTH.most).collect();
        let gammas = Self::values(self.overrides.gamma, &GAMMAS, least.gamma);
        let widths = Self::values(self.overrides.width, &WIDTHS, least.width);
        let depths = Self::values(self.overrides.depth, &depths, least.depth);
        let blocks = match self.overrides.blocks {
            Setting::Fixed(m) => vec![m.clamp(fewest, most)],
            Setting::Auto => (fewest..=most).collect(),
        };
        let mut picks = Vec::new();
        for &blocks in &blocks {
            for &gamma in &gammas {
                for (i, &width) in widths.iter().enumerate() {
                    for (j, &depth) in depths.iter().enumerate() {
                        if gamma > 1 || (i == 0 && j == 0) {
                            picks.push(Pick { shape: Shape { gamma, width, depth }, blocks });
                        }
                    }
                }
            }
        }
        picks
    }

    /// The pick that commits most tokens a second, and how many. Of equals the smaller one.
    pub fn best(&self, costs: &Costs, omega: impl Fn(&Pick) -> f64) -> (Pick, f64) {
        let mut best: Option<(Pick, f64)> = None;
        for pick in self.picks() {
            let rate = rate(costs, &pick, omega(&pick));
            if best.is_none_or(|(_, so_far)| rate > so_far * (1.0 + 1e-9)) {
                best = Some((pick, rate));
            }
        }
        // The space is never empty; plain decoding is what an empty one would mean.
        best.unwrap_or((Pick { shape: Shape { gamma: 1, width: 1, depth: 0 }, blocks: 0 }, 0.0))
    }

    /// The best pick without speculation: what a gain is measured against.
    pub fn plain(&self, costs: &Costs) -> f64 {
        1e3 / costs.verify_ms(1)
    }
}

/// Tokens per second: Ω over T_D + T_V.
pub fn rate(costs: &Costs, pick: &Pick, omega: f64) -> f64 {
    omega * 1e3 / costs.round_ms(&pick.shape, pick.blocks).max(f64::MIN_POSITIVE)
}

/// What was chosen before the first round, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The choice.
    pub pick: Pick,
    /// The times it rests on.
    pub costs: Costs,
    /// Tokens per second expected of it.
    pub expected: f64,
    /// Why, one sentence each.
    pub reasons: Vec<String>,
}

/// The first choice, from what is known without running anything. Pure: the same inputs give the
/// same plan.
pub fn choose(inputs: &CostInputs, space: &SearchSpace) -> Plan {
    plan(Costs::guess(inputs), space, "Times are estimated from the machine's description.")
}

/// The choice corrected by a short measurement.
pub fn correct(plan_before: Plan, found: &super::Measured, space: &SearchSpace) -> Plan {
    let costs = plan_before.costs.measured(found);
    let basis = match (found.verify.is_empty(), found.level.is_some()) {
        (false, _) => "Times were measured while loading.",
        (true, true) => "Draft times were measured while loading, the target's are estimated.",
        (true, false) => "Times are estimated from the machine's description.",
    };
    plan(costs, space, basis)
}

fn plan(costs: Costs, space: &SearchSpace, basis: &str) -> Plan {
    let (pick, expected) = space.best(&costs, prior::omega);
    let reasons = super::reasons::explain(&pick, space, &costs, prior::omega, basis);
    Plan { pick, costs, expected, reasons }
}
