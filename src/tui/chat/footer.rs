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

/// As surprising as this many bits is a column of full height: a probability of 1 in 256.
const HOTTEST: f64 = 8.0;

/// How surprising the tokens of `turn` were to the target: columns as high as the most surprising
/// of the tokens that each stands for, in the colour of who proposed most of them. `None` if
/// nothing is known of it.
pub(crate) fn heat(turn: &Turn, width: usize, styles: &Styles) -> Option<Line<'static>> {
    let known = turn.minds.tokens.iter().filter_map(|token| Some((token, token.bits()?)));
    let known: Vec<_> = known.collect();
    let all = known.len().max(1) as f64;
    let drafted = known.iter().filter(|(token, _)| token.drafted()).count() as f64 / all;
    let bits = known.iter().map(|(_, bits)| bits).sum::<f64>() / all;
    let words = format!(" {} drafted · {bits:.1} bits per token", figures::percent(drafted));
    let cells = width.saturating_sub(GUTTER.len() + words.len() + 1).min(known.len());
    if cells == 0 {
        return None;
    }
    let mut line = Line::from(GUTTER);
    for cell in 0..cells {
        let part = &known[cell * known.len() / cells..(cell + 1) * known.len() / cells];
        let hottest = part.iter().map(|(_, bits)| *bits).fold(0.0, f64::max);
        let own = part.iter().filter(|(token, _)| token.drafted()).count();
        let style = if own * 2 >= part.len() { styles.accepted } else { styles.target };
        line.push_span(Span::styled(figures::column(hottest / HOTTEST).to_string(), style));
    }
    line.push_span(Span::styled(words, styles.dim));
    Some(line)
}

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
    if !turn.forced.is_empty() {
        parts.push(dim(figures::many(turn.forced.len(), "forced token")));
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
pub(crate) fn words(turn: &Turn) -> Vec<String> {
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
