//! Keys: which one does what, and where.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::tui::actions::Action;
use crate::tui::display::Focus;
use crate::tui::event::{Effect, ScreenEvent};
use crate::tui::keymap::{BINDINGS, EDITING, Scope, hints, lookup};
use crate::tui::overlays::{Overlay, SessionList};
use crate::tui::state::ScreenState;
use crate::tui::tests::{drawn, loaded, type_keys, unloaded};
use crate::tui::toasts::Tone;
use crate::tui::update::update;

#[test]
fn characters_that_come_together_do_what_they_do_one_by_one() {
    // In the message, in a panel, where `g` and `?` are keys, and in the help that opens there.
    for before in ["", "<tab>"] {
        let keys: Vec<KeyEvent> = "Ag G?qé日 /x"
            .chars()
            .map(|c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE))
            .collect();
        let mut one = loaded(120, 36);
        let mut all = loaded(120, 36);
        type_keys(&mut one, before);
        type_keys(&mut all, before);
        for key in &keys {
            update(&mut one, ScreenEvent::Key(*key), Duration::ZERO);
        }
        update(&mut all, ScreenEvent::Typed(keys), Duration::ZERO);
        let seen = |state: &ScreenState| {
            let lines = state.input.area().lines().to_vec();
            (
                lines,
                state.controls.worker.tree,
                state.display.focus,
                format!("{:?}", state.overlays.open),
            )
        };
        assert_eq!(seen(&all), seen(&one), "{before:?}");
    }
}

#[test]
fn the_screen_can_be_redrawn() {
    let mut state = loaded(80, 24);
    assert_eq!(type_keys(&mut state, "<c-l>"), [Effect::Redraw]);
}

#[test]
fn history_begins_above_the_first_row_of_the_screen() {
    let mut state = loaded(40, 24);
    type_keys(&mut state, "one<enter>");
    let long = "a message that is long enough to be wrapped into two rows";
    type_keys(&mut state, long);
    drawn(&mut state);
    type_keys(&mut state, "<up>");
    assert_eq!(state.input.text(), long);
    type_keys(&mut state, "<up>");
    assert_eq!(state.input.text(), "one");
    type_keys(&mut state, "<down>");
    assert_eq!(state.input.text(), long);
}

#[test]
fn panels_open_and_close_by_the_same_key() {
    for (width, height) in [(80, 24), (120, 40)] {
        let mut state = loaded(width, height);
        type_keys(&mut state, "<f2>");
        assert_eq!(state.display.side, Some(Focus::Tree));
        type_keys(&mut state, "<f3>");
        assert_eq!(state.display.side, Some(Focus::Meters));
        type_keys(&mut state, "<f3>");
        assert_eq!((state.display.side, state.display.focus), (None, Focus::Input));
    }
}

/// Whatever the keys are: those that show a panel leave the keyboard with the message, or a
/// sentence would turn dials.
#[test]
fn no_key_that_shows_a_panel_takes_the_keyboard() {
    let mut shown = 0;
    for (width, height) in [(80, 24), (120, 40), (200, 50)] {
        for row in BINDINGS.iter().filter(|row| matches!(row.scope, Scope::Input | Scope::Global)) {
            let mut state = loaded(width, height);
            let moves = matches!(row.action, Action::FocusNext | Action::FocusBack);
            for key in row.keys.iter().filter(|_| !moves) {
                update(&mut state, ScreenEvent::Key(key.event()), Duration::ZERO);
                let shows = state.display.side.is_some();
                shown += usize::from(shows);
                assert!(!shows || state.display.focus == Focus::Input, "{:?}", row.action);
            }
            if state.display.side.is_some() {
                let before = state.controls.worker.clone();
                type_keys(&mut state, "tell me more about water please");
                assert_eq!(state.input.text(), "tell me more about water please");
                assert_eq!(state.controls.worker.tree, before.tree, "{:?}", row.action);
                assert_eq!(state.controls.worker.speculate, before.speculate, "{:?}", row.action);
                // From another panel as well.
                type_keys(&mut state, "<tab><tab>");
                assert_ne!(state.display.focus, Focus::Input);
                for key in row.keys {
                    update(&mut state, ScreenEvent::Key(key.event()), Duration::ZERO);
                    assert_eq!(state.display.focus, Focus::Input, "{:?}", row.action);
                }
            }
        }
    }
    assert_eq!(shown, 9, "three panels on three screens");
}

#[test]
fn tab_moves_the_keyboard_to_the_panel_that_is_shown() {
    for (width, height) in [(80, 24), (120, 40)] {
        let mut state = loaded(width, height);
        type_keys(&mut state, "<f4>");
        let said = state.toasts.shown().map(|toast| toast.text.clone()).unwrap_or_default();
        assert!(said.contains("Tab") && said.contains("controls"), "{said}");
        type_keys(&mut state, "<tab>");
        assert_eq!(state.display.focus, Focus::Controls);
        assert_eq!(state.toasts.shown(), None, "it would cover where the keys go");
        type_keys(&mut state, "<tab>");
        assert_eq!(state.display.focus, Focus::Chat);
        type_keys(&mut state, "<tab>");
        assert_eq!(state.display.focus, Focus::Input);
        type_keys(&mut state, "<backtab>");
        assert_eq!(state.display.focus, Focus::Chat);
    }
}

#[test]
fn esc_leaves_a_panel_and_stops_an_answer_only_from_the_message() {
    for focus in [Focus::Chat, Focus::Tree, Focus::Meters, Focus::Controls] {
        let mut state = loaded(80, 24);
        type_keys(&mut state, "one<enter>");
        state.display.focus = focus;
        assert!(!hints(&state).contains(&("Esc".to_string(), "stop")));
        type_keys(&mut state, "<esc>");
        assert_eq!((state.display.focus, state.answering()), (Focus::Input, true), "{focus:?}");
        assert!(hints(&state).contains(&("Esc".to_string(), "stop")));
        type_keys(&mut state, "<esc>");
        assert!(!state.answering());
    }
}

#[test]
fn a_slash_in_a_panel_begins_a_command() {
    for focus in [Focus::Chat, Focus::Tree, Focus::Meters, Focus::Controls] {
        let mut state = loaded(80, 24);
        let before = (state.controls.worker.clone(), state.tree.fold, state.display.marks);
        state.display.focus = focus;
        type_keys(&mut state, "/del");
        assert_eq!(
            (state.input.text().as_str(), state.display.focus),
            ("/del", Focus::Input),
            "{focus:?}"
        );
        assert_eq!(state.input.suggestion().map(|command| command.name), Some("delete"));
        assert_eq!((state.controls.worker.clone(), state.tree.fold, state.display.marks), before);
        // A burst of keys as well; what was written before is not lost.
        state.input.set("half a thought");
        state.display.focus = focus;
        let slash = "/temperature 0.7".chars();
        let keys = slash.map(|c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE)).collect();
        update(&mut state, ScreenEvent::Typed(keys), Duration::ZERO);
        type_keys(&mut state, "<enter>");
        assert_eq!(state.controls.worker.sampler.temperature, 0.7);
        type_keys(&mut state, "<up><up>");
        assert_eq!(state.input.text(), "half a thought");
    }
}

#[test]
fn every_key_of_the_text_field_does_something() {
    for row in EDITING {
        for key in row.keys {
            let mut state = loaded(80, 24);
            type_keys(&mut state, "earlier<enter><esc>");
            state.input.set("one two three");
            for _ in 0..4 {
                state.input.step(false);
            }
            type_keys(&mut state, "x");
            // From the message before, there is one after.
            if row.keys.iter().position(|other| other == key) == Some(1) && row.keys[0] != *key {
                update(&mut state, ScreenEvent::Key(row.keys[0].event()), Duration::ZERO);
            }
            assert_eq!(lookup(&state, &key.event()), None, "{} is in the table", key.name());
            let seen = |state: &ScreenState| (state.input.text(), state.input.area().cursor());
            let before = seen(&state);
            update(&mut state, ScreenEvent::Key(key.event()), Duration::ZERO);
            assert_ne!(seen(&state), before, "{} does nothing", key.name());
        }
    }
}

#[test]
fn every_key_of_the_table_is_reached_somewhere() {
    // A row that another row hides would make the help untrue.
    let mut reached = vec![false; BINDINGS.len()];
    let mut models = Vec::new();
    for focus in [Focus::Input, Focus::Chat, Focus::Tree, Focus::Meters, Focus::Controls] {
        let mut state = loaded(80, 24);
        state.display.focus = focus;
        models.push(state);
    }
    let mut completing = loaded(80, 24);
    completing.input.set("/");
    models.push(completing);
    let mut helped = unloaded();
    helped.overlays.open = Some(Overlay::Details { top: 0 });
    models.push(helped);
    let mut listed = loaded(80, 24);
    listed.overlays.open = Some(Overlay::Sessions(SessionList::new(Vec::new())));
    models.push(listed);
    for state in &models {
        for (at, row) in BINDINGS.iter().enumerate() {
            reached[at] |=
                row.keys.iter().all(|key| lookup(state, &key.event()) == Some(row.action));
        }
    }
    for (row, reached) in BINDINGS.iter().zip(reached) {
        assert!(reached, "{:?} {:?} is hidden", row.scope, row.action);
    }
}

#[test]
fn what_is_typed_over_an_error_box_goes_into_the_message() {
    for (keys, wanted) in [("quick brown j", "halfquick brown j"), (" k", "half k")] {
        let mut state = loaded(80, 24);
        type_keys(&mut state, "half");
        state.display.focus = Focus::Tree;
        let failed = || Some(Overlay::Error { title: "No answer".into(), text: "why".into() });
        state.overlays.open = failed();
        type_keys(&mut state, keys);
        assert_eq!((state.input.text().as_str(), &state.overlays.open), (wanted, &None));
        // The same for characters that come together, and for a paste.
        state.overlays.open = failed();
        let typed = "qj".chars().map(|c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE));
        update(&mut state, ScreenEvent::Typed(typed.collect()), Duration::ZERO);
        state.overlays.open = failed();
        update(&mut state, ScreenEvent::Paste("pasted".into()), Duration::ZERO);
        assert_eq!(state.input.text(), format!("{wanted}qjpasted"));
        // Keys that write nothing keep their meaning.
        state.overlays.open = failed();
        type_keys(&mut state, "<c-u><esc>");
        assert_eq!((state.overlays.open.is_none(), state.input.is_empty()), (true, false));
    }
}

#[test]
fn the_message_goes_to_the_editor_and_comes_back() {
    let mut state = loaded(80, 24);
    let long = "a line\n".repeat(40);
    type_keys(&mut state, "Sum up: ");
    update(&mut state, ScreenEvent::Paste(long.clone()), Duration::ZERO);
    let whole = format!("Sum up: {long}");
    assert_eq!(type_keys(&mut state, "<a-w>"), [Effect::Edit(whole.clone())]);
    let edited = |state: &mut ScreenState, result| {
        update(state, ScreenEvent::Edited(result), Duration::ZERO);
    };
    edited(&mut state, Ok(whole.clone()));
    assert!(state.input.area().lines()[0].contains("⟦40 lines⟧"), "only looked at");
    edited(&mut state, Err("vi ended with exit status: 1".to_string()));
    assert_eq!(state.input.text(), whole, "nothing is lost");
    assert_eq!(state.toasts.shown().unwrap().tone, Tone::Wrong);
    edited(&mut state, Ok("Other\nwords".to_string()));
    assert_eq!(state.input.text(), "Other\nwords");
    state.input.set("");
    assert_eq!(type_keys(&mut state, "/editor<enter>"), [Effect::Edit(String::new())]);
}
