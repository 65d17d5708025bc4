//! Snapshots of whole screens: text and styles, separate from each other.

mod any_size;
mod chat;
mod escapes;
mod memory;
mod overlays;
mod panels;
mod scenes;

use std::fmt::Write as _;
use std::time::Duration;

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};

use crate::tui::event::ScreenEvent;
use crate::tui::state::ScreenState;
use crate::tui::tests::{answer, drawn, loaded, say_all, text, type_keys};
use crate::tui::update::update;

pub(super) const STORY: &str = "Once upon a time there was a little fox who lived by the sea. \
    Every night she lit a **lantern** and waited for the boats.\n\nShe kept three rules:\n\n\
    - never leave the lamp\n- share the *warm* bread\n- listen to the wind\n\nOne evening the \
    wind said nothing at all, and the fox began to worry about the old fisherman.";

/// Runs of one style a row: first and last column, colours, modifiers.
pub(super) fn styles(buffer: &Buffer) -> String {
    let mut out = String::new();
    let width = usize::from(buffer.area.width.max(1));
    for (y, row) in buffer.content.chunks(width).enumerate() {
        let mut runs = Vec::new();
        let mut start = 0;
        for run in row.chunk_by(|a, b| style(a) == style(b)) {
            let name = style(&run[0]);
            if !name.is_empty() {
                runs.push(format!("{start}-{} {name}", start + run.len() - 1));
            }
            start += run.len();
        }
        if !runs.is_empty() {
            let _ = writeln!(out, "{y:>2}| {}", runs.join(", "));
        }
    }
    out
}

fn style(cell: &Cell) -> String {
    let colour = |colour: Color| match colour {
        Color::Indexed(index) => index.to_string(),
        other => other.to_string(),
    };
    let mut parts = Vec::new();
    if cell.fg != Color::Reset {
        parts.push(colour(cell.fg));
    }
    if cell.bg != Color::Reset {
        parts.push(format!("on {}", colour(cell.bg)));
    }
    let marks = [
        (Modifier::BOLD, "bold"),
        (Modifier::DIM, "dim"),
        (Modifier::ITALIC, "italic"),
        (Modifier::UNDERLINED, "under"),
        (Modifier::REVERSED, "reversed"),
    ];
    parts.extend(
        marks.iter().filter(|mark| cell.modifier.contains(mark.0)).map(|mark| mark.1.to_string()),
    );
    parts.join(" ")
}

/// Only the styles, where the text is another snapshot's.
pub(super) fn check_styles(name: &str, buffer: &Buffer) {
    insta::assert_snapshot!(format!("{name}_styles"), styles(buffer));
}

pub(super) fn check(name: &str, state: &mut ScreenState) {
    let buffer = drawn(state);
    insta::assert_snapshot!(format!("{name}_text"), text(&buffer));
    insta::assert_snapshot!(format!("{name}_styles"), styles(&buffer));
}

/// A screen in the middle of its second answer.
pub(super) fn answering(width: u16, height: u16, nodes: usize) -> ScreenState {
    let mut state = loaded(width, height);
    type_keys(&mut state, "What is a fox?<enter>");
    say_all(&mut state, answer(1, "A fox is a small wild animal with a bushy tail.", nodes));
    type_keys(&mut state, "Tell me a story about a fox and a lantern, please.<enter>");
    let events = answer(2, STORY, nodes);
    let rounds = events.len();
    for (at, event) in events.into_iter().enumerate().take(rounds - 3) {
        let now = Duration::from_millis(400 + at as u64 * 45);
        update(&mut state, ScreenEvent::Worker(event), now);
    }
    state
}
