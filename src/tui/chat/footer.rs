//! The rows below an answer that has ended: its length, its speed, its version and what can be done
//! next. Broken between two of these where one row is too narrow. Must never know the answer's
//! text.

use super::{AnswerOutcome, Turn};
use crate::chat::{Cut, Role};
use crate::tui::actions::Action;
use crate::tui::draw::{Line, Modifier, Span, Styles, figures};
use crate::tui::keymap::Keymap;
use crate::tui::meters::payoff;

/// Before every row, as before an answer's.
const GUTTER: &str = "   ";
/// What the figures leave out, where an earlier run of the program wrote the beginning.
const SINCE: &str = " since it continued";
/// Between two parts of a row.
const BETWEEN: &str = " · ";

/// The rows below `turn`, at most `width` columns wide unless a part is wider; none below
/// what has not ended. `last`: it is the last of the conversation and nothing is under way: whether
/// a key continues it now.
pub(crate) fn rows(
    turn: &Turn,
    last: Option<bool>,
    width: usize,
    keys: &Keymap,
    styles: &Styles,
) -> Vec<Line<'static>> {
    let failed = turn.outcome == Some(AnswerOutcome::Failed);
    let style = if failed { styles.error } else { styles.dim };
    let unanswered = last.is_some() && turn.role == Role::User;
    let words = if unanswered { vec!["no answer yet".to_string()] } else { words(turn) };
    if words.is_empty() {
        return Vec::new();
    }
    let dim = |words: String| Line::from(Span::styled(words, style));
    let mut parts: Vec<Line<'_>> = words.into_iter().map(dim).collect();
    if let Some(speedup) = turn.speedup {
        let words = Span::styled(speedup.words(), payoff::style(speedup, styles));
        let reason = Span::styled(speedup.reason().unwrap_or_default(), style);
        parts.push(Line::from_iter([words, reason]));
    }
    let (version, versions) = turn.versions.place();
    if versions > 1 {
        parts.push(dim(format!("version {version} of {versions}")));
    }
    if last == Some(true) && (unanswered || turn.goes_on()) {
        let does = match turn.outcome {
            _ if unanswered => "answers it",
            // It may need room first, or say that there is none.
            Some(AnswerOutcome::Ended(Some(Cut::ContextFull))) => "shows how to continue",
            _ => "continues",
        };
        let words = format!("{} {does}", keys.name(Action::Send));
        parts.push(Line::from(Span::styled(words, styles.accent)));
    }
    let mut rows: Vec<Line<'static>> = Vec::new();
    for mut part in parts {
        let between = Span::styled(BETWEEN, style);
        let needs = between.width() + part.width();
        if let Some(row) = rows.last_mut().filter(|row| row.width() + needs <= width) {
            row.push_span(between);
            row.extend(part);
        } else {
            let gutter = styles.accent.add_modifier(Modifier::BOLD);
            part.spans.insert(0, Span::styled(GUTTER, gutter));
            rows.push(part);
        }
    }
    rows
}

/// What the outcome says.
fn words(turn: &Turn) -> Vec<String> {
    let Some(outcome) = turn.outcome else { return Vec::new() };
    if turn.role != Role::Assistant {
        return Vec::new();
    }
    let all = turn.totals.unwrap_or_default();
    let since = if all.lacks_beginning { SINCE } else { "" };
    match outcome {
        AnswerOutcome::STOPPED => {
            vec![format!("{}{since}", figures::many(all.tokens, "token")), "stopped".to_string()]
        }
        AnswerOutcome::Ended(cut) => {
            let mut counts = match all.rounds {
                0 => figures::many(all.tokens, "token"),
                rounds => figures::tokens_in(all.tokens, rounds),
            };
            if turn.counts_rounds && all.decoded > all.rounds {
                counts.push_str(&format!(" instead of {}", all.decoded));
            }
            let mut words = vec![counts + since];
            words.extend(match cut {
                Some(Cut::Limit(most)) => Some(format!("stopped at the limit of {most} tokens")),
                Some(Cut::ContextFull) => Some("context full".to_string()),
                Some(Cut::Stopped) | None => None,
            });
            if all.rounds > 0 && !turn.counts_rounds {
                words.push(format!("{} tok/s", figures::rate(all.tokens_per_second())));
            }
            words
        }
        AnswerOutcome::Failed => vec!["failed".to_string()],
        AnswerOutcome::Interrupted => vec!["interrupted".to_string()],
        AnswerOutcome::Loaded if turn.versions.place().1 > 1 => vec!["saved".to_string()],
        AnswerOutcome::Loaded => Vec::new(),
    }
}
