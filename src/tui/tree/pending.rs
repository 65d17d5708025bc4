//! The round that the target verifies just now, where the worker tells of it. It counts for as long
//! as nothing newer is known. Must never know colours.

use super::rows::{Drawn, rows};
use super::{Fold, NodeOutcome, TreeRow};
use crate::overlap::PendingRound;
use crate::tui::state::ScreenState;

impl ScreenState {
    /// A round of the answer `of` is being verified.
    pub fn take_pending(&mut self, of: u64, round: Box<PendingRound>) {
        self.tree.pending = Some((of, round));
    }

    /// The round that is being verified, where the latest is looked at: none once it is done, or
    /// its answer has ended.
    pub fn pending(&self) -> Option<&PendingRound> {
        let (of, round) = self.tree.pending.as_ref()?;
        // The event may come late, when the round is done already.
        let is_next = round.index == self.tree.len();
        let counts = self.answering() && *of == self.generation() && is_next;
        (counts && self.tree.live()).then_some(round)
    }
}

/// The rows of a round that is being verified, for a panel of `fit` rows. Tokens that follow each
/// other and have no room for a row each share one, as those of a sequence do: the sequences, which
/// grow, are below.
pub fn pending_rows(round: &PendingRound, fold: Fold, fit: usize) -> Vec<TreeRow> {
    let PendingRound { tree, labels, ahead, outcomes, .. } = round;
    let drawn = Drawn { tree, labels, judged: None, ahead: Some(ahead), outcomes };
    let mut rows = rows(drawn, fold, fit);
    let is_chain = tree.height() + 1 == tree.len();
    if fold == Fold::Fit && is_chain && tree.len() > 2 && rows.len() > fit {
        let tail: Vec<TreeRow> = rows.drain(1..tree.len()).collect();
        let label = tail.iter().map(|row| row.label.as_str()).collect();
        let probability = tail[0].probability;
        let lines = "╰╴".to_owned();
        let outcome = NodeOutcome::Pending;
        rows.insert(1, TreeRow { lines, outcome, label, probability, hidden: 0 });
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::Round;
    use crate::overlap::sequences_for_tests as ahead;
    use crate::tui::tests::{answer, loaded, pending, round_of, say, type_keys};
    use crate::worker::Event;

    fn verifying(nodes: &[(&str, usize, f32)]) -> PendingRound {
        let Round { tree, labels, .. } = round_of(nodes, &[], "");
        let ahead = ahead(6, &[&[7, 8], &[900]], None);
        PendingRound { index: 3, tree, labels, ahead, outcomes: Vec::new() }
    }

    fn sketch(round: &PendingRound, fold: Fold, fit: usize) -> Vec<String> {
        let row = |row: TreeRow| {
            let mark = match row.outcome {
                NodeOutcome::Root => '○',
                NodeOutcome::Pending => '?',
                NodeOutcome::Ahead => '·',
                other => panic!("{other:?}"),
            };
            format!("{}{mark} {}", row.lines, row.label)
        };
        pending_rows(round, fold, fit).into_iter().map(row).collect()
    }

    #[test]
    fn a_tree_that_is_being_verified_has_no_outcome() {
        let round = verifying(&[
            ("<s>", 0, 1.0),
            (" the", 0, 0.6),
            (" a", 0, 0.3),
            (" cat", 1, 0.5),
            (" dog", 1, 0.4),
        ]);
        let all = ["○ <s>", "├╴? ␣the", "│ ├╴? ␣cat", "│ ╰╴? ␣dog", "╰╴? ␣a"];
        let ahead = ["╎ · <7><8>", "╎ · <900>"];
        assert_eq!(sketch(&round, Fold::Fit, 20), [&all[..], &ahead].concat());
        // No branch is dead yet, and none of the sequences is on the path.
        for (fold, fit) in [(Fold::Fit, 3), (Fold::Branches, 20), (Fold::Nothing, 3)] {
            assert_eq!(sketch(&round, fold, fit), sketch(&round, Fold::Fit, 20));
        }
        assert_eq!(sketch(&round, Fold::Path, 20), all);
    }

    #[test]
    fn a_chain_leaves_room_for_the_sequences() {
        let round =
            verifying(&[("<s>", 0, 1.0), (" the", 0, 0.6), (" cat", 1, 0.5), ("!", 2, 0.4)]);
        let ahead = ["╎ · <7><8>", "╎ · <900>"];
        let all = ["○ <s>", "╰╴? ␣the", "  ╰╴? ␣cat", "    ╰╴? !"];
        assert_eq!(sketch(&round, Fold::Fit, 6), [&all[..], &ahead].concat());
        let short = ["○ <s>", "╰╴? ␣the␣cat!"];
        assert_eq!(sketch(&round, Fold::Fit, 5), [&short[..], &ahead].concat());
        assert_eq!(pending_rows(&round, Fold::Fit, 5)[1].probability, Some(0.6));
        // With all nodes shown, each has a row.
        assert_eq!(sketch(&round, Fold::Nothing, 5), [&all[..], &ahead].concat());
    }

    /// The indices of those that are shown after each of the events.
    fn shown(state: &mut ScreenState, events: Vec<Event>) -> Vec<Option<usize>> {
        let after = |event| {
            say(state, event);
            state.pending().map(|round| round.index)
        };
        events.into_iter().map(after).collect()
    }

    #[test]
    fn a_pending_round_is_shown_until_it_is_done_whenever_it_is_told() {
        let mut state = loaded(120, 40);
        type_keys(&mut state, "Once more<enter>");
        let mut events = answer(1, "Once there was a fox who lived by the sea.", 8);
        assert!(matches!(events[2..4], [Event::Round { .. }, Event::Round { .. }]));
        let first = events.remove(2);
        let second = events.remove(2);
        events.truncate(2);
        events.extend([pending(1, 0), first, pending(1, 0), pending(1, 1), second]);
        let none = None;
        assert_eq!(shown(&mut state, events), [none, none, Some(0), none, none, Some(1), none]);
        // Of another answer.
        assert_eq!(shown(&mut state, vec![pending(2, 2), pending(1, 2)]), [none, Some(2)]);
        // Looking back, and on.
        type_keys(&mut state, "<f2><tab><left>");
        assert_eq!(state.pending(), None);
        type_keys(&mut state, "<right>");
        assert!(state.pending().is_some());
        type_keys(&mut state, "<esc><esc>");
        assert!(!state.answering());
        assert_eq!(shown(&mut state, vec![pending(1, 2)]), [none]);
    }

    #[test]
    fn the_answers_of_a_race_show_no_tree() {
        let mut state = loaded(120, 40);
        type_keys(&mut state, "Once more<enter>");
        answer(1, "Once", 8).into_iter().for_each(|event| drop(say(&mut state, event)));
        type_keys(&mut state, "/race<enter>");
        let of = state.generation();
        let at = state.tree.len();
        assert!(state.answering() && of > 1);
        assert_eq!(shown(&mut state, vec![pending(of, at)]), [None]);
    }
}
