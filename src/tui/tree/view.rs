//! The draft tree of one round, node by node, also while it is being verified. Must never change
//! the round.

use ratatui::widgets::Borders;

use super::{NodeOutcome, TreeRow, minds, pending_rows, tree_rows};
use crate::decode::{NothingGuessed, Round};
use crate::messages;
use crate::tui::controls::caption;
use crate::tui::display::Focus;
use crate::tui::draw::{
    Frame, Line, Modifier, Rect, Span, Style, Styles, cut, draw_rows, ends, figures, focused,
    framed, panel, wrapped,
};
use crate::tui::state::ScreenState;

/// Rows of a panel up to which it has an upper edge alone.
const BARE: u16 = 6;
/// Cells of a probability's bar.
const BAR: usize = 6;

pub(crate) fn draw(frame: &mut Frame<'_>, area: Rect, state: &mut ScreenState, styles: &Styles) {
    let focus = focused(state, Focus::Tree);
    // The token that is looked at may be that of an answer whose rounds are not kept.
    let other = state.token_looked_at().is_some_and(|(turn, _)| !state.has_rounds(turn));
    let pending = state.pending().filter(|_| !other);
    let shown = state.tree.shown().filter(|_| !other);
    let (title, mode, below) = match (pending, shown) {
        (Some(round), _) => {
            let ahead = &round.ahead;
            let drafted = match round.outcomes.len() {
                0 => format!("k {}", ahead.k()),
                outcomes => format!("ahead {}", figures::many(outcomes, "tree")),
            };
            let title = format!(" draft tree · round {} ", round.index + 1);
            let mode = Line::styled(" verifying ", styles.dim);
            (title, mode, format!(" γ {} · {drafted} ", ahead.gamma))
        }
        (None, Some((at, round))) => {
            let title = format!(" draft tree · round {} of {} ", at + 1, state.tree.len());
            let mode = match (state.tree.live(), state.controls.worker.paused) {
                (false, _) => Line::styled(" looking back ", styles.warning),
                (true, true) => Line::styled(" paused ", styles.warning),
                (true, false) => Line::styled(" live ", styles.dim),
            };
            (title, mode, format!(" {} ", spent(round)))
        }
        (None, None) => (" draft tree ".to_string(), Line::default(), String::new()),
    };
    let mut block = panel(title, focus, styles).title(mode.right_aligned());
    if area.height <= BARE {
        block = block.borders(Borders::TOP);
    } else {
        block = block.title_bottom(Line::styled(below, styles.dim));
    }
    if focus && area.width > 56 && area.height > BARE {
        let fold = format!(" {} ", state.tree.fold.name());
        block = block.title_bottom(Line::styled(fold, styles.dim).right_aligned());
    }
    let inner = framed(frame, area, block);
    let mut inner = minds::draw(frame, inner, state, styles);
    if pending.is_none() && shown.is_none() && other {
        let words = Line::styled("only the trees of the latest answer are kept", styles.dim);
        return draw_rows(frame, inner, [words]);
    }
    if let Some(why) = state.nothing_guessed() {
        let words = wrapped(messages::nothing_guessed(why), inner.width.max(1), styles.dim);
        let legend = if why == NothingGuessed::NotBegun { legend(styles) } else { Vec::new() };
        return draw_rows(frame, inner, words.into_iter().chain(legend));
    }
    let rows = match (pending, shown) {
        (Some(round), _) => pending_rows(round, state.tree.fold, usize::from(inner.height)),
        (None, Some((_, round))) => {
            if state.controls.first_answer.plays() && inner.height > 2 {
                let words = Line::styled(caption(round), styles.strong);
                let words = cut(words, usize::from(inner.width));
                draw_rows(frame, Rect { height: 1, ..inner }, [words]);
                let rows = if area.height <= BARE { 1 } else { 2 };
                inner = Rect { y: inner.y + rows, height: inner.height - rows, ..inner };
            }
            tree_rows(round, state.tree.fold, usize::from(inner.height))
        }
        (None, None) => Vec::new(),
    };
    let fit = usize::from(inner.height);
    let top = state.tree.seen(rows.len(), fit);
    draw_rows(frame, inner, rows.iter().skip(top).map(|row| line(row, inner.width, styles)));
    // How the tree continues above and below.
    let buffer = frame.buffer_mut();
    if top > 0 {
        buffer.set_string(inner.right(), inner.y, "▲", styles.accent);
    }
    if rows.len() > top + fit && fit > 0 {
        buffer.set_string(inner.right(), inner.bottom() - 1, "▼", styles.accent);
    }
}

/// Legend of the panel.
fn legend(styles: &Styles) -> Vec<Line<'static>> {
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
    let timing = &round.timing;
    let mut words = format!("γ {}", round.budget.shape.gamma);
    if round.budget.blocks > 0 {
        words.push_str(&format!(" · M {}", round.budget.blocks));
    }
    if let Some(ahead) = &round.ahead {
        words.push_str(&format!(" · k {}", ahead.k()));
    }
    let draft = figures::time(timing.draft_ms);
    words.push_str(&format!(" · {draft} + {}", figures::time(timing.verify_ms)));
    if timing.ahead_ms > 0.0 {
        words.push_str(&format!(", ahead {}", figures::time(timing.ahead_ms)));
    }
    words
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
        NodeOutcome::Accepted | NodeOutcome::Target => style.add_modifier(Modifier::BOLD),
        _ => style,
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
    let right = match (row.outcome, row.probability.map(f64::from)) {
        (NodeOutcome::Target, _) => Line::styled("target", styles.target),
        (_, Some(share)) => {
            let bar = figures::bar(share, if width >= 34 { BAR } else { 0 });
            let accepted = row.outcome == NodeOutcome::Accepted;
            let stroke = if accepted { styles.accepted } else { styles.faint };
            Line::from_iter([
                Span::styled(bar, stroke.remove_modifier(Modifier::BOLD)),
                Span::styled(format!(" {:>4}", figures::percent(share)), style),
            ])
        }
        _ => Line::default(),
    };
    let room = usize::from(width).saturating_sub(right.width() + 1);
    ends(cut(left, room), right, width)
}
