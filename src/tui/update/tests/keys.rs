//! Keys: which one does what, and where.

use super::*;
use crate::chat::SessionStore;
use crate::settings::Layout;
use crate::tui::keymap::{BINDINGS, EDITING, KeyPress, Scope, hints, lookup};
use crate::tui::overlays::SessionList;

const PANELS: [Focus; 4] = [Focus::Chat, Focus::Tree, Focus::Meters, Focus::Controls];

fn press(state: &mut ScreenState, key: KeyPress) {
    tell(state, ScreenEvent::Key(key.event()));
}

#[test]
fn characters_that_come_together_do_what_they_do_one_by_one() {
    // In the message, in a panel, where `g` and `?` are keys, and in the help that opens there.
    for before in ["", "<tab>"] {
        let mut one = loaded(120, 36);
        let mut all = loaded(120, 36);
        type_keys(&mut one, before);
        type_keys(&mut all, before);
        type_keys(&mut one, "Ag G?qé日 /x");
        tell(&mut all, burst("Ag G?qé日 /x"));
        let seen = |state: &ScreenState| {
            let lines = state.input.area().lines().to_vec();
            let open = format!("{:?}", state.overlays.open);
            (lines, state.controls.worker.tree, state.display.focus, open)
        };
        assert_eq!(seen(&all), seen(&one), "{before:?}");
    }
}

#[test]
fn history_begins_above_the_first_row_of_the_screen() {
    let mut state = loaded(40, 24);
    let long = "a message that is long enough to be wrapped into two rows";
    type_keys(&mut state, &format!("one<enter>{long}"));
    drawn(&mut state);
    for (key, text) in [("<up>", long), ("<up>", "one"), ("<down>", long)] {
        type_keys(&mut state, key);
        assert_eq!(state.input.text(), text);
    }
}

#[test]
fn panels_open_and_close_by_the_same_key() {
    for (width, height) in [(80, 24), (120, 40)] {
        let mut state = loaded(width, height);
        for (key, panel) in [("<f3>", Focus::Meters), ("<f4>", Focus::Controls)] {
            for shown in [true, false] {
                type_keys(&mut state, key);
                assert_eq!((state.shows(panel), state.display.focus), (shown, Focus::Input));
            }
        }
    }
}

#[test]
fn a_key_goes_through_the_layouts_and_the_choice_is_kept() {
    for (width, first) in [(200, Layout::Tree), (110, Layout::Tree), (109, Layout::Chat)] {
        let mut state = loaded(width, 40);
        assert_eq!(state.display.layout(), first);
        let mut layout = first;
        for _ in 0..3 {
            layout = layout.next();
            let effects = type_keys(&mut state, "<f2>");
            assert_eq!(state.display.layout(), layout);
            assert!(
                effects
                    .contains(&Effect::Remember(SessionStore::LAYOUT, layout.name().to_string()))
            );
            let panels = [Focus::Tree, Focus::Meters, Focus::Controls].map(|it| state.shows(it));
            let lab = layout == Layout::Lab;
            assert_eq!(panels, [layout != Layout::Chat, lab && width >= 110, lab], "{width}");
        }
        // What was chosen stays at any width.
        tell(&mut state, ScreenEvent::Resize(250 - width, 40));
        assert_eq!(state.display.layout(), first);
        type_keys(&mut state, "/layout auto<enter>");
        assert_eq!(state.display.layout, None);
    }
}

/// Whatever the keys are: those that show a panel leave the keyboard with the message, or a
/// sentence would turn dials.
#[test]
fn no_key_that_shows_a_panel_takes_the_keyboard() {
    let moves = |action| matches!(action, Action::FocusNext | Action::FocusBack);
    let changed = |state: &ScreenState| {
        let display = &state.display;
        display.side.is_some() || display.meters || display.layout.is_some()
    };
    let mut shown = 0;
    for (width, height) in [(80, 24), (120, 40), (200, 50)] {
        for row in BINDINGS.iter().filter(|row| matches!(row.scope, Scope::Input | Scope::Global)) {
            let mut state = loaded(width, height);
            for key in row.keys.iter().filter(|_| !moves(row.action)) {
                press(&mut state, *key);
                let shows = changed(&state);
                shown += usize::from(shows);
                assert!(!shows || state.display.focus == Focus::Input, "{:?}", row.action);
            }
            if changed(&state) {
                let before = state.controls.worker.clone();
                type_keys(&mut state, "tell me more about water please");
                assert_eq!(state.input.text(), "tell me more about water please");
                let now = &state.controls.worker;
                assert_eq!((now.tree, now.speculate), (before.tree, before.speculate));
                // From another panel as well.
                type_keys(&mut state, "<tab><tab>");
                assert_ne!(state.display.focus, Focus::Input);
                for key in row.keys {
                    press(&mut state, *key);
                    assert_eq!(state.display.focus, Focus::Input, "{:?}", row.action);
                }
            }
        }
    }
    assert_eq!(shown, 9, "three keys on three screens");
}

#[test]
fn tab_moves_the_keyboard_to_the_panel_that_is_shown() {
    for (width, height) in [(80, 24), (120, 40)] {
        let mut state = loaded(width, height);
        type_keys(&mut state, "<f4>");
        assert!(said(&state).contains("Tab") && said(&state).contains("controls"));
        // The panel that was opened first, then every other that is on the screen.
        let tree = state.shows(Focus::Tree).then_some(("<tab>", Focus::Tree));
        assert_eq!(tree.is_some(), width == 120);
        let rest = [("<tab>", Focus::Chat), ("<tab>", Focus::Input), ("<backtab>", Focus::Chat)];
        for (key, focus) in [("<tab>", Focus::Controls)].into_iter().chain(tree).chain(rest) {
            type_keys(&mut state, key);
            assert_eq!(state.display.focus, focus);
            assert_eq!(shown(&state), None, "it would cover where the keys go");
        }
    }
}

#[test]
fn esc_leaves_a_panel_and_stops_an_answer_only_from_the_message() {
    let stops = |state: &ScreenState| hints(state).contains(&("Esc".to_string(), "stop"));
    for focus in PANELS {
        let mut state = typed("one<enter>");
        state.display.focus = focus;
        assert!(!stops(&state));
        type_keys(&mut state, "<esc>");
        assert_eq!((state.display.focus, state.answering()), (Focus::Input, true), "{focus:?}");
        assert!(stops(&state));
        type_keys(&mut state, "<esc>");
        assert!(!state.answering());
    }
}

#[test]
fn a_slash_in_a_panel_begins_a_command() {
    for focus in PANELS {
        let mut state = loaded(80, 24);
        let seen = |state: &ScreenState| {
            (state.controls.worker.clone(), state.tree.fold, state.display.marks)
        };
        let before = seen(&state);
        state.display.focus = focus;
        type_keys(&mut state, "/del");
        let text = state.input.text();
        assert_eq!((text.as_str(), state.display.focus), ("/del", Focus::Input), "{focus:?}");
        assert_eq!(suggested(&state), "delete");
        assert_eq!(seen(&state), before);
        // A burst of keys as well; what was written before is not lost.
        state.input.set("half a thought");
        state.display.focus = focus;
        tell(&mut state, burst("/temperature 0.7"));
        type_keys(&mut state, "<enter>");
        assert_eq!(state.controls.worker.sampler.temperature, 0.7);
        type_keys(&mut state, "<up><up>");
        assert_eq!(state.input.text(), "half a thought");
    }
}

#[test]
fn every_key_of_the_text_field_does_something() {
    for row in EDITING {
        for (at, key) in row.keys.iter().enumerate() {
            let mut state = typed("earlier<enter><esc>");
            state.input.set("one two three");
            type_keys(&mut state, "<left><left><left><left>x");
            // From the message before, there is one after.
            if at == 1 {
                press(&mut state, row.keys[0]);
            }
            assert_eq!(lookup(&state, &key.event()), None, "{} is in the table", key.name());
            let seen = |state: &ScreenState| (state.input.text(), state.input.area().cursor());
            let before = seen(&state);
            press(&mut state, *key);
            assert_ne!(seen(&state), before, "{} does nothing", key.name());
        }
    }
}

#[test]
fn every_key_of_the_table_is_reached_somewhere() {
    // A row that another row hides would make the help untrue.
    let mut states: Vec<ScreenState> = (0..8).map(|_| loaded(80, 24)).collect();
    for (state, focus) in states.iter_mut().zip(PANELS) {
        state.display.focus = focus;
    }
    states[4].input.set("/");
    states[5].overlays.open = Some(Overlay::Details { top: 0 });
    states[6].overlays.open = Some(Overlay::Sessions(SessionList::new(Vec::new())));
    for row in BINDINGS {
        let reaches = |state: &ScreenState| {
            row.keys.iter().all(|key| lookup(state, &key.event()) == Some(row.action))
        };
        assert!(states.iter().any(reaches), "{:?} {:?} is hidden", row.scope, row.action);
    }
}

#[test]
fn what_is_typed_over_an_error_box_goes_into_the_message() {
    for (keys, wanted) in [("quick brown j", "halfquick brown j"), (" k", "half k")] {
        let mut state = typed("half");
        state.display.focus = Focus::Tree;
        state.fail("No answer", "why");
        type_keys(&mut state, keys);
        assert_eq!((state.input.text().as_str(), &state.overlays.open), (wanted, &None));
        // The same for characters that come together, and for a paste.
        for event in [burst("qj"), ScreenEvent::Paste("pasted".into())] {
            state.fail("No answer", "why");
            tell(&mut state, event);
        }
        assert_eq!(state.input.text(), format!("{wanted}qjpasted"));
        // Keys that write nothing keep their meaning.
        state.fail("No answer", "why");
        type_keys(&mut state, "<c-u><esc>");
        assert!(state.overlays.open.is_none() && !state.input.is_empty());
    }
}

#[test]
fn the_message_goes_to_the_editor_and_comes_back() {
    let mut state = loaded(80, 24);
    let long = "a line\n".repeat(40);
    type_keys(&mut state, "Sum up: ");
    tell(&mut state, ScreenEvent::Paste(long.clone()));
    let whole = format!("Sum up: {long}");
    assert_eq!(type_keys(&mut state, "<a-w>"), [Effect::Edit(whole.clone())]);
    tell(&mut state, ScreenEvent::Edited(Ok(whole.clone())));
    assert!(state.input.area().lines()[0].contains("⟦40 lines⟧"), "only looked at");
    tell(&mut state, ScreenEvent::Edited(Err("vi ended with exit status: 1".to_string())));
    assert_eq!(state.input.text(), whole, "nothing is lost");
    assert_said(&state, Tone::Wrong, "exit status");
    tell(&mut state, ScreenEvent::Edited(Ok("Other\nwords".to_string())));
    assert_eq!(state.input.text(), "Other\nwords");
}
