//! The conversation as rows. Must never change what it says.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use super::layers::{draw_pictures, draw_selection, scrollbar};
use super::{SeenRows, Turn, TurnPart, footer, welcome};
use crate::chat::Role;
use crate::decode::{Origin, PrefillProgress};
use crate::tui::actions::Action;
use crate::tui::display::Focus;
use crate::tui::draw::{
    Frame, Line, Modifier, Rect, Span, Style, Styles, draw_rows, figures, focused, marked,
    role_style, stressed,
};
use crate::tui::markdown::{SpanRole, StyledSpan, TextRow, text_of};
use crate::tui::models::Phase;
use crate::tui::state::ScreenState;

/// Before every row but the first of a question.
const GUTTER: &str = "   ";
/// Before every row of open thoughts.
const BAR: &str = "│ ";
/// A file in a message that has more rows is folded.
const LONGEST_FILE: usize = 16;
/// Longer rows are hard to read.
pub(crate) const WIDEST: u16 = 90;

/// Columns before a row's text.
pub(super) fn before(part: TurnPart) -> u16 {
    let bar = if part == TurnPart::Thought { BAR.width() } else { 0 };
    (GUTTER.width() + bar) as u16
}

/// A row of the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChatRow {
    /// The turn that it belongs to.
    pub turn: usize,
    /// What it shows of it.
    pub shows: Shows,
}

/// What a row shows of its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shows {
    /// How much was thought.
    ThoughtTitle,
    /// A row of a part, as laid out.
    Row(TurnPart, usize),
    /// A row of an image that a row of the text names: that row, which of its images, and the row.
    Picture(usize, usize, u16),
    /// How many rows of a file in a message are folded.
    Folded(usize),
    /// That there is no text.
    NoText,
    /// A row of its footer.
    Footer(usize),
    /// What the model is not given any more.
    Forgotten,
    /// Nothing.
    Blank,
}

pub(crate) fn draw(frame: &mut Frame<'_>, area: Rect, state: &mut ScreenState, styles: &Styles) {
    let places = std::mem::take(&mut state.pictures.places);
    if area.is_empty() {
        return;
    }
    if state.chat.turns().is_empty() {
        welcome::draw(frame, area, state, styles);
        return;
    }
    let footers = lay_out(area.width, state, styles);
    // Not by the rows of the chat, which change as one types.
    state.pictures.fit(columns(area.width), state.display.size.1 / 3);
    let rows = all_rows(state, &footers);
    let fit = usize::from(area.height);
    state.chat.fit(rows.len(), fit);
    go_to_match(state, &rows);
    let lit = lit(state);
    if state.tree.goes()
        && let Some(row) = lit.as_ref().and_then(|lit| row_of(state, &rows, lit))
    {
        state.chat.reveal(row);
    }
    // A short conversation begins at the top.
    let top = state.chat.fit(rows.len(), fit);
    let seen = &rows[top..rows.len().min(top + fit)];
    let writing = state.chat.turns().last().is_some_and(|turn| turn.outcome.is_none());
    let end = rows.iter().rposition(|row| !matches!(row.shows, Shows::Footer(_)));
    let lines = seen.iter().enumerate().map(|(at, row)| {
        let mut line = match row.shows {
            Shows::Footer(at) => footers[row.turn][at].clone(),
            _ => line(state, *row, top + at, lit.as_ref(), styles),
        };
        if writing && Some(top + at) == end && !matches!(row.shows, Shows::NoText | Shows::Blank) {
            line.push_span(Span::styled("▍", styles.accent));
        }
        if is_code(state, *row) { in_block(line, area.width, styles) } else { line }
    });
    draw_rows(frame, area, lines);
    draw_pictures(frame, area, seen, &places, state);
    // Rows of another width are others.
    if area.width != state.chat.seen.area.width {
        state.chat.selection = None;
    }
    state.chat.seen = SeenRows { area, rows: seen.to_vec() };
    draw_selection(frame, state);
    if focused(state, Focus::Chat) || !state.chat.follows() {
        scrollbar(frame, area, state, styles);
    }
}

/// Columns of the text in a chat of `across` columns.
fn columns(across: u16) -> u16 {
    across.saturating_sub(before(TurnPart::Text) + 2).clamp(1, WIDEST)
}

/// Lays every turn out for a chat of `across` columns; the rows below each.
fn lay_out(across: u16, state: &mut ScreenState, styles: &Styles) -> Vec<Vec<Line<'static>>> {
    let width = usize::from(columns(across));
    let last = state.chat.turns().len() - 1;
    // With a message written the key sends that.
    let goes_on = state.models.phase == Phase::Idle && state.input.is_empty();
    let goes_on = (!state.answering()).then_some(goes_on && !state.models.replay);
    let open = state.chat.shows_thoughts;
    let keys = &state.display.keys;
    let turns = state.chat.turns.iter_mut().enumerate();
    turns
        .map(|(at, turn)| {
            turn.lay_out(width, open.then(|| width.saturating_sub(BAR.width())));
            let goes_on = if at == last { goes_on } else { None };
            let across = usize::from(across);
            let heat = state.display.heat.then(|| footer::heat(turn, across, styles)).flatten();
            let footer = footer::rows(turn, goes_on, across, keys, styles);
            heat.into_iter().chain(footer).collect()
        })
        .collect()
}

/// The rows of the conversation, as laid out.
fn all_rows(state: &ScreenState, footers: &[Vec<Line<'_>>]) -> Vec<ChatRow> {
    let mut rows = Vec::new();
    for (index, (said, footer)) in state.chat.turns().iter().zip(footers).enumerate() {
        let part = |part| (0..said.rows_of(part).len()).map(move |at| Shows::Row(part, at));
        let mut shows = Vec::new();
        if let Some(thought) = &said.thought {
            shows.push(Shows::ThoughtTitle);
            if state.chat.shows_thoughts && !thought.text.is_empty() {
                shows.extend(part(TurnPart::Thought));
            }
            if !said.text.is_empty() {
                shows.push(Shows::Blank);
            }
        } else if said.rows_of(TurnPart::Text).is_empty() {
            shows.push(Shows::NoText);
        }
        let whole = said.role != Role::User || state.chat.shows_files || state.chat.find.is_some();
        let text = said.rows_of(TurnPart::Text);
        let mut at = 0;
        while at < text.len() {
            shows.push(Shows::Row(TurnPart::Text, at));
            for (image, path) in said.document.images(at).iter().enumerate() {
                let rows = 0..state.pictures.rows(path);
                shows.extend(rows.map(|row| Shows::Picture(at, image, row)));
            }
            at += 1;
            let folded = if whole { 0 } else { rows_of_file(&text[at - 1..]) };
            if folded > LONGEST_FILE {
                shows.push(Shows::Folded(folded));
                at += folded;
            }
        }
        shows.extend((0..footer.len()).map(Shows::Footer));
        shows.push(Shows::Blank);
        if index + 1 == state.chat.forgotten.messages {
            shows.extend([Shows::Forgotten, Shows::Blank]);
        }
        rows.extend(shows.into_iter().map(|shows| ChatRow { turn: index, shows }));
    }
    // The last turn needs no space below it.
    rows.pop();
    rows
}

/// Rows of the file that the first of these rows opens with a fence; 0 if it opens none.
fn rows_of_file(rows: &[TextRow]) -> usize {
    let opens = |row: &TextRow| row.first().is_some_and(|piece| piece.text.starts_with("```"));
    let Some((fence, rows)) = rows.split_first().filter(|(first, _)| opens(first)) else {
        return 0;
    };
    let fence = text_of(fence);
    rows.iter().position(|row| opens(row) && text_of(row) == fence).unwrap_or(0)
}

/// Goes to the words that are looked for, if the search has moved since the last frame.
fn go_to_match(state: &mut ScreenState, rows: &[ChatRow]) {
    let Some(mut find) = state.chat.find.take_if(|find| find.goes) else { return };
    let turns = state.chat.turns();
    let is_in = |&at: &usize| match rows[at].shows {
        Shows::Row(TurnPart::Text, row) => {
            let text = turns[rows[at].turn].rows_of(TurnPart::Text);
            !find.places(&text_of(&text[row])).is_empty()
        }
        _ => false,
    };
    let found: Vec<usize> = (0..rows.len()).filter(is_in).collect();
    if let Some((row, number)) = find.go(&found) {
        state.chat.go_to(row);
        let end = state.display.keys.name(Action::Escape);
        let of = figures::many(found.len(), "row");
        state.say(format!(
            "Match {number} of {of} · /find goes to the one above, {end} ends the search"
        ));
    } else {
        state.complain("No match found");
    }
    state.chat.find = Some(find);
}

/// A turn, bytes of its text, and those of the token that is looked at; the latter may be empty.
type Lit = (usize, Range<usize>, Range<usize>);

fn lit(state: &ScreenState) -> Option<Lit> {
    let (turn, bytes) = state.lit()?;
    let token = state.token_looked_at().filter(|token| token.0 == turn);
    let token = token.map(|(_, at)| state.chat.turns()[turn].minds.bytes(at));
    Some((turn, bytes, token.unwrap_or_default()))
}

/// The first row with the token that is looked at, or else with the words of its round.
fn row_of(state: &ScreenState, rows: &[ChatRow], (turn, bytes, token): &Lit) -> Option<usize> {
    let bytes = if token.is_empty() { bytes } else { token };
    let text = state.chat.turns().get(*turn)?.rows_of(TurnPart::Text);
    let is_there = |piece: &StyledSpan| {
        piece.at.is_some_and(|at| at < bytes.end && at + piece.text.len() > bytes.start)
    };
    let at = text.iter().position(|row| row.iter().any(is_there))?;
    let shows = Shows::Row(TurnPart::Text, at);
    rows.iter().position(|row| *row == ChatRow { turn: *turn, shows })
}

/// Row `index` of the conversation.
fn line(
    state: &ScreenState,
    row: ChatRow,
    index: usize,
    lit: Option<&Lit>,
    styles: &Styles,
) -> Line<'static> {
    let said = &state.chat.turns()[row.turn];
    let user = said.role == Role::User;
    let ours = |words: String, style: Style| {
        Line::from_iter([Span::raw(GUTTER), Span::styled(words, style)])
    };
    let gutter = |first: bool| {
        let gutter = if user && first { " ❯ " } else { GUTTER };
        Span::styled(gutter, styles.accent.add_modifier(Modifier::BOLD))
    };
    match row.shows {
        Shows::Footer(_) | Shows::Blank | Shows::Picture(..) => Line::default(),
        Shows::ThoughtTitle => ours(title(said, state.chat.shows_thoughts), styles.dim),
        Shows::Folded(rows) => ours(format!("▸ {}", figures::many(rows, "row")), styles.dim),
        Shows::Forgotten => ours(forgotten(state), styles.warning),
        Shows::NoText => {
            let open = said.outcome.is_none();
            let words = if open { waiting(state) } else { "(no text)".to_string() };
            Line::from_iter([gutter(true), Span::styled(words, styles.dim)])
        }
        Shows::Row(TurnPart::Thought, at) => {
            let mut line = ours(BAR.to_string(), styles.faint);
            let text = text_of(&said.rows_of(TurnPart::Thought)[at]);
            line.push_span(Span::styled(text, styles.dim));
            line
        }
        Shows::Row(TurnPart::Text, at) => {
            let text = &said.rows_of(TurnPart::Text)[at];
            let base = if user { styles.strong } else { styles.text };
            let mut line = Line::from(spans(text, state.marks(row.turn), base, styles));
            let mut gutter = gutter(at == 0);
            if let Some((_, bytes, token)) = lit.filter(|lit| lit.0 == row.turn) {
                let around = if token.is_empty() { styles.lit } else { styles.selected };
                line = marked(line, &places(text, bytes), around);
                line = marked(line, &places(text, token), styles.lit);
            }
            if let Some(find) = &state.chat.find {
                let found = find.places(&text_of(text));
                if !found.is_empty() && find.at == Some(index) {
                    gutter.content = gutter.content.replacen(' ', "▸", 1).into();
                }
                line = marked(line, &found, styles.selected.add_modifier(Modifier::BOLD));
            }
            line.spans.insert(0, gutter);
            for picture in
                said.document.images(at).iter().filter_map(|path| state.pictures.get(path))
            {
                let (width, height) = picture.pixels;
                line.push_span(Span::styled(format!(" {width} × {height} px"), styles.dim));
            }
            line
        }
    }
}

/// Whether it is a row of a block of code.
fn is_code(state: &ScreenState, row: ChatRow) -> bool {
    let Shows::Row(TurnPart::Text, at) = row.shows else { return false };
    let text = state.chat.turns()[row.turn].rows_of(TurnPart::Text).get(at);
    text.is_some_and(|text| text.iter().any(|piece| piece.look.code))
}

/// The row with the background of code behind all of it but the gutter.
fn in_block(mut line: Line<'static>, width: u16, styles: &Styles) -> Line<'static> {
    let rest = usize::from(width).saturating_sub(line.width() + 1);
    line.push_span(Span::raw(" ".repeat(rest)));
    for span in line.spans.iter_mut().skip(1) {
        span.style = styles.code.patch(span.style);
    }
    line
}

fn title(said: &Turn, shown: bool) -> String {
    let arrow = if shown { "▾" } else { "▸" };
    let writing = said.outcome.is_none() && said.text.is_empty();
    let verb = if writing { "thinking" } else { "thought" };
    match said.thought.as_ref().and_then(|thought| thought.tokens) {
        Some(tokens) => format!("{verb} for {} {arrow} ", figures::many(tokens, "token")),
        None => format!("{verb} {arrow} "),
    }
}

/// What the model is not given any more.
fn forgotten(state: &ScreenState) -> String {
    let turns = &state.chat.turns()[..state.chat.forgotten.messages];
    let asked = turns.iter().filter(|turn| turn.role == Role::User).count();
    let what = if state.chat.forgotten.summary.is_some() { "summarised" } else { "forgotten" };
    format!("── {} above {what}: the context was full ──", figures::many(asked, "exchange"))
}

/// What is shown while an answer has no text.
fn waiting(state: &ScreenState) -> String {
    if !state.answering() {
        return String::new();
    }
    if state.chat.summarising.is_some() {
        return "summarising the oldest exchanges to make room".to_string();
    }
    match state.meters.answer.prefill {
        Some(PrefillProgress { done, total }) if total > 0 => {
            let bar = figures::bar(done as f64 / total as f64, 12);
            format!("reading the prompt {bar} {done} of {total} tokens")
        }
        _ => "reading the prompt".to_string(),
    }
}

fn spans(row: &[StyledSpan], marks: bool, base: Style, styles: &Styles) -> Vec<Span<'static>> {
    let mut spans = Vec::new();
    for piece in row {
        let style = style(piece, marks, base, styles);
        // Spaces are not underlined: words are, so that rows stay calm.
        spans.extend(piece.text.split_word_bounds().map(|word| match word.trim() {
            "" => Span::styled(word.to_string(), style.remove_modifier(Modifier::UNDERLINED)),
            _ => Span::styled(word.to_string(), style),
        }));
    }
    spans
}

/// The bytes of a row's text that show these bytes of the message. A character that is drawn as
/// another one, or that two tokens share, belongs to what comes before.
fn places(row: &[StyledSpan], bytes: &Range<usize>) -> Vec<Range<usize>> {
    let mut begin = 0;
    let mut places = Vec::new();
    for StyledSpan { text, at, .. } in row {
        if let Some(at) = at {
            let place = |byte: usize| {
                let place = byte.saturating_sub(*at).min(text.len());
                begin + (place..).find(|&place| text.is_char_boundary(place)).unwrap_or(text.len())
            };
            places.push(place(bytes.start)..place(bytes.end));
        }
        begin += text.len();
    }
    places.retain(|place| !place.is_empty());
    places
}

fn style(piece: &StyledSpan, marks: bool, base: Style, styles: &Styles) -> Style {
    let look = piece.look;
    let mut style = role_style(look, base, styles);
    if look.role == SpanRole::Markup {
        return style;
    }
    if piece.origin == Some(Origin::Forced) {
        style = style.patch(styles.warning).add_modifier(Modifier::REVERSED);
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
