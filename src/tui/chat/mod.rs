//! The conversation and its scroll position. Must never know colours.

pub(crate) mod answer;
mod context;
pub(crate) mod conversation;
mod find;
pub(crate) mod footer;
pub(crate) mod full;
pub(crate) mod layers;
mod misses;
pub(crate) mod pointer;
mod selection;
mod turn;
pub(crate) mod view;
mod welcome;

use std::ops::Range;

use crate::chat::{
    AnsweredBy, Extras, Forgotten, Given, Message, Role, SavedChat, SavedTurn, WhenFull,
    alternating, messages_given,
};
use crate::decode::{Committed, Round};

pub use context::ContextUsage;
pub use find::Find;
pub use full::{CHOICES, Summarising};
pub use misses::{Judged, Misses};
pub use selection::{SeenRows, Selection, TurnPart};
pub use turn::{AnswerOutcome, OtherVersions, Turn};

/// The conversation.
#[derive(Clone, Debug, Default)]
pub struct Chat {
    /// Instructions that precede it.
    pub system: Option<String>,
    /// Whether thoughts are shown.
    pub shows_thoughts: bool,
    /// Whether long files in messages are shown whole.
    pub shows_files: bool,
    turns: Vec<Turn>,
    /// The beginning that the model is not given any more: its turns, and what stands for them.
    pub forgotten: Forgotten,
    /// What was forgotten before more was for an answer that has not begun yet.
    pub(crate) remembered: Option<Forgotten>,
    /// Words that are looked for.
    pub find: Option<Find>,
    /// The models that gave its last answer; `None` before the first.
    pub answered_by: Option<AnsweredBy>,
    /// The preset that it is led by.
    pub preset: Option<String>,
    /// What is done when the context is full; `None` asks.
    pub when_full: Option<WhenFull>,
    /// The answer that is being regenerated or continued; it is restored if nothing comes.
    replaced: Option<Turn>,
    /// Bytes of text and of thoughts that an answer had before it continued.
    went_on_at: Option<(usize, usize)>,
    /// The exchange that was deleted last, and how many turns were left.
    deleted: Option<(usize, Vec<Turn>)>,
    /// First row seen; `None` follows the end.
    top: Option<usize>,
    /// Rows there are and rows seen, as last drawn.
    extent: (usize, usize),
    /// The places of the rows on the screen, as last drawn.
    pub seen: SeenRows,
    /// What is selected with the mouse.
    pub selection: Option<Selection>,
    /// By how much the last prompt did not fit.
    pub refused: Option<ContextUsage>,
    /// Whether the latest answer continues what there was of it.
    pub goes_on: bool,
    /// A summary on its way, which makes room in the context.
    pub summarising: Option<Summarising>,
}

impl Chat {
    /// An empty conversation.
    pub fn new(system: Option<String>) -> Self {
        Self { system, ..Self::default() }
    }

    /// The turns, oldest first, without the system prompt.
    pub fn turns(&self) -> &[Turn] {
        &self.turns
    }

    /// Takes a conversation in place of this one.
    pub fn replace(&mut self, chat: SavedChat) {
        *self = Self { shows_thoughts: self.shows_thoughts, ..Self::default() };
        let Extras { versions, forgotten, when_full, preset, .. } = chat.extras;
        self.preset = preset;
        self.answered_by = chat.answered_by;
        let mut versions = versions.into_iter().peekable();
        for (at, said) in chat.turns.into_iter().enumerate() {
            let others = versions.next_if(|others| others.message == at);
            if said.message.role == Role::System {
                self.system = Some(said.message.content);
                continue;
            }
            let mut turn = Turn::loaded(said);
            turn.versions = others.map(OtherVersions::loaded).unwrap_or_default();
            self.turns.push(turn);
        }
        self.when_full = when_full;
        self.forgotten = forgotten.unwrap_or_default();
        self.forgotten.messages = self.forgotten.messages.min(self.turns.len());
    }

    /// Adds what the user said and an empty answer to it.
    pub fn ask(&mut self, text: String) {
        self.turns.push(Turn::question(text));
        self.deleted = None;
        self.reopen();
    }

    /// Adds an empty answer to the last question: another version of the one there is.
    pub fn reopen(&mut self) {
        let answered = self.turns.last().is_some_and(|turn| turn.role == Role::Assistant);
        self.replaced = if answered { self.turns.pop() } else { None };
        self.turns.push(self.replaced.clone().map_or_else(Turn::open, Turn::another));
        self.went_on_at = None;
        self.top = None;
    }

    /// Begins another version of the last answer, with `token` forced in the place of its token
    /// `at`; returns the tokens before, and all that are forced.
    pub fn force(&mut self, at: usize, token: u32) -> (Vec<u32>, Vec<(usize, u32)>) {
        let Some(former) = self.turns.pop() else { return Default::default() };
        let turn = Turn::forced(former.clone(), at, token);
        self.went_on_at = Some((turn.text.len(), turn.thought_text().map_or(0, str::len)));
        let begun = turn.minds.tokens.iter().map(|token| token.token).collect();
        let forced = turn.forced.clone();
        self.replaced = Some(former);
        self.turns.push(turn);
        self.top = None;
        (begun, forced)
    }

    /// Whether the last answer was cut off and can continue.
    pub fn can_go_on(&self) -> bool {
        self.turns.last().is_some_and(Turn::goes_on)
    }

    /// Whether the last question has no answer: the program ended before its first word.
    pub fn is_unanswered(&self) -> bool {
        self.turns.last().is_some_and(|turn| turn.role == Role::User)
    }

    /// Opens the last answer again, so that it continues where it was cut off.
    pub fn go_on(&mut self) {
        let Some(turn) = self.turns.last_mut().filter(|turn| turn.goes_on()) else { return };
        self.replaced = Some(turn.clone());
        turn.reopen();
        self.went_on_at = Some((turn.text.len(), turn.thought_text().map_or(0, str::len)));
        self.top = None;
    }

    /// Shows the next version of the last answer (1) or the one before (-1).
    ///
    /// # Errors
    /// Why there is none.
    pub fn switch_version(&mut self, by: i8) -> Result<(usize, usize), &'static str> {
        let answer = self.turns.last_mut().filter(|turn| turn.role == Role::Assistant);
        let answer = answer.ok_or("There is no answer yet")?;
        answer.switch(by)?;
        Ok(answer.versions.place())
    }

    /// Takes the last question away with its answer; `false` if there is none.
    pub fn delete_exchange(&mut self) -> bool {
        let Some(at) = self.turns.iter().rposition(|turn| turn.role == Role::User) else {
            return false;
        };
        let exchange = self.turns.split_off(at);
        self.deleted = Some((at, exchange));
        self.forgotten.messages = self.forgotten.messages.min(at);
        self.replaced = None;
        true
    }

    /// Brings back what was deleted last, if nothing was said since.
    pub fn undelete(&mut self) -> bool {
        let Some((_, exchange)) = self.deleted.take_if(|(at, _)| *at == self.turns.len()) else {
            return false;
        };
        self.turns.extend(exchange);
        true
    }

    /// Ends the conversation before turn `at`.
    pub fn branch_before(&mut self, at: usize) {
        self.turns.truncate(at);
        self.forgotten.messages = self.forgotten.messages.min(at);
        if self.forgotten.messages == 0 {
            self.forgotten.summary = None;
        }
        self.replaced = None;
        self.deleted = None;
        self.top = None;
    }

    /// The answer being written.
    pub fn open_answer(&mut self) -> Option<&mut Turn> {
        self.turns.last_mut().filter(|turn| turn.role == Role::Assistant && turn.outcome.is_none())
    }

    /// Whether there is a question to answer again.
    pub fn can_regenerate(&self) -> bool {
        self.turns.iter().any(|turn| turn.role == Role::User)
    }

    /// Notes what the model is given for the answer being written. If an earlier part of the answer
    /// was given something else, nothing can be said of the whole.
    pub fn note_given(&mut self, given: Given) {
        let Some(answer) = self.open_answer() else { return };
        let begins = answer.text.is_empty() && answer.thought.is_none();
        answer.given = Some(given).filter(|given| begins || answer.given.as_ref() == Some(given));
    }

    /// Appends the first token of the answer `of`, by this target, to the one being written.
    pub fn begin(&mut self, first: Committed, of: u64, target: &str) {
        if let Some(turn) = self.open_answer() {
            target.clone_into(&mut turn.minds.target);
            turn.push(&[first], of, None);
        }
    }

    /// Appends a round of the answer `of` to the one being written; the bytes of its text that it
    /// wrote.
    pub fn extend(&mut self, round: &Round, of: u64) -> Range<usize> {
        self.open_answer().map_or(0..0, |turn| turn.push(&round.committed, of, Some(round)))
    }

    /// Ends the answer being written. An empty one is removed unless the target ended it itself:
    /// the answer it was to replace is restored, as is one that did not continue.
    pub fn close(&mut self, outcome: AnswerOutcome) {
        let began = self.went_on_at.take().unwrap_or_default();
        let Some(turn) = self.open_answer() else { return };
        if turn.is_empty_since(began)
            && matches!(outcome, AnswerOutcome::Failed | AnswerOutcome::STOPPED)
        {
            self.turns.pop();
            self.turns.extend(self.replaced.take());
        } else {
            turn.outcome = Some(outcome);
            turn.drop_same_version();
            self.replaced = None;
        }
    }

    /// The last answer's text.
    pub fn last_answer(&self) -> Option<&str> {
        let answer = self.turns.iter().rev().find(|turn| turn.role == Role::Assistant)?;
        Some(answer.text.as_str()).filter(|text| !text.is_empty())
    }

    /// The conversation as the target takes it: an answer that got no further than its thoughts is
    /// none. What stands for the forgotten beginning precedes the first question that is left.
    pub fn messages(&self) -> Vec<Message> {
        let left = &self.turns[self.forgotten.messages.min(self.turns.len())..];
        let mut messages = messages_given(self.system_turn().chain(left.iter().map(Turn::saved)));
        self.forgotten.put_before(&mut messages);
        messages
    }

    /// The turns as they are if the program ends now: in the place of an answer that has nothing
    /// new yet, the one that it is to replace.
    fn lasting(&self) -> impl Iterator<Item = &Turn> {
        let began = self.went_on_at.unwrap_or_default();
        let waits = |turn: &&Turn| turn.outcome.is_none() && turn.is_empty_since(began);
        let former = self.turns.last().filter(waits).and(self.replaced.as_ref());
        let turns = &self.turns[..self.turns.len() - usize::from(former.is_some())];
        turns.iter().chain(former)
    }

    /// The conversation as it is saved: an answer not yet begun is left out.
    pub fn saved_turns(&self) -> Vec<SavedTurn> {
        self.saved_before(self.turns.len())
    }

    /// The first `turns` turns as they are saved.
    pub fn saved_before(&self, turns: usize) -> Vec<SavedTurn> {
        let begun = |turn: &&Turn| {
            turn.role != Role::Assistant || !turn.text.is_empty() || turn.thought.is_some()
        };
        let turns = self.lasting().take(turns).filter(begun).map(Turn::saved);
        alternating(self.system_turn().chain(turns))
    }

    /// How many of the saved messages the model is not given any more, without the system prompt.
    pub fn saved_forgotten(&self) -> usize {
        let system = usize::from(self.system.is_some());
        self.saved_before(self.forgotten.messages).len().saturating_sub(system)
    }

    /// What is saved next to the messages.
    pub fn extras(&self) -> Extras {
        let mut versions = Vec::new();
        for (at, turn) in self.lasting().enumerate() {
            if turn.versions.place().1 > 1 {
                let saved = self.saved_before(at + 1).len();
                versions.extend(turn.versions.saved(saved.saturating_sub(1)));
            }
        }
        let messages = self.saved_forgotten();
        let forgotten = Forgotten { messages, summary: self.forgotten.summary.clone() };
        Extras {
            versions,
            forgotten: (messages > 0).then_some(forgotten),
            when_full: self.when_full,
            branch_of: None,
            preset: self.preset.clone(),
            unsent: None,
        }
    }

    /// The system prompt as a message.
    pub(crate) fn system_turn(&self) -> impl Iterator<Item = SavedTurn> {
        self.system.iter().map(|system| SavedTurn::whole(Message::new(Role::System, system)))
    }

    /// Moves what is seen by `rows`, down if positive.
    pub fn scroll(&mut self, rows: i64) {
        let (all, seen) = self.extent;
        let bottom = all.saturating_sub(seen);
        let top = self.top.unwrap_or(bottom).min(bottom) as i64;
        let top = (top + rows).max(0) as usize;
        self.top = (top < bottom).then_some(top);
    }

    /// Shows row `row`, with a little of what is above it.
    pub fn go_to(&mut self, row: usize) {
        let (all, fit) = self.extent;
        let top = row.saturating_sub(fit / 4);
        self.top = (top + fit < all).then_some(top);
    }

    /// Shows row `row`, if it is not seen.
    pub fn reveal(&mut self, row: usize) {
        let (all, fit) = self.extent;
        let top = self.top.unwrap_or(all.saturating_sub(fit));
        if !(top..top + fit).contains(&row) {
            self.go_to(row);
        }
    }

    /// Moves by a screenful, one row kept.
    pub fn page(&mut self, down: bool) {
        let rows = self.extent.1.saturating_sub(1).max(1) as i64;
        self.scroll(if down { rows } else { -rows });
    }

    /// Follows the end again.
    pub fn follow(&mut self) {
        self.top = None;
    }

    /// Whether the end is followed.
    pub fn follows(&self) -> bool {
        self.top.is_none()
    }

    /// Sets how many rows there are and how many fit; returns the first row to show.
    pub fn fit(&mut self, all: usize, fit: usize) -> usize {
        self.extent = (all, fit);
        let bottom = all.saturating_sub(fit);
        if self.top.is_some_and(|top| top >= bottom) {
            self.top = None;
        }
        self.top.unwrap_or(bottom)
    }

    /// Rows below the last one seen.
    pub fn below(&self) -> usize {
        let (all, fit) = self.extent;
        self.top.map_or(0, |top| all.saturating_sub(top + fit))
    }
}
