//! The conversation as rows, which are kept with it. Must never change what it says.

use std::ops::Range;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::thought::view as thought;
use super::{SeenRows, Thought, Turn, TurnPart, footer, welcome};
use crate::chat::Role;
use crate::decode::Origin;
use crate::tui::actions::Action;
use crate::tui::display::Focus;
use crate::tui::draw::figures;
use crate::tui::draw::frames::focused;
use crate::tui::draw::rows::{draw_rows, marked, role_style, stressed};
use crate::tui::markdown::{SpanRole, StyledSpan, TextRow};
use crate::tui::models::Phase;
use crate::tui::state::ScreenState;
use crate::tui::theme::Styles;

/// Before every row: the question's mark, or as much space.
const GUTTER: u16 = 3;
/// Longer rows are hard to read.
const WIDEST: u16 = 100;

pub(crate) fn draw(frame: &mut Frame<'_>, area: Rect, state: &mut ScreenState, styles: &Styles) {
    if area.is_empty() {
        return;
    }
    if state.chat.turns().is_empty() {
        welcome::draw(frame, area, state, styles);
        return;
    }
    let width = area.width.saturating_sub(GUTTER + 2).clamp(1, WIDEST);
    let mut counts = Vec::with_capacity(state.chat.turns().len());
    let open = state.chat.shows_thoughts;
    let last = state.chat.turns().len() - 1;
    let mut footers = Vec::with_capacity(state.chat.turns().len());
    for (at, turn) in state.chat.turns_mut().iter_mut().enumerate() {
        let thought = thought::rows(turn, usize::from(width), open);
        turn.rows(usize::from(width));
        let across = usize::from(area.width);
        // With a message written the key sends that.
        let ended = at == last && !matches!(state.models.phase, Phase::Answering { .. });
        let goes_on = ended.then(|| state.models.phase == Phase::Idle && state.input.is_empty());
        let footer = footer::rows(turn, goes_on, across, &state.display.keys, styles);
        counts.push(thought + text_rows(turn) + footer.len() + 1);
        footers.push(footer);
    }
    // The line that says what the model is not given any more, and a row below it.
    let cut = state.chat.forgotten.messages;
    if let Some(count) = cut.checked_sub(1).and_then(|last| counts.get_mut(last)) {
        *count += 2;
    }
    // The last turn needs no space below it.
    let all = counts.iter().sum::<usize>().saturating_sub(1);
    let fit = usize::from(area.height);
    state.chat.fit(all, fit);
    go_to_match(state, &counts);
    let lit = state.lit();
    go_to_lit(state, &counts, lit.as_ref());
    let top = state.chat.fit(all, fit);
    // A short conversation begins at the top.
    let seen = SeenTurns { counts: &counts, footers, top, fit, lit: lit.as_ref() };
    let lines = visible(state, styles, seen);
    note_rows(state, area, &counts, top);
    draw_rows(frame, area, lines);
    draw_selection(frame, state);
    if focused(state, Focus::Chat) || !state.chat.follows() {
        scrollbar(frame, area, state, styles, top, all);
    }
}

/// In front of the row that was gone to.
const HERE: &str = "▸";

/// Goes to the words that are looked for, if the search has moved since the last frame.
fn go_to_match(state: &mut ScreenState, counts: &[usize]) {
    let Some(mut find) = state.chat.find.take_if(|find| find.goes()) else { return };
    let open = state.chat.shows_thoughts;
    let mut start = 0;
    let mut rows = Vec::new();
    for (turn, count) in state.chat.turns().iter().zip(counts) {
        let begin = start + thought::laid_out(turn, open);
        let found = turn.laid_out().iter().enumerate().filter(|(_, row)| find.is_in(&words(row)));
        rows.extend(found.map(|(at, _)| begin + at));
        start += count;
    }
    match find.go(&rows) {
        Some((row, number)) => {
            state.chat.go_to(row);
            let end = state.display.keys.name(Action::Escape);
            let of = figures::many(find.found, "row");
            state.say(format!(
                "Match {number} of {of} · /find goes to the one above, {end} ends the search"
            ));
        }
        None => state.complain("No match found"),
    }
    state.chat.find = Some(find);
}

/// A turn and bytes of its text.
type Lit = (usize, Range<usize>);

/// Shows the words of the round that is looked at, if it is another one than in the last
/// frame.
fn go_to_lit(state: &mut ScreenState, counts: &[usize], lit: Option<&Lit>) {
    let goes = state.tree.goes();
    let Some((turn, bytes)) = lit else { return };
    if !goes {
        return;
    }
    let open = state.chat.shows_thoughts;
    let Some(said) = state.chat.turns().get(*turn) else { return };
    let is_there = |piece: &StyledSpan| {
        piece.at.is_some_and(|at| at < bytes.end && at + piece.text.len() > bytes.start)
    };
    let row = said.laid_out().iter().position(|row| row.iter().any(is_there));
    if let Some(row) = row {
        let before: usize = counts[..*turn].iter().sum();
        state.chat.reveal(before + thought::laid_out(said, open) + row);
    }
}

/// Notes which row stands where, for the mouse.
fn note_rows(state: &mut ScreenState, area: Rect, counts: &[usize], top: usize) {
    let open = state.chat.shows_thoughts;
    let mut rows = Vec::with_capacity(usize::from(area.height));
    let mut start = 0;
    for (index, (turn, &count)) in state.chat.turns().iter().zip(counts).enumerate() {
        let begin = start + thought::laid_out(turn, open);
        let text = turn.laid_out().len();
        for at in top.max(start)..(start + count).min(top + usize::from(area.height)) {
            let row = match at.checked_sub(begin) {
                Some(row) => (row < text).then_some((TurnPart::Text, row)),
                None => {
                    thought::text_row(turn, at - start, open).map(|row| (TurnPart::Thought, row))
                }
            };
            rows.push((index, row));
        }
        start += count;
    }
    // Rows of another width are others.
    if area.width != state.chat.seen.area.width {
        state.chat.selection = None;
    }
    state.chat.seen = SeenRows { area, lead: GUTTER, bar: thought::BAR_WIDTH, rows };
}

/// What is selected with the mouse stands out.
fn draw_selection(frame: &mut Frame<'_>, state: &ScreenState) {
    let Some(selection) = state.chat.selection else { return };
    let seen = &state.chat.seen;
    for (line, (turn, row)) in seen.area.rows().zip(&seen.rows) {
        let said = state.chat.turns().get(*turn).zip(*row);
        let Some((said, (part, row))) = said else { continue };
        let Some((from, to)) = selection.columns(*turn, (part, row)) else { continue };
        let rows = match part {
            TurnPart::Text => said.laid_out(),
            TurnPart::Thought => said.thought.as_ref().map_or(&[][..], Thought::laid_out),
        };
        let Some(text) = rows.get(row) else { continue };
        let width: usize = text.iter().map(|piece| piece.text.width()).sum();
        let before = usize::from(line.x + seen.before(part));
        let begin = before + from.min(width);
        let end = before + to.min(width);
        let part = Rect { x: begin as u16, width: (end.saturating_sub(begin)) as u16, ..line };
        let part = part.intersection(line);
        frame.buffer_mut().set_style(part, Style::new().add_modifier(Modifier::REVERSED));
    }
}

fn words(row: &TextRow) -> String {
    row.iter().map(|piece| piece.text.as_str()).collect()
}

/// The words that were looked for stand out in a row; the one that was gone to has a mark in front.
fn found(
    line: Line<'static>,
    places: &[Range<usize>],
    here: bool,
    styles: &Styles,
) -> Line<'static> {
    if places.is_empty() {
        return line;
    }
    let gutter = line.spans.first().map_or(0, |gutter| gutter.content.len());
    let places: Vec<Range<usize>> =
        places.iter().map(|at| at.start + gutter..at.end + gutter).collect();
    let mut line = marked(line, &places, styles.selected.add_modifier(Modifier::BOLD));
    if here && let Some(gutter) = line.spans.first_mut() {
        gutter.content = gutter.content.replacen(' ', HERE, 1).into();
    }
    line
}

/// What of the conversation is seen.
struct SeenTurns<'a> {
    /// Rows of each turn.
    counts: &'a [usize],
    /// Those below each turn.
    footers: Vec<Vec<Line<'static>>>,
    top: usize,
    fit: usize,
    lit: Option<&'a Lit>,
}

fn visible(state: &ScreenState, styles: &Styles, seen: SeenTurns<'_>) -> Vec<Line<'static>> {
    let SeenTurns { counts, mut footers, top, fit, lit } = seen;
    let waiting = waiting(state);
    let marks = state.display.marks;
    let open = state.chat.shows_thoughts;
    let mut lines = Vec::with_capacity(fit);
    let mut start = 0;
    let cut = state.chat.forgotten.messages;
    for (index, (turn, &count)) in state.chat.turns().iter().zip(counts).enumerate() {
        let end = start + count;
        for at in top.max(start)..end.min(top + fit) {
            let at = at - start;
            if index + 1 == cut && at + 2 >= count {
                lines.push(if at + 2 == count {
                    forgotten(state, styles)
                } else {
                    Line::default()
                });
                continue;
            }
            let thought = thought::laid_out(turn, open);
            let below = at.checked_sub(thought + text_rows(turn));
            let below = below.and_then(|row| footers[index].get_mut(row));
            lines.push(match (at.checked_sub(thought), below) {
                (None, _) => thought::row(turn, at, open, styles),
                (_, Some(row)) => std::mem::take(row),
                (Some(at), None) => {
                    let lit = lit.filter(|(turn, _)| *turn == index).map(|(_, bytes)| bytes);
                    let marks = TextMarks { origins: marks, lit };
                    let line = row(turn, at, marks, waiting.as_deref(), styles);
                    let find = state.chat.find.as_ref();
                    match find.zip(turn.laid_out().get(at)) {
                        Some((find, row)) => found(
                            line,
                            &find.places(&words(row)),
                            find.is_at(start + thought + at),
                            styles,
                        ),
                        None => line,
                    }
                }
            });
        }
        start = end;
    }
    lines
}

/// Rows of a turn's text; one says that there is none yet, unless thoughts do.
fn text_rows(turn: &Turn) -> usize {
    turn.laid_out().len().max(usize::from(turn.thought.is_none()))
}

/// What of a text is marked.
#[derive(Clone, Copy)]
struct TextMarks<'a> {
    /// Where each token came from.
    origins: bool,
    /// These bytes: the words of a round.
    lit: Option<&'a Range<usize>>,
}

fn row(
    turn: &Turn,
    at: usize,
    marks: TextMarks<'_>,
    waiting: Option<&str>,
    styles: &Styles,
) -> Line<'static> {
    let rows = turn.laid_out();
    let user = turn.role == Role::User;
    let gutter = if user && at == 0 { " ❯ " } else { "   " };
    let mut line = Line::from(Span::styled(gutter, styles.accent.add_modifier(Modifier::BOLD)));
    let open = turn.outcome.is_none();
    if let Some(row) = rows.get(at) {
        line.extend(spans(row, marks, if user { styles.strong } else { styles.text }, styles));
        if open && at + 1 == rows.len() {
            line.push_span(Span::styled("▍", styles.accent));
        }
    } else if rows.is_empty() && turn.thought.is_none() && at == 0 {
        let words = if open { waiting.unwrap_or_default() } else { "(no text)" };
        line.push_span(Span::styled(words.to_string(), styles.dim));
    }
    line
}

/// The line below what the model is not given any more.
fn forgotten(state: &ScreenState, styles: &Styles) -> Line<'static> {
    let turns = &state.chat.turns()[..state.chat.forgotten.messages];
    let asked = turns.iter().filter(|turn| turn.role == Role::User).count();
    let what = if state.chat.forgotten.summary.is_some() { "summarised" } else { "forgotten" };
    let words =
        format!("── {} above {what}: the context was full ──", figures::many(asked, "exchange"));
    Line::from_iter([Span::raw("   "), Span::styled(words, styles.warning)])
}

/// The line shown while an answer has no text.
fn waiting(state: &ScreenState) -> Option<String> {
    let Phase::Answering { .. } = state.models.phase else { return None };
    if state.chat.summarising.is_some() {
        return Some("summarising the oldest exchanges to make room".to_string());
    }
    Some(match state.meters.answer.prefill {
        Some(prefill) if prefill.total > 0 => {
            let share = prefill.done as f64 / prefill.total as f64;
            let bar = figures::bar(share, 12);
            format!("reading the prompt {bar} {} of {} tokens", prefill.done, prefill.total)
        }
        _ => "reading the prompt".to_string(),
    })
}

fn spans(row: &TextRow, marks: TextMarks<'_>, base: Style, styles: &Styles) -> Vec<Span<'static>> {
    let mut spans = Vec::new();
    for (piece, part, lit) in row.iter().flat_map(|piece| parts(piece, marks.lit)) {
        let style = style(piece, marks.origins, base, styles);
        let style = if lit { style.patch(styles.lit) } else { style };
        // Spaces are not underlined: words are, so that rows stay calm.
        let mut rest = part;
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

/// A span's text before, in and after the bytes that are lit.
fn parts<'a>(
    piece: &'a StyledSpan,
    lit: Option<&Range<usize>>,
) -> [(&'a StyledSpan, &'a str, bool); 3] {
    let text = piece.text.as_str();
    let (from, to) = match (piece.at, lit) {
        (Some(at), Some(lit)) => (place(text, at, lit.start), place(text, at, lit.end)),
        _ => (0, 0),
    };
    let (before, rest) = text.split_at(from.min(to));
    let (inside, behind) = rest.split_at(to - from.min(to));
    [(piece, before, false), (piece, inside, true), (piece, behind, false)]
}

/// The place of byte `byte` of the message in `text`, which begins at its byte `at`. A character
/// that is drawn as another one, or that two tokens share, belongs to what comes before.
fn place(text: &str, at: usize, byte: usize) -> usize {
    let mut place = byte.saturating_sub(at).min(text.len());
    while !text.is_char_boundary(place) {
        place += 1;
    }
    place
}

fn style(piece: &StyledSpan, marks: bool, base: Style, styles: &Styles) -> Style {
    let look = piece.look;
    let mut style = role_style(look.role, base, styles);
    if look.role == SpanRole::Markup {
        return style;
    }
    if marks && piece.origin == Some(Origin::Accepted) {
        // In code, colours belong to the syntax: there the underline alone tells the origin.
        style = match look.role {
            SpanRole::Text | SpanRole::Heading => style.patch(styles.accepted_text()),
            _ => style.add_modifier(Modifier::UNDERLINED),
        };
    }
    stressed(look, style)
}

fn scrollbar(
    frame: &mut Frame<'_>,
    area: Rect,
    state: &ScreenState,
    styles: &Styles,
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
        let style = if on && focused(state, Focus::Chat) { styles.accent } else { styles.faint };
        if on {
            frame.buffer_mut().set_string(x, row.y, "▐", style);
        }
    }
    let below = state.chat.below();
    if below > 0 {
        let words = format!(" ↓ {below} more ");
        let columns = words.chars().count() as u16;
        if area.width > columns + 4 {
            let x = area.right() - columns - 2;
            frame.buffer_mut().set_string(x, area.bottom() - 1, words, styles.selected);
        }
    }
}
