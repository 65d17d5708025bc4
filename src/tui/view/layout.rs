//! Divides the screen. Must never draw.

use ratatui::layout::Rect;

use crate::tui::display::Focus;
use crate::tui::draw::areas::Areas;
use crate::tui::state::ScreenState;
use crate::tui::theme::Styles;
use crate::tui::toasts::LaidOut;
use crate::tui::{chat, input};

/// Rows of the controls' panel: seven dials, one switch, two borders.
const CONTROLS: u16 = 10;
/// Rows below the dials for what the one under the cursor does.
const MEANING: u16 = 2;
/// Rows of the meters' panel with everything in it.
const METERS: u16 = 16;
/// Rows of the meters' panel below which it is left out: its frame and the speed.
const FEW_METERS: u16 = 4;
/// Rows of the tree above the message, and while a word of the answer is looked at.
const TREE_BELOW: u16 = 6;
const WORD_BELOW: u16 = 18;
/// Columns of the conversation: its widest rows, what is before them and the scroll bar.
const PROSE: u16 = chat::view::WIDEST + 5;
/// The panels next to the chat are so wide, in columns: what the conversation does not need.
const COLUMN: std::ops::RangeInclusive<u16> = 44..=72;

/// Divides the screen, and lays out what is said in passing. What matters least goes first when
/// there is no room: header, status, hints, then the frame of the input; the chat keeps what is
/// left.
pub fn areas(screen: Rect, state: &ScreenState, styles: &Styles) -> (Areas, LaidOut) {
    let mut left = screen;
    let mut areas = Areas::default();
    if screen.height >= 12 {
        areas.header = take_top(&mut left, 1);
    }
    if screen.height >= 6 {
        areas.hints = take_bottom(&mut left, 1);
    }
    areas.body = left;
    if state.display.beside() {
        beside(&mut left, &mut areas, state);
    }
    // Rows of the message are no longer than those of the conversation above it.
    let width = left.width.min(PROSE);
    left = Rect { x: left.x + (left.width - width) / 2, width, ..left };
    areas.column = left;
    if screen.height >= 14 {
        areas.status = take_bottom(&mut left, 1);
    }
    let rows = input::view::height(left, state);
    areas.input = take_bottom(&mut left, rows);
    let said = LaidOut::new(areas.input, state, styles);
    areas.notice = take_bottom(&mut left, said.rows());
    if !state.display.beside() {
        below(&mut left, &mut areas, state);
    }
    if screen.height >= 30 {
        take_top(&mut left, 1);
    }
    areas.chat = left;
    (areas, said)
}

/// Rows of the controls: one while they are folded.
fn controls(state: &ScreenState) -> u16 {
    let meaning = if state.display.focus == Focus::Controls { MEANING } else { 0 };
    if state.uses_controls() { CONTROLS + meaning } else { 1 }
}

/// Panels are at the right. The tree has at least half of their height, if it is there.
fn beside(left: &mut Rect, areas: &mut Areas, state: &ScreenState) {
    let [tree, meters, controlled] =
        [Focus::Tree, Focus::Meters, Focus::Controls].map(|panel| state.shows(panel));
    if !(tree || meters || controlled) {
        return;
    }
    let spare = left.width.saturating_sub(PROSE);
    let mut right = take_right(left, spare.clamp(*COLUMN.start(), *COLUMN.end()));
    let mut room = if tree { right.height / 2 } else { right.height };
    if controlled {
        let panel = take_bottom(&mut right, controls(state).min(room));
        room -= panel.height;
        areas.controls = Some(panel);
    }
    if meters && room >= FEW_METERS {
        areas.meters = Some(take_bottom(&mut right, METERS.min(room)));
    }
    areas.tree = tree.then_some(right);
}

/// Panels are above the message: one that was opened, or the tree in a few rows. The chat keeps a
/// third; a panel of which only the frame would fit is left out.
fn below(left: &mut Rect, areas: &mut Areas, state: &ScreenState) {
    let mut room = left.height - left.height / 3;
    if state.shows(Focus::Controls) && room > 0 {
        let panel = take_bottom(left, controls(state).min(room));
        room -= panel.height;
        areas.controls = Some(panel);
    }
    if room < 3 {
        return;
    }
    if state.shows(Focus::Meters) {
        areas.meters = Some(take_bottom(left, METERS.min(room)));
    } else if state.shows(Focus::Tree) {
        let rows = if state.token_looked_at().is_some() { WORD_BELOW } else { TREE_BELOW };
        areas.tree = Some(take_bottom(left, rows.min(room)));
    }
}

fn take_top(area: &mut Rect, rows: u16) -> Rect {
    let rows = rows.min(area.height);
    let taken = Rect { height: rows, ..*area };
    area.y += rows;
    area.height -= rows;
    taken
}

fn take_bottom(area: &mut Rect, rows: u16) -> Rect {
    let rows = rows.min(area.height);
    area.height -= rows;
    Rect { y: area.y + area.height, height: rows, ..*area }
}

fn take_right(area: &mut Rect, columns: u16) -> Rect {
    let columns = columns.min(area.width);
    area.width -= columns;
    Rect { x: area.x + area.width, width: columns, ..*area }
}
