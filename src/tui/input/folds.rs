//! Long texts that appear in the message as one mark, `⟦200 lines⟧`, and whole in what is sent.
//! A mark is whole or gone: half of one would stand for nothing, and its text would be lost in
//! silence. Must never know where they come from.

use std::ops::Range;

/// Lines from which a pasted text is folded.
const LONG: usize = 16;
/// Bytes from which it is folded whatever its lines: the field wraps all of a line for each key.
const HEAVY: usize = 8192;

/// The folded texts of one message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Folds(Vec<(String, String)>);

impl Folds {
    /// What a pasted text is called if it is folded.
    pub(crate) fn name(text: &str) -> Option<String> {
        let lines = text.lines().count();
        if lines >= LONG {
            return Some(format!("{lines} lines"));
        }
        (text.len() >= HEAVY).then(|| format!("{} characters", text.chars().count()))
    }

    /// Folds `text`, which is called `name`; returns its mark, unlike any other here.
    pub(crate) fn add(&mut self, name: &str, text: String) -> String {
        let plain = format!("⟦{name}⟧");
        let taken = |mark: &str| self.0.iter().any(|(other, _)| other == mark);
        let numbered = (2..).map(|number| format!("⟦{name} #{number}⟧"));
        let mark = std::iter::once(plain).chain(numbered).find(|mark| !taken(mark));
        let mark = mark.unwrap_or_default();
        self.0.push((mark.clone(), text));
        mark
    }

    /// `message` with every text in the place of its mark.
    pub(crate) fn unfolded(&self, message: String) -> String {
        replaced(message, &self.0)
    }

    /// Takes in the folded texts of `message`, which is another one; returns it with their marks
    /// here.
    pub(crate) fn take_in(&mut self, message: String, folds: &Self) -> String {
        let mut marks = Vec::new();
        for (mark, text) in &folds.0 {
            let name = mark.trim_start_matches('⟦').trim_end_matches('⟧');
            let name = name.split(" #").next().unwrap_or(name);
            marks.push((mark.clone(), self.add(name, text.clone())));
        }
        replaced(message, &marks)
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The marks in `text`, as ranges of characters.
    fn marks(&self, text: &str) -> Vec<Range<usize>> {
        let found = self.0.iter().flat_map(|(mark, _)| text.match_indices(mark.as_str()));
        let range = |(at, mark): (usize, &str)| {
            let start = text[..at].chars().count();
            start..start + mark.chars().count()
        };
        found.map(range).collect()
    }

    /// The mark that has character `at` of `line` and the one before it.
    pub(crate) fn mark_around(&self, line: &str, at: usize) -> Option<Range<usize>> {
        self.marks(line).into_iter().find(|mark| mark.start < at && at < mark.end)
    }

    /// What an edit of `before` that gave `after` has to be if it has cut a mark: which characters
    /// of `before` go, and what is written there.
    pub(crate) fn mended(&self, before: &str, after: &str) -> Option<(Range<usize>, String)> {
        let ends = |text: &str| text.matches(['⟦', '⟧']).count() - 2 * self.marks(text).len();
        if ends(after) <= ends(before) {
            return None;
        }
        let [old, new] = [before, after].map(|text| text.chars().collect::<Vec<char>>());
        let same = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
        let rest = old[same..].iter().rev().zip(new[same..].iter().rev());
        let behind = rest.take_while(|(old, new)| old == new).count();
        let cut = same..old.len() - behind;
        let mut whole = cut.clone();
        for mark in self.marks(before) {
            if mark.start < cut.end && cut.start < mark.end {
                whole = whole.start.min(mark.start)..whole.end.max(mark.end);
            }
        }
        (whole != cut).then(|| (whole, new[same..new.len() - behind].iter().collect()))
    }
}

/// `message` with the second of each pair in the place of the first.
fn replaced(message: String, pairs: &[(String, String)]) -> String {
    if pairs.is_empty() {
        return message;
    }
    let mut out = String::new();
    let mut rest = message.as_str();
    // What a text says of marks is its own.
    while let Some((at, mark, text)) = pairs
        .iter()
        .filter_map(|(mark, text)| Some((rest.find(mark.as_str())?, mark, text)))
        .min_by_key(|(at, ..)| *at)
    {
        out.push_str(&rest[..at]);
        out.push_str(text);
        rest = &rest[at + mark.len()..];
    }
    out + rest
}
