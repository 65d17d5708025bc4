//! The conversation and its scroll position. Must never know colours.

use super::thought::Thought;
use crate::chat::{Message, Role, SavedTurn};
use crate::decode::{Committed, Finish, Summary};
use crate::tui::markdown::{Document, Origins, TextRow};

/// How an answer ended.
#[derive(Clone, Debug, PartialEq)]
pub enum AnswerOutcome {
    /// By the model.
    Finished(Box<Summary>),
    /// By the user; tokens and tokens per second so far.
    Stopped {
        /// Tokens of the answer.
        tokens: usize,
    },
    /// By a failure.
    Failed,
    /// In an earlier run of the program.
    Loaded,
    /// In an earlier run, before its end: it was stopped, or the program was.
    Interrupted,
}

/// One message with what the screen keeps about it.
#[derive(Clone, Debug)]
pub struct Turn {
    /// Its role.
    pub role: Role,
    /// What was thought before it; `None` if nothing was.
    pub thought: Option<Thought>,
    /// Its text.
    pub text: String,
    /// Origin of each byte of an answer.
    pub origins: Origins,
    /// `None` while it is being written.
    pub outcome: Option<AnswerOutcome>,
    document: Document,
}

impl Turn {
    fn new(role: Role, text: String, outcome: Option<AnswerOutcome>) -> Self {
        let (thought, origins) = (None, Origins::default());
        Self { role, thought, text, origins, outcome, document: Document::default() }
    }

    /// Whether it was interrupted.
    fn interrupted(&self) -> bool {
        match &self.outcome {
            None
            | Some(
                AnswerOutcome::Stopped { .. } | AnswerOutcome::Failed | AnswerOutcome::Interrupted,
            ) => true,
            Some(AnswerOutcome::Finished(summary)) => summary.finish == Some(Finish::Cancelled),
            Some(AnswerOutcome::Loaded) => false,
        }
    }

    /// Its rows at `width`.
    pub fn rows(&mut self, width: usize) -> &[TextRow] {
        match self.role {
            Role::Assistant => self.document.lay_out(&self.text, &self.origins, width),
            // What a person typed is not Markdown: `__init__` would lose its underscores.
            Role::User | Role::System => self.document.lay_out_verbatim(&self.text, width),
        }
    }

    /// Its rows as last laid out.
    pub fn laid_out(&self) -> &[TextRow] {
        self.document.rows()
    }
}

/// The conversation.
#[derive(Clone, Debug, Default)]
pub struct Chat {
    /// Instructions that precede it.
    pub system: Option<String>,
    /// Whether thoughts are shown.
    pub shows_thoughts: bool,
    turns: Vec<Turn>,
    /// The answer that is being regenerated; it is restored if nothing replaces it.
    replaced: Option<Turn>,
    /// First row seen; `None` follows the end.
    top: Option<usize>,
    /// Rows there are and rows seen, as last drawn.
    extent: (usize, usize),
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

    /// The turns, to be laid out.
    pub fn turns_mut(&mut self) -> &mut [Turn] {
        &mut self.turns
    }

    /// Takes a conversation in place of this one.
    pub fn replace(&mut self, turns: Vec<SavedTurn>) {
        *self = Self { shows_thoughts: self.shows_thoughts, ..Self::default() };
        for SavedTurn { message, interrupted } in turns {
            let outcome =
                if interrupted { AnswerOutcome::Interrupted } else { AnswerOutcome::Loaded };
            match message.role {
                Role::System => self.system = Some(message.content),
                role => {
                    let mut turn = Turn::new(role, message.content, Some(outcome));
                    turn.thought = message.thought.map(Thought::saved);
                    self.turns.push(turn);
                }
            }
        }
    }

    /// Adds what the user said and an empty answer to it.
    pub fn ask(&mut self, text: String) {
        self.turns.push(Turn::new(Role::User, text, Some(AnswerOutcome::Loaded)));
        self.reopen();
    }

    /// Adds an empty answer to the last question, in place of the one there is.
    pub fn reopen(&mut self) {
        let answered = self.turns.last().is_some_and(|turn| turn.role == Role::Assistant);
        self.replaced = if answered { self.turns.pop() } else { None };
        self.turns.push(Turn::new(Role::Assistant, String::new(), None));
        self.top = None;
    }

    /// Takes the last question away, if no answer follows it.
    pub fn take_question(&mut self) -> Option<String> {
        match self.turns.last() {
            Some(turn) if turn.role == Role::User => self.turns.pop().map(|turn| turn.text),
            _ => None,
        }
    }

    /// The answer being written.
    pub fn open_answer(&mut self) -> Option<&mut Turn> {
        self.turns.last_mut().filter(|turn| turn.role == Role::Assistant && turn.outcome.is_none())
    }

    /// Whether there is a question to answer again.
    pub fn can_regenerate(&self) -> bool {
        self.turns.iter().any(|turn| turn.role == Role::User)
    }

    /// Appends tokens to the answer being written.
    pub fn extend(&mut self, tokens: &[Committed]) {
        if let Some(turn) = self.open_answer() {
            for token in tokens {
                turn.text.push_str(&token.text);
                turn.origins.push(token.text.len(), token.origin);
                if let Some(thought) = &token.thought {
                    turn.thought.get_or_insert_default().push(thought);
                }
            }
        }
    }

    /// Ends the answer being written. An empty one is removed unless the target ended it itself:
    /// the answer it was to replace is restored.
    pub fn close(&mut self, outcome: AnswerOutcome) {
        let Some(turn) = self.open_answer() else { return };
        let empty = turn.text.is_empty() && turn.thought.is_none();
        if empty && !matches!(outcome, AnswerOutcome::Finished(_)) {
            self.turns.pop();
            self.turns.extend(self.replaced.take());
        } else {
            turn.outcome = Some(outcome);
            self.replaced = None;
        }
    }

    /// The last answer's text.
    pub fn last_answer(&self) -> Option<&str> {
        let answer = self.turns.iter().rev().find(|turn| turn.role == Role::Assistant)?;
        Some(answer.text.as_str()).filter(|text| !text.is_empty())
    }

    /// The conversation as the target takes it: an answer that got no further than its thoughts is
    /// none.
    pub fn messages(&self) -> Vec<Message> {
        let turns = self.alternating(|turn| !turn.text.is_empty());
        turns.into_iter().map(|turn| turn.message).collect()
    }

    /// The conversation as it is saved: an answer not yet begun is left out.
    pub fn saved_turns(&self) -> Vec<SavedTurn> {
        self.alternating(|turn| !turn.text.is_empty() || turn.thought.is_some())
    }

    /// The turns with the answers that `counts`. Questions that got none are put together with the
    /// next one, since templates want the roles to alternate.
    fn alternating(&self, counts: impl Fn(&Turn) -> bool) -> Vec<SavedTurn> {
        let mut turns: Vec<SavedTurn> = Vec::new();
        if let Some(system) = &self.system {
            let message = Message::new(Role::System, system);
            turns.push(SavedTurn { message, interrupted: false });
        }
        for turn in &self.turns {
            let interrupted = turn.interrupted();
            match turns.last_mut() {
                _ if turn.role == Role::Assistant && !counts(turn) => {}
                Some(last) if last.message.role == turn.role => {
                    last.message.content.push_str("\n\n");
                    last.message.content.push_str(&turn.text);
                    last.interrupted |= interrupted;
                }
                _ => {
                    let thought = turn.thought.as_ref().map(|thought| thought.text.clone());
                    let message = Message { thought, ..Message::new(turn.role, &turn.text) };
                    turns.push(SavedTurn { message, interrupted });
                }
            }
        }
        turns
    }

    /// Moves what is seen by `rows`, down if positive.
    pub fn scroll(&mut self, rows: i64) {
        let (all, seen) = self.extent;
        let bottom = all.saturating_sub(seen);
        let top = self.top.unwrap_or(bottom).min(bottom) as i64;
        let top = (top + rows).max(0) as usize;
        self.top = (top < bottom).then_some(top);
    }

    /// Moves by a screenful, one row kept.
    pub fn page(&mut self, down: bool) {
        let rows = self.extent.1.saturating_sub(1).max(1) as i64;
        self.scroll(if down { rows } else { -rows });
    }

    /// Goes to the beginning.
    pub fn to_top(&mut self) {
        if self.extent.0 > self.extent.1 {
            self.top = Some(0);
        }
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
    pub fn seen(&mut self, all: usize, fit: usize) -> usize {
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

/// The finish in words, where it is worth saying.
pub fn finish_words(finish: Option<Finish>) -> Option<&'static str> {
    match finish? {
        Finish::Eos | Finish::StopString => None,
        Finish::MaxTokens => Some("token limit reached: /max-tokens"),
        Finish::ContextFull => Some("context full: /new"),
        Finish::Cancelled => Some("stopped"),
    }
}
