//! The rows below an answer that has ended: its length, its speed, its version and what can be done
//! next. Broken between two of these where one row is too narrow. Must never know the answer's
//! text.

use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::{AnswerOutcome, AnswerTotals, Turn, finish_words};
use crate::chat::Role;
use crate::decode::Finish;
use crate::tui::actions::Action;
use crate::tui::draw::figures;
use crate::tui::keymap::Keymap;
use crate::tui::meters::payoff;
use crate::tui::theme::Styles;

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
    let style = match turn.outcome {
        Some(AnswerOutcome::Failed) => styles.error,
        _ => styles.dim,
    };
    let unanswered = last.is_some() && turn.role == Role::User;
    let mut parts: Vec<Vec<Span<'static>>> =
        if unanswered { vec!["no answer yet".to_string()] } else { words(turn) }
            .into_iter()
            .map(|words| vec![Span::styled(words, style)])
            .collect();
    if parts.is_empty() {
        return Vec::new();
    }
    if let Some(speedup) = turn.speedup {
        let mut part = vec![Span::styled(speedup.words(), payoff::style(speedup, styles))];
        part.extend(speedup.reason().map(|reason| Span::styled(reason, style)));
        parts.push(part);
    }
    let (version, versions) = turn.versions.place();
    if versions > 1 {
        parts.push(vec![Span::styled(format!("version {version} of {versions}"), style)]);
    }
    if last == Some(true) && (unanswered || turn.goes_on()) {
        let full = matches!(&turn.outcome, Some(AnswerOutcome::Finished(summary))
            if summary.finish == Some(Finish::ContextFull));
        let does = match (unanswered, full) {
            (true, _) => "answers it",
            // It may need room first, or say that there is none.
            (_, true) => "shows how to continue",
            (_, false) => "continues",
        };
        let words = format!("{} {does}", keys.name(Action::Send));
        parts.push(vec![Span::styled(words, styles.accent)]);
    }
    broken(parts, width, style, styles)
}

fn broken(
    parts: Vec<Vec<Span<'static>>>,
    width: usize,
    style: Style,
    styles: &Styles,
) -> Vec<Line<'static>> {
    let mut rows: Vec<Line<'static>> = Vec::new();
    for part in parts {
        let needs: usize = BETWEEN.chars().count() + part.iter().map(Span::width).sum::<usize>();
        match rows.last_mut().filter(|row| row.width() + needs <= width) {
            Some(row) => {
                row.push_span(Span::styled(BETWEEN, style));
                row.extend(part);
            }
            None => {
                let gutter = styles.accent.add_modifier(Modifier::BOLD);
                let mut row = Line::from(Span::styled(GUTTER, gutter));
                row.extend(part);
                rows.push(row);
            }
        }
    }
    rows
}

/// What the outcome says.
fn words(turn: &Turn) -> Vec<String> {
    if turn.role != Role::Assistant {
        return Vec::new();
    }
    match &turn.outcome {
        Some(AnswerOutcome::Finished(summary)) => {
            let all = turn.totals.unwrap_or_else(|| AnswerTotals::default().with(summary));
            let mut words = vec![match all.rounds {
                0 => count(all.tokens),
                rounds => format!("{} in {}", count(all.tokens), figures::many(rounds, "round")),
            }];
            if turn.counts_rounds && all.plain_rounds() > all.rounds {
                words[0].push_str(&format!(" instead of {}", all.plain_rounds()));
            }
            if all.lacks_beginning {
                words[0].push_str(SINCE);
            }
            words.extend(finish_words(summary));
            if all.rounds > 0 && !turn.counts_rounds {
                words.push(format!("{} tok/s", figures::rate(all.tokens_per_second())));
            }
            words
        }
        Some(AnswerOutcome::Stopped) => {
            let all = turn.totals.unwrap_or_default();
            let since = if all.lacks_beginning { SINCE } else { "" };
            vec![format!("{}{since}", count(all.tokens)), "stopped".to_string()]
        }
        Some(AnswerOutcome::Failed) => vec!["failed".to_string()],
        Some(AnswerOutcome::Interrupted) => vec!["interrupted".to_string()],
        Some(AnswerOutcome::Loaded) if turn.versions.place().1 > 1 => vec!["saved".to_string()],
        Some(AnswerOutcome::Loaded) | None => Vec::new(),
    }
}

fn count(tokens: usize) -> String {
    figures::many(tokens, "token")
}
