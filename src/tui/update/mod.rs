//! A message in, effects out: the only place where the screen's state changes. Does no IO and
//! reads no clock, so that a test can say everything that happens.

mod keys;
mod slash;
mod worker;

use std::time::Duration;

use crossterm::event::KeyEvent;

use super::state::{Focus, Model, Overlay, Phase, SessionList};
use crate::chat::{Saved, SavedTurn, SessionHead};
use crate::hardware::Usage;
use crate::worker::{Command, Controls, Event};

/// An input of the screen.
#[derive(Clone, Debug)]
pub enum Message {
    /// A key was pressed.
    Key(KeyEvent),
    /// Several characters were typed, faster than one by one: by a terminal that sends a paste as
    /// keys.
    Typed(Vec<KeyEvent>),
    /// Text was pasted.
    Paste(String),
    /// The wheel was turned; rows, down if positive.
    Wheel(i8),
    /// The terminal has this many columns and rows.
    Resize(u16, u16),
    /// The worker says something.
    Worker(Event),
    /// The decode thread is gone; why, if it is known.
    WorkerGone(Option<String>),
    /// What the machine is doing.
    Usage(Usage),
    /// Time has passed.
    Tick,
    /// The conversation was saved, or why not.
    Saved {
        /// Whether the user asked for it and is told of success.
        asked: bool,
        /// Where it is.
        result: Result<Saved, String>,
    },
    /// Saved conversations, or why they cannot be listed.
    Sessions(Result<Vec<SessionHead>, String>),
    /// A saved conversation, or why it cannot be read.
    Loaded(Result<Vec<SavedTurn>, String>),
    /// The text was copied, or why not.
    Copied(Result<(), String>),
    /// The program cannot be suspended, and why.
    NotSuspended(String),
    /// The process is asked to end.
    Terminate,
}

/// Something to be done outside the model.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Send a command to the worker.
    Send(Command),
    /// Put these controls into force. Precedes the `Send` it belongs to.
    Apply(Controls),
    /// Save the conversation.
    Save {
        /// The conversation.
        turns: Vec<SavedTurn>,
        /// Whether the user asked for it and is told of success.
        asked: bool,
    },
    /// What is saved from now on is another conversation.
    Forget,
    /// List saved conversations.
    List,
    /// Read the conversation of this name or with this beginning of a title, and save to it from
    /// now on.
    Load(String),
    /// Put this on the clipboard.
    Copy(String),
    /// Whether the wheel scrolls.
    Mouse(bool),
    /// Redraw every cell: another program has written on the terminal.
    Redraw,
    /// Give the terminal back to the shell until it says to go on.
    Suspend,
    /// Leave. Comes last.
    Quit,
}

/// Changes `model` and says what else is to be done, in order. `now` is the time since the
/// program started.
pub fn update(model: &mut Model, message: Message, now: Duration) -> Vec<Effect> {
    model.now = now;
    if model.toast.as_ref().is_some_and(|toast| toast.until <= now) {
        model.toast = None;
    }
    match message {
        Message::Key(event) => keys::key(model, event),
        Message::Typed(keys) => keys::typed(model, keys),
        Message::Paste(text) => {
            match &mut model.overlay {
                Some(Overlay::Sessions(list)) => {
                    let pasted = text.replace(char::is_control, " ");
                    list.filter_by(format!("{}{pasted}", list.filter()));
                }
                Some(_) => {}
                None => {
                    model.focus = Focus::Input;
                    model.input.paste(&text);
                }
            }
            Vec::new()
        }
        Message::Wheel(rows) => {
            wheel(model, rows);
            Vec::new()
        }
        Message::Resize(width, height) => {
            model.size = (width, height);
            Vec::new()
        }
        Message::Worker(event) => worker::event(model, event),
        Message::WorkerGone(reason) => worker::gone(model, reason),
        Message::Usage(usage) => {
            model.usage = Some(usage);
            Vec::new()
        }
        Message::Tick => Vec::new(),
        Message::Saved { asked, result } => {
            match result {
                Ok(Saved { copied: true, .. }) => model
                    .say("another window changed this conversation: this one goes on as a copy"),
                Ok(Saved { path, .. }) if asked => {
                    model.say(format!("saved to {}", path.display()));
                }
                Ok(_) => {}
                Err(error) => model.complain(error),
            }
            Vec::new()
        }
        Message::Sessions(list) => {
            sessions(model, list);
            Vec::new()
        }
        Message::Loaded(result) => loaded(model, result),
        Message::Copied(result) => {
            match result {
                Ok(()) => model.say("answer copied"),
                Err(error) => model.complain(error),
            }
            Vec::new()
        }
        Message::NotSuspended(why) => {
            model.complain(why);
            Vec::new()
        }
        Message::Terminate => keys::quit(model),
    }
}

fn wheel(model: &mut Model, rows: i8) {
    match (&mut model.overlay, model.focus) {
        (Some(_), _) => keys::overlay_row(model, rows),
        (None, Focus::Tree) => model.rounds.scroll(i64::from(rows)),
        (None, _) => model.chat.scroll(i64::from(rows)),
    }
}

fn sessions(model: &mut Model, list: Result<Vec<SessionHead>, String>) {
    match list {
        Ok(sessions) if sessions.is_empty() => model.say("no saved conversations yet"),
        Ok(sessions) => {
            model.overlay = Some(Overlay::Sessions(SessionList::new(sessions)));
        }
        Err(error) => model.complain(error),
    }
}

fn loaded(model: &mut Model, result: Result<Vec<SavedTurn>, String>) -> Vec<Effect> {
    match result {
        Ok(turns) => {
            let effects = stop(model);
            model.chat.replace(turns);
            model.forget_answer();
            model.focus = Focus::Input;
            model.say("conversation loaded");
            effects
        }
        Err(error) => {
            model.overlay = Some(Overlay::Error { title: "Not loaded".to_string(), text: error });
            Vec::new()
        }
    }
}

/// Ends the running answer: its later events are dropped.
fn stop(model: &mut Model) -> Vec<Effect> {
    if !model.answering() {
        return Vec::new();
    }
    model.controls.generation += 1;
    model.controls.paused = false;
    model.phase = Phase::Idle;
    let tokens = model.meters.tokens();
    model.chat.close(super::state::Outcome::Stopped { tokens });
    model.restore_answer();
    vec![Effect::Apply(model.controls.clone()), save(model)]
}

fn save(model: &Model) -> Effect {
    Effect::Save { turns: model.chat.saved_turns(), asked: false }
}

#[cfg(test)]
mod tests;
