//! Commands that set a value: alone they show it and what they take. They go through the table of
//! the settings, so that a range is the same in the file, in a flag and here. Must never do IO.

use crate::settings::{Problem, SettingKey, SettingValue, Settings};
use crate::tui::actions::Dial;
use crate::tui::event::Effect;
use crate::tui::state::ScreenState;
use crate::worker::Controls;

/// What a setting that is on or off is called, and what is said when it is switched on or off.
struct Switch {
    key: &'static str,
    what: &'static str,
    says: [&'static str; 2],
}

const SWITCHES: [Switch; 4] = [
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
        key: "screen.mouse",
        what: "Mouse support",
        says: [
            "The chat handles the mouse: wheel, clicks and selection",
            "The terminal handles the mouse",
        ],
    },
];

/// Shows the value of `key`, or sets it; `command` is the name of the command that wants it.
///
/// # Errors
/// It does not take this value, or the models at hand leave no choice.
pub(super) fn run(
    state: &mut ScreenState,
    command: &str,
    key: &str,
    argument: &str,
) -> Result<(), String> {
    let Some(row) = SettingKey::named(key) else { return Ok(()) };
    let switch = SWITCHES.iter().find(|switch| switch.key == key);
    let dial = Dial::ALL.into_iter().find(|dial| dial.row().key == key);
    let takes = if row.is_switch() { "on or off".to_string() } else { row.values() };
    let name = name(dial.map_or(command, |dial| dial.row().name));
    if argument.is_empty() {
        if dial == Some(Dial::Blocks) {
            state.dials().adjust(Dial::Blocks, 0, &mut state.controls.worker.clone())?;
        }
        let now = value(state, row, dial);
        state.say(match switch {
            Some(switch) => {
                let other = if now == "on" { "off" } else { "on" };
                format!("{} is {now} · /{command} {other} switches it {other}", switch.what)
            }
            None => format!("{name}: {now} · /{command} takes {takes}"),
        });
        return Ok(());
    }
    let mut settings = settings(state);
    settings.set(key, &SettingValue::text(argument)).map_err(|problem| match problem {
        Problem::Value { .. } => format!("/{command} takes {takes}, not {argument}"),
        other => other.to_string(),
    })?;
    let mut controls = Controls {
        sampler: settings.sampler,
        pace: settings.pace,
        tree: settings.controls,
        speculate: settings.speculate,
        overlap: settings.overlap,
        coupled: settings.coupled,
        ..state.controls.worker.clone()
    };
    // A head without a choice is reported, instead of ignoring the command.
    if dial == Some(Dial::Blocks) && argument != "auto" {
        state.dials().adjust(Dial::Blocks, 0, &mut controls)?;
    }
    state.controls.worker = controls;
    state.controls.max_tokens = settings.max_tokens;
    state.display.theme = settings.theme;
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

/// Switches speculation, as a key does.
pub(super) fn toggle_speculation(state: &mut ScreenState) {
    let argument = if state.controls.worker.speculate { "off" } else { "on" };
    // It takes both.
    let _ = run(state, "speculate", "speculate", argument);
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
        overlap: controls.overlap,
        coupled: controls.coupled,
        theme: state.display.theme,
        mouse: state.display.mouse,
        ..Settings::default()
    }
}

/// The present value, for people.
fn value(state: &ScreenState, row: &SettingKey, dial: Option<Dial>) -> String {
    let Some(dial) = dial else { return row.value(&settings(state)) };
    let view = state.dials().view(dial, &state.controls.worker);
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
