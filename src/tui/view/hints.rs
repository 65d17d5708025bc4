//! The bottom row: the keys most useful now, or what was just said.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::cut;
use crate::tui::keymap;
use crate::tui::state::Model;
use crate::tui::theme::Theme;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model, theme: &Theme) {
    let width = usize::from(area.width);
    if let Some(toast) = &model.toast {
        let (glyph, style) = if toast.error { ("✗", theme.error) } else { ("✓", theme.accent) };
        let line = Line::from_iter([
            Span::styled(format!(" {glyph} "), style),
            // A long message is a row all the same; errors of more than a row have a box.
            Span::styled(toast.text.replace('\n', " "), style),
        ]);
        frame.render_widget(cut(line, width), area);
        return;
    }
    let mut line = Line::default();
    for (key, word) in keymap::hints(model) {
        let hint = [
            Span::styled(format!(" {key}"), theme.accent),
            Span::styled(format!(" {word} "), theme.dim),
        ];
        if line.width() + hint.iter().map(Span::width).sum::<usize>() > width {
            break;
        }
        line.spans.extend(hint);
    }
    frame.render_widget(line, area);
}
