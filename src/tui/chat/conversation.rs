//! Changes of the conversation itself: an earlier message edited, branches, the last exchange
//! deleted, versions of an answer. Nothing is lost: what a change removes stays saved as a
//! conversation of its own, or can be undone. Must never do IO.

use super::answer::{refuse_now, save, stop};
use crate::chat::Role;
use crate::tui::actions::Action;
use crate::tui::display::Focus;
use crate::tui::event::Effect;
use crate::tui::markdown::code_blocks;
use crate::tui::overlays::{FilteredList, Overlay, QuestionPurpose, QuestionRow};
use crate::tui::state::ScreenState;

/// Lists the user's messages, or all that can be copied, the latest first.
pub(crate) fn list(state: &mut ScreenState, purpose: QuestionPurpose) {
    let copies = purpose == QuestionPurpose::Copy;
    if state.answering() && !copies {
        return refuse_now(state);
    }
    let turns = state.chat.turns().iter().enumerate();
    let asked =
        turns.filter(|(_, turn)| turn.role == Role::User || copies && !turn.text.is_empty());
    let mut rows: Vec<QuestionRow> = asked
        .enumerate()
        .map(|(index, (turn, said))| QuestionRow {
            turn,
            number: index + 1,
            role: said.role,
            text: said.text.clone(),
        })
        .collect();
    rows.reverse();
    if rows.is_empty() {
        return state.refuse("There are no messages yet");
    }
    // The message whose answer is looked at, or else the latest.
    let here = state.token_looked_at().map(|(turn, _)| turn);
    let at = here.and_then(|here| rows.iter().position(|row| row.turn <= here));
    let mut list = FilteredList::new(rows);
    list.select(at.unwrap_or_default() as isize);
    state.overlays.open = Some(Overlay::Questions { list, purpose });
}

/// One of them was chosen.
pub(crate) fn take(state: &mut ScreenState, turn: usize, purpose: QuestionPurpose) {
    match purpose {
        QuestionPurpose::Edit => {
            let Some(said) = state.chat.turns().get(turn) else { return };
            state.input.stash();
            state.input.take_back(std::slice::from_ref(&said.text));
            state.input.editing = Some(turn);
            state.display.focus = Focus::Input;
        }
        QuestionPurpose::Branch => {
            let turns = state.chat.turns();
            let answered = turns.get(turn + 1).is_some_and(|next| next.role == Role::Assistant);
            let at = turn + 1 + usize::from(answered);
            if at >= turns.len() {
                return state.refuse("That is the last answer: write the next message to continue");
            }
            branch(state, at);
            state.say("Branched off · the conversation so far stays saved");
        }
        QuestionPurpose::Copy => {
            if let Some(turn) = state.chat.turns().get(turn) {
                state.emit(Effect::Copy(turn.text.clone()));
            }
        }
    }
}

/// The message with this number in the list of those that can be copied.
///
/// # Errors
/// There is none; says which there are.
fn numbered(state: &ScreenState, number: usize) -> Result<String, String> {
    let mut said = state.chat.turns().iter().filter(|turn| !turn.text.is_empty());
    let all = said.clone().count();
    let found = number.checked_sub(1).and_then(|at| said.nth(at));
    found.map(|turn| turn.text.clone()).ok_or_else(|| match all {
        0 => "There are no messages yet".to_string(),
        all => {
            let lists = state.display.keys.name(Action::CopyMessage);
            format!("There are messages 1 to {all} · {lists} lists them")
        }
    })
}

/// What `/copy` takes.
const COPY: &str = "Use /copy, /copy 3, /copy code or /copy code 2";

/// The last answer, or the message or the code block of it that `argument` names: `3`, `code`,
/// `code 2`.
pub(crate) fn copied(state: &ScreenState, argument: &str) -> Result<String, String> {
    let number = match argument.split_whitespace().collect::<Vec<_>>()[..] {
        [] => {
            let answer = state.chat.last_answer().map(str::to_string);
            return answer.ok_or_else(|| "There is no answer to copy yet".to_string());
        }
        [number] if number.parse::<usize>().is_ok() => {
            return numbered(state, number.parse().unwrap_or_default());
        }
        ["code"] => None,
        ["code", number] => Some(number.parse::<usize>().map_err(|_| COPY)?),
        _ => return Err(COPY.to_string()),
    };
    let blocks = code_blocks(state.chat.last_answer().unwrap_or_default());
    let all = blocks.len();
    let at = number.unwrap_or(all).wrapping_sub(1);
    blocks.into_iter().nth(at).ok_or(match all {
        0 => "There is no code block in the last answer".to_string(),
        all => format!("The last answer has code blocks 1 to {all}"),
    })
}

/// Ends the conversation before turn `at`; the whole of it stays saved.
pub(super) fn branch(state: &mut ScreenState, at: usize) {
    let messages = state.chat.saved_before(at).len();
    save(state);
    state.emit(Effect::Branch { messages });
    state.chat.branch_before(at);
    state.forget_answer();
}

/// An earlier message that was edited goes into a branch from there.
pub(crate) fn leave_edited(state: &mut ScreenState) {
    let edited = state.input.editing.take();
    if let Some(at) = edited.filter(|at| *at < state.chat.turns().len()) {
        branch(state, at);
    }
}

/// Deletes the last question with its answer.
pub(crate) fn delete(state: &mut ScreenState) {
    stop(state);
    if state.chat.delete_exchange() {
        state.input.editing = None;
        state.forget_answer();
        state.say("Last question and answer deleted · /undo restores them");
        save(state);
    } else {
        state.refuse("There is nothing to delete");
    }
}

/// Restores what was deleted last.
pub(crate) fn undelete(state: &mut ScreenState) {
    if !state.answering() && state.chat.undelete() {
        state.say("Restored");
        save(state);
    } else {
        state.refuse("There is nothing to restore");
    }
}

/// Shows another version of the last answer.
pub(crate) fn version(state: &mut ScreenState, by: i8) {
    match state.chat.switch_version(by) {
        Ok((at, all)) => {
            // Its rounds are not kept.
            state.forget_answer();
            state.say(format!("Version {at} of {all}"));
            save(state);
        }
        Err(why) => state.refuse(why),
    }
}
