//! Tests that no cell of the screen has a control character, even if models and files contain some.

use crate::chat::SessionHead;
use crate::tui::actions::ModelPart;
use crate::tui::event::ScreenEvent;
use crate::tui::models::{ModelLoad, ModelPicker, ModelRow};
use crate::tui::overlays::{Overlay, SessionList};
use crate::tui::state::ScreenState;
use crate::tui::tests::{answer, loaded, ready, rows, say, say_all, type_keys};
use crate::tui::update::update;
use crate::worker::Event;

const HOSTILE: &str = "ab\u{1b}]52;c;QQ==\u{7}\u{9b}2J\u{7f}\rc";
const SHOWN: &str = "ab␛]52;c;QQ==␇\\u{9b}2J␡␍c";

/// The screen as text, after a look at every cell.
fn drawn(state: &mut ScreenState) -> String {
    let screen = rows(state).concat();
    assert!(!screen.contains(char::is_control), "{screen:?}");
    screen
}

#[test]
fn names_and_notices_are_shown() {
    let mut state = loaded(200, 50);
    let mut hostile = ready();
    hostile.target = HOSTILE.to_owned();
    hostile.draft = Some(HOSTILE.to_owned());
    hostile.reasons = vec![HOSTILE.to_owned()];
    say(&mut state, Event::Ready(Box::new(hostile)));
    assert!(drawn(&mut state).contains(SHOWN), "reasons");
    say(&mut state, Event::Notice(HOSTILE.to_owned()));
    assert!(drawn(&mut state).contains(SHOWN));
    state.overlays.open = Some(Overlay::Details { top: 0 });
    assert!(drawn(&mut state).matches(SHOWN).count() > 1);
    say(&mut state, Event::Failed { generation: None, error: HOSTILE.to_owned() });
    assert!(drawn(&mut state).contains(SHOWN));
    let head = SessionHead {
        id: "a".to_owned(),
        title: HOSTILE.to_owned(),
        updated: 0,
        messages: 2,
        ..SessionHead::default()
    };
    state.models.load = Some(ModelLoad {
        load: 1,
        title: HOSTILE.to_owned(),
        download: false,
        stage: HOSTILE.to_owned(),
        fraction: None,
        alone: false,
    });
    update(&mut state, ScreenEvent::Tick, std::time::Duration::from_secs(60));
    assert!(drawn(&mut state).contains("ab␛]52;c;QQ=="));
    let row = ModelRow {
        title: HOSTILE.to_owned(),
        quantisation: Some(HOSTILE.to_owned()),
        ..ModelRow::default()
    };
    let mut picker = ModelPicker::new(ModelPart::Target, "");
    picker.list.replace(vec![row]);
    state.overlays.open = Some(Overlay::Models(picker));
    assert!(drawn(&mut state).contains("ab␛]52;c;QQ=="));
    let sessions = SessionList::new(vec![head]);
    state.overlays.open = Some(Overlay::Sessions(sessions));
    assert!(drawn(&mut state).contains(SHOWN));
}

#[test]
fn the_conversation_is_shown() {
    let mut state = loaded(200, 50);
    type_keys(&mut state, "hello<enter>");
    let generation = state.controls.worker.generation;
    say_all(&mut state, answer(generation, HOSTILE, 6));
    let screen = drawn(&mut state);
    assert!(screen.contains("ab␛]52;c;QQ==␇"), "{screen}");
}
