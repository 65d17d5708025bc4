//! An event in, effects out: the only place where the screen's state changes. Does no IO and reads
//! no clock, so that a test can say everything that happens. Must never know how a frame is drawn.
//!
//! From the bottom up: `event`; `answer`, `controls` and `focus`; `overlay` and `slash`; `action`;
//! `keys` and `worker`; and [`update`].

mod action;
mod answer;
mod controls;
mod event;
mod focus;
mod keys;
mod models;
mod overlay;
mod slash;
mod worker;

use std::time::Duration;

use self::answer::{quit, stop};
use super::state::{Focus, Overlay, ScreenState, SessionList};
use crate::chat::{Saved, SavedTurn, SessionHead};

pub use event::{Effect, ScreenEvent};

/// Changes `state` and says what else is to be done, in order. `now` is the time since the
/// program started.
pub fn update(state: &mut ScreenState, event: ScreenEvent, now: Duration) -> Vec<Effect> {
    state.now = now;
    state.toasts.pass(now);
    match event {
        ScreenEvent::Key(event) => keys::key(state, event),
        ScreenEvent::Typed(keys) => keys::typed(state, keys),
        ScreenEvent::Paste(text) => {
            match &mut state.overlay {
                Some(Overlay::Sessions(list)) => overlay::paste(list, &text),
                Some(Overlay::Models(picker)) => overlay::paste(&mut picker.list, &text),
                _ => {
                    state.overlay = None;
                    state.focus = Focus::Input;
                    state.input.paste(&text);
                }
            }
            Vec::new()
        }
        ScreenEvent::Ask(text) => {
            state.chat.ask(text);
            answer::ask(state)
        }
        ScreenEvent::Wheel(rows) => {
            wheel(state, rows);
            Vec::new()
        }
        ScreenEvent::Resize(width, height) => {
            state.size = (width, height);
            Vec::new()
        }
        ScreenEvent::Worker(event) => worker::event(state, event),
        ScreenEvent::WorkerGone(reason) => worker::gone(state, reason),
        ScreenEvent::Usage(usage) => {
            state.usage = Some(usage);
            Vec::new()
        }
        ScreenEvent::Tick => Vec::new(),
        ScreenEvent::Saved { asked, result } => {
            match result {
                Ok(Saved { copied: true, .. }) => state
                    .say("another window changed this conversation: this one goes on as a copy"),
                Ok(Saved { path, .. }) if asked => {
                    state.say(format!("saved to {}", path.display()));
                }
                Ok(_) => {}
                Err(error) => state.complain(error),
            }
            Vec::new()
        }
        ScreenEvent::Sessions(list) => {
            sessions(state, list);
            Vec::new()
        }
        ScreenEvent::Models { part, rows } => {
            models::found(state, part, rows);
            Vec::new()
        }
        ScreenEvent::Loaded(result) => loaded(state, result),
        ScreenEvent::Copied(result) => {
            match result {
                Ok(()) => state.say("answer copied"),
                Err(error) => state.complain(error),
            }
            Vec::new()
        }
        ScreenEvent::NotSuspended(why) => {
            state.complain(why);
            Vec::new()
        }
        ScreenEvent::Terminate => quit(state),
    }
}

fn wheel(state: &mut ScreenState, rows: i8) {
    match (&mut state.overlay, state.focus) {
        (Some(_), _) => overlay::overlay_row(state, rows),
        (None, Focus::Tree) => state.rounds.scroll(i64::from(rows)),
        (None, _) => state.chat.scroll(i64::from(rows)),
    }
}

fn sessions(state: &mut ScreenState, list: Result<Vec<SessionHead>, String>) {
    match list {
        Ok(sessions) if sessions.is_empty() => state.say("no saved conversations yet"),
        Ok(sessions) => {
            state.overlay = Some(Overlay::Sessions(SessionList::new(sessions)));
        }
        Err(error) => state.complain(error),
    }
}

fn loaded(state: &mut ScreenState, result: Result<Vec<SavedTurn>, String>) -> Vec<Effect> {
    match result {
        Ok(turns) => {
            let effects = stop(state);
            state.chat.replace(turns);
            state.forget_answer();
            state.focus = Focus::Input;
            state.say("conversation loaded");
            effects
        }
        Err(error) => {
            state.overlay = Some(Overlay::Error { title: "Not loaded".to_string(), text: error });
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests;
