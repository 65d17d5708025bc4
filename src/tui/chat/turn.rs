//! One message with what the screen keeps about it. Must never know colours.

use std::ops::Range;

use super::thought::Thought;
use super::totals::AnswerTotals;
use super::versions::OtherVersions;
use crate::chat::{AnswerEnd, Cut, Message, Role, SavedTurn};
use crate::decode::{Committed, Finish, Summary};
use crate::tui::markdown::{Document, Origins, TextRow};
use crate::tui::meters::payoff::Speedup;

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
    pub role: Role,
    /// What was thought before it; `None` if nothing was.
    pub thought: Option<Thought>,
    pub text: String,
    /// The generation in which it was written last; `None` for what was not written here.
    pub written: Option<u64>,
    /// Origin of each byte of an answer.
    pub origins: Origins,
    /// `None` while it is being written.
    pub outcome: Option<AnswerOutcome>,
    /// What all of it took, once it has ended; `None` if that is not known.
    pub totals: Option<AnswerTotals>,
    /// What it took before it continued; `None` if it did not.
    earlier: Option<AnswerTotals>,
    /// How much faster than plain decoding it came.
    pub speedup: Option<Speedup>,
    /// Whether the row below it compares rounds, as for the demo, and not speeds.
    pub counts_rounds: bool,
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
    pub(crate) fn question(text: String) -> Self {
        Self::new(Role::User, text, Some(AnswerOutcome::Loaded))
    }

    /// An answer that begins.
    pub(crate) fn open() -> Self {
        Self::new(Role::Assistant, String::new(), None)
    }

    /// A message of a file.
    pub(crate) fn loaded(saved: SavedTurn) -> Self {
        let SavedTurn { message, interrupted, end } = saved;
        let outcome = match end {
            Some(AnswerEnd { cut: Some(Cut::Stopped), .. }) => AnswerOutcome::Stopped,
            Some(end) => AnswerOutcome::Finished(Box::new(finished(&end))),
            None if interrupted => AnswerOutcome::Interrupted,
            None => AnswerOutcome::Loaded,
        };
        let mut turn = Self::new(message.role, message.content, Some(outcome));
        turn.thought = message.thought.map(Thought::saved);
        turn.totals = end.map(|end| end.totals);
        turn.counts_rounds = end.is_some_and(|end| end.counts_rounds);
        turn.speedup = end.and_then(|end| {
            let ratio = f64::from(end.percent_of_plain?) / 100.0;
            Some(Speedup { ratio, measured: !end.estimated, for_show: false })
        });
        turn
    }

    /// As it goes to the file.
    pub(crate) fn saved(&self) -> SavedTurn {
        let thought = self.thought_text().map(str::to_string);
        let message = Message { thought, ..Message::new(self.role, &self.text) };
        SavedTurn { message, interrupted: self.interrupted(), end: self.end() }
    }

    /// How it ended, as it goes to the file.
    fn end(&self) -> Option<AnswerEnd> {
        let (cut, totals) = match self.outcome.as_ref()? {
            AnswerOutcome::Finished(summary) => {
                let cut = match summary.finish {
                    Some(Finish::MaxTokens) => Some(Cut::Limit(summary.tokens)),
                    Some(Finish::ContextFull) => Some(Cut::ContextFull),
                    Some(Finish::Cancelled) => Some(Cut::Stopped),
                    Some(Finish::Eos | Finish::StopString) | None => None,
                };
                (cut, self.totals.unwrap_or_else(|| AnswerTotals::default().with(summary)))
            }
            AnswerOutcome::Stopped => (Some(Cut::Stopped), self.totals?),
            AnswerOutcome::Failed | AnswerOutcome::Loaded | AnswerOutcome::Interrupted => {
                return None;
            }
        };
        Some(AnswerEnd {
            cut,
            totals,
            percent_of_plain: self.speedup.map(|speedup| (speedup.ratio * 100.0).round() as u32),
            estimated: self.speedup.is_some_and(|speedup| !speedup.measured),
            counts_rounds: self.counts_rounds,
        })
    }

    pub(crate) fn thought_text(&self) -> Option<&str> {
        self.thought.as_ref().map(|thought| thought.text.as_str())
    }

    /// Whether it ended before the model had finished, so that it can continue after the next
    /// start of the program too.
    pub(crate) fn interrupted(&self) -> bool {
        match &self.outcome {
            None
            | Some(AnswerOutcome::Stopped | AnswerOutcome::Failed | AnswerOutcome::Interrupted) => {
                true
            }
            Some(AnswerOutcome::Finished(summary)) => cut_off(summary),
            Some(AnswerOutcome::Loaded) => false,
        }
    }

    /// Whether it is an answer that ended before the model had finished, and can continue.
    pub fn goes_on(&self) -> bool {
        let cut = match &self.outcome {
            Some(AnswerOutcome::Stopped | AnswerOutcome::Interrupted) => true,
            Some(AnswerOutcome::Finished(summary)) => cut_off(summary),
            Some(AnswerOutcome::Failed | AnswerOutcome::Loaded) | None => false,
        };
        cut && self.role == Role::Assistant && !self.text.is_empty()
    }

    /// Opens the answer again. A character that was cut in two comes whole.
    pub(crate) fn reopen(&mut self) {
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
    pub(crate) fn push(&mut self, tokens: &[Committed], of: u64) -> Range<usize> {
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

/// The summary of an answer of an earlier run.
fn finished(end: &AnswerEnd) -> Summary {
    let summary = end.totals.summary();
    match end.cut {
        Some(Cut::Limit(tokens)) => Summary { finish: Some(Finish::MaxTokens), tokens, ..summary },
        Some(Cut::ContextFull) => Summary { finish: Some(Finish::ContextFull), ..summary },
        Some(Cut::Stopped) => Summary { finish: Some(Finish::Cancelled), ..summary },
        None => Summary { finish: Some(Finish::Eos), ..summary },
    }
}

/// The finish in words, where it is worth saying.
pub fn finish_words(summary: &Summary) -> Option<String> {
    match summary.finish? {
        Finish::Eos | Finish::StopString => None,
        Finish::MaxTokens => Some(format!("stopped at the limit of {} tokens", summary.tokens)),
        Finish::ContextFull => Some("context full".to_string()),
        Finish::Cancelled => Some("stopped".to_string()),
    }
}
