//! One message with what the screen keeps about it. Must never know colours.

use std::ops::Range;

use super::payoff::Speedup;
use super::thought::Thought;
use super::totals::AnswerTotals;
use super::versions::OtherVersions;
use crate::chat::{Message, Role, SavedTurn};
use crate::decode::{Committed, Finish, Summary};
use crate::tui::markdown::{Document, Origins, TextRow};

/// How an answer ended.
#[derive(Clone, Debug, PartialEq)]
pub enum AnswerOutcome {
    /// By the model.
    Finished(Box<Summary>),
    /// By the user.
    Stopped,
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
    /// The generation in which it was written last; `None` for what was not written here.
    pub written: Option<u64>,
    /// Origin of each byte of an answer.
    pub origins: Origins,
    /// `None` while it is being written.
    pub outcome: Option<AnswerOutcome>,
    /// What all of it took, once it has ended; `None` if it was not written in this run.
    pub totals: Option<AnswerTotals>,
    /// What it took before it went on; `None` if it did not.
    earlier: Option<AnswerTotals>,
    /// How much faster than plain decoding it came.
    pub speedup: Option<Speedup>,
    /// Whether its gain is told in rounds: it is the demo's.
    pub counts_rounds: bool,
    /// Its other versions.
    pub versions: OtherVersions,
    document: Document,
}

impl Turn {
    fn new(role: Role, text: String, outcome: Option<AnswerOutcome>) -> Self {
        Self {
            role,
            thought: None,
            text,
            written: None,
            origins: Origins::default(),
            outcome,
            totals: None,
            earlier: None,
            speedup: None,
            counts_rounds: false,
            versions: OtherVersions::default(),
            document: Document::default(),
        }
    }

    /// What the user said.
    pub(super) fn question(text: String) -> Self {
        Self::new(Role::User, text, Some(AnswerOutcome::Loaded))
    }

    /// An answer that begins.
    pub(super) fn open() -> Self {
        Self::new(Role::Assistant, String::new(), None)
    }

    /// A message of a file.
    pub(super) fn loaded(message: Message, interrupted: bool) -> Self {
        let outcome = if interrupted { AnswerOutcome::Interrupted } else { AnswerOutcome::Loaded };
        let mut turn = Self::new(message.role, message.content, Some(outcome));
        turn.thought = message.thought.map(Thought::saved);
        turn
    }

    /// As it goes to the file.
    pub(super) fn saved(&self) -> SavedTurn {
        let thought = self.thought_text().map(str::to_string);
        let message = Message { thought, ..Message::new(self.role, &self.text) };
        SavedTurn { message, interrupted: self.interrupted() }
    }

    /// The text of its thoughts.
    pub(super) fn thought_text(&self) -> Option<&str> {
        self.thought.as_ref().map(|thought| thought.text.as_str())
    }

    /// Whether it ended before the model had finished, so that it can go on after the next start
    /// too.
    pub(super) fn interrupted(&self) -> bool {
        match &self.outcome {
            None
            | Some(AnswerOutcome::Stopped | AnswerOutcome::Failed | AnswerOutcome::Interrupted) => {
                true
            }
            Some(AnswerOutcome::Finished(summary)) => cut_off(summary),
            Some(AnswerOutcome::Loaded) => false,
        }
    }

    /// Whether it is an answer that ended before the model had finished, and can go on.
    pub fn goes_on(&self) -> bool {
        let cut = match &self.outcome {
            Some(AnswerOutcome::Stopped | AnswerOutcome::Interrupted) => true,
            Some(AnswerOutcome::Finished(summary)) => cut_off(summary),
            Some(AnswerOutcome::Failed | AnswerOutcome::Loaded) | None => false,
        };
        cut && self.role == Role::Assistant && !self.text.is_empty()
    }

    /// Opens the answer again. A character that was cut in two comes whole.
    pub(super) fn reopen(&mut self) {
        if self.text.ends_with(char::REPLACEMENT_CHARACTER) {
            self.text.pop();
            self.origins.truncate(self.text.len());
        }
        self.outcome = None;
        self.speedup = None;
        self.earlier = Some(self.totals.take().unwrap_or(AnswerTotals::UNKNOWN));
    }

    /// Counts what was written since the answer was opened.
    pub fn count(&mut self, part: &Summary) {
        self.totals = Some(self.earlier.unwrap_or_default().with(part));
    }

    /// Appends tokens of the answer `of`; the bytes of the text that they are.
    pub(super) fn push(&mut self, tokens: &[Committed], of: u64) -> Range<usize> {
        let begin = self.text.len();
        self.written = Some(of);
        for token in tokens {
            self.text.push_str(&token.text);
            self.origins.push(token.text.len(), token.origin);
            if let Some(thought) = &token.thought {
                self.thought.get_or_insert_default().push(thought);
            }
        }
        begin..self.text.len()
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

/// Whether an answer has no end of its own.
fn cut_off(summary: &Summary) -> bool {
    matches!(summary.finish, Some(Finish::MaxTokens | Finish::ContextFull | Finish::Cancelled))
}

/// The finish in words, where it is worth saying.
pub fn finish_words(finish: Option<Finish>) -> Option<&'static str> {
    match finish? {
        Finish::Eos | Finish::StopString => None,
        Finish::MaxTokens => Some("token limit reached"),
        Finish::ContextFull => Some("context full"),
        Finish::Cancelled => Some("stopped"),
    }
}
