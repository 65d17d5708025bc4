//! Commands that set a value: alone they show it and what they take. They go through the table of
//! the settings, so that a range is the same in the file, in a flag and here. Must never do IO.

use crate::chat::SessionStore;
use crate::settings::{Problem, SettingKey, SettingValue, Settings};
use crate::tui::actions::{Dial, ModelPart};
use crate::tui::chat::answer::STILL_LOADING;
use crate::tui::display::Focus;
use crate::tui::event::Effect;
use crate::tui::input::ViMode;
use crate::tui::models::update as models;
use crate::tui::overlays::Overlay;
use crate::tui::state::ScreenState;

/// What a setting that is on or off is called, and what is said when it is switched on or off.
struct Switch {
    key: &'static str,
    what: &'static str,
    says: [&'static str; 2],
}

const SWITCHES: [Switch; 5] = [
    Switch {
        key: "speculate",
        what: "Speculation",
        says: ["Speculation is on", "Speculation is off; the text stays the same"],
    },
    Switch {
        key: "overlap",
        what: "Drafting during verification",
        says: ["The draft continues while the target verifies", "Draft and target take turns"],
    },
    Switch {
        key: "coupled",
        what: "Coupled drafting",
        says: [
            "Drafts are ranked with the target's noise",
            "Drafts are ranked without the target's noise",
        ],
    },
    Switch {
        key: "screen.vi",
        what: "vi mode",
        says: ["vi mode is on: Esc goes to its normal mode", "vi mode is off"],
    },
    Switch {
        key: "screen.mouse",
        what: "Mouse support",
        says: [
            "The chat handles the mouse: wheel, clicks and selection",
            "The terminal handles the mouse",
        ],
    },
];

/// Shows the value of `key`, or sets it, as its command does.
///
/// # Errors
/// It does not take this value, or the models at hand leave no choice.
pub(super) fn run(state: &mut ScreenState, key: &str, argument: &str) -> Result<(), String> {
    let row = SettingKey::named(key).and_then(|row| Some((row, row.command?.name)));
    let Some((row, command)) = row else { return Ok(()) };
    match key {
        "target" => models::open(state, ModelPart::Target, argument),
        "draft" => models::open(state, ModelPart::Draft, argument),
        "strategy" if argument.is_empty() => list_strategies(state),
        "strategy" => state.choose_strategy(argument)?,
        "system" => system(state, argument),
        "thinking" => think(state, argument)?,
        _ => value_of(state, row, command, argument)?,
    }
    Ok(())
}

/// Shows or sets a value that has a range; `command` is the name of its command.
fn value_of(
    state: &mut ScreenState,
    row: &SettingKey,
    command: &str,
    argument: &str,
) -> Result<(), String> {
    let key = row.name;
    let switch = SWITCHES.iter().find(|switch| switch.key == key);
    let dial = Dial::ALL.into_iter().find(|dial| dial.row().key == key);
    // As many blocks as the panel offers: those of the head in use.
    let blocks = dial.filter(|dial| *dial == Dial::Blocks).map(|dial| state.dial(dial).range);
    let takes = match blocks {
        _ if row.is_switch() => "on or off".to_string(),
        Some(range) if !range.is_empty() => format!("{range}, or \"auto\""),
        _ => row.values(),
    };
    let name = name(dial.map_or(&command[1..], |dial| dial.row().name));
    if argument.is_empty() {
        if dial == Some(Dial::Blocks) {
            // A head without a choice says so.
            let tree = state.controls.worker.tree;
            state.turn(Dial::Blocks, 0)?;
            state.controls.worker.tree = tree;
        }
        let now = value(state, row, dial);
        state.show(match switch {
            Some(switch) => {
                let other = if now == "on" { "off" } else { "on" };
                format!("{} is {now} · {command} {other} switches it {other}", switch.what)
            }
            None => format!("{name}: {now} · {command} takes {takes}"),
        });
        return Ok(());
    }
    let mut settings = settings(state);
    settings.set(key, &SettingValue::text(argument)).map_err(|problem| match problem {
        Problem::Value { .. } => format!("{command} takes {takes}, not {argument}"),
        other => other.to_string(),
    })?;
    let before = state.controls.worker.clone();
    state.controls.worker.take(&settings);
    // A head without a choice is reported, instead of ignoring the command.
    if dial == Some(Dial::Blocks)
        && argument != "auto"
        && let Err(why) = state.turn(Dial::Blocks, 0)
    {
        state.controls.worker = before;
        return Err(why);
    }
    state.controls.max_tokens = settings.max_tokens;
    state.display.theme = settings.theme;
    state.display.vi = settings.vi;
    state.display.alert = settings.alert;
    if !settings.vi {
        state.input.vi = ViMode::Insert;
    }
    if key == "screen.layout" {
        state.display.layout = settings.layout;
        // What was opened or hidden was so in the layout before.
        (state.display.focus, state.display.side) = (Focus::Input, None);
        state.display.meters = false;
        state.emit(Effect::Remember(SessionStore::LAYOUT, argument.to_string()));
    }
    if std::mem::replace(&mut state.display.mouse, settings.mouse) != settings.mouse {
        state.emit(Effect::Mouse(settings.mouse));
    }
    let now = value(state, row, dial);
    state.say(match (switch, dial) {
        (Some(switch), _) => switch.says[usize::from(now == "off")].to_string(),
        (None, Some(Dial::Blocks))
            if state.controls.worker.tree.blocks != settings.controls.blocks =>
        {
            format!("{name}: {}, as many as this head has", state.controls.worker.tree.blocks)
        }
        _ => format!("{name}: {now}"),
    });
    state.apply();
    Ok(())
}

/// Lists the strategies, to choose one.
pub(super) fn list_strategies(state: &mut ScreenState) {
    if state.statuses().is_empty() {
        state.refuse(STILL_LOADING);
    } else {
        state.overlays.open = Some(Overlay::Strategies { selected: state.chosen() });
    }
}

/// Switches speculation, as a key does.
pub(super) fn toggle_speculation(state: &mut ScreenState) {
    let argument = if state.controls.worker.speculate { "off" } else { "on" };
    // It takes both.
    let _ = run(state, "speculate", argument);
}

/// Goes to the next layout, as a key does.
pub(super) fn next_layout(state: &mut ScreenState) {
    // It takes every name.
    let _ = run(state, "screen.layout", state.display.layout().next().name());
}

/// What commands can set.
fn settings(state: &ScreenState) -> Settings {
    let controls = &state.controls.worker;
    Settings {
        sampler: controls.sampler,
        max_tokens: state.controls.max_tokens,
        pace: controls.pace,
        controls: controls.tree,
        speculate: controls.speculate,
        strategy: controls.strategy,
        overlap: controls.overlap,
        coupled: controls.coupled,
        theme: state.display.theme,
        layout: state.display.layout,
        vi: state.display.vi,
        alert: state.display.alert,
        mouse: state.display.mouse,
        ..Settings::default()
    }
}

/// Says the value of a dial that a key has turned.
pub(super) fn say_dial(state: &mut ScreenState, dial: Dial) {
    if let Some(row) = SettingKey::named(dial.row().key) {
        let value = value(state, row, Some(dial));
        state.say(format!("{}: {value}", name(dial.row().name)));
    }
}

/// The present value, for people.
fn value(state: &ScreenState, row: &SettingKey, dial: Option<Dial>) -> String {
    let Some(dial) = dial else { return row.value(&settings(state)) };
    let view = state.dial(dial);
    match (view.value.as_str(), view.state) {
        ("–", "auto") => "automatic".to_string(),
        (value, "auto") => format!("{value}, automatic"),
        (value, "") => value.to_string(),
        (value, "ms") => format!("{value} ms"),
        (value, how) => format!("{value}, {how}"),
    }
}

/// The name at the beginning of a sentence: `Max tokens`, `Top-p`.
fn name(word: &str) -> String {
    let words = match word.split_once('-') {
        Some((first, rest)) if rest.len() > 1 => format!("{first} {rest}"),
        _ => word.to_string(),
    };
    let mut chars = words.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// Shows, sets or deletes the system prompt.
fn system(state: &mut ScreenState, argument: &str) {
    match argument {
        "" if state.chat.system.is_some() => state.overlays.open = Some(Overlay::System { top: 0 }),
        "" => state.show("There is no system prompt · /system TEXT sets one"),
        "clear" => match state.chat.system.take() {
            Some(_) => state.say("System prompt deleted, from the next answer on"),
            None => state.refuse("There is no system prompt"),
        },
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
            state.show(format!("Thinking: {thinks}, thoughts {shown} · /think takes {TAKES}"));
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
