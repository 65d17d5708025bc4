//! Questions to begin with, which an empty chat offers. Must never know how they are drawn.

use crate::tui::display::Focus;
use crate::tui::models::Phase;
use crate::tui::state::ScreenState;

/// For a model that the program knows nothing of.
const GENERAL: [&str; 3] = [
    "Explain in a few sentences why the sky is blue.",
    "Write a Python function that counts the words in a text.",
    "Plan a rainy Sunday for two, hour by hour.",
];
/// For a model that writes code, as its name says.
const CODE: [&str; 3] = [
    "Write a Rust function that reverses the words in a line.",
    "Explain what a mutex is, with a short example in Python.",
    "Write a shell script that renames *.jpeg files to *.jpg.",
];

/// Which question is under the cursor, and which one a digit has chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Starters {
    selected: Option<usize>,
    /// Its question is in the message until something else is typed: the digit may have been the
    /// beginning of a message.
    digit: Option<usize>,
}

impl Starters {
    /// How many there are.
    pub const COUNT: usize = 3;
    /// For the demo, which gives each a fitting answer.
    pub const DEMO: [&str; Self::COUNT] =
        ["Tell me a story about a cat.", "Why is the sky blue?", "Can you tell me a joke?"];

    /// The question under the cursor, if there is one.
    pub fn selected(&self) -> Option<usize> {
        self.selected
    }

    /// Moves the cursor, from the last question to the first and back.
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
    /// Questions that suit the model.
    pub fn starters(&self) -> [&'static str; Starters::COUNT] {
        match &self.models.ready {
            Some(ready) if !ready.models.is_bundled() => {
                let name = ready.target.to_lowercase();
                if name.contains("code") { CODE } else { GENERAL }
            }
            _ => Starters::DEMO,
        }
    }

    /// Whether keys choose one of the questions: the chat and the message are empty.
    pub fn offers_starters(&self) -> bool {
        self.chat.turns().is_empty()
            && self.models.phase == Phase::Idle
            && self.display.focus == Focus::Input
            && self.overlays.open.is_none()
            && self.input.is_empty()
    }

    /// Puts question `at` into the message, as its digit does.
    pub fn take_starter(&mut self, at: usize) {
        let Some(text) = self.starters().get(at).copied() else { return };
        self.input.set(text);
        self.input.starters = Starters { selected: None, digit: Some(at) };
    }

    /// The question under the cursor goes into the message, if there is one.
    pub fn take_selected_starter(&mut self) {
        if self.offers_starters()
            && let Some(at) = self.input.starters.selected
        {
            self.take_starter(at);
        }
    }

    /// Something is typed: if a digit came before it, that was the beginning of a message.
    pub fn type_over_starter(&mut self) {
        let Starters { digit, .. } = std::mem::take(&mut self.input.starters);
        if let Some(at) = digit
            && self.starters().get(at).is_some_and(|text| self.input.text() == *text)
        {
            self.input.set(&(at + 1).to_string());
        }
    }
}
