//! The rows at the edges of the screen: what is loaded and what it is doing, how fast it is, and
//! the keys most useful now. Must never change the state, nor name a key itself.

use unicode_width::UnicodeWidthStr;

use crate::tui::draw::{Frame, Line, Modifier, Rect, Span, Styles, ends, figures};
use crate::tui::keymap;
use crate::tui::meters::payoff;
use crate::tui::models::Phase;
use crate::tui::state::ScreenState;

/// The top row: the model and its state.
pub(super) fn header(frame: &mut Frame<'_>, area: Rect, state: &ScreenState, styles: &Styles) {
    let (words, style) = match &state.models.phase {
        Phase::Loading { .. } => ("◌ loading".to_string(), styles.dim),
        Phase::Broken => ("✗ stopped".to_string(), styles.error),
        _ if state.controls.worker.paused => ("‖ paused".to_string(), styles.warning),
        Phase::Idle => ("○ ready".to_string(), styles.dim),
        Phase::Answering { since } => {
            let time = figures::elapsed(state.now.saturating_sub(*since));
            (format!("● answering {time}"), styles.accent)
        }
    };
    let name = state.models.ready.as_ref().map_or("dovetail", |ready| &ready.target);
    let style_of_name = styles.accent.add_modifier(Modifier::BOLD);
    let name = Line::styled(format!(" {name}"), style_of_name);
    let words = Line::styled(format!(" {words}"), style);
    let width = (name.width() + 1 + words.width()).min(usize::from(area.width));
    frame.render_widget(ends(name, words, width as u16), area);
}

/// The bottom row: keys, or a tip.
pub(super) fn hints(frame: &mut Frame<'_>, area: Rect, state: &ScreenState, styles: &Styles) {
    let width = usize::from(area.width);
    if let Some(tip) = state.tip().filter(|tip| tip.width() < width) {
        return frame.render_widget(Line::styled(format!(" {tip}"), styles.dim), area);
    }
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

/// How fast the latest answer comes, and how full the context is.
pub(super) fn status(frame: &mut Frame<'_>, area: Rect, state: &ScreenState, styles: &Styles) {
    let meters = &state.meters.answer;
    let mut parts = Vec::new();
    let off = !state.controls.worker.speculate;
    // The figures are those of the latest answer.
    let was_on = !state.answering() && meters.drafted;
    if off && !was_on {
        parts.push(Span::styled("plain decoding", styles.warning));
    } else if state.slowed() {
        parts.push(Span::styled(payoff::SLOWED, styles.warning));
    } else if let Some(speedup) = state.speedup() {
        parts.push(Span::styled(speedup.factor(), payoff::style(speedup, styles)));
    } else if meters.summary.rounds > 0 {
        let words = format!("{} tokens per round", payoff::tau(meters));
        parts.push(Span::styled(words, styles.text));
    }
    let rate = if state.answering() { meters.now() } else { meters.summary.tokens_per_second };
    if rate > 0.0 {
        parts.push(Span::styled(format!("{} tok/s", figures::rate(rate)), styles.text));
    }
    if off && was_on {
        parts.push(Span::styled("plain decoding next", styles.warning));
    }
    if let Some(context) = state.context().filter(|context| context.used > 0) {
        let share = context.used.min(context.holds) as f64 / context.holds.max(1) as f64;
        parts.push(Span::styled(format!("context {}", figures::percent(share)), styles.dim));
    }
    let mut line = Line::from(" ");
    for (at, part) in parts.into_iter().enumerate() {
        line.push_span(Span::styled(if at > 0 { " · " } else { " " }, styles.faint));
        line.push_span(part);
    }
    frame.render_widget(line, area);
}
