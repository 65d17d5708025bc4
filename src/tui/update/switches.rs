//! Commands and keys that switch a setting on or off. Must never do IO.

use crate::tui::commands::SlashCommand;
use crate::tui::event::Effect;
use crate::tui::state::ScreenState;

/// A setting that the chat switches.
struct Switch {
    /// The key of the settings.
    key: &'static str,
    what: &'static str,
    on: &'static str,
    off: &'static str,
    field: fn(&mut ScreenState) -> &mut bool,
    apply: fn(&mut ScreenState),
}

const SWITCHES: [Switch; 4] = [
    Switch {
        key: "speculate",
        what: "Speculation",
        on: "Speculation is on",
        off: "Speculation is off; the text stays the same",
        field: |state| &mut state.controls.worker.speculate,
        apply: ScreenState::apply,
    },
    Switch {
        key: "overlap",
        what: "Drafting during verification",
        on: "The draft continues while the target verifies",
        off: "Draft and target take turns",
        field: |state| &mut state.controls.worker.overlap,
        apply: ScreenState::apply,
    },
    Switch {
        key: "coupled",
        what: "Coupled drafting",
        on: "Drafts are ranked with the target's noise",
        off: "Drafts are ranked without the target's noise",
        field: |state| &mut state.controls.worker.coupled,
        apply: ScreenState::apply,
    },
    Switch {
        key: "screen.mouse",
        what: "Mouse support",
        on: "The chat handles the mouse: wheel, clicks and selection",
        off: "The terminal handles the mouse",
        field: |state| &mut state.display.mouse,
        apply: |state| state.emit(Effect::Mouse(state.display.mouse)),
    },
];

/// Shows whether the setting `key` is on, or switches it.
///
/// # Errors
/// `argument` is neither on nor off.
pub(super) fn run(
    state: &mut ScreenState,
    command: &SlashCommand,
    key: &str,
    argument: &str,
) -> Result<(), String> {
    let name = command.name;
    let Some(switch) = named(key) else { return Ok(()) };
    match argument {
        "on" => turn(state, switch, true),
        "off" => turn(state, switch, false),
        "" => {
            let is_on = *(switch.field)(state);
            let (is, other) = if is_on { ("on", "off") } else { ("off", "on") };
            let what = switch.what;
            state.say(format!("{what} is {is} · /{name} {other} switches it {other}"));
        }
        other => return Err(format!("/{name} takes on or off, not {other}")),
    }
    Ok(())
}

/// Switches the setting `key` to what it is not.
pub(super) fn toggle(state: &mut ScreenState, key: &str) {
    let Some(switch) = named(key) else { return };
    let on = !*(switch.field)(state);
    turn(state, switch, on);
}

fn named(key: &str) -> Option<&'static Switch> {
    SWITCHES.iter().find(|switch| switch.key == key)
}

fn turn(state: &mut ScreenState, switch: &Switch, on: bool) {
    *(switch.field)(state) = on;
    state.say(if on { switch.on } else { switch.off });
    (switch.apply)(state);
}
