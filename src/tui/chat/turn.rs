//! One message with what the screen keeps about it. Must never know colours.

use std::ops::Range;

use super::TurnPart;
use crate::chat::{AnswerEnd, AnswerTotals, Cut, Given, Message, Role, SavedTurn, Versions};
use crate::decode::{BothMinds, Committed, Finish, Round, Summary};
use crate::tui::markdown::{Document, TextRow};
use crate::tui::meters::payoff::Speedup;

/// How a message ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerOutcome {
    /// An answer by the model itself, or where it was cut off.
    Ended(Option<Cut>),
    /// By a failure.
    Failed,
    /// In an earlier run of the program, or a question.
    Loaded,
    /// In an earlier run, before its end: it was stopped, or the program was.
    Interrupted,
}

impl AnswerOutcome {
    /// The user stopped it.
    pub const STOPPED: Self = Self::Ended(Some(Cut::Stopped));

    /// What the worker says of the end.
    pub(crate) fn of(summary: &Summary) -> Self {
        Self::Ended(match summary.finish {
            Some(Finish::MaxTokens) => Some(Cut::Limit(summary.tokens)),
            Some(Finish::ContextFull) => Some(Cut::ContextFull),
            Some(Finish::Cancelled) => Some(Cut::Stopped),
            Some(Finish::Eos | Finish::StopString) | None => None,
        })
    }
}

/// The thoughts of one answer.
#[derive(Clone, Debug, Default)]
pub struct Thought {
    /// Their text.
    pub text: String,
    /// Their tokens, marks included; `None` if they come from a file.
    pub tokens: Option<usize>,
    document: Document,
}

impl Thought {
    /// Adds what one more token says.
    pub fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.tokens = Some(self.tokens.unwrap_or_default() + 1);
    }
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
    /// Its tokens, as far as they were written here.
    pub minds: BothMinds,
    /// The tokens that the user forced, by their number in the answer.
    pub forced: Vec<(usize, u32)>,
    /// What the model was given for an answer; `None` if it was not the same for all of it.
    pub given: Option<Given>,
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
    pub(super) document: Document,
}

impl Turn {
    /// What the user said.
    pub(crate) fn question(text: String) -> Self {
        Self::loaded(SavedTurn::whole(Message::new(Role::User, text)))
    }

    /// An answer that begins.
    pub(crate) fn open() -> Self {
        let answer = Message::new(Role::Assistant, "");
        Self { outcome: None, ..Self::loaded(SavedTurn::whole(answer)) }
    }

    /// A message of a file.
    pub(crate) fn loaded(saved: SavedTurn) -> Self {
        let SavedTurn { message, interrupted, end, forced, given } = saved;
        let outcome = match end {
            Some(end) => AnswerOutcome::Ended(end.cut),
            None if interrupted => AnswerOutcome::Interrupted,
            None => AnswerOutcome::Loaded,
        };
        let speedup = |end: AnswerEnd| {
            let ratio = f64::from(end.percent_of_plain?) / 100.0;
            Some(Speedup { ratio, measured: !end.estimated, for_show: false })
        };
        Self {
            role: message.role,
            thought: message.thought.map(|text| Thought { text, ..Thought::default() }),
            text: message.content,
            written: None,
            minds: BothMinds::default(),
            forced,
            given,
            outcome: Some(outcome),
            totals: end.map(|end| end.totals),
            earlier: None,
            speedup: end.and_then(speedup),
            counts_rounds: end.is_some_and(|end| end.counts_rounds),
            versions: OtherVersions::default(),
            document: Document::default(),
        }
    }

    /// As it goes to the file.
    pub(crate) fn saved(&self) -> SavedTurn {
        let thought = self.thought_text().map(str::to_string);
        let message = Message { thought, ..Message::new(self.role, &self.text) };
        let end = match (self.outcome, self.totals) {
            (Some(AnswerOutcome::Ended(cut)), Some(totals)) => Some(AnswerEnd {
                cut,
                totals,
                percent_of_plain: self.speedup.map(|speed| (speed.ratio * 100.0).round() as u32),
                estimated: self.speedup.is_some_and(|speed| !speed.measured),
                counts_rounds: self.counts_rounds,
            }),
            _ => None,
        };
        SavedTurn {
            message,
            interrupted: self.interrupted(),
            end,
            forced: self.forced.clone(),
            given: self.given.clone(),
        }
    }

    pub(crate) fn thought_text(&self) -> Option<&str> {
        self.thought.as_ref().map(|thought| thought.text.as_str())
    }

    /// Whether it ended before the model had finished, so that it can continue after the next
    /// start of the program too.
    pub(crate) fn interrupted(&self) -> bool {
        !matches!(self.outcome, Some(AnswerOutcome::Ended(None) | AnswerOutcome::Loaded))
    }

    /// Whether nothing came since it had so many bytes of text and of thoughts.
    pub(super) fn is_empty_since(&self, began: (usize, usize)) -> bool {
        let length = (self.text.len(), self.thought_text().map_or(0, str::len));
        length == began && (began.0 > 0 || self.thought.is_none())
    }

    /// Whether it is an answer that ended before the model had finished, and can continue.
    pub fn goes_on(&self) -> bool {
        self.role == Role::Assistant
            && !self.text.is_empty()
            && self.interrupted()
            && !matches!(self.outcome, None | Some(AnswerOutcome::Failed))
    }

    /// Opens the answer again. A character that was cut in two comes whole.
    pub(crate) fn reopen(&mut self) {
        if self.text.ends_with(char::REPLACEMENT_CHARACTER) {
            self.text.pop();
        }
        self.outcome = None;
        self.speedup = None;
        self.earlier = Some(self.totals.take().unwrap_or(AnswerTotals::UNKNOWN));
    }

    /// Counts what was written since the answer was opened.
    pub fn count(&mut self, part: &Summary) {
        self.totals = Some(self.earlier.unwrap_or_default().with(part));
    }

    /// Appends tokens of the answer `of`, which `round` wrote unless they are its first; the bytes
    /// of the text that they are.
    pub(crate) fn push(
        &mut self,
        tokens: &[Committed],
        of: u64,
        round: Option<&Round>,
    ) -> Range<usize> {
        let begin = self.text.len();
        self.written = Some(of);
        self.minds.push(tokens, round, begin, self.thought.is_some());
        for token in tokens {
            self.text.push_str(&token.text);
            if let Some(thought) = &token.thought {
                self.thought.get_or_insert_default().push(thought);
            }
        }
        begin..self.text.len()
    }

    /// Lays its text out at `width`, and its thoughts at `thoughts` if they are shown.
    pub fn lay_out(&mut self, width: usize, thoughts: Option<usize>) {
        match self.role {
            Role::Assistant => self.document.lay_out(&self.text, &self.minds, width),
            // What a person typed is not Markdown: `__init__` would lose its underscores.
            Role::User | Role::System => self.document.lay_out_verbatim(&self.text, width),
        };
        if let (Some(thought), Some(width)) = (&mut self.thought, thoughts) {
            // As they were written: half a thought is no Markdown.
            thought.document.lay_out_verbatim(&thought.text, width);
        }
    }

    /// The rows of a part as last laid out.
    pub fn rows_of(&self, part: TurnPart) -> &[TextRow] {
        match (part, &self.thought) {
            (TurnPart::Text, _) => self.document.rows(),
            (TurnPart::Thought, Some(thought)) => thought.document.rows(),
            (TurnPart::Thought, None) => &[],
        }
    }

    /// An open answer whose other versions are `former` and those of it.
    pub(crate) fn another(mut former: Self) -> Self {
        let mut versions = std::mem::take(&mut former.versions);
        versions.others.insert(versions.at, former);
        versions.at = versions.others.len();
        Self { versions, ..Self::open() }
    }

    /// Another version that begins as `former` does before its token `at`, for which `token` is
    /// forced. The tokens of the answer must be known from its beginning.
    pub(crate) fn forced(former: Self, at: usize, token: u32) -> Self {
        let bytes = former.minds.bytes(at).start;
        let Self { thought, mut minds, mut forced, given, .. } = former.clone();
        minds.truncate(at);
        forced.retain(|&(other, _)| other < at);
        forced.push((at, token));
        let text = former.text[..bytes].to_owned();
        Self { text, thought, minds, forced, given, ..Self::another(former) }
    }

    /// Drops the version before, if it says the same.
    pub(crate) fn drop_same_version(&mut self) {
        let Some(before) = self.versions.at.checked_sub(1) else { return };
        let other = &self.versions.others[before];
        if other.text == self.text && other.thought_text() == self.thought_text() {
            self.versions.others.remove(before);
            self.versions.at = before;
        }
    }

    /// Puts the next version (1) or the one before (-1) in the place of this one.
    ///
    /// # Errors
    /// There is none on that side.
    pub(crate) fn switch(&mut self, by: i8) -> Result<(), &'static str> {
        if matches!(self.outcome, None | Some(AnswerOutcome::Failed)) {
            return Err("The answer is still being written");
        }
        let OtherVersions { at, others } = &self.versions;
        if by > 0 && *at == others.len() {
            return Err("This is the latest version; /regenerate writes another");
        }
        if by <= 0 && *at == 0 {
            return Err("This is the first version");
        }
        let mut versions = std::mem::take(&mut self.versions);
        // Where the one that is shown will be among the others.
        let place = if by > 0 { versions.at } else { versions.at - 1 };
        std::mem::swap(self, &mut versions.others[place]);
        versions.at = versions.at.saturating_add_signed(isize::from(by));
        self.versions = versions;
        Ok(())
    }
}

/// The versions of an answer but the one that is shown, the oldest first.
#[derive(Clone, Debug, Default)]
pub struct OtherVersions {
    /// How many of them come before the one that is shown.
    at: usize,
    others: Vec<Turn>,
}

impl OtherVersions {
    /// Which version is shown, from 1 on, and how many there are.
    pub fn place(&self) -> (usize, usize) {
        (self.at + 1, self.others.len() + 1)
    }

    /// For the file; `message` is the place of the answer in it.
    pub(crate) fn saved(&self, message: usize) -> Option<Versions> {
        let others: Vec<SavedTurn> = self.others.iter().map(Turn::saved).collect();
        (!others.is_empty()).then_some(Versions { message, at: self.at, others })
    }

    /// From the file.
    pub(crate) fn loaded(versions: Versions) -> Self {
        let others: Vec<Turn> = versions.others.into_iter().map(Turn::loaded).collect();
        Self { at: versions.at.min(others.len()), others }
    }
}

impl AnswerTotals {
    /// With another part.
    pub fn with(self, part: &Summary) -> Self {
        let decoded = part.tau * part.rounds as f64;
        // So that one part alone has the rate that its summary says.
        let seconds =
            if part.tokens_per_second > 0.0 { decoded / part.tokens_per_second } else { 0.0 };
        Self {
            tokens: self.tokens + part.tokens,
            rounds: self.rounds + part.rounds,
            decoded: self.decoded + decoded.round() as usize,
            micros: self.micros + (seconds * 1e6).round() as u64,
            lacks_beginning: self.lacks_beginning,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(tokens: usize, rounds: usize, tokens_per_second: f64) -> Summary {
        let tau = (tokens - 1) as f64 / rounds as f64;
        Summary { tokens, rounds, tau, tokens_per_second, ..Summary::default() }
    }

    #[test]
    fn parts_add_up_and_the_rate_is_that_of_all_their_time() {
        let one = AnswerTotals::default().with(&part(101, 40, 50.0));
        assert_eq!((one.tokens, one.rounds, one.lacks_beginning), (101, 40, false));
        assert_eq!(one.decoded, 100);
        assert!((one.tokens_per_second() - 50.0).abs() < 1e-9);
        // 100 tokens in two seconds, then 100 in one.
        let all = one.with(&part(101, 60, 100.0));
        assert_eq!((all.tokens, all.rounds, all.decoded), (202, 100, 200));
        assert!((all.tokens_per_second() - 200.0 / 3.0).abs() < 1e-9);
        assert!(AnswerTotals::UNKNOWN.with(&part(5, 2, 1.0)).lacks_beginning);
        assert_eq!(AnswerTotals::default().tokens_per_second(), 0.0);
    }
}
