//! Tests that no cell of the screen has a control character, even if models and files contain some.

use crate::chat::SessionHead;
use crate::tui::actions::ModelPart;
use crate::tui::event::ScreenEvent;
use crate::tui::models::{ModelLoad, ModelPicker, ModelRow};
use crate::tui::overlays::{Overlay, SessionList, sessions};
use crate::tui::state::ScreenState;
use crate::tui::tests::{answer, loaded, ready, rows, say, say_all, type_keys};
use crate::tui::update::update;
use crate::worker::{Event, Ready};

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
    let hostile = || HOSTILE.to_owned();
    say(
        &mut state,
        Event::Ready(Box::new(Ready {
            target: hostile(),
            draft: Some(hostile()),
            reasons: vec![hostile()],
            ..ready()
        })),
    );
    assert!(drawn(&mut state).contains(SHOWN), "reasons");
    say(&mut state, Event::Notice(hostile()));
    assert!(drawn(&mut state).contains(SHOWN));
    state.overlays.open = Some(Overlay::Details { top: 0 });
    assert!(drawn(&mut state).matches(SHOWN).count() > 1);
    say(&mut state, Event::Failed { generation: None, error: hostile() });
    assert!(drawn(&mut state).contains(SHOWN));
    state.models.load = Some(ModelLoad {
        load: 1,
        title: hostile(),
        download: false,
        stage: hostile(),
        fraction: None,
        alone: false,
    });
    update(&mut state, ScreenEvent::Tick, std::time::Duration::from_secs(60));
    assert!(drawn(&mut state).contains("ab␛]52;c;QQ=="));
    let mut picker = ModelPicker::new(ModelPart::Target, "");
    let quantisation = Some(hostile());
    picker.list.replace(vec![ModelRow { title: hostile(), quantisation, ..ModelRow::default() }]);
    state.overlays.open = Some(Overlay::Models(picker));
    assert!(drawn(&mut state).contains("ab␛]52;c;QQ=="));
    let head = SessionHead { title: hostile(), messages: 2, ..SessionHead::default() };
    state.overlays.open =
        Some(Overlay::Sessions(SessionList::new(sessions::rows(vec![head], false))));
    assert!(drawn(&mut state).contains(SHOWN));
}

#[test]
fn the_conversation_is_shown() {
    let mut state = loaded(200, 50);
    type_keys(&mut state, "hello<enter>");
    let generation = state.controls.worker.generation;
    say_all(&mut state, answer(generation, HOSTILE, 6));
    assert!(drawn(&mut state).contains("ab␛]52;c;QQ==␇"));
}
