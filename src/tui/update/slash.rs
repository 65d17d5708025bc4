//! Slash commands. Must never do IO.

use super::setting;
use crate::chat::Role;
use crate::tui::actions::Action;
use crate::tui::chat::answer::{save, save_as, stop};
use crate::tui::chat::full;
use crate::tui::chat::{Chat, Find, conversation};
use crate::tui::commands::{self, SlashAction};
use crate::tui::controls::choose;
use crate::tui::effects::presets::Preset;
use crate::tui::event::Effect;
use crate::tui::markdown::code_blocks;
use crate::tui::models::update as models;
use crate::tui::overlays::Overlay;
use crate::tui::state::ScreenState;

/// Runs a command; `line` is what follows the slash. Returns what is left to do: what a key does
/// too.
///
/// # Errors
/// What is wrong with it, with the remedy.
pub(super) fn run(state: &mut ScreenState, line: &str) -> Result<Option<Action>, String> {
    let (command, argument) = commands::parse(line)?;
    match command.action {
        SlashAction::Key(action) => return Ok(Some(action)),
        SlashAction::Strategy if argument.is_empty() => return Ok(Some(Action::Strategies)),
        SlashAction::Think => think(state, argument)?,
        SlashAction::Setting(key) => setting::run(state, command.name, key, argument)?,
        SlashAction::System => system(state, argument),
        SlashAction::New => {
            stop(state);
            save(state);
            state.emit(Effect::Forget);
            state.input.editing = None;
            state.chat = Chat::new(state.chat.system.take());
            state.forget_answer();
        }
        SlashAction::Load if argument.is_empty() => state.emit(Effect::List),
        SlashAction::Load => {
            stop(state);
            save(state);
            state.emit(Effect::Load(argument.to_string()));
        }
        SlashAction::Save => save_as(state, true),
        SlashAction::Copy if argument.is_empty() => return Ok(Some(Action::Copy)),
        SlashAction::Copy => {
            let text = copied(state, argument)?;
            state.emit(Effect::Copy(text));
        }
        // Which match it is, the next frame knows.
        SlashAction::Find => match (&mut state.chat.find, argument) {
            (Some(find), "") => find.goes = true,
            (None, "") => return Err("/find needs words to look for: /find fox".to_string()),
            (find, words) => *find = Some(Find::new(words)),
        },
        SlashAction::File if argument.is_empty() => {
            return Err("/file needs a text file: /file notes.txt".to_string());
        }
        SlashAction::File => state.emit(Effect::ReadFile(argument.to_string())),
        SlashAction::Export | SlashAction::Import if argument.is_empty() => {
            return Err(format!("/{0} needs a file: /{0} chat.md, .json or .jsonl", command.name));
        }
        SlashAction::Export => {
            let turns = state.chat.saved_turns();
            if turns.iter().all(|turn| turn.message.role != Role::User) {
                return Err("There is nothing to export yet".to_string());
            }
            state.emit(Effect::Export { path: argument.to_string(), turns });
        }
        SlashAction::Import => state.emit(Effect::Import(argument.to_string())),
        SlashAction::Preset => {
            let effect = preset(state, argument)?;
            state.emit(effect);
        }
        SlashAction::WhenFull => {
            full::choose_by_name(state, argument)?;
            save(state);
        }
        SlashAction::Strategy => choose(state, argument)?,
        SlashAction::Models(part) => models::open(state, part, argument),
    }
    Ok(None)
}

/// What `/copy` takes.
const COPY: &str = "Use /copy, /copy 3, /copy code or /copy code 2";

/// The message or the code block of the last answer that `argument` names: `3`, `code`, `code 2`.
fn copied(state: &ScreenState, argument: &str) -> Result<String, String> {
    let number = match argument.split_whitespace().collect::<Vec<_>>()[..] {
        [number] if number.parse::<usize>().is_ok() => {
            return conversation::numbered(state, number.parse().unwrap_or_default());
        }
        ["code"] => None,
        ["code", number] => Some(number.parse::<usize>().map_err(|_| COPY)?),
        _ => return Err(COPY.to_string()),
    };
    let blocks = code_blocks(state.chat.last_answer().unwrap_or_default());
    let all = blocks.len();
    let at = number.unwrap_or(all).wrapping_sub(1);
    blocks.into_iter().nth(at).ok_or(match all {
        0 => "There is no code block in the last answer".to_string(),
        all => format!("The last answer has code blocks 1 to {all}"),
    })
}

/// Applies, saves or lists presets.
fn preset(state: &ScreenState, argument: &str) -> Result<Effect, String> {
    if argument.is_empty() {
        return Ok(Effect::ListPresets);
    }
    match argument.split_once(char::is_whitespace) {
        None if argument == "save" => {
            Err("/preset save needs a name: /preset save NAME".to_string())
        }
        Some(("save", name)) => {
            let preset = Preset {
                system: state.chat.system.clone(),
                sampler: state.controls.worker.sampler,
            };
            Ok(Effect::SavePreset(name.trim().to_string(), preset))
        }
        _ => Ok(Effect::TakePreset(argument.to_string())),
    }
}

/// Shows, sets or deletes the system prompt.
fn system(state: &mut ScreenState, argument: &str) {
    match argument {
        "" if state.chat.system.is_some() => state.overlays.open = Some(Overlay::System { top: 0 }),
        "" => state.say("There is no system prompt · /system TEXT sets one"),
        "clear" => {
            let deleted = state.chat.system.take().is_some();
            state.say(match deleted {
                true => "System prompt deleted, from the next answer on",
                false => "There is no system prompt",
            });
        }
        text => {
            state.chat.system = Some(text.to_string());
            state.say("System prompt set, from the next answer on");
        }
    }
}

/// Shows or folds thoughts, or tells the model whether to have any.
fn think(state: &mut ScreenState, argument: &str) -> Result<(), String> {
    const TAKES: &str = "on, off, auto, show or hide";
    let (thinking, says) = match argument {
        "" => {
            let thinks = match state.controls.thinking {
                Some(true) => "on",
                Some(false) => "off",
                None => "as the model decides",
            };
            let shown = if state.chat.shows_thoughts { "shown" } else { "folded" };
            state.say(format!("Thinking: {thinks}, thoughts {shown} · /think takes {TAKES}"));
            return Ok(());
        }
        "show" | "hide" => {
            state.chat.shows_thoughts = argument == "show";
            let shown = if state.chat.shows_thoughts { "shown" } else { "folded" };
            state.say(format!("Thoughts are {shown}"));
            return Ok(());
        }
        "auto" => (None, "The model decides whether to think"),
        "on" => (Some(true), "The model thinks before the next answer"),
        "off" => (Some(false), "The model answers without thinking"),
        other => return Err(format!("/think takes {TAKES}, not {other}")),
    };
    if state.models.ready.as_ref().is_some_and(|ready| !ready.switches_thinking) {
        return Err(format!(
            "The chat template of {} cannot switch thinking: the model decides itself",
            state.models.target()
        ));
    }
    state.controls.thinking = thinking;
    state.say(says);
    Ok(())
}
