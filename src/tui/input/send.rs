//! Sending the message: now, or once the answer under way has ended. Must never do IO.

use crate::tui::actions::Action;
use crate::tui::chat::answer::{STILL_LOADING, ask, save};
use crate::tui::chat::conversation;
use crate::tui::models::Phase;
use crate::tui::state::ScreenState;
use crate::tui::toasts::{Ends, Tone};

/// Sends this text as the message that is written.
pub(crate) fn send_message(state: &mut ScreenState, text: &str) {
    match &state.models.phase {
        Phase::Idle => {}
        Phase::Answering { .. } | Phase::Loading { .. } => return queue(state, text),
        Phase::Broken => {
            let quit = state.display.keys.name(Action::Quit);
            return state
                .complain(format!("No model is loaded · quit with {quit} and start again"));
        }
    }
    let text = message(text);
    state.input.sent_as(Some(&text));
    conversation::leave_edited(state);
    state.chat.ask(text);
    ask(state);
    // Should the program be killed while the answer comes, the question is safe.
    save(state);
}

/// As it was typed, with the indentation of its first line. The one space before a slash that keeps
/// a message from being a command is not part of it.
fn message(text: &str) -> String {
    let text = text.trim_end().trim_start_matches('\n');
    text.strip_prefix(' ').filter(|rest| rest.starts_with('/')).unwrap_or(text).to_string()
}

/// The message is sent once the answer under way has ended, or once the model is loaded.
fn queue(state: &mut ScreenState, text: &str) {
    let stop = state.display.keys.name(Action::Escape);
    let answering = state.answering();
    match (state.input.editing.is_some(), answering) {
        (true, true) => {
            let send = state.display.keys.name(Action::Send);
            let words = format!("An answer is under way · {stop} stops it, then {send} sends");
            return state.refuse_while_answering(words);
        }
        (true, false) => return state.refuse(STILL_LOADING),
        (false, _) => {}
    }
    let text = message(text);
    state.input.sent_as(Some(&text));
    state.input.queue.push(text);
    if answering {
        let words =
            format!("Sent when this answer ends · {stop} stops it and brings the message back");
        state.toasts.say(&words, Tone::Done, Ends::Answered, state.now);
    } else {
        state.say(format!("Sent once the model is loaded · {stop} brings the message back"));
    }
}
