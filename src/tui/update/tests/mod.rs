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
mod minds;
mod models;
mod notices;
mod pointer;
mod race;
mod replay;
mod saving;
mod sessions;
mod starters;
mod thoughts;

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{Effect, ScreenEvent, update};
use crate::chat::{AnsweredBy, Extras, Message, ModelChoice, Role, Saved, SavedChat, SavedTurn};
use crate::decode::Finish;
use crate::draft::Depths;
use crate::plan::Setting;
use crate::speculate::SamplerSettings;
use crate::tui::actions::{Action, Dial, ModelPart};
use crate::tui::chat::AnswerOutcome;
use crate::tui::commands::COMMANDS;
use crate::tui::controls::FirstAnswer;
use crate::tui::display::Focus;
use crate::tui::event::{Button, NamedFile};
use crate::tui::input::Suggestion;
use crate::tui::models::Phase;
use crate::tui::overlays::Overlay;
use crate::tui::state::ScreenState;
use crate::tui::tests::{
    answer, drawn, loaded, ready, rows, said, say, say_all, screen_of, thinking, type_keys,
    unloaded,
};
use crate::tui::toasts::Tone;
use crate::worker::{Command, Controls, Event, Job, LoadJob, Ready};

/// Something happens, at the time of what happened before.
fn tell(state: &mut ScreenState, event: ScreenEvent) -> Vec<Effect> {
    let now = state.now;
    update(state, event, now)
}

/// Characters that come together.
fn burst(text: &str) -> ScreenEvent {
    let key = |c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE);
    ScreenEvent::Typed(text.chars().map(key).collect())
}

/// The job that is sent to the worker.
fn job(effects: &[Effect]) -> &Job {
    match effects.iter().find(|effect| matches!(effect, Effect::Send(_))) {
        Some(Effect::Send(Command::Generate(job))) => job,
        _ => panic!("nothing was sent: {effects:?}"),
    }
}

/// What each message of that job says.
fn contents(effects: &[Effect]) -> Vec<&str> {
    job(effects).messages.iter().map(|message| message.content.as_str()).collect()
}

/// The controls that are put into force last.
fn applied(effects: &[Effect]) -> &Controls {
    let controls = effects.iter().rev().find_map(|effect| match effect {
        Effect::Apply(controls) => Some(controls),
        _ => None,
    });
    controls.unwrap_or_else(|| panic!("no controls: {effects:?}"))
}

/// The controls that are put into force, with no other effect.
fn only_applied(effects: &[Effect]) -> &Controls {
    assert!(matches!(effects, [Effect::Apply(_)]), "{effects:?}");
    applied(effects)
}

/// Checks that a conversation of so many turns is saved before something else is done.
#[track_caller]
fn assert_saved_before(effects: &[Effect], saved: usize, next: &Effect) {
    let is_save =
        |effect: &Effect| matches!(effect, Effect::Save { turns, .. } if turns.len() == saved);
    let save = effects.iter().position(is_save);
    assert!(save.is_some() && save < effects.iter().position(|e| e == next), "{effects:?}");
}

/// The conversation that is saved last, if one is.
fn kept_turns(effects: &[Effect]) -> Option<&[SavedTurn]> {
    effects.iter().rev().find_map(|effect| match effect {
        Effect::Save { turns, .. } => Some(turns.as_slice()),
        _ => None,
    })
}

/// The name of the command under the cursor.
fn suggested(state: &ScreenState) -> &'static str {
    match state.input.suggestion() {
        Some(Suggestion::Command(command)) => command.name,
        other => panic!("no command: {other:?}"),
    }
}

/// Title and text of the box that says what failed.
fn failure(state: &ScreenState) -> (&str, &str) {
    match &state.overlays.open {
        Some(Overlay::Error { title, text }) => (title, text),
        other => panic!("nothing failed: {other:?}"),
    }
}

/// What is said in passing, and how.
fn shown(state: &ScreenState) -> Option<(Tone, &str)> {
    state.toasts.shown().map(|toast| (toast.tone, toast.text.as_str()))
}

/// Checks that something is said in this tone, with these words.
#[track_caller]
fn assert_said(state: &ScreenState, tone: Tone, words: &str) {
    let shown = shown(state);
    assert!(shown.is_some_and(|s| s.0 == tone && s.1.contains(words)), "{words}: {shown:?}");
}

/// Role and text of every turn.
fn texts(state: &ScreenState) -> Vec<(Role, String)> {
    state.chat.turns().iter().map(|turn| (turn.role, turn.text.clone())).collect()
}

/// A question; with `interrupted`, an answer without its end.
fn saved(content: &str, interrupted: bool) -> SavedTurn {
    let role = if interrupted { Role::Assistant } else { Role::User };
    SavedTurn { interrupted, ..SavedTurn::whole(Message::new(role, content)) }
}

fn named(target: &str) -> ModelChoice {
    ModelChoice { target: Some(target.to_string()), ..ModelChoice::default() }
}

/// A whole answer to the question under way.
fn answered(state: &mut ScreenState, text: &str) -> Vec<Effect> {
    let events = answer(state.generation(), text, 8);
    events.into_iter().flat_map(|event| say(state, event)).collect()
}

/// The first events of such an answer.
fn begun(state: &mut ScreenState, text: &str, events: usize) {
    say_all(state, answer(state.generation(), text, 8).into_iter().take(events));
}

/// A question and its answer.
fn asked(state: &mut ScreenState, question: &str, reply: &str) {
    type_keys(state, &format!("{question}<enter>"));
    answered(state, reply);
}

/// A screen on which these keys were typed.
fn typed(keys: &str) -> ScreenState {
    let mut state = loaded(80, 24);
    type_keys(&mut state, keys);
    state
}

/// A screen with a question and its answer.
fn exchange(question: &str, reply: &str) -> ScreenState {
    let mut state = loaded(80, 24);
    asked(&mut state, question, reply);
    state
}

/// The answer under way fails.
fn fails(state: &mut ScreenState, error: &str) -> Vec<Effect> {
    let generation = Some(state.generation());
    say(state, Event::Failed { generation, error: error.to_string() })
}

/// An answer that ends so.
fn cut_by(state: &mut ScreenState, text: &str, finish: Finish) {
    for mut event in answer(state.generation(), text, 8) {
        if let Event::Finished { summary, .. } = &mut event {
            summary.finish = Some(finish);
        }
        say(state, event);
    }
}

/// Three questions with their answers.
fn talk() -> ScreenState {
    let mut state = loaded(80, 24);
    for (question, reply) in [("one", "First."), ("two", "Second."), ("three", "Third.")] {
        asked(&mut state, question, reply);
    }
    state
}

/// What is saved, and read again.
fn reloaded(state: &ScreenState) -> ScreenState {
    let turns = state.chat.saved_turns();
    let chat = SavedChat { turns, extras: state.chat.extras(), ..SavedChat::default() };
    let mut other = loaded(80, 24);
    tell(&mut other, ScreenEvent::Loaded(Ok(chat)));
    other
}
