//! Tests of what events do to the screen's state, by subject.

mod answers;
mod any_order;
mod commands;
mod controls;
mod conversation;
mod files;
mod full;
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

use super::{Effect, ScreenEvent, update};
use crate::chat::{Message, Role, SavedChat, SavedTurn};
use crate::decode::Finish;
use crate::tui::state::ScreenState;
use crate::tui::tests::{answer, loaded, say, type_keys};
use crate::worker::{Command, Event, Job};

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

/// A question; with `interrupted`, an answer without its end.
pub(super) fn saved(content: &str, interrupted: bool) -> SavedTurn {
    let role = if interrupted { Role::Assistant } else { Role::User };
    SavedTurn { interrupted, ..SavedTurn::whole(Message::new(role, content)) }
}

/// A whole answer to the question under way.
pub(super) fn answered(state: &mut ScreenState, text: &str) -> Vec<Effect> {
    let events = answer(state.generation(), text, 8);
    events.into_iter().flat_map(|event| say(state, event)).collect()
}

/// An answer that ends so.
pub(super) fn cut_by(state: &mut ScreenState, text: &str, finish: Finish) {
    for event in answer(state.generation(), text, 8) {
        let event = match event {
            Event::Finished { generation, mut summary } => {
                summary.finish = Some(finish);
                Event::Finished { generation, summary }
            }
            other => other,
        };
        say(state, event);
    }
}

/// Three questions with their answers.
pub(super) fn talk() -> ScreenState {
    let mut state = loaded(80, 24);
    for (question, reply) in [("one", "First."), ("two", "Second."), ("three", "Third.")] {
        type_keys(&mut state, &format!("{question}<enter>"));
        answered(&mut state, reply);
    }
    state
}

/// What is saved, and read again.
pub(super) fn reloaded(state: &ScreenState) -> ScreenState {
    let chat = SavedChat {
        turns: state.chat.saved_turns(),
        extras: state.chat.extras(),
        ..SavedChat::default()
    };
    let mut other = loaded(80, 24);
    let now = other.now;
    update(&mut other, ScreenEvent::Loaded(Ok(chat)), now);
    other
}

/// What each message says.
pub(super) fn contents(messages: &[Message]) -> Vec<&str> {
    messages.iter().map(|message| message.content.as_str()).collect()
}
