//! The rows at the edges of the screen: what is loaded and what it is doing, the keys most useful
//! now, and, where there is no room for their panels, controls and meters. Must never change the
//! state, nor name a key itself.

use crate::tui::actions::Dial;
use crate::tui::draw::{Frame, Line, Modifier, Rect, Span, Styles, draw_rows, ends, figures};
use crate::tui::keymap;
use crate::tui::meters::payoff;
use crate::tui::models::Phase;
use crate::tui::state::ScreenState;

/// The top row.
pub(super) fn header(frame: &mut Frame<'_>, area: Rect, state: &ScreenState, styles: &Styles) {
    let mut left = vec![Span::styled(" dovetail", styles.accent.add_modifier(Modifier::BOLD))];
    if let Some(ready) = &state.models.ready {
        left.push(Span::styled("  ", styles.faint));
        left.push(Span::styled(ready.target.clone(), styles.text));
        left.push(Span::styled(" ← ", styles.faint));
        if !state.strategy().is_empty() {
            left.push(Span::styled(state.strategy(), styles.text));
            left.push(Span::styled(" · ", styles.faint));
        }
        left.push(Span::styled(state.draft().unwrap_or("no draft model"), styles.dim));
    }
    frame.render_widget(ends(Line::from(left), activity(state, styles), area.width), area);
}

fn activity(state: &ScreenState, styles: &Styles) -> Line<'static> {
    let mut line = Line::default();
    if !state.controls.worker.speculate {
        line.push_span(Span::styled("plain  ", styles.warning));
    }
    let (words, style) = match &state.models.phase {
        Phase::Loading { .. } => ("◌ loading ".to_string(), styles.dim),
        Phase::Broken => ("✗ stopped ".to_string(), styles.error),
        _ if state.controls.worker.paused => ("‖ paused ".to_string(), styles.warning),
        Phase::Idle => ("○ ready ".to_string(), styles.dim),
        Phase::Answering { since } => {
            let time = figures::elapsed(state.now.saturating_sub(*since));
            (format!("● answering {time} "), styles.accent)
        }
    };
    line.push_span(Span::styled(words, style));
    line
}

/// The bottom row: keys.
pub(super) fn hints(frame: &mut Frame<'_>, area: Rect, state: &ScreenState, styles: &Styles) {
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

/// Controls and meters in two rows.
pub(super) fn strip(frame: &mut Frame<'_>, area: Rect, state: &ScreenState, styles: &Styles) {
    if area.is_empty() {
        return;
    }
    draw_rows(frame, area, [dials(state, area.width, styles), meters(state, area.width, styles)]);
}

fn dials(state: &ScreenState, width: u16, styles: &Styles) -> Line<'static> {
    let right = match state.controls.worker.speculate {
        true => Line::styled(format!("{} ", state.strategy()), styles.dim),
        false => Line::styled("plain ", styles.warning),
    };
    let room = usize::from(width).saturating_sub(right.width() + 1);
    let dials = state.dials();
    // The dials by name or sign, each with its value; only what is fixed says so.
    let named_by = |name: fn(Dial) -> &'static str| {
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
    };
    let named = named_by(|dial| dial.row().short_name);
    let fits = named.width() <= room;
    ends(if fits { named } else { named_by(|dial| dial.row().sign) }, right, width)
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
    left.push_span(Span::styled(format!("  {}", payoff::tau(meters)), styles.strong));
    left.push_span(Span::styled(" tokens per round", styles.dim));
    let spent = &meters.summary.timing;
    let mut right = Line::default();
    if spent.total_ms() > 0.0 {
        let share = figures::percent(spent.draft_ms / spent.total_ms());
        right.push_span(Span::styled("draft ", styles.dim));
        right.push_span(Span::styled(format!("{share} "), styles.text));
    }
    ends(left, right, width)
}
