//! The draft tree of one round, node by node. Must never change the round.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::{cut, ends, figures, focused, panel};
use crate::decode::Round;
use crate::tui::state::{Focus, Mark, Model, TreeRow, tree_rows};
use crate::tui::theme::Theme;

/// Cells of a probability's bar.
const BAR: usize = 6;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &mut Model, theme: &Theme) {
    let focus = focused(model, Focus::Tree);
    let Some((at, round)) = model.rounds.shown() else {
        let block = panel(" draft tree ", focus, theme);
        let inner = block.inner(area);
        frame.render_widget(block, area);
        super::lines(frame, inner, empty(theme));
        return;
    };
    let rounds = model.rounds.len();
    let title = format!(" draft tree · round {} of {rounds} ", at + 1);
    let state = if !model.rounds.live() {
        Span::styled(" looking back ", theme.warning)
    } else if model.controls.paused {
        Span::styled(" paused ", theme.warning)
    } else {
        Span::styled(" live ", theme.dim)
    };
    let below = Line::styled(format!(" {} ", spent(round)), theme.dim);
    let fold = Line::styled(format!(" {} ", model.rounds.fold.name()), theme.dim).right_aligned();
    let mut block =
        panel(title, focus, theme).title(Line::from(state).right_aligned()).title_bottom(below);
    if focus && area.width > 56 {
        block = block.title_bottom(fold);
    }
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let fit = usize::from(inner.height);
    let rows = tree_rows(round, model.rounds.fold, fit);
    if !round.speculative {
        let words = if model.controls.speculate {
            "nothing is drafted: one token a round"
        } else {
            "speculation is off: one token a round"
        };
        super::lines(frame, inner, [Line::styled(words, theme.dim)]);
        return;
    }
    let all = rows.len();
    let top = model.rounds.seen(all, fit);
    let seen = rows.iter().skip(top).take(fit).map(|row| line(row, inner.width, theme));
    super::lines(frame, inner, seen.collect::<Vec<_>>());
    more(frame, inner, top, all, theme);
}

/// Legend of the panel.
fn empty(theme: &Theme) -> Vec<Line<'static>> {
    [
        (Mark::Accepted, "guessed by the draft and confirmed"),
        (Mark::Target, "the target's own word, where the path ends"),
        (Mark::Rejected, "guessed, but not what the target chose"),
    ]
    .into_iter()
    .map(|(mark, words)| {
        let (glyph, style) = look(mark, theme);
        Line::from_iter([Span::styled(glyph, style), Span::styled(format!(" {words}"), theme.dim)])
    })
    .collect()
}

fn spent(round: &Round) -> String {
    let (shape, timing) = (round.budget.shape, &round.timing);
    let blocks = match round.budget.blocks {
        0 => String::new(),
        blocks => format!(" · M {blocks}"),
    };
    let ahead = if timing.ahead_ms > 0.0 {
        format!(", ahead {}", figures::time(timing.ahead_ms))
    } else {
        String::new()
    };
    let (draft, verify) = (figures::time(timing.draft_ms), figures::time(timing.verify_ms));
    format!("γ {}{blocks} · {draft} + {verify}{ahead}", shape.gamma)
}

fn look(mark: Mark, theme: &Theme) -> (&'static str, Style) {
    match mark {
        Mark::Root => ("○", theme.dim),
        Mark::Accepted => ("●", theme.accepted),
        Mark::Target => ("◆", theme.target),
        Mark::Rejected => ("×", theme.rejected),
    }
}

fn line(row: &TreeRow, width: u16, theme: &Theme) -> Line<'static> {
    let (glyph, style) = look(row.mark, theme);
    let label = match row.mark {
        Mark::Accepted => style.add_modifier(Modifier::BOLD),
        Mark::Target => style.add_modifier(Modifier::BOLD),
        Mark::Root | Mark::Rejected => style,
    };
    let mut left = Line::from_iter([
        Span::styled(row.lines.clone(), theme.faint),
        Span::styled(glyph, style),
        Span::raw(" "),
        Span::styled(row.label.clone(), label),
    ]);
    if row.hidden > 0 {
        left.push_span(Span::styled(format!("  +{}", row.hidden), theme.faint));
    }
    let right = match (row.mark, row.probability) {
        (Mark::Target, _) => Line::styled("target", theme.target),
        (_, Some(probability)) => {
            let share = f64::from(probability);
            let mut spans = Vec::new();
            if width >= 34 {
                let bar = figures::bar(share, BAR);
                let style = if row.mark == Mark::Accepted { theme.accepted } else { theme.faint };
                spans.push(Span::styled(bar, style.remove_modifier(Modifier::BOLD)));
            }
            spans.push(Span::styled(format!(" {:>4}", figures::percent(share)), style));
            Line::from(spans)
        }
        _ => Line::default(),
    };
    let room = usize::from(width).saturating_sub(right.width() + 1);
    ends(cut(left, room), right, width)
}

/// How many rows of the tree are above and below.
fn more(frame: &mut Frame<'_>, inner: Rect, top: usize, all: usize, theme: &Theme) {
    let fit = usize::from(inner.height);
    let below = all.saturating_sub(top + fit);
    let x = inner.right();
    if top > 0 {
        frame.buffer_mut().set_string(x, inner.y, "▲", theme.accent);
    }
    if below > 0 && fit > 0 {
        frame.buffer_mut().set_string(x, inner.bottom() - 1, "▼", theme.accent);
    }
}
