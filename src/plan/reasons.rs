//! Why a budget was chosen, for the controls and for `doctor`. It must never decide.

use super::overrides::Setting;
use super::reason::{Basis, BlocksReason, GammaReason, Reason};
use super::search_space::{SearchSpace, rate};
use super::{Costs, Prefer};
use crate::speculate::Budget;

/// Explains `budget`; `basis` says where the times come from.
pub(super) fn explain(
    budget: &Budget,
    space: &SearchSpace,
    costs: &Costs,
    omega: impl Fn(&Budget) -> f64,
    basis: Basis,
) -> Vec<Reason> {
    let Some((fewest, most)) = space.blocks else {
        return vec![Reason::NoDraft];
    };
    let mut lines = Vec::new();
    let plain = space.plain(costs);
    let expected = rate(costs, budget, omega(budget));
    lines.push(gamma_line(budget, space, costs, &omega));
    if budget.shape.gamma > 1 {
        if most > 0 {
            lines.push(blocks_line(budget, space.overrides.blocks, fewest, most, costs));
        }
        lines.push(tree_line(budget, space, costs));
        let held = space.overrides.gamma.is_fixed();
        lines.push(if expected < plain && space.prefer == Prefer::Show && !held {
            Reason::KeptForShow { tree: expected, plain }
        } else {
            Reason::Expected { tokens: omega(budget), rate: expected, plain }
        });
    }
    lines.push(Reason::Basis(basis));
    lines
}

fn gamma_line(
    budget: &Budget,
    space: &SearchSpace,
    costs: &Costs,
    omega: impl Fn(&Budget) -> f64,
) -> Reason {
    let gamma = budget.shape.gamma;
    let why = if space.overrides.gamma.is_fixed() {
        GammaReason::Fixed
    } else if gamma <= 1 {
        let trees = SearchSpace { prefer: Prefer::Show, ..*space };
        let (_, tree) = trees.best(costs, omega);
        GammaReason::NoTree { tree, plain: space.plain(costs) }
    } else {
        GammaReason::Enough(costs.verify_ms(gamma) / costs.verify_ms(1))
    };
    Reason::Gamma(gamma, why)
}

fn blocks_line(
    budget: &Budget,
    setting: Setting,
    fewest: usize,
    most: usize,
    costs: &Costs,
) -> Reason {
    let why = if fewest == most {
        BlocksReason::Only
    } else if setting.is_fixed() {
        BlocksReason::Fixed
    } else {
        let ms = |blocks| costs.draft_ms(&budget.shape, blocks);
        BlocksReason::Each((ms(most) - ms(fewest)) / (most - fewest) as f64)
    };
    Reason::Blocks { blocks: budget.blocks, most, why }
}

fn tree_line(budget: &Budget, space: &SearchSpace, costs: &Costs) -> Reason {
    let shape = budget.shape;
    Reason::Tree {
        shape,
        fixed: (space.overrides.width.is_fixed(), space.overrides.depth.is_fixed()),
        draft_ms: costs.draft_ms(&shape, budget.blocks),
        verify_ms: costs.verify_ms(shape.gamma),
    }
}
