//! Leaving, and the message that was not sent by then: it is saved with the conversation, or on its
//! own before the first question, and appears at the next start. Must never do IO.

use std::time::Duration;

use crate::tui::actions::Action;
use crate::tui::chat::AnswerOutcome;
use crate::tui::chat::answer::stop;
use crate::tui::display::Focus;
use crate::tui::event::Effect;
use crate::tui::overlays::Overlay;
use crate::tui::race::update as race;
use crate::tui::state::ScreenState;
use crate::tui::toasts::{Ends, Tone};

/// Saves and leaves; where something cannot be saved, only if that was said before.
pub(crate) fn quit(state: &mut ScreenState) {
    state.leaving.quitting = true;
    // What waits to be sent is a question of the conversation that is saved.
    for text in std::mem::take(&mut state.input.queue) {
        state.chat.close(AnswerOutcome::Failed);
        state.chat.ask(text);
    }
    stop(state);
    for effect in left(state) {
        state.emit(effect);
    }
    state.emit(Effect::Quit { anyway: state.leaving.anyway });
}

/// How long the key that quits waits for its second press.
const TWICE: Duration = Duration::from_secs(2);

/// Leaves if the key was pressed a moment ago already: once is easily too often.
pub(crate) fn quit_if_pressed_twice(state: &mut ScreenState) {
    if state.leaving.quits_until.take().is_some_and(|until| state.now < until) {
        return quit(state);
    }
    let until = state.now + TWICE;
    state.leaving.quits_until = Some(until);
    let key = state.display.keys.name(Action::Interrupt);
    let words = format!("Press {key} again to quit");
    state.toasts.say_until(&words, Tone::Told, Ends::Sent, until);
}

/// Leaving would have lost something: `why`. The next time it may.
pub(crate) fn refused(state: &mut ScreenState, why: &str) {
    // A box would hide what is said in passing.
    if state.overlays.open.take() == Some(Overlay::Race) {
        race::close(state);
    }
    state.leaving.quitting = false;
    state.leaving.anyway = true;
    let quit = state.display.keys.name(Action::Quit);
    state.complain(format!("{why} · {quit} again quits without saving it"));
}

/// Saves everything that would be lost with the program.
pub fn left(state: &ScreenState) -> [Effect; 2] {
    let waiting = state.input.queue.iter().cloned();
    let unsent: Vec<String> = waiting.chain(state.input.unsent()).collect();
    let mut unsent = (!unsent.is_empty()).then(|| unsent.join("\n\n"));
    let mut extras = state.chat.extras();
    if state.chat.can_regenerate() {
        extras.unsent = unsent.take();
    }
    let turns = state.chat.saved_turns();
    [Effect::Save { turns, extras, asked: false }, Effect::KeepUnsent(unsent)]
}

/// A message that was left unsent is there again.
pub(crate) fn found(state: &mut ScreenState, text: String) {
    if state.input.is_blank() {
        state.input.set(&text);
        // No command or path is being chosen yet.
        state.input.dismiss();
        state.display.focus = Focus::Input;
        state.say(match text.starts_with('/') {
            true => "This command was not run",
            false => "This message was not sent",
        });
    } else {
        state.input.remember(text);
        state.say("↑ shows the message that was not sent here");
    }
}

/// Clears the message and keeps it in the history.
pub(crate) fn put_aside(state: &mut ScreenState) {
    state.input.editing = None;
    state.input.stash();
    state.display.focus = Focus::Input;
    state.say("Message cleared · ↑ brings it back");
}
