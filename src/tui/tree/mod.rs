//! The rounds of the latest answer, which of them is shown, and the token that is looked at. Must
//! never know how they are drawn.

mod minds;
mod page;
mod rows;
pub(crate) mod view;

use std::ops::Range;

use crate::chat::Role;
use crate::decode::{NothingGuessed, Round};
use crate::overlap::PendingRound;
use crate::tui::display::Focus;
use crate::tui::state::ScreenState;

pub use rows::{Fold, NodeOutcome, TreeRow, pending_rows, tree_rows};

/// Why an answer has no tokens to look at.
const NOT_KEPT: &str = "What was drafted for this answer is not kept: another run wrote it";

/// The rounds of one answer.
#[derive(Clone, Debug, Default)]
pub struct Rounds {
    /// Each with the bytes of the answer that it wrote.
    list: Vec<(Round, Range<usize>)>,
    /// The generation of the answer.
    of: Option<u64>,
    /// Whether the next frame shows the words of the round shown.
    goes: bool,
    /// The round shown; `None` follows the latest.
    cursor: Option<usize>,
    /// The token looked at: its turn, and its number in the answer. If the turn is the one that
    /// these rounds wrote, it belongs to the round shown.
    pub token: Option<(usize, usize)>,
    /// First tree row seen.
    top: usize,
    /// What of the tree is hidden.
    pub fold: Fold,
    /// Rows of the tree and rows seen, as last drawn.
    extent: (usize, usize),
    /// The round that is being verified and the generation of its answer, as far as it is known.
    pub pending: Option<(u64, Box<PendingRound>)>,
}

impl Rounds {
    /// Puts `rounds` in the place of these, which it returns. What is hidden stays so.
    pub fn replace(&mut self, rounds: Self) -> Self {
        let fold = self.fold;
        std::mem::replace(self, Self { fold, ..rounds })
    }

    /// Adds the latest round of the answer `of`, which wrote `bytes` of its text.
    pub fn push(&mut self, round: Round, of: u64, bytes: Range<usize>) {
        self.list.push((round, bytes));
        self.of = Some(of);
        if self.cursor.is_none() {
            self.top = 0;
        }
    }

    /// The bytes of the answer that the round shown wrote; none if it wrote no text.
    pub fn bytes(&self) -> Option<Range<usize>> {
        let (_, bytes) = &self.list[self.shown()?.0];
        Some(bytes.clone()).filter(|bytes| !bytes.is_empty())
    }

    /// Shows the round that wrote byte `at` of the answer; the first one for what was written
    /// before it, which is the root of its tree. `false` if none did.
    pub fn show_byte(&mut self, at: usize) -> bool {
        let round = self.list.partition_point(|(_, bytes)| bytes.end <= at);
        let found = round < self.list.len();
        if found {
            self.go(round);
        }
        found
    }

    /// Whether the next frame shows the words of the round shown; asked for once.
    pub fn goes(&mut self) -> bool {
        std::mem::take(&mut self.goes)
    }

    /// Number of rounds so far.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub fn latest(&self) -> Option<&Round> {
        self.list.last().map(|(round, _)| round)
    }

    /// The round shown, and its index.
    pub fn shown(&self) -> Option<(usize, &Round)> {
        let at = self.cursor.or(self.list.len().checked_sub(1))?;
        Some((at, &self.list.get(at)?.0))
    }

    /// At most `most` rounds in a row with their indices, the one shown among them: the latest, or
    /// those around the one that is looked back at.
    pub fn around(&self, most: usize) -> impl Iterator<Item = (usize, &Round)> {
        let end = self.cursor.map_or(self.len(), |at| (at + 1 + most / 2).min(self.len()));
        let rounds = self.list.iter().enumerate().take(end).skip(end.saturating_sub(most));
        rounds.map(|(at, (round, _))| (at, round))
    }

    /// Whether the latest round is followed.
    pub fn live(&self) -> bool {
        self.cursor.is_none()
    }

    /// Moves by `by` rounds; past the last one follows the latest again.
    pub fn look(&mut self, by: i64) {
        let Some((at, _)) = self.shown() else { return };
        let to = (at as i64 + by).max(0) as usize;
        self.go(to);
    }

    /// Follows the latest.
    pub fn follow(&mut self) {
        self.cursor = None;
        self.token = None;
        self.top = 0;
    }

    /// Shows this round; the last one follows the latest.
    pub fn go(&mut self, to: usize) {
        self.cursor = (to + 1 < self.list.len()).then_some(to);
        self.token = None;
        self.top = 0;
        self.goes = true;
    }

    /// Moves the tree by `rows`, down if positive.
    pub fn scroll(&mut self, rows: i64) {
        let bottom = self.extent.0.saturating_sub(self.extent.1) as i64;
        self.top = (self.top as i64 + rows).clamp(0, bottom) as usize;
    }

    /// Moves by a screenful, one row kept.
    pub fn page(&mut self, down: bool) {
        let rows = self.extent.1.saturating_sub(1).max(1) as i64;
        self.scroll(if down { rows } else { -rows });
    }

    /// Sets how many rows there are and how many fit; returns the first row to show.
    pub fn seen(&mut self, all: usize, fit: usize) -> usize {
        self.extent = (all, fit);
        self.top = self.top.min(all.saturating_sub(fit));
        self.top
    }
}

impl ScreenState {
    /// The round that is being verified, where the latest is looked at: none once it is done, or
    /// its answer has ended.
    pub fn pending(&self) -> Option<&PendingRound> {
        let (of, round) = self.tree.pending.as_ref()?;
        // The event may come late, when the round is done already.
        let is_next = round.index == self.tree.len();
        let counts = self.answering() && *of == self.generation() && is_next;
        (counts && self.tree.live()).then_some(round)
    }

    /// Why the tree that is shown is empty; `None` if it is not.
    pub fn nothing_guessed(&self) -> Option<NothingGuessed> {
        match self.tree.shown() {
            _ if self.pending().is_some() => None,
            Some((_, round)) => round.nothing_guessed(),
            None if !self.controls.worker.speculate => Some(NothingGuessed::Off),
            None if self.models.ready.is_some() && self.draft().is_none() => {
                Some(NothingGuessed::NoDraft)
            }
            None => Some(NothingGuessed::NotBegun),
        }
    }

    /// The turn and the bytes of its text that the round shown in the tree wrote, while somebody
    /// looks at rounds: in the tree, or back from the conversation. If the rounds of the token that
    /// is looked at are not kept, its own bytes.
    pub fn lit(&self) -> Option<(usize, Range<usize>)> {
        if let Some((turn, at)) = self.token_looked_at()
            && !self.has_rounds(turn)
        {
            return Some((turn, self.chat.turns()[turn].minds.bytes(at)));
        }
        let looks = match self.display.focus {
            Focus::Tree => !self.tree.live() || !self.answering(),
            Focus::Chat => !self.tree.live() || self.tree.token.is_some(),
            Focus::Input | Focus::Meters | Focus::Controls => false,
        };
        if !looks {
            return None;
        }
        Some((self.turn_of_rounds()?, self.tree.bytes()?))
    }

    /// The token that is looked at, while keys go to the tree or the conversation.
    pub fn token_looked_at(&self) -> Option<(usize, usize)> {
        let looks = matches!(self.display.focus, Focus::Tree | Focus::Chat);
        let there = |&(turn, at): &(usize, usize)| {
            self.chat.turns().get(turn).is_some_and(|said| at < said.minds.tokens.len())
        };
        self.tree.token.filter(there).filter(|_| looks)
    }

    /// The turn that the rounds of the tree wrote.
    fn turn_of_rounds(&self) -> Option<usize> {
        self.chat.turns().iter().rposition(|turn| turn.written == self.tree.of)
    }

    /// Whether the tree has the rounds of this turn.
    fn has_rounds(&self, turn: usize) -> bool {
        self.tree.of.is_some() && self.turn_of_rounds() == Some(turn)
    }

    /// Shows the round that wrote byte `at` of turn `turn` in the tree, and looks at its token
    /// there. In an earlier answer, it looks at the token alone.
    ///
    /// # Errors
    /// Why there is none.
    pub fn show_round_of(&mut self, turn: usize, at: usize) -> Result<(), &'static str> {
        let said = self.chat.turns().get(turn).filter(|turn| turn.role == Role::Assistant);
        let said = said.ok_or("Only answers have rounds")?;
        let known = said.minds.token_at(at);
        if self.has_rounds(turn) {
            if !self.tree.show_byte(at) {
                return Err("This word has no round yet");
            }
        } else if known.is_none() {
            return Err(NOT_KEPT);
        }
        self.tree.token = known.map(|token| (turn, token));
        self.tree.goes = true;
        Ok(())
    }

    /// Looks at the token with which the round shown in the tree ends, if that is not followed.
    pub(crate) fn look_at_end_of_round(&mut self) {
        if self.tree.live() {
            self.chat.follow();
        } else if let (Some(turn), Some(bytes)) = (self.turn_of_rounds(), self.tree.bytes()) {
            let token = self.chat.turns()[turn].minds.token_at(bytes.end - 1);
            self.tree.token = token.map(|token| (turn, token));
        }
    }

    /// Looks at the next token of the answers (1) or the one before (-1); after the last it follows
    /// the latest round.
    pub(crate) fn look_at_word(&mut self, by: i8) {
        let turns = self.chat.turns();
        let all = turns.len();
        let (turn, at) = self.tree.token.map_or((all, None), |(turn, at)| (turn, Some(at)));
        let step = |turn: usize, from| Some((turn, turns[turn].minds.step(from, by)?));
        let here = at.filter(|_| turn < all).and_then(|at| step(turn, Some(at)));
        let found = here.or_else(|| match by {
            1.. => (turn + 1..all).find_map(|turn| step(turn, None)),
            _ => (0..turn.min(all)).rev().find_map(|turn| step(turn, None)),
        });
        match found {
            Some((turn, token)) => {
                let byte = self.chat.turns()[turn].minds.bytes(token).start;
                // A token whose round is not done yet is looked at alone.
                let _ = self.show_round_of(turn, byte);
                self.tree.token = Some((turn, token));
            }
            None if by > 0 => {
                self.tree.follow();
                self.chat.follow();
            }
            None => {
                let before = &self.chat.turns()[..turn.min(all)];
                if before.iter().any(|turn| turn.role == Role::Assistant) {
                    self.refuse(NOT_KEPT);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::tests::{answer, loaded, pending, say, say_all, type_keys};
    use crate::worker::Event;

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
        say_all(&mut state, answer(1, "Once", 8));
        type_keys(&mut state, "/race<enter>");
        let of = state.generation();
        let at = state.tree.len();
        assert!(state.answering() && of > 1);
        assert_eq!(shown(&mut state, vec![pending(of, at)]), [None]);
    }
}
