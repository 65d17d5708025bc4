//! The empty chat: what this is, what to type, how to read the marks. Must never change the state.

use unicode_width::UnicodeWidthStr;

use crate::tui::actions::{Action, ModelPart};
use crate::tui::draw::{Frame, Line, Rect, Span, Style, Styles, draw_rows, figures, wrapped};
use crate::tui::models::Phase;
use crate::tui::state::ScreenState;

/// Columns of a sentence.
const WIDEST: u16 = 72;

/// What the demo is, and the way to a model whose answers are of use; nothing for other models.
/// In one row where it fits, else each sentence in rows of its own.
fn what_the_demo_is(state: &ScreenState, width: u16, styles: &Styles) -> Vec<Line<'static>> {
    let Some(ready) = state.models.ready.as_ref().filter(|ready| ready.models.is_bundled()) else {
        return Vec::new();
    };
    // The demo's name ends with its size.
    let size = ready.target.rsplit(' ').next().unwrap_or_default();
    let models = state.display.keys.name(Action::Models(ModelPart::Target));
    let is = format!("Demo model, {size} parameters: it shows how guessing works.");
    let other = format!("For real answers press {models}.");
    let whole = format!("{is} {other}");
    let between = if whole.width() <= usize::from(width) { " " } else { "\n" };
    let words = format!("{is}{between}{other}");
    wrapped(&words, width.max(1), styles.strong).into_iter().chain([Line::default()]).collect()
}

/// The empty screen: what this is, what to type, how to read the marks.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, state: &ScreenState, styles: &Styles) {
    let mut lines: Vec<Line<'_>> = Vec::new();
    let pair = |first: String, style, rest: &str| {
        let rest = Span::styled(rest.to_string(), styles.dim);
        Line::from_iter([Span::styled(first, style), rest])
    };
    let rows = |text, style| wrapped(text, area.width.clamp(1, WIDEST), style);
    match &state.models.phase {
        Phase::Loading { stage, fraction } => {
            lines.push(Line::styled(stage.as_str(), styles.dim));
            if let Some(fraction) = fraction.map(f64::from) {
                let percent = format!(" {}", figures::percent(fraction));
                lines.push(pair(figures::bar(fraction, 32), styles.accent, &percent));
            }
        }
        Phase::Broken => {
            let quit = state.display.keys.name(Action::Quit);
            lines.push(Line::styled(format!("No model is loaded; {quit} quits"), styles.error));
        }
        _ => {
            lines.extend(what_the_demo_is(state, area.width, styles));
            lines.extend(rows(
                "A small draft model guesses the next words as a tree; the target checks every \
                 guess in one pass and keeps those it agrees with.",
                Style::default(),
            ));
            lines.extend([
                Line::default(),
                pair(
                    "underlined".to_string(),
                    styles.accepted_text(),
                    "  guessed by the draft, accepted by the target",
                ),
                pair("plain".to_string(), styles.text, "       chosen by the target itself"),
                Line::default(),
            ]);
            lines.extend(rows(
                "Choose a question (↓ or its digit, then Enter), or write your own:",
                styles.dim,
            ));
            for (at, prompt) in state.starters().into_iter().enumerate() {
                let chosen = state.input.starters.selected() == Some(at) && state.offers_starters();
                let mark = if chosen { "❯" } else { " " };
                let style = if chosen { styles.selected } else { styles.text };
                let number = Span::styled(format!("{mark} {} ", at + 1), styles.accent);
                lines.push(Line::from_iter([number, Span::styled(prompt, style)]));
            }
        }
    }
    let height = lines.len() as u16;
    let width = lines.iter().map(Line::width).max().unwrap_or(0) as u16;
    let x = area.x + area.width.saturating_sub(width) / 2;
    let y = area.y + area.height.saturating_sub(height) / 3;
    let area = Rect { x, y, ..area }.intersection(area);
    draw_rows(frame, area, lines);
}
