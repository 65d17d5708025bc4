//! Tests that no cell of the screen has a control character, whatever models and files contain.

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::draw;
use crate::chat::SessionHead;
use crate::tui::state::{Model, Overlay, SessionList};
use crate::tui::testing::{answer, loaded, ready, say, type_keys};
use crate::worker::Event;

const HOSTILE: &str = "ab\u{1b}]52;c;QQ==\u{7}\u{9b}2J\u{7f}\rc";
const SHOWN: &str = "ab␛]52;c;QQ==␇\\u{9b}2J␡␍c";

/// The screen as text, after a look at every cell.
fn drawn(model: &mut Model) -> String {
    let (width, height) = model.size;
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, model)).unwrap();
    let cells = &terminal.backend().buffer().content;
    for cell in cells {
        assert!(!cell.symbol().contains(char::is_control), "{:?}", cell.symbol());
    }
    cells.iter().map(|cell| cell.symbol()).collect()
}

#[test]
fn names_and_notices_are_shown() {
    let mut model = loaded(200, 50);
    let mut hostile = ready();
    hostile.target = HOSTILE.to_owned();
    hostile.draft = Some(HOSTILE.to_owned());
    hostile.reasons = vec![HOSTILE.to_owned()];
    say(&mut model, Event::Ready(Box::new(hostile)));
    assert!(drawn(&mut model).contains(SHOWN), "reasons");
    say(&mut model, Event::Notice(HOSTILE.to_owned()));
    assert!(drawn(&mut model).contains(SHOWN));
    model.overlay = Some(Overlay::Details);
    assert!(drawn(&mut model).matches(SHOWN).count() > 1);
    say(&mut model, Event::Failed { generation: None, error: HOSTILE.to_owned() });
    assert!(drawn(&mut model).contains(SHOWN));
    let head =
        SessionHead { id: "a".to_owned(), title: HOSTILE.to_owned(), updated: 0, messages: 2 };
    let sessions = SessionList::new(vec![head]);
    model.overlay = Some(Overlay::Sessions(sessions));
    assert!(drawn(&mut model).contains(SHOWN));
}

#[test]
fn the_conversation_is_shown() {
    let mut model = loaded(200, 50);
    type_keys(&mut model, "hello<enter>");
    let generation = model.controls.generation;
    for event in answer(generation, HOSTILE, 6) {
        say(&mut model, event);
    }
    let screen = drawn(&mut model);
    assert!(screen.contains("ab␛]52;c;QQ==␇"), "{screen}");
}
