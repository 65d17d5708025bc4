//! Saved conversations. Must never know how they are saved.

use ratatui::Frame;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use crate::chat::Role;
use crate::printable::printable_line;
use crate::tui::actions::Action;
use crate::tui::draw::areas::Areas;
use crate::tui::draw::figures;
use crate::tui::draw::frames::WIDTH;
use crate::tui::draw::rows::{cut, ends, foot, hanging, wrapped};
use crate::tui::overlays::SessionList;
use crate::tui::overlays::list::Surround;
use crate::tui::state::ScreenState;
use crate::tui::theme::Styles;

/// Rows from which on there is room for a preview.
const TALL: u16 = 16;

pub(crate) fn draw(
    frame: &mut Frame<'_>,
    areas: &Areas,
    state: &ScreenState,
    list: &SessionList,
    styles: &Styles,
) {
    let key = |action| state.display.keys.name(action);
    let take = state.display.keys.take();
    let close = state.display.keys.close();
    let box_width = WIDTH.min(areas.column.width.saturating_sub(2));
    let parts = [
        format!("{take} open"),
        format!("{} rename", key(Action::RenameSession)),
        format!("{} delete", key(Action::DeleteSession)),
        format!("{} undo", key(Action::RestoreSession)),
        format!("{close} close"),
    ];
    let foot = foot(&parts, box_width);
    let width = usize::from(box_width.saturating_sub(4));
    let below = match &state.overlays.renaming {
        Some(renaming) => vec![Line::from_iter([
            Span::styled("new title: ", styles.dim),
            Span::styled(renaming.title.clone(), styles.strong),
            Span::styled("▏", styles.accent),
            Span::styled(format!("  {take} saves it, {close} cancels"), styles.dim),
        ])],
        None if areas.column.height >= TALL => preview(list, width, styles),
        None => Vec::new(),
    };
    let title = " saved conversations ";
    let none = "No match found".to_string();
    // The model that answered there.
    let target = list.chosen().map_or("", |head| &head.target);
    let rule = match printable_line(target) {
        target if target.is_empty() => String::new(),
        target => format!(" {target} ─"),
    };
    let around = Surround { title, foot, none, below, rule };
    list.draw(frame, areas, around, styles, |session, width| {
        let title = if session.title.is_empty() { "(no title)" } else { session.title.as_str() };
        let mut left = Line::styled(printable_line(title).into_owned(), styles.text);
        if let Some(origin) = &session.branch_of {
            left.spans.insert(0, Span::styled("↳ ", styles.accent));
            let origin = printable_line(&origin.title).into_owned();
            left.push_span(Span::styled(format!("  branch of “{origin}”"), styles.dim));
        }
        let messages = figures::many(session.messages, "message");
        let date = session.date();
        let day = date.split(' ').next().unwrap_or_default().to_string();
        // More than half of the row is the title's.
        let rights = [format!("{messages} · {date}"), day];
        let right = rights.into_iter().find(|right| 2 * right.width() <= usize::from(width));
        ends(left, Line::styled(right.unwrap_or_default(), styles.dim), width)
    });
}

/// The end of the conversation under the cursor.
fn preview(list: &SessionList, width: usize, styles: &Styles) -> Vec<Line<'static>> {
    let mut rows = Vec::new();
    for (role, text) in list.chosen().iter().flat_map(|head| &head.preview) {
        let (mark, style, most) = match role {
            Role::Assistant => ("  ", styles.dim, 2),
            Role::User | Role::System => ("❯ ", styles.text, 1),
        };
        let text = printable_line(text).into_owned();
        let room = u16::try_from(width.saturating_sub(2)).unwrap_or(u16::MAX).max(1);
        let text = hanging(wrapped(&text, room, style), Span::styled(mark, styles.accent));
        rows.extend(text.into_iter().take(most).map(|row| cut(row, width)));
    }
    // Always as many, so that the list does not jump.
    rows.resize(3, Line::default());
    rows
}
