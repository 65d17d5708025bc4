//! Overlays: failures, details, strategies, saved conversations. Must never change the model.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::layout::Areas;
use super::{centred, cut, figures, panel};
use crate::plan::Strategy;
use crate::printable::printable_line;
use crate::tui::markdown::{Logical, Look, wrap};
use crate::tui::state::{Bench, Dial, Model, Overlay, SessionList};
use crate::tui::theme::Theme;

/// A box is no wider than a comfortable row.
const WIDTH: u16 = 76;

pub(super) fn draw(frame: &mut Frame<'_>, areas: &Areas, model: &Model, theme: &Theme) {
    match &model.overlay {
        Some(Overlay::Error { title, text }) => error(frame, areas, title, text, theme),
        Some(Overlay::Details) => details(frame, areas, model, theme),
        Some(Overlay::Sessions(list)) => sessions(frame, areas, list, theme),
        Some(Overlay::Strategies { selected }) => strategies(frame, areas, model, *selected, theme),
        Some(Overlay::Help { .. }) | None => {}
    }
}

/// Columns of text in a box on `area`.
fn columns(area: Rect) -> u16 {
    WIDTH.min(area.width.saturating_sub(2)).saturating_sub(4).max(1)
}

/// `text` as a point of a list, in rows of at most `width` columns.
fn point(text: &str, width: u16, theme: &Theme, style: Style) -> Vec<Line<'static>> {
    let mut rows = wrapped(text, width.saturating_sub(2).max(1), style);
    for (index, row) in rows.iter_mut().enumerate() {
        row.spans.insert(0, Span::styled(if index == 0 { "• " } else { "  " }, theme.faint));
    }
    rows
}

/// `text` in rows of at most `width` columns.
pub(super) fn wrapped(text: &str, width: u16, style: Style) -> Vec<Line<'static>> {
    let rows = text.lines().flat_map(|line| {
        let mut logical = Logical::default();
        logical.push(line, (Look::default(), None));
        wrap(&logical, usize::from(width))
    });
    rows.map(|row| Line::from_iter(row.into_iter().map(|piece| Span::styled(piece.text, style))))
        .collect()
}

fn boxed(frame: &mut Frame<'_>, areas: &Areas, title: &str, text: Vec<Line<'_>>, theme: &Theme) {
    let height = u16::try_from(text.len()).unwrap_or(u16::MAX).saturating_add(2);
    let rect = centred(frame, areas, areas.column, columns(areas.column) + 4, height);
    let foot = Line::styled(" Esc close ", theme.dim).right_aligned();
    let block = panel(format!(" {title} "), true, theme).title_bottom(foot);
    let inner = block.inner(rect);
    frame.render_widget(block, rect);
    super::lines(frame, inner, text.into_iter().map(|line| cut(line, usize::from(inner.width))));
}

fn error(frame: &mut Frame<'_>, areas: &Areas, title: &str, text: &str, theme: &Theme) {
    let lines = wrapped(text, columns(areas.column), theme.text);
    let mut red = *theme;
    red.accent = theme.error;
    boxed(frame, areas, title, lines, &red);
}

/// Reasons for the automatic values, as a panel.
pub(super) fn reasons(frame: &mut Frame<'_>, area: Rect, model: &Model, theme: &Theme) {
    let block = panel(" why these values ", false, theme);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let reasons = model.ready.iter().flat_map(|ready| &ready.reasons);
    let rows = reasons.flat_map(|reason| point(reason, inner.width, theme, theme.dim));
    super::lines(frame, inner, rows);
}

fn details(frame: &mut Frame<'_>, areas: &Areas, model: &Model, theme: &Theme) {
    let row = |label: &str, value: String| {
        Line::from_iter([
            Span::styled(format!("{label:<12}"), theme.dim),
            Span::styled(value, theme.text),
        ])
    };
    let mut lines = Vec::new();
    if let Some(ready) = &model.ready {
        lines.push(row("target", ready.target.clone()));
        lines.push(row("", ready.target_detail.clone()));
        if !model.strategy().is_empty() {
            lines.push(row("strategy", model.strategy().to_string()));
        }
        lines.push(row("draft", model.draft().unwrap_or("none").to_string()));
        lines.push(row("context", format!("{} tokens", ready.context)));
        lines.push(Line::default());
        lines.push(Line::styled("Why these values", theme.strong));
        for reason in &ready.reasons {
            lines.extend(point(reason, columns(areas.column), theme, theme.text));
        }
        lines.push(Line::default());
    }
    if !model.notices.is_empty() {
        lines.push(Line::styled("Notices", theme.strong));
        for notice in &model.notices {
            lines.extend(point(notice, columns(areas.column), theme, theme.text));
        }
        lines.push(Line::default());
    }
    let bench = Bench {
        ready: model.ready.as_deref(),
        latest: model.rounds.latest().map(|round| &round.budget),
    };
    let sampler = &model.controls.sampler;
    let dials = Dial::FIGURES.map(|dial| {
        let view = bench.view(dial, &model.controls);
        format!("{} {} {}", dial.sign(), view.value, view.state)
    });
    lines.push(row("controls", dials.join("  ")));
    lines.push(row(
        "sampler",
        format!(
            "top-k {}  top-p {}  min-p {}  seed {}",
            sampler.top_k, sampler.top_p, sampler.min_p, sampler.seed
        ),
    ));
    lines.push(row("answers", format!("at most {} tokens", model.max_tokens)));
    lines.push(row("gpu", model.gpu.clone()));
    if let Some(summary) = &model.meters.summary {
        lines.push(Line::default());
        lines.push(Line::styled("This answer", theme.strong));
        let reused =
            format!("{} tokens, {} from the cache", summary.prompt_tokens, summary.reused_tokens);
        lines.push(row("prompt", format!("{reused}, {}", figures::time(summary.prefill_ms))));
        let meters = &model.meters;
        lines.push(row(
            "decoding",
            format!(
                "{} tokens, {} rounds, τ {:.2}, {} tok/s",
                meters.tokens(),
                meters.rounds(),
                meters.tau(),
                figures::rate(meters.overall())
            ),
        ));
    }
    boxed(frame, areas, "details", lines, theme);
}

/// The strategies, each with what it does, or what it lacks.
fn strategies(frame: &mut Frame<'_>, areas: &Areas, model: &Model, selected: usize, theme: &Theme) {
    let area = areas.column;
    let width = WIDTH.min(area.width.saturating_sub(2));
    let most = area.height.saturating_sub(2).max(3);
    let statuses = model.statuses();
    let height = u16::try_from(statuses.len() + 2).unwrap_or(most).min(most);
    let rect = centred(frame, areas, area, width, height);
    let foot = Line::styled(" Enter take · Esc close ", theme.dim).right_aligned();
    let block = panel(" strategies: the text is the same ", true, theme).title_bottom(foot);
    let inner = block.inner(rect);
    frame.render_widget(block, rect);
    let fit = usize::from(inner.height).max(1);
    let top = (selected + 1).saturating_sub(fit);
    let rows = statuses.iter().enumerate().skip(top).take(fit).map(|(index, status)| {
        let (words, style) = match &status.missing {
            Some(missing) => (format!("needs {missing}"), theme.faint),
            None => {
                let row = Strategy::named(&status.name);
                (row.map(|row| row.summary).unwrap_or_default().to_string(), theme.dim)
            }
        };
        let name = if status.missing.is_some() { theme.faint } else { theme.text };
        let mark = if index == model.chosen() { "●" } else { " " };
        let line = Line::from_iter([
            Span::styled(format!("{mark} "), theme.accent),
            Span::styled(format!("{:<12}", status.name), name),
            Span::styled(words, style),
        ]);
        let line = super::ends(line, Line::default(), inner.width);
        if index == selected { line.patch_style(theme.selected) } else { line }
    });
    super::lines(frame, inner, rows);
}

/// Saved conversations: the words they are filtered by, then those that fit.
fn sessions(frame: &mut Frame<'_>, areas: &Areas, list: &SessionList, theme: &Theme) {
    let area = areas.column;
    let width = WIDTH.min(area.width.saturating_sub(2));
    let most = area.height.saturating_sub(4).max(4);
    let height = u16::try_from(list.len() + 3).unwrap_or(most).min(most);
    let rect = centred(frame, areas, area, width, height);
    let foot = Line::styled(" Enter open · Esc close ", theme.dim).right_aligned();
    let block = panel(" saved conversations ", true, theme).title_bottom(foot);
    let inner = block.inner(rect);
    frame.render_widget(block, rect);
    let shown = list.shown();
    let count = Line::styled(format!("{} of {}", shown.len(), list.len()), theme.dim);
    let words = if list.filter().is_empty() {
        Line::styled("type to filter", theme.dim)
    } else {
        Line::from_iter([
            Span::styled(list.filter().to_string(), theme.strong),
            Span::styled("▏", theme.accent),
        ])
    };
    let mut rows = vec![super::ends(words, count, inner.width)];
    if shown.is_empty() {
        rows.push(Line::styled("no title or date has these words", theme.dim));
    }
    let fit = usize::from(inner.height).saturating_sub(1).max(1);
    let top = (list.selected + 1).saturating_sub(fit);
    rows.extend(shown.into_iter().enumerate().skip(top).take(fit).map(|(index, session)| {
        let title = if session.title.is_empty() { "(no title)" } else { session.title.as_str() };
        let left = Line::styled(printable_line(title).into_owned(), theme.text);
        let right = format!("{} messages · {}", session.messages, session.date());
        let right = Line::styled(right, theme.dim);
        let line = super::ends(left, right, inner.width);
        let line = cut(line, usize::from(inner.width));
        if index == list.selected { line.patch_style(theme.selected) } else { line }
    }));
    super::lines(frame, inner, rows);
}
