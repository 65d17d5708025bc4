//! What a key does now, and which keys are worth a hint. Reads the state to know where keys go;
//! must never change it.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{A, Binding, KeyPress, S, Scope};
use crate::plan::TreeOverrides;
use crate::settings::Layout;
use crate::tui::actions::Action;
use crate::tui::display::Focus;
use crate::tui::input::Suggestion;
use crate::tui::overlays::Overlay;
use crate::tui::state::ScreenState;

/// The scopes in which keys are looked up, nearest first.
fn scopes(state: &ScreenState) -> &'static [Scope] {
    match (&state.overlays.open, state.display.focus) {
        (Some(Overlay::Sessions(_)), _) => &[S::Sessions, S::Overlay],
        (Some(_), _) => &[S::Overlay],
        (None, Focus::Input) if state.offers_starters() => &[S::Starters, S::Input, S::Global],
        (None, Focus::Input) if !state.input.offered().is_empty() => {
            &[S::Completion, S::Input, S::Global]
        }
        (None, Focus::Input) => &[S::Input, S::Global],
        (None, Focus::Chat) => &[S::Chat, S::Panel, S::Global],
        (None, Focus::Tree) => &[S::Tree, S::Panel, S::Global],
        (None, Focus::Controls) => &[S::Controls, S::Panel, S::Global],
        (None, Focus::Meters) => &[S::Panel, S::Global],
    }
}

/// What a key does now; `None` leaves it to the text area.
pub fn lookup(state: &ScreenState, event: &KeyEvent) -> Option<Action> {
    if writes(state, event) {
        return None;
    }
    scopes(state).iter().find_map(|scope| {
        let mut rows = state.display.keys.rows().filter(|(row, _)| row.scope == *scope);
        let found = rows.find(|(_, keys)| keys.iter().any(|key| key.matches(event)));
        found.map(|(row, _)| row.action)
    })
}

/// Whether the key writes although an overlay is open, even if it has an action in other overlays:
/// in the filter of a list, or in the message that a box has interrupted.
pub fn writes(state: &ScreenState, event: &KeyEvent) -> bool {
    let plain = !event.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
    plain
        && match (&state.overlays.open, event.code) {
            (
                Some(Overlay::Sessions(_) | Overlay::Models(_) | Overlay::Questions { .. }),
                KeyCode::Char(_) | KeyCode::Backspace,
            ) => true,
            // A page that it has opened is read, not searched.
            (Some(Overlay::Help(help)), KeyCode::Char(_) | KeyCode::Backspace) => {
                help.open.is_none()
            }
            (Some(Overlay::Error { .. } | Overlay::Reopened), KeyCode::Char(c)) => !c.is_control(),
            _ => false,
        }
}

/// Keys and words for the hints line, most useful first. A key that would do nothing now is left
/// out.
pub fn hints(state: &ScreenState) -> Vec<(String, &'static str)> {
    let scopes = scopes(state);
    let hinted =
        |row: &Binding| row.hint.0 > 0 && scopes.contains(&row.scope) && useful(state, row);
    let rows = state.display.keys.rows().filter(|(row, _)| hinted(row));
    let mut rows: Vec<(&Binding, &[KeyPress])> = rows.collect();
    rows.sort_by_key(|(row, _)| row.hint.0);
    let on_page = matches!(&state.overlays.open, Some(Overlay::Help(help)) if help.open.is_some());
    let mut hints: Vec<(String, &'static str)> = Vec::new();
    for (row, keys) in rows {
        let word = match row.action {
            A::Pause if state.controls.worker.paused => "resume",
            A::OverlayClose if state.racing() => "stop",
            A::OverlayClose if on_page => "back",
            A::Send => send_word(state),
            _ => row.hint.1,
        };
        let name = match pair(row.action) {
            // Pairs of keys are hinted at together.
            Some(pair) => state.display.keys.both(row.scope, pair),
            None => keys.first().map(|key| key.name()).unwrap_or_default(),
        };
        // A nearer scope has this key, or its hint is there already.
        if hints.iter().any(|hint| hint.1 == word || hint.0 == name) {
            continue;
        }
        hints.push((name, word));
    }
    hints
}

/// What sending does now.
fn send_word(state: &ScreenState) -> &'static str {
    if state.input.is_empty() {
        return if state.chat.is_unanswered() { "answer" } else { "continue" };
    }
    match state.input.suggestion() {
        Some(Suggestion::Path(_)) => "complete",
        // It is written out first if something has to follow it.
        Some(Suggestion::Command(command)) => {
            let whole = command.is_written_out(&state.input.text());
            if whole || command.argument.is_empty() { "run" } else { "complete" }
        }
        None if state.input.text().starts_with('/') => "run",
        None => "send",
    }
}

/// The two actions, back and on, that a key's hint names together.
fn pair(action: Action) -> Option<[Action; 2]> {
    Some(match action {
        A::Look(_) => [-1, 1].map(A::Look),
        A::PanelRow(_) => [-1, 1].map(A::PanelRow),
        A::OverlayRow(_) => [-1, 1].map(A::OverlayRow),
        A::Suggestion(_) => [-1, 1].map(A::Suggestion),
        A::StarterMove(_) => [-1, 1].map(A::StarterMove),
        A::Scroll(_) => [-1, 1].map(A::Scroll),
        A::Version(_) => [-1, 1].map(A::Version),
        A::Adjust(dial, _) => [-1, 1].map(|by| A::Adjust(dial, by)),
        _ => return None,
    })
}

fn useful(state: &ScreenState, row: &Binding) -> bool {
    let panels = state.display.focus != Focus::Input;
    // A replay refuses it.
    if state.models.replay && (row.action == A::Send || row.action.wants_model()) {
        return false;
    }
    match row.action {
        A::Send => {
            let goes_on = state.chat.can_go_on() || state.chat.is_unanswered();
            !state.answering() && (!state.input.is_empty() || goes_on)
        }
        A::Version(_) => {
            let last = state.chat.turns().last();
            !state.answering() && last.is_some_and(|turn| turn.versions.place().1 > 1)
        }
        A::Newline => !state.input.is_empty(),
        // Else it ends something nearer than the program.
        A::Interrupt => !state.answering() && state.models.load.is_none() && state.input.is_blank(),
        // In a panel it only leads back, which the message says.
        A::Escape => !panels && (state.answering() || state.models.load.is_some()),
        A::Step => state.controls.worker.paused && (row.scope == S::Panel) == panels,
        A::Pause => state.answering() && (row.scope == S::Panel) == panels,
        A::Auto => state.controls.worker.tree != TreeOverrides::default(),
        A::Race | A::Regenerate => !state.answering() && state.chat.can_regenerate(),
        A::Meters | A::Controls => state.display.layout() == Layout::Lab,
        A::Copy => state.chat.last_answer().is_some(),
        A::Follow => !state.chat.follows(),
        A::Strategies => !state.statuses().is_empty(),
        A::Models(_) => state.models.ready.is_some(),
        A::LookLive => !state.tree.live(),
        A::Look(_) => state.tree.len() > 1,
        A::FocusInput => panels,
        A::OverlayRow(_) => {
            !matches!(state.overlays.open, Some(Overlay::Error { .. } | Overlay::Race))
        }
        _ => true,
    }
}
