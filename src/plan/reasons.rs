//! Why a budget was chosen, for the controls and for `doctor`. It must never decide.

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
    let Budget { shape, blocks, .. } = *budget;
    let fixed = space.overrides;
    let plain = space.plain(costs);
    let verify_ms = costs.verify_ms(shape.gamma);
    let why = if fixed.gamma.is_fixed() {
        GammaReason::Fixed
    } else if shape.gamma <= 1 {
        let trees = SearchSpace { prefer: Prefer::Show, ..*space };
        GammaReason::NoTree { tree: trees.best(costs, &omega).1, plain }
    } else {
        GammaReason::Enough(verify_ms / costs.verify_ms(1))
    };
    let mut reasons = vec![Reason::Gamma(shape.gamma, why)];
    if shape.gamma > 1 {
        if most > 0 {
            let ms = |blocks| costs.draft_ms(&shape, blocks);
            let why = if fewest == most {
                BlocksReason::Only
            } else if fixed.blocks.is_fixed() {
                BlocksReason::Fixed
            } else {
                BlocksReason::Each((ms(most) - ms(fewest)) / (most - fewest) as f64)
            };
            reasons.push(Reason::Blocks { blocks, most, why });
        }
        let draft_ms = costs.draft_ms(&shape, blocks);
        let fixed_shape = (fixed.width.is_fixed(), fixed.depth.is_fixed());
        let passes = costs.level.as_ref().map_or(0, |level| level.passes(shape.depth));
        reasons.push(Reason::Tree { shape, fixed: fixed_shape, passes, draft_ms, verify_ms });
        let tokens = omega(budget);
        let rate = rate(costs, budget, tokens);
        let is_shown = space.prefer == Prefer::Show && !fixed.gamma.is_fixed();
        reasons.push(if rate < plain && is_shown {
            Reason::KeptForShow { tree: rate, plain }
        } else {
            Reason::Expected { tokens, rate, plain }
        });
    }
    reasons.push(Reason::Basis(basis));
    reasons
}
