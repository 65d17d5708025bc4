//! Rows of text: cut, wrapped, with something at both ends. Must never know what they say.

use std::ops::Range;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use crate::tui::markdown::{Look, SpanRole, StyledSpan, TextRow, text_of, wrap};
use crate::tui::theme::Styles;

/// Draws `rows` from the top of `area`, as many as fit.
pub(crate) fn draw_rows<'a>(
    frame: &mut Frame<'_>,
    area: Rect,
    rows: impl IntoIterator<Item = Line<'a>>,
) {
    for (line, row) in rows.into_iter().zip(area.rows()) {
        frame.render_widget(line, row);
    }
}

/// A line with one part at each end; the left one is cut where they would meet.
pub(crate) fn ends<'a>(left: Line<'a>, right: Line<'a>, width: u16) -> Line<'a> {
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

/// A row of a list; the one under the cursor stands out over the whole width.
pub(crate) fn list_row<'a>(line: Line<'a>, lit: bool, width: u16, styles: &Styles) -> Line<'a> {
    let line = ends(line, Line::default(), width);
    if lit { line.patch_style(styles.selected) } else { line }
}

/// The line with its own style put into its spans, so that they can join another line.
fn inlined(line: Line<'_>) -> Line<'_> {
    let style = line.style;
    let spans = line.spans.into_iter().map(|span| Span { style: style.patch(span.style), ..span });
    Line::from_iter(spans)
}

/// The line with these bytes of its text in another style.
pub(crate) fn marked(line: Line<'static>, places: &[Range<usize>], style: Style) -> Line<'static> {
    let mut start = 0;
    let mut cells = Line::default();
    for span in inlined(line).spans {
        for (at, cell) in span.content.grapheme_indices(true) {
            let is_in = places.iter().any(|place| place.contains(&(start + at)));
            let style = if is_in { span.style.patch(style) } else { span.style };
            cells.push_span(Span::styled(cell.to_string(), style));
        }
        start += span.content.len();
    }
    cells
}

/// The line's first `width` columns, the last of them an ellipsis if something is lost.
pub(crate) fn cut(line: Line<'_>, width: usize) -> Line<'_> {
    let line = inlined(line);
    if line.width() <= width {
        return line;
    }
    let mut kept = Line::default();
    let mut left = width.saturating_sub(1);
    for span in line.spans {
        let mut cells = span.content.grapheme_indices(true);
        let end = cells.find_map(|(at, cell)| match left.checked_sub(cell.width()) {
            Some(rest) => {
                left = rest;
                None
            }
            None => Some(at),
        });
        let Some(end) = end else {
            kept.push_span(span);
            continue;
        };
        let ellipsis = if width > 0 { "…" } else { "" };
        kept.push_span(Span::styled(format!("{}{ellipsis}", &span.content[..end]), span.style));
        break;
    }
    kept
}

/// Words for the lower edge of a frame of `width` columns: as many of `parts` as fit, the last one
/// before all, then from the first one on.
pub(crate) fn foot(parts: &[String], width: u16) -> String {
    let mut kept = parts.to_vec();
    loop {
        let words = format!(" {} ", kept.join(" · "));
        // Its corners are not written over.
        if words.width() + 2 <= usize::from(width) || kept.len() <= 1 {
            return words;
        }
        kept.remove(kept.len() - 2);
    }
}

/// The style of a role of Markdown if running text has the style `base`.
pub(crate) fn role_style(look: Look, base: Style, styles: &Styles) -> Style {
    match look.role {
        SpanRole::Markup => styles.faint,
        SpanRole::Text => base,
        SpanRole::Link => base.patch(styles.accent).remove_modifier(Modifier::BOLD),
        SpanRole::Heading => base.add_modifier(Modifier::BOLD),
        // The block as a whole has the background.
        SpanRole::Code if look.code => base,
        SpanRole::Code => base.patch(styles.code),
        SpanRole::Keyword => base.patch(styles.keyword),
        SpanRole::Literal | SpanRole::Number => base.patch(styles.literal),
        SpanRole::Comment => base.patch(styles.dim),
    }
}

/// The style with what the text stresses.
pub(crate) fn stressed(look: Look, style: Style) -> Style {
    let bold = if look.strong { Modifier::BOLD } else { Modifier::empty() };
    let italic = if look.emphasis { Modifier::ITALIC } else { Modifier::empty() };
    style.add_modifier(bold | italic)
}

/// The spans of a row of Markdown.
pub(crate) fn spans(row: &[StyledSpan], styles: &Styles) -> Vec<Span<'static>> {
    let span = |piece: &StyledSpan| {
        let style = stressed(piece.look, role_style(piece.look, styles.text, styles));
        Span::styled(piece.text.clone(), style)
    };
    row.iter().map(span).collect()
}

/// `text` in rows of at most `width` columns.
pub(crate) fn wrapped(text: &str, width: u16, style: Style) -> Vec<Line<'static>> {
    let wrap = |line| wrap(&StyledSpan::plain(line, None).into(), usize::from(width));
    let line = |row: TextRow| Line::from(Span::styled(text_of(&row), style));
    text.lines().flat_map(wrap).map(line).collect()
}

/// The rows with `first` before the first of them, and as many blanks before the others.
pub(crate) fn hanging(mut rows: Vec<Line<'static>>, first: Span<'static>) -> Vec<Line<'static>> {
    let rest = Span::styled(" ".repeat(first.width()), first.style);
    for (at, row) in rows.iter_mut().enumerate() {
        row.spans.insert(0, if at == 0 { first.clone() } else { rest.clone() });
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foot_keeps_what_fits_and_always_its_end() {
        let parts = ["Enter open", "F2 rename", "Del delete", "Esc close"].map(str::to_string);
        assert_eq!(foot(&parts, 60), " Enter open · F2 rename · Del delete · Esc close ");
        assert_eq!(foot(&parts, 40), " Enter open · F2 rename · Esc close ");
        assert_eq!(foot(&parts, 30), " Enter open · Esc close ");
        for width in 0..20 {
            assert_eq!(foot(&parts, width), " Esc close ");
        }
    }
}
