//! The list of saved conversations: renaming, deleting, restoring. Must never do IO.

pub(crate) mod view;

use super::{FilteredList, Listed, Overlay};
use crate::chat::SessionHead;
use crate::tui::actions::Action;
use crate::tui::event::Effect;
use crate::tui::state::ScreenState;

/// Saved conversations, the latest first.
pub type SessionList = FilteredList<SessionHead>;

impl Listed for SessionHead {
    fn words(&self) -> String {
        format!("{} {} {} {}", self.title, self.date(), self.target, self.said)
    }
}

/// A saved conversation that gets another title.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renaming {
    /// Its name in the store.
    pub id: String,
    /// What is written so far.
    pub title: String,
}

/// Conversations were listed: shown, in the place of those that are.
pub(crate) fn listed(state: &mut ScreenState, sessions: Vec<SessionHead>) {
    match &mut state.overlays.open {
        Some(Overlay::Sessions(list)) => list.replace(sessions),
        _ if sessions.is_empty() => state.refuse("There are no saved conversations yet"),
        _ => state.overlays.open = Some(Overlay::Sessions(SessionList::new(sessions))),
    }
}

fn chosen(state: &ScreenState) -> Option<&SessionHead> {
    match &state.overlays.open {
        Some(Overlay::Sessions(list)) => list.chosen(),
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
    state.emit(Effect::List);
}

/// Deletes the conversation under the cursor.
pub(crate) fn delete(state: &mut ScreenState) {
    let Some(id) = chosen(state).map(|head| head.id.clone()) else { return };
    state.emit(Effect::DeleteSession(id));
    state.emit(Effect::List);
}

/// A conversation was deleted.
pub(crate) fn deleted(state: &mut ScreenState, id: String) {
    state.overlays.deleted.push(id);
    let undo = state.display.keys.name(Action::RestoreSession);
    state.say(format!("Deleted · {undo} restores it"));
}

/// Restores the conversation that was deleted last.
pub(crate) fn restore(state: &mut ScreenState) {
    match state.overlays.deleted.pop() {
        Some(id) => {
            state.emit(Effect::RestoreSession(id));
            state.emit(Effect::List);
        }
        None => state.refuse("Nothing was deleted since the start"),
    }
}
