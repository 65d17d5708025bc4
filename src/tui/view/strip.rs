//! Controls and meters in two rows, for screens without room for their panels. Must never change
//! them.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};

use crate::tui::actions::Dial;
use crate::tui::draw::figures;
use crate::tui::draw::rows::{draw_rows, ends};
use crate::tui::meters::payoff;
use crate::tui::state::ScreenState;
use crate::tui::theme::Styles;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, state: &ScreenState, styles: &Styles) {
    if area.is_empty() {
        return;
    }
    draw_rows(frame, area, [dials(state, area.width, styles), meters(state, area.width, styles)]);
}

fn dials(state: &ScreenState, width: u16, styles: &Styles) -> Line<'static> {
    let right = if state.controls.worker.speculate {
        Line::styled(format!("{} ", state.strategy()), styles.dim)
    } else {
        Line::styled("plain ", styles.warning)
    };
    let room = usize::from(width).saturating_sub(right.width() + 1);
    let named = dial_figures(state, styles, |dial| dial.row().short_name);
    let left = if named.width() <= room {
        named
    } else {
        dial_figures(state, styles, |dial| dial.row().sign)
    };
    ends(left, right, width)
}

/// The dials by name, each with its value; only what is fixed says so.
fn dial_figures(
    state: &ScreenState,
    styles: &Styles,
    name: impl Fn(Dial) -> &'static str,
) -> Line<'static> {
    let dials = state.dials();
    let mut line = Line::default();
    for dial in Dial::FIGURES {
        let view = dials.view(dial, &state.controls.worker);
        line.push_span(Span::styled(format!(" {} ", name(dial)), styles.dim));
        line.push_span(Span::styled(view.value, styles.strong));
        if view.fixed && dial != Dial::Temperature {
            line.push_span(Span::styled(" fixed", styles.warning));
        }
        line.push_span(Span::raw(" "));
    }
    line
}

fn meters(state: &ScreenState, width: u16, styles: &Styles) -> Line<'static> {
    let meters = &state.meters.answer;
    let mut left = Line::from_iter([
        Span::raw(" "),
        Span::styled(figures::rate(meters.now()), styles.strong),
        Span::styled(" tok/s  ", styles.dim),
    ]);
    if state.slowed() {
        left.push_span(Span::styled(format!("{}  ", payoff::SLOWED), styles.warning));
    } else if let Some(speedup) = state.speedup() {
        let words = format!("{}  ", speedup.words());
        left.push_span(Span::styled(words, payoff::style(speedup, styles)));
    }
    let spark = figures::spark(meters.rates(), 12);
    left.push_span(Span::styled(
        format!("{spark:<12}"),
        styles.accent.remove_modifier(Modifier::BOLD),
    ));
    let (tau, words) = payoff::tokens_per_round(meters);
    left.push_span(Span::styled(format!("  {tau}"), styles.strong));
    left.push_span(Span::styled(words, styles.dim));
    let spent = meters.spent();
    let sum = spent.total_ms();
    let right = if sum > 0.0 {
        let part = |ms: f64| figures::percent(ms / sum);
        Line::from_iter([
            Span::styled("draft ", styles.dim),
            Span::styled(format!("{} ", part(spent.draft_ms)), styles.text),
        ])
    } else {
        Line::default()
    };
    ends(left, right, width)
}
