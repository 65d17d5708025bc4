//! Saved conversations. Must never know how they are saved.

use ratatui::Frame;
use ratatui::text::Line;

use super::list;
use crate::printable::printable_line;
use crate::tui::state::SessionList;
use crate::tui::theme::Styles;
use crate::tui::view::areas::Areas;
use crate::tui::view::rows::ends;

pub(super) fn draw(frame: &mut Frame<'_>, areas: &Areas, list: &SessionList, styles: &Styles) {
    let texts = list::Texts {
        title: " saved conversations ",
        foot: " Enter open · Esc close ",
        none: "no title or date has these words",
    };
    list::draw(frame, areas, list, &texts, styles, |session, width| {
        let title = if session.title.is_empty() { "(no title)" } else { session.title.as_str() };
        let left = Line::styled(printable_line(title).into_owned(), styles.text);
        let right = format!("{} messages · {}", session.messages, session.date());
        ends(left, Line::styled(right, styles.dim), width)
    });
}
