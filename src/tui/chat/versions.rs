//! Versions of one answer: each kept whole, one of them in the conversation. Must never know keys.

use super::turn::{AnswerOutcome, Turn};
use crate::chat::{SavedTurn, Versions};

/// The versions before and after the one that is shown, nearest last.
#[derive(Clone, Debug, Default)]
pub struct OtherVersions {
    before: Vec<Turn>,
    after: Vec<Turn>,
}

impl OtherVersions {
    /// Which version is shown, from 1 on, and how many there are.
    pub fn place(&self) -> (usize, usize) {
        (self.before.len() + 1, self.before.len() + 1 + self.after.len())
    }

    /// Drops the version before, if it says the same as `turn`.
    pub(crate) fn drop_same(&mut self, turn: (&str, Option<&str>)) {
        let same = |other: &Turn| (other.text.as_str(), other.thought_text()) == turn;
        if self.before.last().is_some_and(same) {
            self.before.pop();
        }
    }

    /// For the file, the oldest first; `message` is the place of the answer in it.
    pub(crate) fn saved(&self, message: usize) -> Option<Versions> {
        let others = self.before.iter().chain(self.after.iter().rev());
        let others: Vec<SavedTurn> = others.map(Turn::saved).collect();
        let at = self.before.len();
        (!others.is_empty()).then_some(Versions { message, at, others })
    }

    /// From the file.
    pub(crate) fn loaded(versions: Versions) -> Self {
        let mut others: Vec<Turn> = versions.others.into_iter().map(Turn::loaded).collect();
        let mut after = others.split_off(versions.at.min(others.len()));
        after.reverse();
        Self { before: others, after }
    }
}

impl Turn {
    /// An open answer whose other versions are `former` and those of it.
    pub(crate) fn another(mut former: Turn) -> Self {
        let OtherVersions { mut before, mut after } = std::mem::take(&mut former.versions);
        before.push(former);
        after.reverse();
        before.append(&mut after);
        let mut turn = Self::open();
        turn.versions = OtherVersions { before, after: Vec::new() };
        turn
    }

    /// Puts the next version (1) or the one before (-1) in the place of this one.
    ///
    /// # Errors
    /// There is none on that side.
    pub(crate) fn switch(&mut self, by: i8) -> Result<(), &'static str> {
        if matches!(self.outcome, None | Some(AnswerOutcome::Failed)) {
            return Err("The answer is still being written");
        }
        let mut versions = std::mem::take(&mut self.versions);
        let (from, to, none) = if by > 0 {
            (
                &mut versions.after,
                &mut versions.before,
                "This is the latest version; /regenerate writes another",
            )
        } else {
            (&mut versions.before, &mut versions.after, "This is the first version")
        };
        let Some(other) = from.pop() else {
            self.versions = versions;
            return Err(none);
        };
        let shown = std::mem::replace(self, other);
        to.push(shown);
        self.versions = versions;
        Ok(())
    }
}
