//! The notice: on the upper edge of the message's frame, where it covers nothing; in rows of its
//! own above the frame if it is too long. Must never know why it is shown.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::Tone;
use crate::printable::printable_line;
use crate::tui::actions::Action;
use crate::tui::draw::areas::Areas;
use crate::tui::draw::rows::{draw_rows, hanging, wrapped};
use crate::tui::state::ScreenState;
use crate::tui::theme::Styles;

/// Most rows; longer errors have an overlay.
const TALLEST: usize = 4;
/// Columns before the text: a space, the mark, a space.
const LEAD: u16 = 3;

/// The style of each tone.
#[derive(Clone, Copy, Default)]
struct Tones {
    done: Style,
    told: Style,
    wrong: Style,
}

/// Rows above the message, next to `input`: none if the text fits on its edge.
pub(crate) fn rows(input: Rect, state: &ScreenState) -> u16 {
    let plain = Tones::default();
    let fits = on_edge(input, state, plain).is_some();
    if fits { 0 } else { above(input.width, state, plain).len() as u16 }
}

pub(crate) fn draw(frame: &mut Frame<'_>, areas: &Areas, state: &ScreenState, styles: &Styles) {
    let tones = Tones { done: styles.accent, told: styles.warning, wrong: styles.error };
    if let Some(line) = on_edge(areas.input, state, tones) {
        let width = line.width() as u16;
        let edge = Rect { x: areas.input.x + 2, width, height: 1, ..areas.input };
        frame.render_widget(line, edge.intersection(areas.input));
        return;
    }
    draw_rows(frame, areas.notice, above(areas.notice.width, state, tones));
}

/// The text on the edge, if it fits there.
fn on_edge(input: Rect, state: &ScreenState, tones: Tones) -> Option<Line<'static>> {
    let (mark, text, style) = words(state, tones)?;
    let line = Line::styled(format!(" {mark} {text} "), style);
    (input.height >= 3 && line.width() + 4 <= usize::from(input.width)).then_some(line)
}

fn above(width: u16, state: &ScreenState, tones: Tones) -> Vec<Line<'static>> {
    let Some((mark, text, style)) = words(state, tones) else { return Vec::new() };
    let room = width.saturating_sub(LEAD + 1).max(1);
    let mut rows = wrapped(&text, room, style);
    rows.truncate(TALLEST);
    hanging(rows, Span::styled(format!(" {mark} "), style))
}

fn words(state: &ScreenState, tones: Tones) -> Option<(&'static str, String, Style)> {
    let Some(toast) = state.toasts.shown() else {
        let load = state.models.load.as_ref()?;
        return Some((
            "◌",
            printable_line(&load.words(&state.display.keys.name(Action::Escape))).into_owned(),
            tones.done,
        ));
    };
    let (mark, style) = match toast.tone {
        Tone::Done => ("✓", tones.done),
        Tone::Told => ("!", tones.told),
        Tone::Wrong => ("✗", tones.wrong),
    };
    Some((mark, toast.text.replace('\n', " "), style))
}
