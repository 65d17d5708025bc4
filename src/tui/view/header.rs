//! The top row: what is loaded and what it is doing. Must never change the state.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};

use crate::tui::draw::figures;
use crate::tui::draw::rows::ends;
use crate::tui::models::Phase;
use crate::tui::state::ScreenState;
use crate::tui::theme::Styles;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, state: &ScreenState, styles: &Styles) {
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
    let right = Line::from_iter(activity(state, styles));
    frame.render_widget(ends(Line::from(left), right, area.width), area);
}

fn activity(state: &ScreenState, styles: &Styles) -> Vec<Span<'static>> {
    let mut spans = Vec::new();
    if !state.controls.worker.speculate {
        spans.push(Span::styled("plain  ", styles.warning));
    }
    let (glyph, words, style) = match &state.models.phase {
        Phase::Loading { .. } => ("◌", "loading".to_string(), styles.dim),
        Phase::Broken => ("✗", "stopped".to_string(), styles.error),
        _ if state.controls.worker.paused => ("‖", "paused".to_string(), styles.warning),
        Phase::Idle => ("○", "ready".to_string(), styles.dim),
        Phase::Answering { since } => {
            let time = figures::elapsed(state.now.saturating_sub(*since));
            ("●", format!("answering {time}"), styles.accent)
        }
    };
    spans.push(Span::styled(format!("{glyph} "), style));
    spans.push(Span::styled(format!("{words} "), style));
    spans
}
