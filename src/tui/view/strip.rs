//! Controls and meters in two rows, for screens without room for their panels. Must never change
//! them.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};

use super::figures;
use super::rows::{draw_rows, ends};
use crate::tui::state::{Dial, DialRanges, ScreenState};
use crate::tui::theme::Styles;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, state: &ScreenState, styles: &Styles) {
    if area.is_empty() {
        return;
    }
    draw_rows(frame, area, [dials(state, area.width, styles), meters(state, area.width, styles)]);
}

fn dials(state: &ScreenState, width: u16, styles: &Styles) -> Line<'static> {
    let dials = DialRanges::new(state.ready.as_deref(), &state.rounds);
    let mut left = Line::default();
    for dial in Dial::FIGURES {
        let view = dials.view(dial, &state.controls);
        left.push_span(Span::styled(format!(" {} ", dial.sign()), styles.dim));
        left.push_span(Span::styled(view.value, styles.strong));
        let style = if view.fixed { styles.warning } else { styles.faint };
        left.push_span(Span::styled(format!(" {:<7}", view.state), style));
    }
    let right = if state.controls.speculate {
        Line::styled(format!("{} ", state.strategy()), styles.dim)
    } else {
        Line::styled("plain ", styles.warning)
    };
    ends(left, right, width)
}

fn meters(state: &ScreenState, width: u16, styles: &Styles) -> Line<'static> {
    let meters = &state.meters;
    let mut left = Line::from_iter([
        Span::raw(" "),
        Span::styled(figures::rate(meters.now()), styles.strong),
        Span::styled(" tok/s  ", styles.dim),
    ]);
    let spark = figures::spark(meters.rates(), 16);
    left.push_span(Span::styled(
        format!("{spark:<16}"),
        styles.accent.remove_modifier(Modifier::BOLD),
    ));
    let tau = if meters.rounds() == 0 { "–".to_string() } else { format!("{:.2}", meters.tau()) };
    left.push_span(Span::styled("  τ ", styles.dim));
    left.push_span(Span::styled(tau, styles.strong));
    let spent = meters.spent();
    let sum = spent.total_ms();
    let right = if sum > 0.0 {
        let part = |ms: f64| figures::percent(ms / sum);
        Line::from_iter([
            Span::styled("draft ", styles.dim),
            Span::styled(part(spent.draft_ms), styles.text),
            Span::styled("  verify ", styles.dim),
            Span::styled(part(spent.verify_ms), styles.text),
            Span::styled("  other ", styles.dim),
            Span::styled(format!("{} ", part(spent.other_ms)), styles.text),
        ])
    } else {
        Line::default()
    };
    ends(left, right, width)
}
