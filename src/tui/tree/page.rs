//! The conversation as a page, with the rounds that are kept. Must never know how it is drawn.

use crate::chat::{Message, Role};
use crate::page::{PageMessage, page};
use crate::tui::state::ScreenState;

impl ScreenState {
    /// The conversation as one HTML page.
    pub(crate) fn page(&self) -> String {
        let system = self.chat.system.as_ref().map(|text| Message::new(Role::System, text));
        let turns = self.chat.turns().iter().enumerate().map(|(at, turn)| {
            let rounds = if self.has_rounds(at) { &self.tree.list[..] } else { &[] };
            PageMessage {
                role: turn.role,
                text: &turn.text,
                thought: turn.thought_text(),
                minds: Some(&turn.minds),
                rounds: rounds.iter().map(|(round, _)| round).collect(),
            }
        });
        let system = system.iter().map(PageMessage::from);
        page(&system.chain(turns).collect::<Vec<_>>())
    }
}
