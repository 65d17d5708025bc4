//! A race: plain and speculative side by side, each with its way to the finish line. Must never
//! change it.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use super::{Lane, Race};
use crate::printable::printable;
use crate::tui::draw::areas::Areas;
use crate::tui::draw::figures;
use crate::tui::draw::frames::{Edges, boxed};
use crate::tui::draw::rows::{cut, ends, wrapped};
use crate::tui::meters::payoff;
use crate::tui::state::ScreenState;
use crate::tui::theme::Styles;

/// Columns between the two.
const GAP: u16 = 3;

/// Draws the race of the chat in a box.
pub(crate) fn draw(frame: &mut Frame<'_>, areas: &Areas, state: &ScreenState, styles: &Styles) {
    let Some((run, _)) = &state.overlays.race else { return };
    let area = areas.body;
    let take = state.display.keys.take();
    let close = state.display.keys.close();
    let foot = match run.measuring() {
        true => format!(" {close} stop "),
        false if run.playing(state.now) => format!(" {take} skip · {close} close "),
        false => format!(" {take} play again · {close} close "),
    };
    let edges = Edges { title: " race: the last question, twice ".into(), foot };
    let inner = boxed(frame, areas, area, 124, 26, edges, styles);
    draw_lanes(frame.buffer_mut(), inner, run, run.elapsed(state.now), styles);
}

/// Draws it into `area` as it is `ms` after both began to play.
pub(crate) fn draw_lanes(buffer: &mut Buffer, area: Rect, race: &Race, ms: f64, styles: &Styles) {
    if area.height < 4 || area.width < 20 {
        return;
    }
    let width = (area.width - GAP) / 2;
    let lanes = Rect { height: area.height - 2, ..area };
    let titles = ["plain".to_string(), format!("speculative · {}", race.strategy)];
    for (at, (lane, title)) in race.lanes.iter().zip(titles).enumerate() {
        let x = area.x + at as u16 * (width + GAP);
        // While it is timed, what came so far is shown as it comes.
        let ms = if race.measuring() { lane.total_ms() } else { ms };
        let title = if race.is_running(at) { format!("timing {title} …") } else { title };
        // The length of the first answer is not known yet.
        let all = match (race.measuring(), at) {
            (true, 0) => None,
            (true, _) => Some(race.lanes[0].tokens()),
            (false, _) => Some(lane.tokens()),
        };
        let there = !race.measuring() && ms >= lane.total_ms();
        let counts_rounds = race.counts_rounds;
        let shown = ShownLane { lane, title, all, there, counts_rounds, ms };
        let area = Rect { x, width, ..lanes };
        put(buffer, area, shown.rows(area, styles));
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
        let words = "timing both answers, one after the other, with the same seed";
        return (words.to_string(), styles.dim);
    }
    if ms < race.length_ms() {
        let words = match race.counts_rounds {
            true => "replay: one pace for both, the number of rounds counts",
            false => "replay: each answer at the pace that was measured",
        };
        return (words.to_string(), styles.dim);
    }
    (race.result(), payoff::of(race.ratio(), styles).add_modifier(Modifier::BOLD))
}

/// A lane as it is shown.
struct ShownLane<'a> {
    lane: &'a Lane,
    title: String,
    /// The tokens that it will have; `None` if that is not known.
    all: Option<usize>,
    /// Whether it has arrived.
    there: bool,
    /// Whether rounds are compared instead of times.
    counts_rounds: bool,
    /// Milliseconds after the first token.
    ms: f64,
}

impl ShownLane<'_> {
    fn rows(self, Rect { width, height, .. }: Rect, styles: &Styles) -> Vec<Line<'static>> {
        let Self { lane, title, all, there, counts_rounds, ms } = self;
        let tokens = lane.tokens_at(ms);
        let share = all.map_or(0.0, |all| tokens as f64 / all.max(1) as f64);
        let columns = usize::from(width).saturating_sub(2);
        let bar = figures::bar(share, columns);
        let style = if there { styles.accepted } else { styles.accent };
        let time = match counts_rounds {
            true => String::new(),
            false => figures::time(ms.min(lane.total_ms())),
        };
        let counts = format!(
            "{} in {}",
            figures::many(tokens, "token"),
            figures::many(lane.rounds_at(ms), "round")
        );
        let counts = Line::styled(counts, styles.dim);
        let mut rows = vec![
            Line::styled(title, styles.strong),
            Line::from_iter([
                Span::styled(bar, style.remove_modifier(Modifier::BOLD)),
                // The finish line.
                Span::styled("┃", if there { styles.accepted } else { styles.strong }),
            ]),
            ends(
                counts,
                Line::styled(time, if there { styles.strong } else { styles.text }),
                width,
            ),
            Line::default(),
        ];
        let text = printable(lane.text_at(ms)).into_owned();
        let said = wrapped(&text, width, styles.text);
        let room = usize::from(height).saturating_sub(rows.len());
        let skip = said.len().saturating_sub(room);
        rows.extend(said.into_iter().skip(skip));
        rows
    }
}
