//! Slash commands and their suggestions.

use super::job;
use crate::chat::WhenFull;
use crate::tui::commands::COMMANDS;
use crate::tui::state::{Overlay, Tone};
use crate::tui::testing::{loaded, type_keys};
use crate::worker::{Job, Setting};

#[test]
fn commands_set_what_they_name_and_keep_their_text_when_wrong() {
    let mut state = loaded(80, 24);
    type_keys(&mut state, "/gamma 24<enter>");
    assert_eq!(state.controls.tree.gamma, Setting::Fixed(24));
    type_keys(&mut state, "/gamma auto<enter>");
    assert_eq!(state.controls.tree.gamma, Setting::Auto);
    type_keys(&mut state, "/top-p 0.9<enter>/max-tokens 9<enter>");
    assert_eq!(state.controls.sampler.top_p, 0.9);
    assert_eq!(state.max_tokens, Setting::Fixed(9));
    let sent = type_keys(&mut state, "one<enter><esc><c-u>");
    assert_eq!(job(&sent).max_tokens, 9);
    type_keys(&mut state, "/max-tokens auto<enter>");
    let sent = type_keys(&mut state, "two<enter><esc><c-u>");
    assert_eq!(job(&sent).max_tokens, Job::ROOM_LEFT);
    type_keys(&mut state, "/system Be brief.<enter>");
    assert_eq!(state.chat.system.as_deref(), Some("Be brief."));
    type_keys(&mut state, "/gamma 999<enter>");
    assert_eq!(state.input.text(), "/gamma 999");
    assert!(
        state
            .toasts
            .shown()
            .is_some_and(|toast| toast.tone == Tone::Wrong && toast.text.contains("128"))
    );
    type_keys(&mut state, "<c-u>/mouse<enter>");
    assert!(state.mouse);
}

#[test]
fn suggestions_complete_and_run() {
    let mut state = loaded(80, 24);
    type_keys(&mut state, "/ga<tab>");
    assert_eq!(state.input.text(), "/gamma ");
    type_keys(&mut state, "<c-u>/sta<enter>");
    assert_eq!(state.overlay, Some(Overlay::Details));
    type_keys(&mut state, "<esc>/<down><down><enter>");
    assert_eq!(state.input.text(), "/load ");
}

/// One may begin as another does: `/edit` is not `/editor`.
#[test]
fn a_command_that_is_written_out_is_the_one_that_is_run() {
    for command in COMMANDS {
        let mut state = loaded(80, 24);
        type_keys(&mut state, &format!("/{}", command.name));
        assert_eq!(state.input.suggestion().map(|found| found.name), Some(command.name));
    }
}

#[test]
fn commands_confirm_what_they_did() {
    let mut state = loaded(80, 24);
    for (command, says) in [
        ("/mouse on", "the chat's"),
        ("/mouse off", "the terminal's"),
        ("/theme light", "theme: light"),
        ("/think show", "shown"),
        ("/think hide", "folded"),
        ("/when-full", "when the context is full: ask"),
        ("/when-full forget", "when the context is full: forget"),
        ("/when-full ", "when the context is full: forget"),
    ] {
        type_keys(&mut state, &format!("{command}<enter>"));
        let said = state.toasts.shown().map(|toast| (toast.tone, toast.text.as_str()));
        assert!(
            said.is_some_and(|(tone, text)| tone == Tone::Done && text.contains(says)),
            "{command}: {said:?}"
        );
        assert!(state.input.is_empty(), "{command}");
    }
    assert_eq!(state.chat.when_full, Some(WhenFull::Forget));
}
