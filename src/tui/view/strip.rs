//! Controls and meters in two rows, for screens without room for their panels. Must never change
//! them.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};

use super::{controls, ends, figures};
use crate::tui::state::{Dial, Model};
use crate::tui::theme::Theme;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model, theme: &Theme) {
    if area.is_empty() {
        return;
    }
    super::lines(frame, area, [dials(model, area.width, theme), meters(model, area.width, theme)]);
}

fn dials(model: &Model, width: u16, theme: &Theme) -> Line<'static> {
    let bench = controls::bench(model);
    let mut left = Line::default();
    for dial in Dial::FIGURES {
        let view = bench.view(dial, &model.controls);
        left.push_span(Span::styled(format!(" {} ", dial.sign()), theme.dim));
        left.push_span(Span::styled(view.value, theme.strong));
        let style = if view.held { theme.warning } else { theme.faint };
        left.push_span(Span::styled(format!(" {:<7}", view.state), style));
    }
    let right = if model.controls.speculate {
        Line::styled(format!("{} ", model.strategy()), theme.dim)
    } else {
        Line::styled("plain ", theme.warning)
    };
    ends(left, right, width)
}

fn meters(model: &Model, width: u16, theme: &Theme) -> Line<'static> {
    let meters = &model.meters;
    let mut left = Line::from_iter([
        Span::raw(" "),
        Span::styled(figures::rate(meters.now()), theme.strong),
        Span::styled(" tok/s  ", theme.dim),
    ]);
    let spark = figures::spark(meters.rates(), 16);
    left.push_span(Span::styled(
        format!("{spark:<16}"),
        theme.accent.remove_modifier(Modifier::BOLD),
    ));
    let tau = if meters.rounds() == 0 { "–".to_string() } else { format!("{:.2}", meters.tau()) };
    left.push_span(Span::styled("  τ ", theme.dim));
    left.push_span(Span::styled(tau, theme.strong));
    let spent = meters.spent();
    let sum = spent.total_ms();
    let right = if sum > 0.0 {
        let part = |ms: f64| figures::percent(ms / sum);
        Line::from_iter([
            Span::styled("draft ", theme.dim),
            Span::styled(part(spent.draft_ms), theme.text),
            Span::styled("  verify ", theme.dim),
            Span::styled(part(spent.verify_ms), theme.text),
            Span::styled("  other ", theme.dim),
            Span::styled(format!("{} ", part(spent.other_ms)), theme.text),
        ])
    } else {
        Line::default()
    };
    ends(left, right, width)
}
