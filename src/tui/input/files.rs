//! Files for the message: those that `/file` takes in, and those that its words name. Must never do
//! IO.

use super::send::send_message;
use crate::tui::actions::Action;
use crate::tui::display::Focus;
use crate::tui::event::{Effect, NamedFile};
use crate::tui::state::ScreenState;

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
/// one cannot be read, that is said, and the same message sent again goes as it is.
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
        state.input.sends_as_written = Some(message);
        return;
    }
    send_message(state, &whole);
}

/// The words of the message that name files, if they are to be read before it is sent.
pub(crate) fn named(state: &mut ScreenState, message: &str) -> Option<Effect> {
    if state.input.sends_as_written.take().is_some_and(|written| written == message) {
        return None;
    }
    let paths = state.input.named_paths();
    let message = message.to_string();
    (!paths.is_empty()).then_some(Effect::ReadNamed { message, paths })
}
