//! Screens of any size, and the cursor on them.

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::super::draw;
use super::answering;
use crate::tui::tests::{drawn, loaded, text, type_keys};

#[test]
fn any_size_is_drawn() {
    for (width, height) in [(0, 0), (1, 1), (2, 30), (300, 1), (30, 5), (40, 10), (119, 11)] {
        let mut state = answering(width, height, 64);
        type_keys(&mut state, "<f2>");
        drawn(&mut state);
        type_keys(&mut state, "<f1>");
        drawn(&mut state);
    }
}

#[test]
fn the_cursor_is_where_the_next_character_goes() {
    let mut state = loaded(80, 24);
    type_keys(&mut state, "ab漢");
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    terminal.draw(|frame| draw(frame, &mut state)).unwrap();
    let position = terminal.get_cursor_position().unwrap();
    let row = usize::from(position.y);
    let line = text(terminal.backend().buffer()).lines().nth(row).unwrap().to_string();
    assert!(line.contains("ab漢"), "{line}");
    assert_eq!(position.x, 2 + 4);
}
