//! What-if: the rounds of a record with another γ. A smaller tree keeps the best of the recorded
//! candidates. The walk takes the recorded tokens as far as they are in it, and the next round
//! continues there with what was recorded below. The text stays the same, because the target chose
//! it; steps and times are predicted. It must not depend on models.
//!
//! The first tree of a recorded round is exact: a smaller γ would have kept the same nodes
//! (method.md, Tree growth). A tree that begins inside a recorded one contains only what is below
//! its root there, which is less than the draft would have found, so the number of steps is rather
//! too high.

use super::Record;
use crate::decode::{Origin, Round, Timing};
use crate::model::Traffic;
use crate::plan::{Costs, DraftKind, LevelCost};
use crate::speculate::{Method, Tree};
use crate::worker::{Controls, Line};

/// Predicts the rounds of one record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WhatIf {
    /// T_V from the passes that were timed during loading, otherwise from the record's own; `None`
    /// if all of them had the same size.
    costs: Option<Costs>,
    /// The times of T_D's passes for each kind of draft, if they were timed during loading.
    levels: Vec<(DraftKind, LevelCost)>,
}

/// The next round of a replay.
#[derive(Clone, Debug, PartialEq)]
pub struct NextRound {
    /// Recorded, or predicted.
    pub round: Round,
    /// What was requested and cannot be answered from the record, one sentence each.
    pub refused: Vec<String>,
}

impl WhatIf {
    /// With the cost model of the passes that were timed during loading, otherwise of the record's
    /// own.
    pub fn new(record: &Record) -> Self {
        let ready = record.ready.as_ref();
        let alone = ready.and_then(|ready| ready.plain_ms).map(|ms| (1, ms));
        // Passes that were timed together show best how their sizes compare.
        let timed = ready.and_then(|ready| Costs::of_passes(&ready.verify_ms));
        let rounds = record.lines.iter().filter_map(|line| match line {
            // While a drafter works at the same time, a pass takes longer.
            Line::Round(round) if round.timing.ahead_ms == 0.0 => {
                Some((round.tree.len(), round.timing.verify_ms))
            }
            _ => None,
        });
        let passes: Vec<(usize, f64)> = alone.into_iter().chain(rounds).collect();
        let levels = ready.map(|ready| ready.draft_levels.clone()).unwrap_or_default();
        Self { costs: timed.or_else(|| Costs::of_passes(&passes)), levels }
    }

    /// What follows in `recorded` after `done` of its tokens under `controls`: the round as it was
    /// if they do not require another one, otherwise a predicted round. It has the recorded index.
    pub fn next(&self, recorded: &Round, done: usize, controls: &Controls) -> NextRound {
        let mut refused = stays(recorded, controls);
        let own = recorded.budget.shape.gamma.max(recorded.tree.len());
        let gamma = if controls.speculate { controls.tree.gamma.or(own).max(1) } else { 1 };
        if done == 0 {
            let larger = gamma > own && recorded.tree.len() > 1;
            let smaller = gamma < recorded.tree.len();
            let reason = if larger {
                Some(format!("γ {gamma} exceeds the recorded γ: showing the recording"))
            } else {
                self.obstacle(recorded, gamma).filter(|_| smaller)
            };
            if !smaller || reason.is_some() {
                refused.extend(reason);
                return NextRound { round: recorded.clone(), refused };
            }
        }
        NextRound { round: self.predicted(recorded, done, gamma), refused }
    }

    /// Why a smaller γ cannot be answered.
    fn obstacle(&self, recorded: &Round, gamma: usize) -> Option<String> {
        let words = if recorded.budget.method != Method::Tree && gamma > 1 {
            "only dynamic trees record the candidates of a smaller γ"
        } else if recorded.timing.ahead_ms > 0.0 {
            "times with overlapping drafts cannot be predicted"
        } else if self.costs.is_none() {
            "the record has passes of only one size, too few for times"
        } else {
            return None;
        };
        Some(format!("γ is unchanged: {words}"))
    }

    /// The fraction of the recorded draft's time that a draft of `gamma` nodes takes; all of it if
    /// no passes were timed.
    fn draft_share(&self, recorded: &Round, gamma: usize) -> f64 {
        let drafts = crate::plan::Strategy::named(&recorded.strategy).map(|found| found.draft);
        let level = self.levels.iter().find(|(kind, _)| Some(*kind) == drafts);
        let Some((_, level)) = level else { return 1.0 };
        let blocks = recorded.budget.blocks;
        let ms = |gamma: usize| -> f64 {
            draft_passes(recorded, gamma).iter().map(|rows| level.at(blocks, *rows)).sum()
        };
        let whole = ms(recorded.tree.len());
        if whole > 0.0 { ms(gamma.min(recorded.tree.len())) / whole } else { 1.0 }
    }

    fn predicted(&self, recorded: &Round, done: usize, gamma: usize) -> Round {
        let nodes = recorded.tree.nodes();
        let path = &recorded.accepted;
        let root = done.checked_sub(1).and_then(|last| path.get(last)).copied().unwrap_or(0);
        let label = |node: usize| recorded.labels.get(node).cloned().unwrap_or_default();
        let mut tree = Tree::root(nodes[root].token);
        let mut labels = vec![label(root)];
        let mut places = vec![None; nodes.len()];
        places[root] = Some(0);
        for node in recorded.tree.best_below(root, gamma) {
            // A tree that was edited by hand may be ranked against its own order.
            let Some(parent) = places[nodes[node].parent] else { continue };
            let place = tree.push(parent, nodes[node].token, nodes[node].log_prob);
            tree.credit(place, nodes[node].sources);
            labels.push(label(node));
            places[node] = Some(place);
        }
        let ahead = path.get(done..).unwrap_or_default();
        let accepted: Vec<usize> = ahead.iter().map_while(|&node| places[node]).collect();
        let (bonus, bonus_label) = match ahead.get(accepted.len()) {
            Some(&node) => (nodes[node].token, label(node)),
            None => (recorded.bonus, recorded.bonus_label.clone()),
        };
        let left = recorded.committed.get(done..).unwrap_or_default();
        let mut committed = left[..left.len().min(accepted.len() + 1)].to_vec();
        for (at, token) in committed.iter_mut().enumerate() {
            token.origin = if at < accepted.len() { Origin::Accepted } else { Origin::Target };
        }
        let behind = left.len() - committed.len();
        let drafts = gamma > 1 && recorded.tree.len() > 1;
        let pass = |tree: &Tree| self.costs.as_ref().map_or(1.0, |c| c.verify_ms(tree.len()));
        let timing = Timing {
            // Without a tree nothing is drafted.
            draft_ms: if drafts {
                recorded.timing.draft_ms * self.draft_share(recorded, gamma)
            } else {
                0.0
            },
            verify_ms: recorded.timing.verify_ms * pass(&tree) / pass(&recorded.tree),
            other_ms: recorded.timing.other_ms,
            ..Timing::default()
        };
        let mut budget = recorded.budget;
        budget.shape.gamma = gamma;
        Round {
            index: recorded.index,
            tree,
            labels,
            accepted,
            bonus,
            bonus_label,
            committed,
            budget,
            strategy: recorded.strategy.clone(),
            speculative: recorded.speculative && gamma > 1,
            drafter: recorded.drafter.filter(|_| drafts),
            drafted_ahead: false,
            ahead: None,
            outcomes: Vec::new(),
            predicted: true,
            timing,
            traffic: Traffic::default(),
            context: recorded.context.saturating_sub(behind),
            finish: recorded.finish.filter(|_| behind == 0),
        }
    }
}

/// The rows of the draft's passes for a tree of `gamma` nodes: one for what was committed, then
/// those that were worth expanding at each level (method.md, Tree growth), as far as the recorded
/// tree still has them.
fn draft_passes(recorded: &Round, gamma: usize) -> Vec<usize> {
    let shape = recorded.budget.shape;
    let nodes = recorded.tree.nodes();
    let mut passes = vec![1];
    for level in 1..=shape.depth {
        let mut known: Vec<usize> =
            (1..nodes.len()).filter(|&at| nodes[at].depth <= level).collect();
        known.sort_by(|&a, &b| nodes[b].score.total_cmp(&nodes[a].score).then(a.cmp(&b)));
        let hopeful = known.iter().take(gamma.saturating_sub(2));
        let newest = hopeful.filter(|&&at| nodes[at].depth == level).count();
        if newest == 0 {
            break;
        }
        passes.push(newest.min(shape.width));
    }
    passes
}

/// Which requested changes no record can answer. Short, so that it fits on a line of the screen.
fn stays(recorded: &Round, controls: &Controls) -> Vec<String> {
    let tree = &controls.tree;
    let shape = recorded.budget.shape;
    let differs = |setting: crate::plan::Setting, own| setting.or(own) != own;
    let mut all = Vec::new();
    if differs(tree.blocks, recorded.budget.blocks) {
        all.push("M is unchanged: a record has the candidates of one draft".to_owned());
    }
    if differs(tree.width, shape.width) || differs(tree.depth, shape.depth) {
        all.push("k and D are unchanged: a record has no other trees".to_owned());
    }
    if controls.strategy.is_some_and(|strategy| strategy.name != recorded.strategy) {
        all.push("the strategy is unchanged: a record has no other drafts".to_owned());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::read::check;
    use super::*;
    use crate::decode::Committed;
    use crate::plan::{Setting, TreeOverrides};
    use crate::speculate::{Budget, Shape};
    use proptest::prelude::*;

    /// A round of nodes by label, parent and probability, numbered by their places, with the
    /// accepted path and then `e`, token 900.
    fn round_of(nodes: &[(&str, usize, f32)], path: &[usize]) -> Round {
        let mut tree = Tree::root(0);
        for (token, (_, parent, probability)) in (0..).zip(nodes).skip(1) {
            tree.push(*parent, token, probability.ln());
        }
        let committed = |(token, text, origin): (u32, &str, Origin)| Committed {
            token,
            text: text.to_owned(),
            thought: None,
            origin,
        };
        let accepted = path.iter().map(|&at| (at as u32, nodes[at].0, Origin::Accepted));
        let shape = Shape { gamma: nodes.len(), width: 8, depth: 5 };
        Round {
            index: 0,
            labels: nodes.iter().map(|node| node.0.to_owned()).collect(),
            tree,
            accepted: path.to_vec(),
            bonus: 900,
            bonus_label: "e".to_owned(),
            committed: accepted.chain([(900, "e", Origin::Target)]).map(committed).collect(),
            budget: Budget::new(shape, 4),
            strategy: "dovetail".to_owned(),
            speculative: true,
            drafter: Some(0),
            drafted_ahead: false,
            ahead: None,
            outcomes: Vec::new(),
            predicted: false,
            timing: Timing { draft_ms: 3.0, verify_ms: 30.0, other_ms: 0.5, ..Timing::default() },
            traffic: Traffic::default(),
            context: 100,
            finish: None,
        }
    }

    fn controls(gamma: usize) -> Controls {
        let tree = TreeOverrides { gamma: Setting::Fixed(gamma), ..TreeOverrides::default() };
        Controls { tree, ..Controls::default() }
    }

    /// A pass of n nodes takes 10 + n ms.
    fn what_if() -> WhatIf {
        let costs = Costs::of_passes(&[(1, 11.0), (101, 111.0)]);
        WhatIf { costs, levels: Vec::new() }
    }

    /// Root ─ a(.9, accepted) ─ b(.8, accepted) ─ c(.1, accepted); ─ d(.5) below the root.
    fn recorded() -> Round {
        let nodes = [("<s>", 0, 1.0), ("a", 0, 0.9), ("b", 1, 0.8), ("c", 2, 0.1), ("d", 0, 0.5)];
        round_of(&nodes, &[1, 2, 3])
    }

    /// All rounds that replace one round under these controls.
    fn played(recorded: &Round, controls: &[Controls]) -> Vec<Round> {
        let (mut done, mut all) = (0, Vec::new());
        while done < recorded.committed.len() {
            let controls = &controls[all.len() % controls.len()];
            let next = what_if().next(recorded, done, controls).round;
            done += next.committed.len();
            all.push(next);
        }
        all
    }

    #[test]
    fn a_smaller_tree_keeps_the_best_nodes_and_takes_more_steps() {
        let rounds = played(&recorded(), &[controls(3)]);
        let labels: Vec<Vec<String>> = rounds.iter().map(|round| round.labels.clone()).collect();
        // a and b are the two best below the root; below b there is c.
        assert_eq!(labels, [vec!["<s>", "a", "b"], vec!["c"]]);
        let won: Vec<usize> = rounds.iter().map(|round| round.accepted.len()).collect();
        assert_eq!(won, [2, 0]);
        assert_eq!((rounds[0].bonus, rounds[0].bonus_label.as_str()), (3, "c"));
        assert!(rounds.iter().all(|round| round.predicted));
        // T_V of 3 nodes and of 1, scaled from the recorded pass over 5.
        let near = |ms: f64, want: f64| (ms - want).abs() < 1e-9;
        assert!(near(rounds[0].timing.verify_ms, 30.0 * 13.0 / 15.0), "{:?}", rounds[0].timing);
        assert!(near(rounds[1].timing.verify_ms, 30.0 * 11.0 / 15.0), "{:?}", rounds[1].timing);
        assert_eq!(rounds[0].timing.draft_ms, recorded().timing.draft_ms);
        assert_eq!(rounds[1].context, recorded().context);
        let alone = Controls { speculate: false, ..Controls::default() };
        let plain = played(&recorded(), &[alone]);
        assert_eq!(plain.len(), 4);
        assert!(plain.iter().all(|round| !round.speculative && round.timing.draft_ms == 0.0));
    }

    #[test]
    fn a_smaller_tree_is_drafted_in_fewer_rows() {
        let recorded = recorded();
        // All except c were worth expanding; of the best node alone, a was.
        assert_eq!(draft_passes(&recorded, 5), [1, 2, 1]);
        assert_eq!(draft_passes(&recorded, 3), [1, 1]);
        // A pass of n rows takes n ms.
        let level = LevelCost { blocks: [4, 4], widths: [1, 10], ms: [[1.0, 10.0]; 2] };
        let timed = WhatIf { levels: vec![(DraftKind::Head, level)], ..what_if() };
        let drafted = timed.next(&recorded, 0, &controls(3)).round.timing.draft_ms;
        assert_eq!(drafted, recorded.timing.draft_ms / 2.0);
    }

    #[test]
    fn what_is_not_asked_for_stays_as_it_was() {
        for same in [Controls::default(), controls(5)] {
            let next = what_if().next(&recorded(), 0, &same);
            assert_eq!(next, NextRound { round: recorded(), refused: Vec::new() });
        }
    }

    #[test]
    fn what_the_record_cannot_answer_is_said() {
        let said = |what_if: &WhatIf, recorded: &Round, controls: &Controls| {
            let next = what_if.next(recorded, 0, controls);
            assert_eq!(&next.round, recorded);
            next.refused.join("; ")
        };
        let known = what_if();
        assert!(said(&known, &recorded(), &controls(9)).contains("exceeds the recorded γ"));
        let unknown = WhatIf::default();
        assert!(said(&unknown, &recorded(), &controls(3)).contains("passes of only one size"));
        let mut duo = recorded();
        duo.budget.method = Method::Sequences { fixed: None };
        assert!(said(&known, &duo, &controls(3)).contains("only dynamic trees"));
        duo.budget.method = Method::Tree;
        duo.timing.ahead_ms = 4.0;
        assert!(said(&known, &duo, &controls(3)).contains("with overlapping drafts"));
        let mut other = controls(5);
        other.tree.blocks = Setting::Fixed(1);
        other.tree.width = Setting::Fixed(2);
        other.strategy = crate::plan::Strategy::named("plain");
        let said = said(&known, &recorded(), &other);
        for words in ["M is unchanged", "k and D are unchanged", "the strategy is unchanged"] {
            assert!(said.contains(words), "{words}: {said}");
        }
    }

    proptest! {
        #[test]
        fn the_text_stays_and_every_round_holds_together(
            steps in prop::collection::vec((0usize..8, 0.01f32..1.0), 1..20), down in 0usize..20,
            gammas in prop::collection::vec(1usize..24, 1..6),
        ) {
            let mut nodes = vec![("r", 0, 1.0)];
            nodes.extend(
                steps.iter().enumerate().map(|(at, (parent, p))| ("n", parent % (at + 1), *p)),
            );
            let mut path = Vec::new();
            let mut node = down % nodes.len();
            while node != 0 {
                path.insert(0, node);
                node = nodes[node].1;
            }
            let recorded = round_of(&nodes, &path);
            let controls: Vec<Controls> = gammas.iter().map(|gamma| controls(*gamma)).collect();
            let rounds = played(&recorded, &controls);
            let tokens =
                |round: &Round| round.committed.iter().map(|won| won.token).collect::<Vec<_>>();
            prop_assert_eq!(rounds.iter().flat_map(tokens).collect::<Vec<_>>(), tokens(&recorded));
            let mut root = recorded.tree.nodes()[0].token;
            for (round, gamma) in rounds.iter().zip(gammas.iter().cycle()) {
                prop_assert_eq!(check(round), Ok(()));
                prop_assert!(round.tree.len() <= *gamma || !round.predicted);
                prop_assert_eq!(round.tree.nodes()[0].token, root);
                root = round.bonus;
            }
        }
    }
}
