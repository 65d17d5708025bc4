//! Divides the screen. Must never draw.

use ratatui::layout::Rect;

use crate::tui::display::Focus;
use crate::tui::draw::areas::Areas;
use crate::tui::state::ScreenState;
use crate::tui::{input, toasts};

/// Rows of the controls' panel: seven dials, one switch, two borders.
const CONTROLS: u16 = 10;
/// Rows below the dials for what the one under the cursor does.
const MEANING: u16 = 2;
/// Rows of the meters' panel with everything in it.
const METERS: u16 = 18;
/// Rows of the meters' panel while the tree is looked at: speed and τ.
const FEW_METERS: u16 = 6;
/// A column of panels is this wide.
const COLUMN: u16 = 46;
/// From this width there are two columns of panels.
const TWO_COLUMNS: u16 = 170;

/// Divides the screen. What matters least goes first when there is no room: header, strip, hints,
/// then the frame of the input; the chat keeps what is left.
pub fn areas(screen: Rect, state: &ScreenState) -> Areas {
    let mut left = screen;
    let mut areas = Areas::default();
    if screen.height >= 12 {
        areas.header = take_top(&mut left, 1);
    }
    if screen.height >= 6 {
        areas.hints = take_bottom(&mut left, 1);
    }
    areas.body = left;
    areas.column = left;
    if state.display.beside() {
        beside(&mut left, &mut areas, state);
        areas.column = left;
        write(&mut left, &mut areas, state);
    } else {
        if screen.height >= 14 {
            areas.strip = take_bottom(&mut left, 2);
        }
        write(&mut left, &mut areas, state);
        below(&mut left, &mut areas, state.panel_below());
    }
    if screen.height >= 30 {
        take_top(&mut left, 1);
    }
    areas.chat = left;
    areas
}

/// The message, and above it the notice.
fn write(left: &mut Rect, areas: &mut Areas, state: &ScreenState) {
    let rows = input::view::height(*left, state);
    areas.input = take_bottom(left, rows);
    areas.notice = take_bottom(left, toasts::rows(areas.input, state));
}

/// Panels are at the right.
fn beside(left: &mut Rect, areas: &mut Areas, state: &ScreenState) {
    let controls = CONTROLS + if state.display.focus == Focus::Controls { MEANING } else { 0 };
    let two_columns = left.width >= TWO_COLUMNS;
    let mut right = take_right(left, if two_columns { COLUMN } else { COLUMN + 2 });
    areas.controls = Some(take_bottom(&mut right, controls));
    if two_columns {
        // What the meters do not need explains the controls.
        let explains = right.height > METERS + 4;
        let meters = if explains { METERS } else { right.height };
        areas.meters = Some(take_top(&mut right, meters));
        areas.reasons = explains.then_some(right);
        areas.tree = Some(take_right(left, COLUMN + 8));
    } else {
        // The tree keeps at least eight rows, the meters at least four.
        let watched = state.display.side == Some(Focus::Tree);
        let watched = watched || state.controls.first_answer.plays();
        let wanted = if watched { FEW_METERS } else { METERS };
        let meters = wanted.min(right.height.saturating_sub(8)).max(4).min(right.height);
        areas.meters = Some(take_bottom(&mut right, meters));
        areas.tree = Some(right);
    }
}

/// One panel is below the chat, which keeps a third; none where only its frame would fit.
fn below(left: &mut Rect, areas: &mut Areas, side: Option<Focus>) {
    let Some(side) = side else { return };
    let room = left.height - left.height / 3;
    if room < 3 {
        return;
    }
    let (panel, most) = match side {
        Focus::Tree => (&mut areas.tree, room),
        Focus::Meters => (&mut areas.meters, METERS),
        Focus::Controls => (&mut areas.controls, CONTROLS + MEANING),
        Focus::Input | Focus::Chat => return,
    };
    *panel = Some(take_bottom(left, room.min(most)));
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
