//! Questions to begin with, which an empty chat offers. Must never know how they are drawn.

use super::{Focus, Phase, ScreenState};

/// Of the kind that the bundled pair was trained on.
const BUNDLED: [&str; 3] = [
    "Tell me a story about a fox and a lantern.",
    "What is the sun?",
    "I had a long day. Can you cheer me up?",
];
/// For a model of unknown kind.
const GENERAL: [&str; 3] = [
    "Explain in a few sentences why the sky is blue.",
    "Write a Python function that counts the words of a text.",
    "Plan a rainy Sunday for two, hour by hour.",
];
/// For a model whose name says that it writes code.
const CODE: [&str; 3] = [
    "Write a Rust function that reverses the words of a line.",
    "Explain what a mutex is, with a short example in Python.",
    "Write a shell script that renames *.jpeg files to *.jpg.",
];

/// Which question is under the cursor, and which was taken by its digit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Starters {
    selected: Option<usize>,
    /// Its question stands in the message until something else is typed: the digit may have been
    /// the beginning of a message.
    digit: Option<usize>,
}

impl Starters {
    /// How many there are.
    pub const COUNT: usize = 3;

    /// The question under the cursor, if there is one.
    pub fn selected(&self) -> Option<usize> {
        self.selected
    }

    /// Moves the cursor round the end, from above the first.
    pub fn select(&mut self, by: i64) {
        let at = match self.selected {
            None if by < 0 => Self::COUNT as i64 - 1,
            None => 0,
            Some(at) => (at as i64 + by).rem_euclid(Self::COUNT as i64),
        };
        self.selected = Some(at as usize);
    }
}

impl ScreenState {
    /// The questions that suit the model.
    pub fn starters(&self) -> [&'static str; Starters::COUNT] {
        match &self.ready {
            Some(ready) if !ready.models.is_bundled() => {
                let name = ready.target.to_lowercase();
                if name.contains("code") { CODE } else { GENERAL }
            }
            _ => BUNDLED,
        }
    }

    /// Whether keys choose one of the questions: the chat and the message are empty.
    pub fn offers_starters(&self) -> bool {
        self.chat.turns().is_empty()
            && self.phase == Phase::Idle
            && self.focus == Focus::Input
            && self.overlay.is_none()
            && self.input.is_empty()
    }

    /// Puts question `at` into the message, as its digit does.
    pub fn take_starter(&mut self, at: usize) {
        let Some(text) = self.starters().get(at).copied() else { return };
        self.input.set(text);
        self.begin_with = Starters { selected: None, digit: Some(at) };
    }

    /// The question under the cursor goes into the message, if there is one.
    pub fn take_selected_starter(&mut self) {
        if let Some(at) = self.begin_with.selected.filter(|_| self.offers_starters()) {
            self.take_starter(at);
        }
    }

    /// Something is typed: after a digit it was no choice but the beginning of a message.
    pub fn type_over_starter(&mut self) {
        let Starters { digit, .. } = std::mem::take(&mut self.begin_with);
        if let Some(at) = digit
            && self.starters().get(at).is_some_and(|text| self.input.text() == *text)
        {
            self.input.set(&(at + 1).to_string());
        }
    }
}
