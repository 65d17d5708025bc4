//! The draft tree of one round, node by node, also while it is being verified. Must never change
//! the round.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Block;

use super::{NodeOutcome, TreeRow, pending_rows, tree_rows};
use crate::decode::Round;
use crate::tui::controls::caption;
use crate::tui::display::Focus;
use crate::tui::draw::figures;
use crate::tui::draw::frames::{focused, framed, panel};
use crate::tui::draw::rows::{cut, draw_rows, ends};
use crate::tui::state::ScreenState;
use crate::tui::theme::Styles;

/// Cells of a probability's bar.
const BAR: usize = 6;

pub(crate) fn draw(frame: &mut Frame<'_>, area: Rect, state: &mut ScreenState, styles: &Styles) {
    let focus = focused(state, Focus::Tree);
    let fold = Line::styled(format!(" {} ", state.tree.fold.name()), styles.dim).right_aligned();
    let folded = |block: Block<'static>| match focus && area.width > 56 {
        true => block.title_bottom(fold),
        false => block,
    };
    if let Some(round) = state.pending() {
        let title = format!(" draft tree · round {} ", round.index + 1);
        let mode = Line::styled(" verifying ", styles.dim).right_aligned();
        let ahead = &round.ahead;
        let drafted = match round.outcomes.len() {
            0 => format!("k {}", ahead.k()),
            outcomes => format!("ahead {}", figures::many(outcomes, "tree")),
        };
        let below = Line::styled(format!(" γ {} · {drafted} ", ahead.gamma), styles.dim);
        let block = folded(panel(title, focus, styles).title(mode).title_bottom(below));
        let inner = framed(frame, area, block);
        let rows = pending_rows(round, state.tree.fold, usize::from(inner.height));
        return draw_nodes(frame, inner, &rows, state, styles);
    }
    let Some((at, round)) = state.tree.shown() else {
        let inner = framed(frame, area, panel(" draft tree ", focus, styles));
        draw_rows(frame, inner, empty(styles));
        return;
    };
    let rounds = state.tree.len();
    let title = format!(" draft tree · round {} of {rounds} ", at + 1);
    let mode = if !state.tree.live() {
        Span::styled(" looking back ", styles.warning)
    } else if state.controls.worker.paused {
        Span::styled(" paused ", styles.warning)
    } else {
        Span::styled(" live ", styles.dim)
    };
    let below = Line::styled(format!(" {} ", spent(round)), styles.dim);
    let mode = Line::from(mode).right_aligned();
    let block = folded(panel(title, focus, styles).title(mode).title_bottom(below));
    let mut inner = framed(frame, area, block);
    if state.controls.first_answer.plays() && inner.height > 2 {
        let words = cut(Line::styled(caption(round), styles.strong), usize::from(inner.width));
        draw_rows(frame, Rect { height: 1, ..inner }, [words]);
        inner = Rect { y: inner.y + 2, height: inner.height - 2, ..inner };
    }
    let rows = tree_rows(round, state.tree.fold, usize::from(inner.height));
    if !round.speculative {
        let words = if state.controls.worker.speculate {
            "nothing is drafted: one token per round"
        } else {
            "speculation is off: one token per round"
        };
        draw_rows(frame, inner, [Line::styled(words, styles.dim)]);
        return;
    }
    draw_nodes(frame, inner, &rows, state, styles);
}

/// The rows, as far as they are seen.
fn draw_nodes(
    frame: &mut Frame<'_>,
    inner: Rect,
    rows: &[TreeRow],
    state: &mut ScreenState,
    styles: &Styles,
) {
    let all = rows.len();
    let fit = usize::from(inner.height);
    let top = state.tree.seen(all, fit);
    let seen = rows.iter().skip(top).take(fit).map(|row| line(row, inner.width, styles));
    draw_rows(frame, inner, seen.collect::<Vec<_>>());
    more(frame, inner, top, all, styles);
}

/// Legend of the panel.
fn empty(styles: &Styles) -> Vec<Line<'static>> {
    [
        (NodeOutcome::Accepted, "guessed by the draft and accepted"),
        (NodeOutcome::Target, "the target's own next token"),
        (NodeOutcome::Rejected, "guessed, but not what the target chose"),
    ]
    .into_iter()
    .map(|(outcome, words)| {
        let (glyph, style) = look(outcome, styles);
        Line::from_iter([Span::styled(glyph, style), Span::styled(format!(" {words}"), styles.dim)])
    })
    .collect()
}

fn spent(round: &Round) -> String {
    let shape = round.budget.shape;
    let timing = &round.timing;
    let blocks = match round.budget.blocks {
        0 => String::new(),
        blocks => format!(" · M {blocks}"),
    };
    let k = round.ahead.as_ref().map_or(String::new(), |ahead| format!(" · k {}", ahead.k()));
    let ahead = if timing.ahead_ms > 0.0 {
        format!(", ahead {}", figures::time(timing.ahead_ms))
    } else {
        String::new()
    };
    let draft = figures::time(timing.draft_ms);
    let verify = figures::time(timing.verify_ms);
    format!("γ {}{blocks}{k} · {draft} + {verify}{ahead}", shape.gamma)
}

fn look(outcome: NodeOutcome, styles: &Styles) -> (&'static str, Style) {
    match outcome {
        NodeOutcome::Root => ("○", styles.dim),
        NodeOutcome::Accepted => ("●", styles.accepted),
        NodeOutcome::Target => ("◆", styles.target),
        NodeOutcome::Rejected => ("×", styles.rejected),
        NodeOutcome::Ahead => ("·", styles.dim),
        NodeOutcome::Adopted => ("→", styles.strong),
        NodeOutcome::Pending => ("?", styles.text),
    }
}

fn line(row: &TreeRow, width: u16, styles: &Styles) -> Line<'static> {
    let (glyph, style) = look(row.outcome, styles);
    let label = match row.outcome {
        NodeOutcome::Accepted => style.add_modifier(Modifier::BOLD),
        NodeOutcome::Target => style.add_modifier(Modifier::BOLD),
        NodeOutcome::Root
        | NodeOutcome::Rejected
        | NodeOutcome::Ahead
        | NodeOutcome::Adopted
        | NodeOutcome::Pending => style,
    };
    let mut left = Line::from_iter([
        Span::styled(row.lines.clone(), styles.faint),
        Span::styled(glyph, style),
        Span::raw(" "),
        Span::styled(row.label.clone(), label),
    ]);
    if row.hidden > 0 {
        left.push_span(Span::styled(format!("  +{}", row.hidden), styles.faint));
    }
    let right = match (row.outcome, row.probability) {
        (NodeOutcome::Target, _) => Line::styled("target", styles.target),
        (_, Some(probability)) => {
            let share = f64::from(probability);
            let mut spans = Vec::new();
            if width >= 34 {
                let bar = figures::bar(share, BAR);
                let style = if row.outcome == NodeOutcome::Accepted {
                    styles.accepted
                } else {
                    styles.faint
                };
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
fn more(frame: &mut Frame<'_>, inner: Rect, top: usize, all: usize, styles: &Styles) {
    let fit = usize::from(inner.height);
    let below = all.saturating_sub(top + fit);
    let x = inner.right();
    if top > 0 {
        frame.buffer_mut().set_string(x, inner.y, "▲", styles.accent);
    }
    if below > 0 && fit > 0 {
        frame.buffer_mut().set_string(x, inner.bottom() - 1, "▼", styles.accent);
    }
}
