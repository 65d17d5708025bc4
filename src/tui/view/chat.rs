//! The conversation as rows. Must never change it.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::{figures, focused};
use crate::chat::Role;
use crate::decode::Origin;
use crate::tui::markdown::{Kind, Piece, Row};
use crate::tui::state::{Focus, Model, Outcome, Phase, Turn, finish_words};
use crate::tui::theme::Theme;

/// Before every row: the question's mark, or as much space.
const GUTTER: u16 = 3;
/// Longer rows are hard to read.
const WIDEST: u16 = 100;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &mut Model, theme: &Theme) {
    if area.is_empty() {
        return;
    }
    if model.chat.turns().is_empty() {
        welcome(frame, area, model, theme);
        return;
    }
    let width = area.width.saturating_sub(GUTTER + 2).clamp(1, WIDEST);
    let mut counts = Vec::with_capacity(model.chat.turns().len());
    for turn in model.chat.turns_mut() {
        let rows = turn.rows(usize::from(width)).len();
        counts.push(rows.max(1) + usize::from(footer(turn).is_some()) + 1);
    }
    // The last turn needs no space below it.
    let all = counts.iter().sum::<usize>().saturating_sub(1);
    let fit = usize::from(area.height);
    let top = model.chat.seen(all, fit);
    // A short conversation begins at the top.
    let lines = visible(model, theme, &counts, top, fit);
    super::lines(frame, area, lines);
    if focused(model, Focus::Chat) || !model.chat.follows() {
        scrollbar(frame, area, model, theme, top, all);
    }
}

fn visible(
    model: &mut Model,
    theme: &Theme,
    counts: &[usize],
    top: usize,
    fit: usize,
) -> Vec<Line<'static>> {
    let waiting = waiting(model);
    let marks = model.marks;
    let mut lines = Vec::with_capacity(fit);
    let mut start = 0;
    for (turn, &count) in model.chat.turns().iter().zip(counts) {
        let end = start + count;
        for at in top.max(start)..end.min(top + fit) {
            lines.push(row(turn, at - start, marks, waiting.as_deref(), theme));
        }
        start = end;
    }
    lines
}

fn row(turn: &Turn, at: usize, marks: bool, waiting: Option<&str>, theme: &Theme) -> Line<'static> {
    let rows = turn.laid_out();
    let user = turn.role == Role::User;
    let gutter = if user && at == 0 { " ❯ " } else { "   " };
    let mut line = Line::from(Span::styled(gutter, theme.accent.add_modifier(Modifier::BOLD)));
    let open = turn.outcome.is_none();
    if let Some(row) = rows.get(at) {
        line.extend(spans(row, marks, if user { theme.strong } else { theme.text }, theme));
        if open && at + 1 == rows.len() {
            line.push_span(Span::styled("▍", theme.accent));
        }
    } else if rows.is_empty() && at == 0 {
        let words = if open { waiting.unwrap_or_default() } else { "(no text)" };
        line.push_span(Span::styled(words.to_string(), theme.dim));
    } else if at == rows.len().max(1)
        && let Some(words) = footer(turn)
    {
        let style = match turn.outcome {
            Some(Outcome::Failed) => theme.error,
            _ => theme.dim,
        };
        line.push_span(Span::styled(words, style));
    }
    line
}

/// The line below an answer that has ended.
fn footer(turn: &Turn) -> Option<String> {
    if turn.role != Role::Assistant {
        return None;
    }
    match turn.outcome.as_ref()? {
        Outcome::Finished(summary) => {
            let mut words = vec![count(summary.tokens)];
            if summary.rounds > 0 {
                words.push(format!("{} tok/s", figures::rate(summary.tokens_per_second)));
                words.push(format!("τ {:.2}", summary.tau));
            }
            words.extend(finish_words(summary.finish).map(str::to_string));
            Some(words.join(" · "))
        }
        Outcome::Stopped { tokens } => Some(format!("{} · stopped", count(*tokens))),
        Outcome::Failed => Some("failed".to_string()),
        Outcome::Interrupted => Some("interrupted".to_string()),
        Outcome::Loaded => None,
    }
}

fn count(tokens: usize) -> String {
    if tokens == 1 { "1 token".to_string() } else { format!("{tokens} tokens") }
}

/// The line shown while an answer has no text.
fn waiting(model: &Model) -> Option<String> {
    let Phase::Answering { .. } = model.phase else { return None };
    Some(match model.meters.prefill {
        Some(prefill) if prefill.total > 0 => {
            let share = prefill.done as f64 / prefill.total as f64;
            let bar = figures::bar(share, 12);
            format!("reading the prompt {bar} {} of {} tokens", prefill.done, prefill.total)
        }
        _ => "reading the prompt".to_string(),
    })
}

fn spans(row: &Row, marks: bool, base: Style, theme: &Theme) -> Vec<Span<'static>> {
    let mut spans = Vec::new();
    for piece in row {
        let style = style(piece, marks, base, theme);
        // Spaces are not underlined: words are, so that rows stay calm.
        let mut rest = piece.text.as_str();
        while let Some(first) = rest.chars().next() {
            let blank = first.is_whitespace();
            let end = rest.find(|c: char| c.is_whitespace() != blank).unwrap_or(rest.len());
            let (run, after) = rest.split_at(end);
            let style = if blank { style.remove_modifier(Modifier::UNDERLINED) } else { style };
            spans.push(Span::styled(run.to_string(), style));
            rest = after;
        }
    }
    spans
}

fn style(piece: &Piece, marks: bool, base: Style, theme: &Theme) -> Style {
    let look = piece.look;
    let mut style = match look.kind {
        Kind::Markup => return theme.faint,
        Kind::Text => base,
        Kind::Heading => base.add_modifier(Modifier::BOLD),
        Kind::Code => base.patch(theme.literal),
        Kind::Keyword => base.patch(theme.keyword),
        Kind::Literal | Kind::Number => base.patch(theme.literal),
        Kind::Comment => base.patch(theme.dim),
    };
    if marks && piece.origin == Some(Origin::Accepted) {
        // In code, colours belong to the syntax: there the underline alone tells the origin.
        style = match look.kind {
            Kind::Text | Kind::Heading => style.patch(accepted(theme)),
            _ => style.add_modifier(Modifier::UNDERLINED),
        };
    }
    if look.strong {
        style = style.add_modifier(Modifier::BOLD);
    }
    if look.emphasis {
        style = style.add_modifier(Modifier::ITALIC);
    }
    style
}

/// Style of accepted tokens in the text: bold is left to the text's own emphasis.
fn accepted(theme: &Theme) -> Style {
    theme.accepted.remove_modifier(Modifier::BOLD).add_modifier(Modifier::UNDERLINED)
}

fn scrollbar(
    frame: &mut Frame<'_>,
    area: Rect,
    model: &Model,
    theme: &Theme,
    top: usize,
    all: usize,
) {
    let fit = usize::from(area.height);
    if all <= fit || area.width < 4 {
        return;
    }
    let thumb = (fit * fit / all).max(1);
    let at = (fit - thumb) * top / (all - fit);
    let x = area.right() - 1;
    for (index, row) in area.rows().enumerate() {
        let on = (at..at + thumb).contains(&index);
        let style = if on && focused(model, Focus::Chat) { theme.accent } else { theme.faint };
        if on {
            frame.buffer_mut().set_string(x, row.y, "▐", style);
        }
    }
    let below = model.chat.below();
    if below > 0 {
        let words = format!(" ↓ {below} more ");
        let columns = words.chars().count() as u16;
        if area.width > columns + 4 {
            let x = area.right() - columns - 2;
            frame.buffer_mut().set_string(x, area.bottom() - 1, words, theme.selected);
        }
    }
}

/// The empty screen: what this is, what to type, how to read the marks.
fn welcome(frame: &mut Frame<'_>, area: Rect, model: &Model, theme: &Theme) {
    let mut lines: Vec<Line<'_>> = Vec::new();
    let text = |words: &str| Line::styled(words.to_string(), theme.text);
    let dim = |words: &str| Line::styled(words.to_string(), theme.dim);
    match &model.phase {
        Phase::Loading { stage, fraction } => {
            lines.push(dim(stage));
            if let Some(fraction) = fraction {
                lines.push(Line::from_iter([
                    Span::styled(figures::bar(f64::from(*fraction), 32), theme.accent),
                    Span::styled(format!(" {}", figures::percent(f64::from(*fraction))), theme.dim),
                ]));
            }
        }
        Phase::Broken => lines.push(Line::styled("nothing is loaded: Ctrl+C quits", theme.error)),
        _ => {
            lines.push(text("A small draft model guesses a tree of words ahead; the big model"));
            lines.push(text("checks the whole tree at once and keeps what it would have said."));
            lines.push(Line::default());
            lines.push(Line::from_iter([
                Span::styled("underlined", accepted(theme)),
                Span::styled("  guessed by the draft, confirmed", theme.dim),
            ]));
            lines.push(Line::from_iter([
                Span::styled("plain", theme.text),
                Span::styled("       chosen by the big model itself", theme.dim),
            ]));
            lines.push(Line::default());
            lines.push(dim("Try"));
            for prompt in PROMPTS {
                lines.push(Line::from_iter([
                    Span::styled("❯ ", theme.accent),
                    Span::styled(prompt, theme.text),
                ]));
            }
        }
    }
    let height = lines.len() as u16;
    let width = lines.iter().map(Line::width).max().unwrap_or(0) as u16;
    let x = area.x + area.width.saturating_sub(width) / 2;
    let y = area.y + area.height.saturating_sub(height) / 3;
    let area = Rect { x, y, ..area }.intersection(area);
    super::lines(frame, area, lines);
}

/// Questions of the kind the bundled pair was trained on.
const PROMPTS: [&str; 3] = [
    "Tell me a story about a fox and a lantern.",
    "What is the sun?",
    "I had a long day. Can you cheer me up?",
];
