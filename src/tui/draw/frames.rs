//! Frames of panels and boxes. Must never know what is in them.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::Line;
use ratatui::widgets::{Block, BorderType, Padding};

use super::areas::Areas;
use crate::tui::display::Focus;
use crate::tui::state::ScreenState;
use crate::tui::theme::Styles;

/// The frame of a panel.
pub(crate) fn panel<'a>(title: impl Into<Line<'a>>, focused: bool, styles: &Styles) -> Block<'a> {
    let (border, heading) = if focused {
        (styles.accent, styles.accent.add_modifier(Modifier::BOLD))
    } else {
        (styles.faint, styles.dim)
    };
    Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(border)
        .padding(Padding::horizontal(1))
        .title(title)
        .title_style(heading)
}

/// Whether keys go to the panel.
pub(crate) fn focused(state: &ScreenState, focus: Focus) -> bool {
    state.display.focus == focus && state.overlays.open.is_none()
}

/// Draws the frame of a panel and returns the area inside it.
pub(crate) fn framed(frame: &mut Frame<'_>, area: Rect, block: Block<'_>) -> Rect {
    let inner = block.inner(area);
    frame.render_widget(block, area);
    inner
}

/// The most columns of a box: a comfortable row.
pub(crate) const WIDTH: u16 = 76;

/// What is written on the edges of a box.
pub(crate) struct Edges<'a> {
    /// On the upper edge.
    pub(crate) title: Line<'a>,
    /// On the lower edge: what keys do.
    pub(crate) foot: String,
}

/// Draws a box in the middle of `area`, no larger than it, over what is there; returns the area
/// inside its frame.
pub(crate) fn boxed(
    frame: &mut Frame<'_>,
    areas: &Areas,
    area: Rect,
    width: u16,
    height: u16,
    edges: Edges<'_>,
    styles: &Styles,
) -> Rect {
    let width = width.min(area.width);
    let height = height.min(area.height);
    let x = area.x + (area.width - width) / 2;
    let y = area.y + (area.height - height) / 2;
    let rect = Rect { x, y, width, height };
    // An empty column at each side separates text from the frame.
    let cleared = Rect { x: rect.x.saturating_sub(1), width: rect.width + 2, ..rect };
    areas.clear(frame, cleared.intersection(area));
    let foot = Line::styled(edges.foot, styles.dim).right_aligned();
    framed(frame, rect, panel(edges.title, true, styles).title_bottom(foot))
}
