//! An event in, effects out: the only place where the screen's state changes. Does no IO and reads
//! no clock, so that a test can say everything that happens. Must never know how a frame is drawn.

pub(crate) mod action;
mod focus;
mod keys;
pub(crate) mod leaving;
pub(crate) mod replay;
mod setting;
mod slash;
mod switches;
mod worker;

use std::time::Duration;

use self::answer::{save, stop};
use self::controls::apply;
use super::chat::full::update as full;
use super::chat::{answer, conversation, pointer};
use super::controls::update as controls;
use super::input::files;
use super::overlays::models::update as models;
use super::overlays::sessions::update as sessions;
use super::overlays::update as overlay;
use super::race::update as race;
use crate::chat::{Saved, SavedChat};
use crate::tui::effects::presets::Preset;
use crate::tui::overlays::Overlay;
use crate::tui::state::{Focus, ScreenState};

pub use self::leaving::left;
use super::event;
pub use crate::tui::event::{Button, Effect, NamedFile, ScreenEvent};

/// Changes `state` and says what else is to be done, in order. `now` is the time since the
/// program started.
pub fn update(state: &mut ScreenState, event: ScreenEvent, now: Duration) -> Vec<Effect> {
    state.now = now;
    state.toasts.pass(now);
    let under_way = state.answering().then(|| state.generation());
    // What the worker says is the record's own.
    let users = state.replay && !matches!(event, ScreenEvent::Worker(_));
    let before = users.then(|| state.controls.clone());
    let mut effects = handled(state, event);
    if let Some(before) = before {
        replay::keep(state, &before, &mut effects);
    }
    if under_way.is_some_and(|of| !state.answering() || state.generation() != of) {
        state.toasts.answered(now);
    }
    effects.extend(state.input.wants_folder().map(Effect::ListFolder));
    effects.extend(looks(state));
    effects
}

/// Tells the worker when the tree comes on the screen or goes from it.
fn looks(state: &mut ScreenState) -> Vec<Effect> {
    let watched = state.shows_tree();
    // Nothing follows what ends the program.
    if state.controls.watched == watched || state.quitting {
        return Vec::new();
    }
    state.controls.watched = watched;
    apply(state)
}

fn handled(state: &mut ScreenState, event: ScreenEvent) -> Vec<Effect> {
    match event {
        ScreenEvent::Key(event) => keys::key(state, event),
        ScreenEvent::Typed(keys) => keys::typed(state, keys),
        ScreenEvent::Paste(text) => {
            let effects = keys::full_speed(state);
            match &mut state.overlay {
                Some(Overlay::Sessions(list)) => overlay::paste(list, &text),
                Some(Overlay::Models(picker)) => overlay::paste(&mut picker.list, &text),
                Some(Overlay::Questions { list, .. }) => overlay::paste(list, &text),
                Some(Overlay::Race | Overlay::Full { .. }) => {}
                _ => {
                    state.overlay = None;
                    state.focus = Focus::Input;
                    state.type_over_starter();
                    state.input.paste(&text);
                }
            }
            effects
        }
        ScreenEvent::Ask(text) => {
            state.chat.ask(text);
            answer::ask(state)
        }
        ScreenEvent::Wheel(rows) => {
            wheel(state, rows);
            Vec::new()
        }
        ScreenEvent::Button(button, x, y) => pointer::button(state, button, x, y),
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
            state.leaves_anyway &= result.is_err();
            match result {
                Ok(Saved { copied: true, .. }) => state
                    .say("Another window changed this conversation: this one continues as a copy"),
                Ok(Saved { path, .. }) if asked => {
                    state.say(format!("Saved to {}", path.display()));
                }
                Ok(_) => {}
                Err(error) => state.complain(error),
            }
            Vec::new()
        }
        ScreenEvent::Sessions(list) => {
            match list {
                Ok(list) => sessions::listed(state, list),
                Err(error) => state.complain(error),
            }
            Vec::new()
        }
        ScreenEvent::SessionDeleted(result) => {
            sessions::deleted(state, result);
            Vec::new()
        }
        ScreenEvent::Imported(Ok(chat)) => imported(state, chat),
        ScreenEvent::FileRead(Ok((name, text))) => {
            files::attach(state, &name, &text);
            Vec::new()
        }
        ScreenEvent::Folder(folder, names) => {
            state.input.take_folder(&folder, names);
            Vec::new()
        }
        ScreenEvent::NamedRead { message, files } => files::read(state, message, files),
        ScreenEvent::Edited(Ok(text)) => {
            // A message that was only looked at keeps its marks.
            if text != state.input.text() {
                state.input.set(&text);
            }
            state.focus = Focus::Input;
            Vec::new()
        }
        ScreenEvent::FileRead(Err(error))
        | ScreenEvent::Edited(Err(error))
        | ScreenEvent::Imported(Err(error))
        | ScreenEvent::Told(Err(error)) => {
            state.complain(error);
            Vec::new()
        }
        ScreenEvent::Told(Ok(words)) => {
            state.say(words);
            Vec::new()
        }
        ScreenEvent::PresetFound(result) => preset(state, result),
        ScreenEvent::Models { part, rows } => {
            models::found(state, part, rows);
            Vec::new()
        }
        ScreenEvent::Loaded(result) => loaded(state, result),
        ScreenEvent::Copied(result) => {
            match result {
                Ok(()) => state.say("Copied"),
                Err(error) => state.complain(error),
            }
            Vec::new()
        }
        ScreenEvent::NotSuspended(why) => {
            state.complain(why);
            Vec::new()
        }
        ScreenEvent::Unsent(text) => {
            leaving::found(state, text);
            Vec::new()
        }
        ScreenEvent::NotLeft(why) => {
            // A box would hide what is said in passing.
            let effects = match state.overlay.take() {
                Some(Overlay::Race) => race::close(state),
                _ => Vec::new(),
            };
            leaving::refused(state, &why);
            effects
        }
        ScreenEvent::Terminate => leaving::terminate(state),
    }
}

fn wheel(state: &mut ScreenState, rows: i8) {
    match (&mut state.overlay, state.focus) {
        (Some(_), _) => overlay::overlay_row(state, rows),
        (None, Focus::Tree) => state.rounds.scroll(i64::from(rows)),
        (None, _) => state.chat.scroll(i64::from(rows)),
    }
}

/// A conversation of a file takes the place of the one there is, which stays saved.
fn imported(state: &mut ScreenState, chat: SavedChat) -> Vec<Effect> {
    let mut effects = stop(state);
    effects.push(save(state));
    effects.push(Effect::Forget);
    state.chat.replace(chat);
    state.editing = None;
    state.forget_answer();
    effects.push(save(state));
    state.say("Imported as a new conversation");
    effects
}

/// A preset is applied to this conversation.
fn preset(state: &mut ScreenState, result: Result<(String, Preset), String>) -> Vec<Effect> {
    match result {
        Ok((name, preset)) => {
            // A preset without instructions leaves those there are.
            if preset.system.is_some() {
                state.chat.system = preset.system;
            }
            state.controls.sampler = preset.sampler;
            state.say(format!("Preset \"{name}\" applied, from the next answer on"));
            state.chat.preset = Some(name);
            apply(state)
        }
        Err(why) => {
            state.complain(why);
            Vec::new()
        }
    }
}

fn loaded(state: &mut ScreenState, result: Result<SavedChat, String>) -> Vec<Effect> {
    match result {
        Ok(mut chat) => {
            let mut effects = stop(state);
            let unsent = chat.extras.unsent.take();
            state.chat.replace(chat);
            state.editing = None;
            state.forget_answer();
            state.focus = Focus::Input;
            match unsent {
                Some(text) => leaving::found(state, text),
                None => state.say("Conversation loaded"),
            }
            models::reopened(state);
            effects.extend(state.chat.preset.clone().map(Effect::TakePreset));
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
