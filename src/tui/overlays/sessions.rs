//! The list of saved conversations: renaming, deleting, restoring, and how it is drawn. Must never
//! do IO.

use unicode_width::UnicodeWidthStr;

use super::page::Page;
use super::{Overlay, Renaming, SessionList, SessionRow};
use crate::chat::{Role, SessionHead};
use crate::printable::printable_line;
use crate::tui::actions::Action;
use crate::tui::draw::{Line, Span, Styles, ends, figures, hanging, wrapped};
use crate::tui::event::Effect;
use crate::tui::state::ScreenState;
use crate::worker::Command;

/// Rows of the screen from which on there is room for a preview.
const TALL: u16 = 16;

/// Asks for all saved conversations, or for the branches of the one that is open.
pub(crate) fn list(state: &mut ScreenState, branches: bool) {
    state.overlays.branches = branches;
    state.emit(Effect::List { branches });
}

/// Conversations were listed: shown, in the place of those that are.
pub(crate) fn listed(state: &mut ScreenState, sessions: Vec<SessionHead>) {
    let branches = state.overlays.branches;
    let sessions = rows(sessions, branches);
    match &mut state.overlays.open {
        Some(Overlay::Sessions(list)) => list.replace(sessions),
        _ if branches && sessions.len() < 2 => {
            state.refuse("This conversation has no branches: /branch makes one");
        }
        _ if sessions.is_empty() => state.refuse("There are no saved conversations yet"),
        _ => state.overlays.open = Some(Overlay::Sessions(SessionList::new(sessions))),
    }
}

/// The rows of a list: of branches as a tree, of others without those that say what a later one
/// says.
pub(crate) fn rows(sessions: Vec<SessionHead>, branches: bool) -> Vec<SessionRow> {
    let mut rows: Vec<SessionRow> = Vec::new();
    for head in sessions {
        let origin = head.branch_of.as_ref().and_then(|it| it.id.as_ref());
        let above = rows.iter().find(|row| branches && Some(&row.head.id) == origin);
        let depth = above.map_or(0, |row| row.depth + 1);
        let same = |row: &&mut SessionRow| {
            let SessionHead { title, said, target, .. } = &row.head;
            !branches && *title == head.title && *said == head.said && *target == head.target
        };
        match rows.iter_mut().find(same) {
            Some(row) => row.alike += 1,
            None => rows.push(SessionRow { head, alike: 0, depth }),
        }
    }
    rows
}

fn chosen(state: &ScreenState) -> Option<&SessionHead> {
    match &state.overlays.open {
        Some(Overlay::Sessions(list)) => list.chosen().map(|row| &row.head),
        _ => None,
    }
}

/// Begins to write another title.
pub(crate) fn rename(state: &mut ScreenState) {
    state.overlays.renaming =
        chosen(state).map(|head| Renaming { id: head.id.clone(), title: head.title.clone() });
}

/// It is written.
pub(crate) fn renamed(state: &mut ScreenState, renaming: Renaming) {
    let Renaming { id, title } = renaming;
    let title = title.trim().to_string();
    if title.is_empty() {
        return state.refuse("A title needs at least one character");
    }
    state.emit(Effect::RenameSession { id, title });
    list(state, state.overlays.branches);
}

/// Deletes the conversation under the cursor.
pub(crate) fn delete(state: &mut ScreenState) {
    let Some(id) = chosen(state).map(|head| head.id.clone()) else { return };
    state.emit(Effect::DeleteSession(id));
    list(state, state.overlays.branches);
}

/// A conversation was deleted.
pub(crate) fn deleted(state: &mut ScreenState, id: String) {
    // What the target still holds of it is not written any more.
    state.emit(Effect::Send(Command::Discard(id.clone())));
    state.overlays.deleted.push(id);
    let undo = state.display.keys.name(Action::RestoreSession);
    state.say(format!("Deleted · {undo} restores it"));
}

/// Restores the conversation that was deleted last.
pub(crate) fn restore(state: &mut ScreenState) {
    let deleted = state.overlays.deleted.pop();
    state.emit(Effect::RestoreSession(deleted));
    list(state, state.overlays.branches);
}

/// The box with the list, below it the end of the conversation under the cursor.
pub(crate) fn page(
    state: &ScreenState,
    list: &SessionList,
    height: u16,
    columns: u16,
    styles: &Styles,
) -> Page {
    let key = |action| state.display.keys.name(action);
    let take = state.display.keys.take();
    let close = state.display.keys.close();
    let below = match &state.overlays.renaming {
        Some(renaming) => vec![Line::from_iter([
            Span::styled("new title: ", styles.dim),
            Span::styled(renaming.title.clone(), styles.strong),
            Span::styled("▏", styles.accent),
            Span::styled(format!("  {take} saves it, {close} cancels"), styles.dim),
        ])],
        None if height >= TALL => preview(list, columns, styles),
        None => Vec::new(),
    };
    let foot = vec![
        format!("{take} open"),
        format!("{} rename", key(Action::RenameSession)),
        format!("{} delete", key(Action::DeleteSession)),
        format!("{} undo", key(Action::RestoreSession)),
        format!("{close} close"),
    ];
    let page = list.page("No match found", columns, styles, |row| line(row, columns, styles));
    let title = match state.overlays.branches {
        true => "branches of this conversation",
        false => "saved conversations",
    };
    Page { title: title.to_string(), below, foot, ..page }
}

fn line(row: &SessionRow, columns: u16, styles: &Styles) -> Line<'static> {
    let session = &row.head;
    let origin = session.branch_of.as_ref();
    let title = match session.preview.first() {
        // A branch without a title of its own is listed by its last question.
        Some((_, asked)) if origin.is_some_and(|it| it.title == session.title) => asked,
        _ if session.title.is_empty() => "(no title)",
        _ => &session.title,
    };
    let mut left = Line::styled(printable_line(title).into_owned(), styles.text);
    if row.depth > 0 {
        left.spans.insert(0, Span::styled("   ".repeat(row.depth - 1) + "╰╴", styles.faint));
    } else if let Some(origin) = origin {
        left.spans.insert(0, Span::styled("↳ ", styles.accent));
        let origin = printable_line(&origin.title).into_owned();
        left.push_span(Span::styled(format!("  branch of “{origin}”"), styles.dim));
    }
    if row.alike > 0 {
        left.push_span(Span::styled(format!("  ×{}", row.alike + 1), styles.dim));
    }
    let messages = match session.damage {
        Some(_) => "damaged".to_string(),
        None => figures::many(session.messages, "message"),
    };
    let target = printable_line(&session.target);
    let joined = |parts: &[&str]| {
        let parts: Vec<&str> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
        parts.join(" · ")
    };
    let ago = session.ago.as_str();
    // More than half of the row is the title's.
    let rights = [
        joined(&[&target, &messages, ago]),
        joined(&[&target, ago]),
        joined(&[&messages, ago]),
        ago.to_string(),
    ];
    let right = rights.into_iter().find(|right| 2 * right.width() <= usize::from(columns));
    ends(left, Line::styled(right.unwrap_or_default(), styles.dim), columns)
}

/// The end of the conversation under the cursor.
fn preview(list: &SessionList, columns: u16, styles: &Styles) -> Vec<Line<'static>> {
    let mut rows = Vec::new();
    for (role, text) in list.chosen().iter().flat_map(|row| &row.head.preview) {
        let (mark, style, most) = match role {
            Role::Assistant => ("  ", styles.dim, 2),
            Role::User | Role::System => ("❯ ", styles.text, 1),
        };
        let room = columns.saturating_sub(2).max(1);
        let text = wrapped(&printable_line(text), room, style);
        rows.extend(hanging(text, Span::styled(mark, styles.accent)).into_iter().take(most));
    }
    // Always as many, so that the list does not jump.
    rows.resize(3, Line::default());
    rows
}
