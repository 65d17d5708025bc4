//! Why a choice was made, in sentences for the controls and for `doctor`. It must never decide.

use super::overrides::Setting;
use super::search_space::{SearchSpace, rate};
use super::{Costs, Prefer};
use crate::speculate::Budget;

/// Explains `budget`, one sentence per line; `basis` says where the times come from.
pub(super) fn explain(
    budget: &Budget,
    space: &SearchSpace,
    costs: &Costs,
    omega: impl Fn(&Budget) -> f64,
    basis: &str,
) -> Vec<String> {
    let Some((fewest, most)) = space.blocks else {
        return vec!["There is no draft model: the target decodes alone.".into()];
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
        if expected < plain && space.prefer == Prefer::Show && !held {
            lines.push(format!(
                "Plain decoding would give about {plain:.0} tokens/s, this tree {expected:.0}: it \
                 is kept so that there is a tree to look at (`prefer = \"speed\"` drops it)."
            ));
        } else {
            lines.push(format!(
                "Expected: {:.1} tokens a round, about {expected:.0} tokens/s against {plain:.0} \
                 without speculation.",
                omega(budget)
            ));
        }
    }
    lines.push(basis.to_owned());
    lines
}

fn gamma_line(
    budget: &Budget,
    space: &SearchSpace,
    costs: &Costs,
    omega: impl Fn(&Budget) -> f64,
) -> String {
    let gamma = budget.shape.gamma;
    if space.overrides.gamma.is_fixed() {
        return format!("γ = {gamma}: set by you.");
    }
    if gamma <= 1 {
        let trees = SearchSpace { prefer: Prefer::Show, ..*space };
        let (_, tree) = trees.best(costs, omega);
        return format!(
            "γ = 1: no tree pays here: a small one would give about {tree:.0} tokens/s, plain \
             decoding gives {:.0}.",
            space.plain(costs)
        );
    }
    let ratio = costs.verify_ms(gamma) / costs.verify_ms(1);
    format!(
        "γ = {gamma}: checking {gamma} nodes takes {ratio:.1} times as long as one token; further \
         nodes would cost more time than they are likely to save."
    )
}

fn blocks_line(
    budget: &Budget,
    setting: Setting,
    fewest: usize,
    most: usize,
    costs: &Costs,
) -> String {
    let m = budget.blocks;
    if fewest == most {
        return format!("M = {m}: this head has a fixed number of blocks.");
    }
    if setting.is_fixed() {
        return format!("M = {m} of {most}: set by you.");
    }
    let (less, more) = (costs.draft_ms(&budget.shape, fewest), costs.draft_ms(&budget.shape, most));
    let each = (more - less) / (most - fewest) as f64;
    let why = if m == most {
        "all of them guess better than fewer and are worth it"
    } else {
        "a further one would cost more than its better guesses save"
    };
    format!("M = {m} of {most}: each block adds {each:.2} ms to a round's draft; {why}.")
}

fn tree_line(budget: &Budget, space: &SearchSpace, costs: &Costs) -> String {
    let shape = budget.shape;
    let whose = match (space.overrides.width.is_fixed(), space.overrides.depth.is_fixed()) {
        (true, true) => " (set by you)",
        (true, false) => " (width set by you)",
        (false, true) => " (depth set by you)",
        (false, false) => "",
    };
    format!(
        "Width {}, depth {}{whose}: {} draft passes a round, {:.1} ms beside {:.1} ms of \
         verification.",
        shape.width,
        shape.depth,
        shape.depth + 1,
        costs.draft_ms(&shape, budget.blocks),
        costs.verify_ms(shape.gamma)
    )
}
