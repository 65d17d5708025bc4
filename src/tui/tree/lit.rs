//! The words of the round that is looked at, and the round of a word. Must never know keys or how
//! rows are drawn.

use std::ops::Range;

use crate::chat::Role;
use crate::tui::state::{Focus, ScreenState, Side};

impl ScreenState {
    /// The turn and the bytes of its text that the round shown in the tree wrote, while somebody
    /// looks at rounds: in the tree, or back from the conversation.
    pub fn lit(&self) -> Option<(usize, Range<usize>)> {
        let looks = match self.focus {
            Focus::Tree => !self.rounds.live() || !self.answering(),
            Focus::Chat => !self.rounds.live(),
            Focus::Input | Focus::Meters | Focus::Controls => false,
        };
        let bytes = self.rounds.bytes().filter(|_| looks)?;
        let of = self.rounds.of();
        let turn = self.chat.turns().iter().rposition(|turn| turn.written == of)?;
        Some((turn, bytes))
    }

    /// Shows the round that wrote byte `at` of turn `turn` in the tree.
    ///
    /// # Errors
    /// Why there is none.
    pub fn show_round_of(&mut self, turn: usize, at: usize) -> Result<(), &'static str> {
        let said = self.chat.turns().get(turn).filter(|turn| turn.role == Role::Assistant);
        let said = said.ok_or("Only answers have rounds")?;
        if said.written.is_none() || said.written != self.rounds.of() {
            return Err("Only the rounds of the latest answer are kept");
        }
        if !self.rounds.show_byte(at) {
            return Err("This word has no round yet");
        }
        Ok(())
    }

    /// The same, and goes there.
    ///
    /// # Errors
    /// Why there is none.
    pub fn go_to_round_of(&mut self, turn: usize, at: usize) -> Result<(), &'static str> {
        self.show_round_of(turn, at)?;
        self.focus = Focus::Tree;
        self.side = Some(Side::Tree);
        Ok(())
    }
}
