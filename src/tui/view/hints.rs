//! The bottom row: the keys most useful now. Must never name a key itself.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::tui::keymap;
use crate::tui::state::ScreenState;
use crate::tui::theme::Styles;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, state: &ScreenState, styles: &Styles) {
    let width = usize::from(area.width);
    let mut line = Line::default();
    for (key, word) in keymap::hints(state) {
        let hint = [
            Span::styled(format!(" {key}"), styles.accent),
            Span::styled(format!(" {word} "), styles.dim),
        ];
        if line.width() + hint.iter().map(Span::width).sum::<usize>() > width {
            break;
        }
        line.spans.extend(hint);
    }
    frame.render_widget(line, area);
}
