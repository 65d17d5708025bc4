//! A race: plain and speculative side by side, each with its way to the finish line. Must never
//! change it.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use super::figures;
use super::payoff;
use super::rows::{cut, ends, wrapped};
use crate::printable::printable;
use crate::tui::state::{Lane, Race};
use crate::tui::theme::Styles;

/// Columns between the two.
const GAP: u16 = 3;

/// Draws it into `area` as it is `ms` after both began to play.
pub fn draw(buffer: &mut Buffer, area: Rect, race: &Race, ms: f64, styles: &Styles) {
    if area.height < 4 || area.width < 20 {
        return;
    }
    let width = (area.width - GAP) / 2;
    let lanes = Rect { height: area.height - 2, ..area };
    let titles = ["plain".to_string(), format!("speculative · {}", race.strategy)];
    for (at, (lane, title)) in race.lanes.iter().zip(titles).enumerate() {
        let x = area.x + at as u16 * (width + GAP);
        let rows = rows(race, lane, title, ms, width, lanes.height, styles);
        put(buffer, Rect { x, width, ..lanes }, rows);
    }
    let (words, style) = outcome(race, ms, styles);
    let foot = Rect { y: area.bottom() - 1, height: 1, ..area };
    put(buffer, foot, vec![cut(Line::styled(words, style), usize::from(area.width))]);
}

fn put(buffer: &mut Buffer, area: Rect, rows: Vec<Line<'_>>) {
    for (line, row) in rows.into_iter().zip(area.rows()) {
        line.render(row, buffer);
    }
}

fn outcome(race: &Race, ms: f64, styles: &Styles) -> (String, Style) {
    if race.measuring() {
        let which = if race.speculates() { "speculatively" } else { "plain" };
        let tokens: usize = race.lanes.iter().map(Lane::tokens).sum();
        return (format!("answering {which}, to be timed … {tokens} tokens"), styles.dim);
    }
    if ms < race.length_ms() {
        let words = match race.counts_rounds {
            true => "both play at one pace: the number of rounds counts",
            false => "each at its own measured speed; same seed",
        };
        return (words.to_string(), styles.dim);
    }
    (race.result(), payoff::of(race.ratio(), styles).add_modifier(Modifier::BOLD))
}

fn rows(
    race: &Race,
    lane: &Lane,
    title: String,
    ms: f64,
    width: u16,
    height: u16,
    styles: &Styles,
) -> Vec<Line<'static>> {
    let all = lane.tokens().max(1);
    let tokens = lane.tokens_at(ms);
    let there = !race.measuring() && ms >= lane.total_ms();
    let columns = usize::from(width).saturating_sub(2);
    let bar = figures::bar(tokens as f64 / all as f64, columns);
    let style = if there { styles.accepted } else { styles.accent };
    let time = match race.counts_rounds {
        true => String::new(),
        false => figures::time(ms.min(lane.total_ms())),
    };
    let counts = format!(
        "{} in {}",
        figures::many(tokens, "token"),
        figures::many(lane.steps_at(ms), "round")
    );
    let counts = Line::styled(counts, styles.dim);
    let mut rows = vec![
        Line::styled(title, styles.strong),
        Line::from_iter([
            Span::styled(bar, style.remove_modifier(Modifier::BOLD)),
            // The finish line.
            Span::styled("┃", if there { styles.accepted } else { styles.strong }),
        ]),
        ends(counts, Line::styled(time, if there { styles.strong } else { styles.text }), width),
        Line::default(),
    ];
    if !race.measuring() {
        let text = printable(lane.text_at(ms)).into_owned();
        let said = wrapped(&text, width, styles.text);
        let room = usize::from(height).saturating_sub(rows.len());
        let skip = said.len().saturating_sub(room);
        rows.extend(said.into_iter().skip(skip));
    }
    rows
}
