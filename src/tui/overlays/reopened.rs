//! The question whether the model of a conversation that was opened is to be loaded. Must never
//! load it.

use ratatui::Frame;

use crate::tui::draw::areas::Areas;
use crate::tui::draw::frames::WIDTH;
use crate::tui::draw::frames::{Edges, boxed};
use crate::tui::draw::rows::{draw_rows, foot, wrapped};
use crate::tui::state::ScreenState;
use crate::tui::theme::Styles;

pub(crate) fn draw(frame: &mut Frame<'_>, areas: &Areas, state: &ScreenState, styles: &Styles) {
    let (Some(by), Some(ready)) = (&state.chat.answered_by, &state.models.ready) else { return };
    let area = areas.column;
    let width = WIDTH.min(area.width.saturating_sub(2));
    let words = format!("This chat used {}. {} is loaded now.", by.target, ready.target);
    let rows = wrapped(&words, width.saturating_sub(4).max(1), styles.text);
    let height = u16::try_from(rows.len() + 2).unwrap_or(u16::MAX);
    let take = state.display.keys.take();
    let close = state.display.keys.close();
    let parts =
        [format!("{take} loads {}", by.target), format!("{close} stays with {}", ready.target)];
    let edges = Edges { title: " another model ".into(), foot: foot(&parts, width) };
    let inner = boxed(frame, areas, area, width, height, edges, styles);
    draw_rows(frame, inner, rows);
}
