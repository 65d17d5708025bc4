//! Sending the message: now, or once the answer under way has ended, with the files that `/file`
//! takes in and those that its words name. Must never do IO.

use super::paths;
use crate::tui::actions::Action;
use crate::tui::chat::answer::{STILL_LOADING, ask, save};
use crate::tui::chat::conversation;
use crate::tui::display::Focus;
use crate::tui::event::{Effect, NamedFile};
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

/// Few tokenizers are far from it; the real number shows when the text is sent.
const BYTES_A_TOKEN: usize = 4;

fn tokens(text: &str) -> usize {
    text.len().div_ceil(BYTES_A_TOKEN)
}

/// Why a text of this name cannot be sent, if so: the context is too small for it.
fn too_large(state: &ScreenState, name: &str, text: &str) -> Option<String> {
    let holds = state.models.ready.as_ref()?.context;
    let tokens = tokens(text);
    (tokens >= holds)
        .then(|| format!("{name} has about {tokens} tokens, but the context holds only {holds}"))
}

/// The text of a file as it is sent.
fn fenced(name: &str, text: &str) -> String {
    let longest = text.split(|c: char| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{name}:\n{fence}\n{}\n{fence}\n", text.trim_end_matches('\n'))
}

/// A file goes into the message, as one mark that says how much it is.
pub(crate) fn attach(state: &mut ScreenState, name: &str, text: &str) {
    if let Some(why) = too_large(state, name, text) {
        return state.complain(why);
    }
    let size = match text.len() {
        bytes @ ..1000 => format!("{bytes} bytes"),
        bytes => format!("{:.1} kB", bytes as f64 / 1e3),
    };
    let mark = format!("{name}, {size}, about {} tokens", tokens(text));
    state.display.focus = Focus::Input;
    state.input.fold(&mark, fenced(name, text));
}

/// The files that the words of a message name were read: it is sent with their texts after it. If
/// one cannot be read, that is said, and while it is shown, the same message sent again goes as it
/// is.
pub(crate) fn read(state: &mut ScreenState, message: String, files: Vec<NamedFile>) {
    // Something else was written meanwhile.
    if state.input.text() != message {
        return;
    }
    let mut whole = message.trim_end().to_string();
    let mut problem = None;
    for (path, read) in files {
        match read {
            Ok(text) => {
                problem = problem.or_else(|| too_large(state, &path, &text));
                whole.push_str("\n\n");
                whole.push_str(fenced(&path, &text).trim_end());
            }
            Err(why) => problem = problem.or(Some(why)),
        }
    }
    let problem = problem.or_else(|| too_large(state, "The message with its files", &whole));
    if let Some(why) = problem {
        let send = state.display.keys.name(Action::Send);
        state.complain(format!("{why} · {send} again sends the message as it is"));
        state.input.sends_as_written = state.toasts.deadline().map(|until| (message, until));
        return;
    }
    send_message(state, &whole);
}

/// The words of the message that name files, if they are to be read before it is sent.
pub(crate) fn named(state: &mut ScreenState, message: &str) -> Option<Effect> {
    let refused = state.input.sends_as_written.take();
    if refused.is_some_and(|(written, until)| written == message && state.now < until) {
        return None;
    }
    // Those within folded texts are left out.
    let paths = paths::named(&state.input.area().lines().join("\n"));
    let message = message.to_string();
    (!paths.is_empty()).then_some(Effect::ReadNamed { message, paths })
}
