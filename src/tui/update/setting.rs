//! Commands that set a value: alone they show it and what they take. They go through the table of
//! the settings, so that a range is the same in the file, in a flag and here. Must never do IO.

use crate::settings::{Problem, SettingKey, SettingValue, Settings};
use crate::tui::actions::Dial;
use crate::tui::commands::SlashCommand;
use crate::tui::state::ScreenState;

/// Shows the value of `key`, or sets it.
///
/// # Errors
/// It does not take this value, or the models at hand leave no choice.
pub(super) fn run(
    state: &mut ScreenState,
    command: &SlashCommand,
    key: &str,
    argument: &str,
) -> Result<(), String> {
    let dial = Dial::ALL.into_iter().find(|dial| dial.row().key == key);
    let name = capitalised(dial.map_or(command.name, |dial| dial.row().name));
    if argument.is_empty() {
        if dial == Some(Dial::Blocks) {
            state.dials().adjust(Dial::Blocks, 0, &mut state.controls.worker.clone())?;
        }
        let takes = SettingKey::named(key).map(SettingKey::values).unwrap_or_default();
        state.say(format!("{name}: {} · /{} takes {takes}", value(state, key, dial), command.name));
        return Ok(());
    }
    let mut settings = settings(state);
    settings.set(key, &SettingValue::text(argument)).map_err(|problem| match problem {
        Problem::Value { expects, .. } => {
            format!("/{} takes {expects}, not {argument}", command.name)
        }
        other => other.to_string(),
    })?;
    let mut controls = state.controls.worker.clone();
    controls.sampler = settings.sampler;
    controls.pace = settings.pace;
    controls.tree = settings.controls;
    // A head without a choice is reported, instead of ignoring the command.
    if dial == Some(Dial::Blocks) && argument != "auto" {
        state.dials().adjust(Dial::Blocks, 0, &mut controls)?;
    }
    state.controls.worker = controls;
    state.controls.max_tokens = settings.max_tokens;
    state.display.theme = settings.theme;
    let set = value(state, key, dial);
    let asked = settings.controls.blocks;
    state.say(match dial {
        Some(Dial::Blocks) if state.controls.worker.tree.blocks != asked => {
            format!("{name}: {}, as many as this head has", state.controls.worker.tree.blocks)
        }
        _ => format!("{name}: {set}"),
    });
    state.apply();
    Ok(())
}

/// What commands can set.
fn settings(state: &ScreenState) -> Settings {
    Settings {
        sampler: state.controls.worker.sampler,
        max_tokens: state.controls.max_tokens,
        pace: state.controls.worker.pace,
        controls: state.controls.worker.tree,
        theme: state.display.theme,
        ..Settings::default()
    }
}

/// The present value, for people.
fn value(state: &ScreenState, key: &str, dial: Option<Dial>) -> String {
    let Some(dial) = dial else {
        let row = SettingKey::named(key);
        return row.map(|row| row.value(&settings(state))).unwrap_or_default();
    };
    let view = state.dials().view(dial, &state.controls.worker);
    match (view.value.as_str(), view.state) {
        ("–", "auto") => "automatic".to_string(),
        (value, "auto") => format!("{value}, automatic"),
        (value, "") => value.to_string(),
        (value, "ms") => format!("{value} ms"),
        (value, how) => format!("{value}, {how}"),
    }
}

fn capitalised(words: &str) -> String {
    let mut chars = words.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
