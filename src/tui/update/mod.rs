//! An event in, effects out: the only place where the screen's state changes. Does no IO and reads
//! no clock, so that a test can say everything that happens. Must never know how a frame is drawn.

pub(crate) mod action;
mod focus;
mod keys;
pub(crate) mod leaving;
mod line;
pub(crate) mod replay;
mod setting;
mod worker;

use std::time::Duration;

use super::chat::answer::{self, save, stop};
use super::chat::pointer;
use super::effects::presets::Preset;
use super::event::{Asked, Effect, ScreenEvent};
use super::input::send;
use super::overlays::{Overlay, sessions, update as overlay};
use super::state::ScreenState;
use crate::chat::{LeftOut, Saved, SavedChat};
use crate::settings::Alert;
use crate::tui::display::{Display, Focus};
use crate::tui::models::{Phase, update as models};

pub use self::leaving::left;

/// Changes `state` and says what else is to be done, in order. `now` is the time since the
/// program started.
pub fn update(state: &mut ScreenState, event: ScreenEvent, now: Duration) -> Vec<Effect> {
    state.now = now;
    state.toasts.pass(now);
    state.display.fades.take_if(|fades| *fades <= now);
    let under_way = state.answering().then(|| state.generation());
    let answering_for = match state.models.phase {
        Phase::Answering { since } => now.saturating_sub(since),
        _ => Duration::ZERO,
    };
    // What the worker says is the record's own.
    let users = state.models.replay && !matches!(event, ScreenEvent::Worker(_));
    let before = users.then(|| state.controls.worker.clone());
    handle(state, event);
    if let Some(before) = before {
        replay::keep(state, &before);
    }
    if under_way.is_some_and(|of| !state.answering() || state.generation() != of) {
        state.toasts.answered(now);
        ring(state, answering_for);
        state.display.fades = Some(now + Display::FADE);
    }
    // However it ended: an answer that was refused too.
    if !state.answering() && answer::end_first_answer(state) {
        state.apply();
    }
    if let Some(folder) = state.input.wants_folder() {
        state.emit(Effect::ListFolder(folder));
    }
    let watched = state.shows(Focus::Tree);
    // Nothing follows what ends the program.
    if state.controls.worker.watched != watched && !state.leaving.quitting {
        state.controls.worker.watched = watched;
        state.apply();
    }
    std::mem::take(&mut state.effects)
}

/// Tells a user who looks elsewhere that an answer has ended that took `time`.
fn ring(state: &mut ScreenState, time: Duration) {
    const LONG: Duration = Duration::from_secs(5);
    let signal = match state.display.alert {
        Alert::Off => return,
        Alert::Bell => "\x07",
        Alert::Notification => "\x1b]9;Dovetail: the answer is complete\x1b\\",
    };
    if !state.display.focused && time >= LONG {
        state.emit(Effect::Ring(signal.to_string()));
    }
}

fn handle(state: &mut ScreenState, event: ScreenEvent) {
    match event {
        ScreenEvent::Key(event) => keys::key(state, event),
        ScreenEvent::Typed(keys) => keys::typed(state, keys),
        ScreenEvent::Line(text) => line::line(state, &text),
        ScreenEvent::Interrupt => line::interrupt(state),
        ScreenEvent::Paste(text) => paste(state, &text),
        ScreenEvent::Ask(asked) => {
            match asked {
                Asked::Question(text) => state.chat.ask(text),
                Asked::GoOn if state.chat.can_go_on() => state.chat.go_on(),
                Asked::GoOn | Asked::Again => state.chat.reopen(),
                Asked::Forced { at, token } => drop(state.chat.force(at, token)),
            }
            answer::ask(state);
        }
        ScreenEvent::Wheel(rows) => wheel(state, rows),
        ScreenEvent::Button(button, x, y) => pointer::button(state, button, x, y),
        ScreenEvent::Pointed(round) => state.meters.clock.pointed = round,
        ScreenEvent::Focused(focused) => state.display.focused = focused,
        ScreenEvent::Background(background) => state.display.background = background,
        ScreenEvent::Graphics(graphics) => {
            state.pictures.graphics = Some(graphics);
            state.pictures.forget();
        }
        ScreenEvent::Resize(width, height) => state.display.size = (width, height),
        ScreenEvent::Worker(event) => worker::event(state, event),
        ScreenEvent::WorkerGone(reason) => worker::gone(state, reason),
        ScreenEvent::Usage(usage) => state.meters.usage = Some(usage),
        ScreenEvent::Tick => {}
        ScreenEvent::Saved { asked, result } => saved(state, asked, result),
        ScreenEvent::Sessions(list) => sessions::listed(state, list),
        ScreenEvent::SessionDeleted(id) => sessions::deleted(state, id),
        ScreenEvent::Imported(chat, left_out) => imported(state, chat, &left_out),
        ScreenEvent::FileRead { name, text } => send::attach(state, &name, &text),
        ScreenEvent::Folder(folder, names) => state.input.listed.take(&folder, names),
        ScreenEvent::PicturesRead(request, read) => {
            let first = state.pictures.take(request, read);
            if !first.is_empty() {
                state.emit(Effect::Put(first));
            }
        }
        ScreenEvent::NamedRead { message, files } => send::read(state, message, files),
        ScreenEvent::Edited(Ok(text)) => {
            // A message that was only looked at keeps its marks.
            if text != state.input.text() {
                state.input.set(&text);
            }
            state.display.focus = Focus::Input;
        }
        ScreenEvent::Told(words) => state.say(words),
        ScreenEvent::PresetFound(name, preset) => apply_preset(state, name, preset),
        ScreenEvent::Models { part, rows } => models::found(state, part, rows),
        ScreenEvent::Loaded(Ok(chat)) => loaded(state, chat),
        ScreenEvent::Loaded(Err(error)) => state.fail("Not loaded", error),
        ScreenEvent::Unsent(text) => leaving::found(state, text),
        ScreenEvent::NotLeft(why) => leaving::refused(state, &why),
        ScreenEvent::Terminate => {
            // After a signal there is no time for questions.
            state.leaving.anyway = true;
            leaving::quit(state);
        }
        ScreenEvent::Failed(error) | ScreenEvent::Edited(Err(error)) => state.complain(error),
    }
}

fn paste(state: &mut ScreenState, text: &str) {
    keys::full_speed(state);
    let typed = state.overlays.edit(|words| words.push_str(&text.replace(char::is_control, " ")));
    if !typed && !matches!(state.overlays.open, Some(Overlay::Race | Overlay::Full { .. })) {
        state.overlays.open = None;
        state.display.focus = Focus::Input;
        state.type_over_starter();
        state.input.paste(text);
    }
}

fn wheel(state: &mut ScreenState, rows: i8) {
    match (&mut state.overlays.open, state.display.focus) {
        (Some(_), _) => overlay::overlay_row(state, isize::from(rows)),
        (None, Focus::Tree) => state.tree.scroll(i64::from(rows)),
        (None, _) => state.chat.scroll(i64::from(rows)),
    }
}

/// The conversation was saved, or why not; `asked`: the user hears of success.
fn saved(state: &mut ScreenState, asked: bool, result: Result<Saved, String>) {
    state.leaving.anyway &= result.is_err();
    match result {
        Ok(Saved { copied: true, .. }) => {
            state.say("Another window changed this conversation: this one continues as a copy");
        }
        Ok(Saved { path, .. }) if asked => state.say(format!("Saved to {}", path.display())),
        Ok(_) => {}
        // Why leaving would lose something was said just before.
        Err(_) if state.leaving.anyway => {}
        Err(error) => state.complain(error),
    }
}

/// A conversation of a file takes the place of the one there is, which stays saved.
fn imported(state: &mut ScreenState, chat: SavedChat, left_out: &LeftOut) {
    stop(state);
    save(state);
    state.emit(Effect::Forget);
    replace(state, chat);
    save(state);
    match left_out.to_string() {
        without if without.is_empty() => state.say("Imported as a new conversation"),
        without => state.refuse(format!("Imported as a new conversation, without {without}")),
    }
}

/// A preset is applied to this conversation.
fn apply_preset(state: &mut ScreenState, name: String, preset: Preset) {
    // A preset without instructions leaves those there are.
    if preset.system.is_some() {
        state.chat.system = preset.system;
    }
    state.controls.worker.sampler = preset.sampler;
    state.say(format!("Preset \"{name}\" applied, from the next answer on"));
    state.chat.preset = Some(name);
    state.apply();
}

/// A saved conversation was read: the one there is is saved, and left for it.
fn loaded(state: &mut ScreenState, mut chat: SavedChat) {
    stop(state);
    save(state);
    state.emit(Effect::Adopt(chat.name.take()));
    let unsent = chat.extras.unsent.take();
    let damage = chat.damage.take();
    replace(state, chat);
    state.display.focus = Focus::Input;
    match (damage, unsent) {
        (Some(damage), _) => state.complain(damage),
        (None, Some(text)) => leaving::found(state, text),
        (None, None) => state.say("Conversation loaded"),
    }
    models::reopened(state);
    if let Some(preset) = state.chat.preset.clone() {
        state.emit(Effect::TakePreset(preset));
    }
}

/// Another conversation takes the place of the one there is.
fn replace(state: &mut ScreenState, chat: SavedChat) {
    state.chat.replace(chat);
    state.input.editing = None;
    state.forget_answer();
}

#[cfg(test)]
mod tests;
