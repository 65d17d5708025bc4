//! The words of the round that is looked at, and the round of a word. Must never know keys or how
//! rows are drawn.

use std::ops::Range;

use crate::chat::Role;
use crate::tui::display::Focus;
use crate::tui::state::ScreenState;

impl ScreenState {
    /// The turn and the bytes of its text that the round shown in the tree wrote, while somebody
    /// looks at rounds: in the tree, or back from the conversation.
    pub fn lit(&self) -> Option<(usize, Range<usize>)> {
        let looks = match self.display.focus {
            Focus::Tree => !self.tree.live() || !self.answering(),
            Focus::Chat => !self.tree.live(),
            Focus::Input | Focus::Meters | Focus::Controls => false,
        };
        if !looks {
            return None;
        }
        let bytes = self.tree.bytes()?;
        let of = self.tree.of();
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
        if said.written.is_none() || said.written != self.tree.of() {
            return Err("Only the rounds of the latest answer are kept");
        }
        if !self.tree.show_byte(at) {
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
        self.display.focus = Focus::Tree;
        self.display.side = Some(Focus::Tree);
        Ok(())
    }
}
