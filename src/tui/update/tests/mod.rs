//! Tests of what events do to the screen's state, by subject.

mod answers;
mod any_order;
mod commands;
mod controls;
mod conversation;
mod files;
mod keys;
mod leaving;
mod models;
mod notices;
mod pointer;
mod race;
mod replay;
mod saving;
mod sessions;
mod starters;
mod thoughts;

use crate::chat::{Message, Role, SavedTurn};
use crate::tui::state::ScreenState;
use crate::tui::update::Effect;
use crate::worker::{Command, Job};

/// The job that is sent to the worker.
pub(super) fn job(effects: &[Effect]) -> &Job {
    match effects.iter().find(|effect| matches!(effect, Effect::Send(_))) {
        Some(Effect::Send(Command::Generate(job))) => job,
        _ => panic!("nothing was sent: {effects:?}"),
    }
}

/// Role and text of every turn.
pub(super) fn texts(state: &ScreenState) -> Vec<(Role, String)> {
    state.chat.turns().iter().map(|turn| (turn.role, turn.text.clone())).collect()
}

/// A question; with `interrupted`, an answer that lacks its end.
pub(super) fn saved(content: &str, interrupted: bool) -> SavedTurn {
    let role = if interrupted { Role::Assistant } else { Role::User };
    SavedTurn { message: Message::new(role, content), interrupted }
}
