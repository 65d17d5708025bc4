//! The conversation as a page, with the rounds that are kept. Must never know how it is drawn.

use crate::page::{PageMessage, page};
use crate::tui::state::ScreenState;

impl ScreenState {
    /// The conversation as one HTML page.
    pub(crate) fn page(&self) -> String {
        let turns = self.chat.turns().iter().enumerate().map(|(at, turn)| {
            let rounds = if self.has_rounds(at) { &self.tree.list[..] } else { &[] };
            // The rounds wrote the last tokens.
            let written: usize = rounds.iter().map(|(round, _)| round.committed.len()).sum();
            let mut next = turn.minds.tokens.len().saturating_sub(written);
            let rounds = rounds.iter().map(|(round, _)| {
                let first = next;
                next += round.committed.len();
                (first, round)
            });
            PageMessage {
                message: turn.saved().message,
                minds: turn.minds.clone(),
                rounds: rounds.collect(),
            }
        });
        let system = self.chat.system_turn().map(|turn| turn.message.into());
        page(&system.chain(turns).collect::<Vec<_>>())
    }
}
