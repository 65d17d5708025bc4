//! The top row: what is loaded and what it is doing. Must never change the model.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};

use super::{ends, figures};
use crate::tui::state::{Model, Phase};
use crate::tui::theme::Theme;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model, theme: &Theme) {
    let mut left = vec![Span::styled(" dovetail", theme.accent.add_modifier(Modifier::BOLD))];
    if let Some(ready) = &model.ready {
        left.push(Span::styled("  ", theme.faint));
        left.push(Span::styled(ready.target.as_str(), theme.text));
        left.push(Span::styled(" ← ", theme.faint));
        if !model.strategy().is_empty() {
            left.push(Span::styled(model.strategy(), theme.text));
            left.push(Span::styled(" · ", theme.faint));
        }
        left.push(Span::styled(model.draft().unwrap_or("no draft model"), theme.dim));
    }
    let right = Line::from_iter(state(model, theme));
    frame.render_widget(ends(Line::from(left), right, area.width), area);
}

fn state(model: &Model, theme: &Theme) -> Vec<Span<'static>> {
    let mut spans = Vec::new();
    if !model.controls.speculate {
        spans.push(Span::styled("plain  ", theme.warning));
    }
    let (glyph, words, style) = match &model.phase {
        Phase::Loading { .. } => ("◌", "loading".to_string(), theme.dim),
        Phase::Broken => ("✗", "stopped".to_string(), theme.error),
        _ if model.controls.paused => ("‖", "paused".to_string(), theme.warning),
        Phase::Idle => ("○", "ready".to_string(), theme.dim),
        Phase::Answering { since } => {
            let time = figures::elapsed(model.now.saturating_sub(*since));
            ("●", format!("answering {time}"), theme.accent)
        }
    };
    spans.push(Span::styled(format!("{glyph} "), style));
    spans.push(Span::styled(format!("{words} "), style));
    spans
}
