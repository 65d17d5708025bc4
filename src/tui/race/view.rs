//! A race: plain and speculative side by side, each with its way to the finish line; in a box of
//! the screen, or as text for a terminal without a full screen. Must never change it.

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};
use ratatui::widgets::Widget;

use super::Race;
use crate::printable::printable;
use crate::tui::draw::{
    Areas, Edges, Frame, Line, Rect, Span, Styles, boxed, cut, ends, figures, wrapped,
};
use crate::tui::meters::payoff;
use crate::tui::state::ScreenState;
use crate::tui::theme::{self, ThemeName};

/// Columns between the two.
const GAP: u16 = 3;

/// Draws the race of the chat in a box.
pub(crate) fn draw(frame: &mut Frame<'_>, areas: &Areas, state: &ScreenState, styles: &Styles) {
    let Some((run, _)) = &state.overlays.race else { return };
    let take = state.display.keys.take();
    let close = state.display.keys.close();
    let foot = match run.measuring() {
        true if let Some(load) = &state.models.load => format!(" {} ", load.words(&close)),
        true => format!(" {close} stop "),
        false if run.playing(state.now) => format!(" {take} skip · {close} close "),
        false => format!(" {take} play again · {close} close "),
    };
    let edges = Edges { title: format!(" {} ", run.title()).into(), foot };
    let inner = boxed(frame, areas, areas.body, 124, 26, edges, styles);
    draw_lanes(frame.buffer_mut(), inner, run, run.elapsed(state.now), styles);
}

/// Draws it into `area` as it is `ms` after both began to play.
fn draw_lanes(buffer: &mut Buffer, area: Rect, race: &Race, ms: f64, styles: &Styles) {
    if area.height < 4 || area.width < 20 {
        return;
    }
    let width = (area.width - GAP) / 2;
    for at in 0..race.lanes.len() {
        let x = area.x + at as u16 * (width + GAP);
        let area = Rect { x, width, height: area.height - 2, ..area };
        for (line, row) in lane_rows(race, at, ms, area, styles).into_iter().zip(area.rows()) {
            line.render(row, buffer);
        }
    }
    let dim = |words| Line::styled(words, styles.dim);
    let outcome = if race.measuring() {
        dim("timing both answers, one after the other, with the same seed")
    } else if ms >= race.length_ms() {
        let style = match race.models() {
            Some(_) => styles.text,
            None => payoff::of(race.ratio(), styles),
        };
        Line::styled(race.result(), style.add_modifier(Modifier::BOLD))
    } else if race.counts_rounds {
        dim("replay: one pace for both, the number of rounds counts")
    } else {
        dim("replay: each answer at the pace that was measured")
    };
    let foot = Rect { y: area.bottom() - 1, height: 1, ..area };
    cut(outcome, usize::from(area.width)).render(foot, buffer);
}

/// The rows of lane `at`: its title, its way to the finish line, its counts and its text.
fn lane_rows(race: &Race, at: usize, ms: f64, area: Rect, styles: &Styles) -> Vec<Line<'static>> {
    let lane = &race.lanes[at];
    let end = lane.end();
    // While it is timed, what came so far is shown as it comes.
    let ms = if race.measuring() { end.at_ms } else { ms };
    let title = &race.names()[at];
    let title = if race.running == at { format!("timing {title} …") } else { title.clone() };
    let now = lane.at(ms);
    let share = match (race.measuring(), at) {
        // How long the first answer will be is not known yet.
        (true, 0) => 0.0,
        (true, _) => now.tokens as f64 / race.lanes[0].end().tokens.max(1) as f64,
        (false, _) => now.tokens as f64 / end.tokens.max(1) as f64,
    };
    let bar = figures::bar(share, usize::from(area.width).saturating_sub(2));
    let (way, finish, pace) = match !race.measuring() && ms >= end.at_ms {
        true => (styles.accepted, styles.accepted, styles.strong),
        false => (styles.accent, styles.strong, styles.text),
    };
    let time = if race.counts_rounds { String::new() } else { figures::time(ms.min(end.at_ms)) };
    let time = Line::styled(time, pace);
    let counts = Line::styled(figures::tokens_in(now.tokens, now.rounds), styles.dim);
    let mut rows = vec![
        Line::styled(title, styles.strong),
        Line::from_iter([
            Span::styled(bar, way.remove_modifier(Modifier::BOLD)),
            Span::styled("┃", finish),
        ]),
        ends(counts, time, area.width),
        Line::default(),
    ];
    let said = wrapped(&printable(lane.text_at(ms)), area.width, styles.text);
    let room = usize::from(area.height).saturating_sub(rows.len());
    let skip = said.len().saturating_sub(room);
    rows.extend(said.into_iter().skip(skip));
    rows
}

/// The race `ms` after both began to play, in `height` lines of `width` columns at most, each
/// ended by a line feed; with colours or without, as the terminal shows them.
pub fn race_frame(race: &Race, ms: f64, width: u16, height: u16, colours: bool) -> String {
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    let name = if colours { ThemeName::Dark } else { ThemeName::Mono };
    draw_lanes(&mut buffer, area, race, ms, &theme::styles(name));
    if !colours {
        theme::strip_colours(&mut buffer);
    }
    let mut text = String::new();
    for row in buffer.content.chunks(usize::from(width.max(1))) {
        let end = row.iter().rposition(|cell| cell.symbol() != " ").map_or(0, |last| last + 1);
        for run in row[..end].chunk_by(|a, b| (a.fg, a.modifier) == (b.fg, b.modifier)) {
            text.push_str(&sgr(&run[0]));
            text.extend(run.iter().map(Cell::symbol));
            text.push_str("\x1b[0m");
        }
        // Whatever a longer row of the frame before has left there.
        text.push_str("\x1b[K\n");
    }
    text
}

fn sgr(cell: &Cell) -> String {
    let marks = [(Modifier::BOLD, "1"), (Modifier::DIM, "2"), (Modifier::UNDERLINED, "4")];
    let marks = marks.into_iter().filter(|(modifier, _)| cell.modifier.contains(*modifier));
    let mut codes: Vec<String> = marks.map(|(_, code)| code.to_string()).collect();
    if let Color::Indexed(index) = cell.fg {
        codes.push(format!("38;5;{index}"));
    }
    if codes.is_empty() { String::new() } else { format!("\x1b[{}m", codes.join(";")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::tests::answer;

    #[test]
    fn a_frame_is_as_high_as_asked_and_ends_with_the_result() {
        let mut race = Race::new("auto", false);
        let events = answer(1, "one two three four five", 8);
        for event in events.iter().chain(&events) {
            race.take(event);
        }
        for colours in [true, false] {
            let frame = race_frame(&race, race.length_ms(), 80, 12, colours);
            assert_eq!(frame.lines().count(), 12);
            assert_eq!(frame.contains("38;5;"), colours);
            assert_eq!(frame.matches("one two three four five").count(), 2, "{frame}");
            assert!(frame.contains("Same text, same speed"), "{frame}");
            let early = race_frame(&race, 0.0, 80, 12, colours);
            assert!(!early.contains("two") && !early.contains("Same text"), "{early}");
        }
    }
}
