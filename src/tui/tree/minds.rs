//! What the target wanted next to what the draft guessed for the token that is looked at: below the
//! tree of its round. Must never change the answer.

use crate::decode::{BothMinds, Origin, TokenMinds};
use crate::printable::visible;
use crate::speculate::Filter;
use crate::tui::draw::{Frame, Line, Rect, Span, Styles, draw_rows, ends, figures, wrapped};
use crate::tui::state::ScreenState;

/// Rows that the tree keeps.
const TREE: u16 = 3;

/// Draws it at the bottom of `area`; returns what is left above for the tree.
pub(super) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    state: &ScreenState,
    styles: &Styles,
) -> Rect {
    let Some((turn, at)) = state.token_looked_at() else { return area };
    let minds = &state.chat.turns()[turn].minds;
    let rows = rows(minds, &minds.tokens[at], area.width, styles);
    let height = (rows.len() as u16 + 1).min(area.height.saturating_sub(TREE));
    let above = Rect { height: area.height - height, ..area };
    let rule = Line::styled("─".repeat(usize::from(area.width)), styles.faint);
    let below = Rect { y: above.bottom(), height, ..area };
    draw_rows(frame, below, std::iter::once(rule).chain(rows));
    above
}

/// What both wanted, in a sentence.
pub(super) fn sentence(minds: &BothMinds, here: &TokenMinds) -> String {
    let named = |verb: &str, token: u32, share: f64| {
        format!("{verb} {} {}", visible(minds.label(token)), figures::percent(share))
    };
    let mut parts = Vec::new();
    if let Some(wanted) = &here.wanted {
        let verb = match here.origin {
            Origin::Forced => Some("forced"),
            _ if wanted.rank > 1 => Some("drew"),
            _ => None,
        };
        parts.extend(verb.map(|verb| named(verb, here.token, wanted.logprob.probability())));
        let first = wanted.top.first();
        parts.extend(first.map(|top| named("wanted", top.token, top.logprob.probability())));
    }
    let guess = here.guesses.iter().find(|guess| guess.token == here.token);
    parts.push(match guess.or(here.guesses.first()) {
        Some(guess) => named("drafted", guess.token, guess.logprob.probability()),
        None => "nothing drafted".to_owned(),
    });
    parts.join(", ")
}

fn rows(minds: &BothMinds, here: &TokenMinds, width: u16, styles: &Styles) -> Vec<Line<'static>> {
    let mut rows = wrapped(&sentence(minds, here), width.max(1), styles.strong);
    let top = here.wanted.as_ref().map_or(&[][..], |wanted| &wanted.top);
    if !top.is_empty() {
        let right = Line::styled("target  draft", styles.dim);
        rows.push(ends(Line::styled("1 to 0 continues from it", styles.dim), right, width));
    }
    let share = |share: Option<f64>| share.map_or("–".to_owned(), figures::percent);
    for (at, row) in here.rows().iter().enumerate() {
        let (mark, style) = match (row.token == here.token, here.origin, row.draft) {
            (true, Origin::Forced, _) => ("▶", styles.warning),
            (true, _, Some(_)) => ("●", styles.accepted),
            (true, _, None) => ("◆", styles.target),
            (false, _, Some(_)) => ("×", styles.rejected),
            (false, _, None) => (" ", styles.text),
        };
        let why = match row.cut {
            Some(Filter::TopK) => "  cut by top-k",
            Some(Filter::TopP) => "  cut by top-p",
            Some(Filter::MinP) => "  cut by min-p",
            None if row.penalised => "  penalised",
            None => "",
        };
        let number = if at < top.len() { ((at + 1) % 10).to_string() } else { String::new() };
        let left = Line::from_iter([
            Span::styled(format!("{number:>2} "), styles.dim),
            Span::styled(format!("{mark} {}", visible(minds.label(row.token))), style),
            Span::styled(why, styles.dim),
        ]);
        let right = format!("{:>6} {:>6}", share(row.target), share(row.draft));
        rows.push(ends(left, Line::styled(right, style), width));
    }
    rows
}
