//! The model as a frame, one file a panel. A view reads the model; all it writes back is the
//! screen's size and how many rows there were and fitted, which scrolling needs. Must never know
//! where data comes from.

mod chat;
mod controls;
mod figures;
mod header;
mod help;
mod hints;
mod input;
mod layout;
mod meters;
mod notice;
mod overlay;
mod strip;
mod tree;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Padding};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use self::layout::Areas;
use super::state::{Focus, Model, Overlay};
use super::theme::{self, Theme};

/// Draws the whole screen. Any size will do, none included.
pub fn draw(frame: &mut Frame<'_>, model: &mut Model) {
    let area = frame.area();
    // The terminal knows its size before the message that tells of it.
    model.size = (area.width, area.height);
    let theme = theme::styles(if model.colours { model.theme } else { theme::ThemeName::Mono });
    let areas = layout::areas(area, model);
    header::draw(frame, areas.header, model, &theme);
    chat::draw(frame, areas.chat, model, &theme);
    if let Some(area) = areas.tree {
        tree::draw(frame, area, model, &theme);
    }
    if let Some(area) = areas.meters {
        meters::draw(frame, area, model, &theme);
    }
    if let Some(area) = areas.reasons {
        overlay::reasons(frame, area, model, &theme);
    }
    if let Some(area) = areas.controls {
        controls::draw(frame, area, model, &theme);
    }
    strip::draw(frame, areas.strip, model, &theme);
    input::draw(frame, areas.input, model, &theme);
    notice::draw(frame, &areas, model, &theme);
    hints::draw(frame, areas.hints, model, &theme);
    input::draw_suggestions(frame, &areas, model, &theme);
    match &model.overlay {
        Some(Overlay::Help { .. }) => help::draw(frame, &areas, model, &theme),
        Some(_) => overlay::draw(frame, &areas, model, &theme),
        None => {}
    }
    if !model.colours {
        theme::strip_colours(frame.buffer_mut());
    }
}

/// The frame of a panel.
fn panel<'a>(title: impl Into<Line<'a>>, focused: bool, theme: &Theme) -> Block<'a> {
    let (border, heading) = if focused {
        (theme.accent, theme.accent.add_modifier(Modifier::BOLD))
    } else {
        (theme.faint, theme.dim)
    };
    Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(border)
        .padding(Padding::horizontal(1))
        .title(title)
        .title_style(heading)
}

fn focused(model: &Model, focus: Focus) -> bool {
    model.focus == focus && model.overlay.is_none()
}

/// A cleared box in the middle of `area`, no larger than it.
fn centred(frame: &mut Frame<'_>, areas: &Areas, area: Rect, width: u16, height: u16) -> Rect {
    let width = width.min(area.width);
    let height = height.min(area.height);
    let rect = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    // An empty column at each side separates text from the frame.
    let cleared = Rect { x: rect.x.saturating_sub(1), width: rect.width + 2, ..rect };
    areas.clear(frame, cleared.intersection(area));
    rect
}

/// Draws `lines` from the top of `area`, as many as fit.
fn lines<'a>(frame: &mut Frame<'_>, area: Rect, lines: impl IntoIterator<Item = Line<'a>>) {
    for (line, row) in lines.into_iter().zip(area.rows()) {
        frame.render_widget(line, row);
    }
}

/// A line with one part at each end; the left one is cut where they would meet.
fn ends<'a>(left: Line<'a>, right: Line<'a>, width: u16) -> Line<'a> {
    let width = usize::from(width);
    let wanted = right.width();
    if wanted > width {
        return cut(left, width);
    }
    let room = width - wanted;
    // A space between the two, unless there is but one.
    let room = if wanted > 0 && left.width() > 0 { room.saturating_sub(1) } else { room };
    let mut line = cut(left, room);
    let gap = width.saturating_sub(line.width() + wanted);
    line.push_span(Span::raw(" ".repeat(gap)));
    line.spans.extend(inlined(right).spans);
    line
}

/// The line with its own style put into its spans, so that they can join another line.
fn inlined(line: Line<'_>) -> Line<'_> {
    let style = line.style;
    let spans = line.spans.into_iter().map(|span| Span { style: style.patch(span.style), ..span });
    Line::from_iter(spans)
}

/// The line's first `width` columns, the last of them an ellipsis if something is lost.
fn cut(line: Line<'_>, width: usize) -> Line<'_> {
    let line = inlined(line);
    if line.width() <= width {
        return line;
    }
    let mut kept = Line::default();
    let mut left = width.saturating_sub(1);
    for span in line.spans {
        let mut text = String::new();
        for grapheme in span.content.graphemes(true) {
            if grapheme.width() > left {
                if width > 0 {
                    text.push('…');
                }
                kept.push_span(Span::styled(text, span.style));
                return kept;
            }
            left -= grapheme.width();
            text.push_str(grapheme);
        }
        kept.push_span(Span::styled(text, span.style));
    }
    kept
}

#[cfg(test)]
mod escapes;
#[cfg(test)]
mod tests;
