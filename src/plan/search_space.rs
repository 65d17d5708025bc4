//! The possible choices, and which of them commits the most tokens per second (method.md, Cost
//! model). It must not depend on where times come from.

use super::overrides::{DEPTH, GAMMA, Setting, TreeOverrides, WIDTH};
use super::{Costs, DraftSize, Prefer};
use crate::speculate::{Budget, Shape};

/// Values of γ worth trying: denser where a single node matters.
const GAMMAS: [usize; 17] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 32, 40, 48, 64];
/// Values of k worth trying.
const WIDTHS: [usize; 7] = [1, 2, 3, 4, 6, 8, 10];
/// The smallest tree that `Prefer::Show` allows: eight nodes over four levels, three wide.
const SHOWN: Shape = Shape { gamma: 8, width: 3, depth: 3 };

/// The possible choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchSpace {
    /// What the user has fixed.
    pub overrides: TreeOverrides,
    /// The smallest and largest M with which the head can run; `None` without a draft.
    pub blocks: Option<(usize, usize)>,
    /// How many levels the draft can draft.
    pub levels: usize,
    /// `Show` keeps a tree worth looking at; `Auto` counts as `Speed`.
    pub prefer: Prefer,
    /// Whether drafting nothing is not a choice, because that is decided elsewhere.
    pub always: bool,
}

/// The values that may be chosen, each in ascending order.
struct Choices {
    gammas: Vec<usize>,
    widths: Vec<usize>,
    depths: Vec<usize>,
    blocks: Vec<usize>,
}

/// The value at `now` and its neighbours; the nearest value if it is not one of them.
fn around(values: &[usize], now: usize) -> &[usize] {
    let at = values.iter().position(|&value| value >= now).unwrap_or(values.len() - 1);
    &values[at.saturating_sub(1)..(at + 2).min(values.len())]
}

impl SearchSpace {
    /// What a draft can do; the fastest counts.
    pub fn new(overrides: TreeOverrides, draft: Option<DraftSize>) -> Self {
        let levels = draft.map_or(usize::MAX, |size| size.levels);
        let blocks = draft.map(|size| size.range());
        Self { overrides, blocks, levels, prefer: Prefer::Speed, always: false }
    }

    fn values(setting: Setting, all: &[usize], least: usize) -> Vec<usize> {
        match setting {
            Setting::Fixed(value) => vec![value],
            Setting::Auto => all.iter().copied().filter(|&value| value >= least).collect(),
        }
    }

    /// The values that each of γ, k, D and M may have; `None` without a draft.
    fn choices(&self) -> Option<Choices> {
        let (fewest, most) = self.blocks?;
        let least = if self.prefer == Prefer::Show {
            SHOWN
        } else {
            let gamma = GAMMA.least + usize::from(self.always);
            Shape { gamma, width: WIDTH.least, depth: DEPTH.least }
        };
        // The first level needs no expansion.
        let deepest = DEPTH.most.min(self.levels - 1);
        let depths: Vec<_> = (DEPTH.least..=deepest).collect();
        let depth = match self.overrides.depth {
            Setting::Fixed(depth) => Setting::Fixed(depth.min(self.levels - 1)),
            Setting::Auto => Setting::Auto,
        };
        Some(Choices {
            gammas: Self::values(self.overrides.gamma, &GAMMAS, least.gamma),
            widths: Self::values(self.overrides.width, &WIDTHS, least.width),
            depths: Self::values(depth, &depths, least.depth.min(deepest)),
            blocks: match self.overrides.blocks {
                Setting::Fixed(m) => vec![m.clamp(fewest, most)],
                Setting::Auto => (fewest..=most).collect(),
            },
        })
    }

    /// Every permitted budget, from small to large. Without speculation, width and depth mean
    /// nothing: such a budget appears once, with the smallest values.
    pub fn budgets(&self) -> Vec<Budget> {
        let Some(Choices { gammas, widths, depths, blocks }) = self.choices() else {
            return vec![Budget::new(Shape { gamma: 1, width: 1, depth: 0 }, 0)];
        };
        let mut budgets = Vec::new();
        for &blocks in &blocks {
            for &gamma in &gammas {
                for (i, &width) in widths.iter().enumerate() {
                    for (j, &depth) in depths.iter().enumerate() {
                        if gamma > 1 || (i == 0 && j == 0) {
                            budgets.push(Budget::new(Shape { gamma, width, depth }, blocks));
                        }
                    }
                }
            }
        }
        budgets
    }

    /// `from` and the budgets next to it: one value a step up or down, or γ and D together, because
    /// a deeper tree needs more nodes; and every smaller γ, since what its tree would have given is
    /// known. These are few, whereas [`Self::budgets`] has thousands: considering all of those
    /// takes longer than the passes of a small target.
    pub fn near(&self, from: &Budget) -> Vec<Budget> {
        let Some(Choices { gammas, widths, depths, blocks }) = self.choices() else {
            return vec![*from];
        };
        let Shape { gamma, width, depth } = from.shape;
        let of = |gamma, width, depth, m| Budget::new(Shape { gamma, width, depth }, m);
        // No tree is deeper than its nodes in a chain.
        let fewer = gammas.iter().filter(|&&fewer| fewer < gamma).map(|&gamma| {
            let most = depths.iter().filter(|&&less| less + 2 <= gamma && less < depth).max();
            of(gamma, width, most.copied().unwrap_or(depth), from.blocks)
        });
        let fewer: Vec<Budget> = fewer.collect();
        let gammas = around(&gammas, gamma);
        let widths = around(&widths, width);
        let depths = around(&depths, depth);
        let blocks = around(&blocks, from.blocks);
        let trees = gammas.iter().flat_map(|&gamma| {
            depths.iter().map(move |&depth| of(gamma, width, depth, from.blocks))
        });
        let wider = widths.iter().map(|&width| of(gamma, width, depth, from.blocks));
        let sharper = blocks.iter().map(|&m| of(gamma, width, depth, m));
        trees.chain(wider).chain(sharper).chain(fewer).collect()
    }

    /// The budget that commits the most tokens per second, and how many. Of equal ones, the
    /// smaller.
    pub fn best(&self, costs: &Costs, omega: impl Fn(&Budget) -> f64) -> (Budget, f64) {
        Self::best_of(self.budgets(), costs, omega)
    }

    /// [`Self::best`] among these budgets.
    pub fn best_of(
        budgets: Vec<Budget>,
        costs: &Costs,
        omega: impl Fn(&Budget) -> f64,
    ) -> (Budget, f64) {
        let mut best: Option<(Budget, f64)> = None;
        for budget in budgets {
            let rate = rate(costs, &budget, omega(&budget));
            if best.is_none_or(|(_, so_far)| rate > so_far * (1.0 + 1e-9)) {
                best = Some((budget, rate));
            }
        }
        // The space is never empty; if it were, this would mean plain decoding.
        best.unwrap_or((Budget::new(Shape { gamma: 1, width: 1, depth: 0 }, 0), 0.0))
    }

    /// The rate of the best budget without speculation, against which a gain is measured.
    pub fn plain(&self, costs: &Costs) -> f64 {
        1e3 / costs.verify_ms(1)
    }
}

/// Tokens per second: Ω over T_D + T_V.
pub fn rate(costs: &Costs, budget: &Budget, omega: f64) -> f64 {
    omega * 1e3 / costs.round_ms(&budget.shape, budget.blocks).max(f64::MIN_POSITIVE)
}
