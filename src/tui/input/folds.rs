//! Long texts that appear in the message as one mark, `⟦200 lines⟧`, and whole in what is sent.
//! Must never know where they come from.

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

    /// Characters of the mark that `before` ends with.
    pub(crate) fn mark_before(&self, before: &str) -> Option<usize> {
        let mark = self.0.iter().map(|(mark, _)| mark).find(|mark| before.ends_with(*mark))?;
        Some(mark.chars().count())
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
