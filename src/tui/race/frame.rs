//! A race as text for a terminal without a full screen. Must never write it.

use std::fmt::Write as _;

use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier};

use super::Race;
use super::view::draw_lanes;
use crate::tui::theme::{self, ThemeName};

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
        let mut style = String::new();
        for cell in &row[..end] {
            let wanted = sgr(cell);
            if wanted != style {
                let _ = write!(text, "\x1b[0m{wanted}");
                style = wanted;
            }
            text.push_str(cell.symbol());
        }
        // Whatever a longer row of the frame before has left there.
        text.push_str(if style.is_empty() { "\x1b[K\n" } else { "\x1b[0m\x1b[K\n" });
    }
    text
}

fn sgr(cell: &Cell) -> String {
    let mut codes: Vec<String> = Vec::new();
    for (modifier, code) in
        [(Modifier::BOLD, "1"), (Modifier::DIM, "2"), (Modifier::UNDERLINED, "4")]
    {
        if cell.modifier.contains(modifier) {
            codes.push(code.to_string());
        }
    }
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
        for _ in 0..2 {
            answer(1, "one two three four five", 8).iter().for_each(|event| {
                race.take(event);
            });
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
