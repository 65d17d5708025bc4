//! Slash commands. The input keeps a command that failed. Must never do IO.

use super::answer::{save, save_as, stop};
use super::controls::{apply, choose, speculate, with_dials};
use super::conversation;
use super::event::Effect;
use super::full;
use super::models;
use crate::chat::Role;
use crate::plan::Setting;
use crate::settings::{SettingValue, Settings};
use crate::tui::commands::{self, SlashAction};
use crate::tui::keymap::Action;
use crate::tui::markdown::code_blocks;
use crate::tui::presets::Preset;
use crate::tui::state::{Chat, Dial, Find, ScreenState};
use crate::tui::theme;

/// What is left to do of a command.
pub(super) enum Ran {
    /// Effects to be carried out.
    Effects(Vec<Effect>),
    /// What a key does too.
    Key(Action),
}

/// Runs a command; `line` is what follows the slash.
///
/// # Errors
/// What is wrong with it, with the remedy.
pub(super) fn run(state: &mut ScreenState, line: &str) -> Result<Ran, String> {
    let (command, argument) = commands::parse(line)?;
    let effects = match command.action {
        SlashAction::Key(action) => return Ok(key(state, action)),
        SlashAction::Theme if argument.is_empty() => return Ok(key(state, Action::Theme)),
        SlashAction::Strategy if argument.is_empty() => {
            return Ok(key(state, Action::Strategies));
        }
        SlashAction::Think if argument.is_empty() => return Ok(key(state, Action::Thoughts)),
        SlashAction::Think => {
            think(state, argument)?;
            Vec::new()
        }
        SlashAction::Dial(dial) => {
            set(state, key_of(dial), argument)?;
            // A head that cannot draft ahead is reported, instead of ignoring the command.
            if dial == Dial::Blocks && argument != "auto" {
                with_dials(state, |dials, controls| dials.adjust(dial, 0, controls))?;
            }
            state.say(match state.controls.tree.blocks {
                Setting::Fixed(most)
                    if dial == Dial::Blocks && argument.parse().is_ok_and(|n| most < n) =>
                {
                    format!("{}: {most}, as many as this head has", dial.name())
                }
                _ => format!("{}: {argument}", dial.name()),
            });
            apply(state)
        }
        SlashAction::Setting(key) => {
            set(state, key, argument)?;
            state.say(format!("{}: {argument}", command.name));
            apply(state)
        }
        SlashAction::System => {
            state.chat.system = Some(argument.to_string()).filter(|text| !text.is_empty());
            state.say(match state.chat.system {
                Some(_) => "system prompt set; it counts from the next answer",
                None => "no system prompt",
            });
            Vec::new()
        }
        SlashAction::New => {
            let mut effects = stop(state);
            effects.push(save(state));
            effects.push(Effect::Forget);
            state.editing = None;
            state.chat = Chat::new(state.chat.system.take());
            state.forget_answer();
            effects
        }
        SlashAction::Load if argument.is_empty() => vec![Effect::List],
        SlashAction::Load => {
            let mut effects = stop(state);
            effects.push(save(state));
            effects.push(Effect::Load(argument.to_string()));
            effects
        }
        SlashAction::Save => vec![save_as(state, true)],
        SlashAction::Copy if argument.is_empty() => return Ok(key(state, Action::Copy)),
        SlashAction::Copy => vec![Effect::Copy(copied(state, argument)?)],
        SlashAction::Find => {
            match (&mut state.chat.find, argument) {
                (Some(find), "") => find.next(),
                (None, "") => return Err("say what to look for: /find words".to_string()),
                (find, words) => *find = Some(Find::new(words)),
            }
            // Which match it is, the next frame knows.
            Vec::new()
        }
        SlashAction::File if argument.is_empty() => {
            return Err("name a text file: /file notes.txt".to_string());
        }
        SlashAction::File => vec![Effect::ReadFile(argument.to_string())],
        SlashAction::Export | SlashAction::Import if argument.is_empty() => {
            return Err("name a file that ends with .md, .json or .jsonl".to_string());
        }
        SlashAction::Export => {
            let turns = state.chat.saved_turns();
            if turns.iter().all(|turn| turn.message.role != Role::User) {
                return Err("there is nothing to export yet".to_string());
            }
            vec![Effect::Export { path: argument.to_string(), turns }]
        }
        SlashAction::Import => vec![Effect::Import(argument.to_string())],
        SlashAction::Preset => vec![preset(state, argument)?],
        SlashAction::WhenFull => {
            full::choose_by_name(state, argument)?;
            vec![save(state)]
        }
        SlashAction::Theme => {
            state.theme = theme::THEMES
                .into_iter()
                .find(|theme| theme::name(*theme) == argument)
                .ok_or("the themes are dark, light and mono")?;
            state.say(format!("theme: {argument}"));
            Vec::new()
        }
        SlashAction::Speculate => {
            let on = switch(argument, state.controls.speculate)?;
            speculate(state, on)
        }
        SlashAction::Strategy => choose(state, argument)?,
        SlashAction::Models(part) => models::open(state, part, argument),
        SlashAction::Overlap => {
            let on = switch(argument, state.controls.overlap)?;
            state.controls.overlap = on;
            state.say(if on { "drafting goes on while the target verifies" } else { "in turn" });
            apply(state)
        }
        SlashAction::Coupled => {
            let on = switch(argument, state.controls.coupled)?;
            state.controls.coupled = on;
            state.say(if on { "drafts know the target's noise" } else { "drafts know no noise" });
            apply(state)
        }
        SlashAction::Mouse => {
            state.mouse = switch(argument, state.mouse)?;
            state.say(match state.mouse {
                true => "the mouse is the chat's: wheel, click and selection",
                false => "the mouse is the terminal's",
            });
            vec![Effect::Mouse(state.mouse)]
        }
    };
    state.input.sent();
    Ok(Ran::Effects(effects))
}

/// The message or the code block of the last answer that `argument` names: `3`, `code`, `code 2`.
fn copied(state: &ScreenState, argument: &str) -> Result<String, String> {
    let number = match argument.split_whitespace().collect::<Vec<_>>()[..] {
        [number] if number.parse::<usize>().is_ok() => {
            return conversation::numbered(state, number.parse().unwrap_or_default());
        }
        ["code"] => None,
        ["code", number] => Some(number.parse::<usize>().map_err(|_| "say /copy code 2")?),
        _ => return Err("say /copy, /copy 3, /copy code or /copy code 2".to_string()),
    };
    let blocks = code_blocks(state.chat.last_answer().unwrap_or_default());
    let all = blocks.len();
    let at = number.unwrap_or(all).wrapping_sub(1);
    blocks.into_iter().nth(at).ok_or(match all {
        0 => "there is no code block in the last answer".to_string(),
        all => format!("the code blocks of the last answer are 1 to {all}"),
    })
}

/// Takes, keeps or lists presets.
fn preset(state: &ScreenState, argument: &str) -> Result<Effect, String> {
    if argument.is_empty() {
        return Ok(Effect::ListPresets);
    }
    match argument.split_once(char::is_whitespace) {
        None if argument == "save" => Err("say under which name: /preset save NAME".to_string()),
        Some(("save", name)) => {
            let preset =
                Preset { system: state.chat.system.clone(), sampler: state.controls.sampler };
            Ok(Effect::SavePreset(name.trim().to_string(), preset))
        }
        _ => Ok(Effect::TakePreset(argument.to_string())),
    }
}

/// The command does what a key does: it has left the input.
fn key(state: &mut ScreenState, action: Action) -> Ran {
    state.input.sent();
    Ran::Key(action)
}

/// Shows or folds thoughts, or tells the model whether to have any.
fn think(state: &mut ScreenState, argument: &str) -> Result<(), String> {
    let thinking = match argument {
        "show" | "hide" => {
            state.chat.shows_thoughts = argument == "show";
            state.say(match state.chat.shows_thoughts {
                true => "what the model thinks is shown",
                false => "what the model thinks is folded",
            });
            return Ok(());
        }
        "auto" => None,
        "on" => Some(true),
        "off" => Some(false),
        other => return Err(format!("say on, off, auto, show or hide, not {other}")),
    };
    if let Some(ready) = state.ready.as_ref().filter(|ready| !ready.switches_thinking) {
        return Err(format!(
            "the template of {} has no switch for thoughts: it decides itself",
            ready.target
        ));
    }
    state.thinking = thinking;
    state.say(match thinking {
        Some(true) => "the next answer is thought about first",
        Some(false) => "the next answer comes without thoughts",
        None => "thoughts as the model's template has it",
    });
    Ok(())
}

/// What `argument` makes of a switch that is at `now`.
fn switch(argument: &str, now: bool) -> Result<bool, String> {
    match argument {
        "" => Ok(!now),
        "on" => Ok(true),
        "off" => Ok(false),
        other => Err(format!("say on or off, not {other}")),
    }
}

fn key_of(dial: Dial) -> &'static str {
    match dial {
        Dial::Gamma => "controls.gamma",
        Dial::Blocks => "controls.blocks",
        Dial::Width => "controls.width",
        Dial::Depth => "controls.depth",
        Dial::Temperature => "sampler.temperature",
        Dial::Strategy => "strategy",
        Dial::Pace => "controls.pace",
    }
}

/// Sets a value through the table that the settings file and the flags go through: one place for
/// ranges and their errors.
fn set(state: &mut ScreenState, key: &str, value: &str) -> Result<(), String> {
    let controls = &mut state.controls;
    let mut settings = Settings {
        sampler: controls.sampler,
        max_tokens: state.max_tokens,
        pace: controls.pace,
        controls: controls.tree,
        ..Settings::default()
    };
    settings.set(key, &SettingValue::text(value)).map_err(|problem| problem.to_string())?;
    controls.sampler = settings.sampler;
    controls.pace = settings.pace;
    controls.tree = settings.controls;
    state.max_tokens = settings.max_tokens;
    Ok(())
}
