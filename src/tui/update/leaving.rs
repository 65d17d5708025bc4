//! Leaving, and the message that was not sent by then: it is kept with the conversation, or on its
//! own where nothing was asked yet, and is there again. Must never do IO.

use super::answer::stop;
use super::event::Effect;
use crate::chat::{Extras, Role};
use crate::tui::actions::Action;
use crate::tui::state::{AnswerOutcome, Focus, ScreenState};

/// Saves and leaves; where something cannot be saved, only if that was said before.
pub(super) fn quit(state: &mut ScreenState) -> Vec<Effect> {
    state.quitting = true;
    // What waits to be sent is a question of the conversation that is saved.
    for text in std::mem::take(&mut state.queue) {
        state.chat.close(AnswerOutcome::Failed);
        state.chat.ask(text);
    }
    let mut effects = stop(state);
    effects.extend(left(state));
    effects.push(Effect::Quit { anyway: state.leaves_anyway });
    effects
}

/// Saves what can be saved and leaves: nobody can be asked.
pub(super) fn terminate(state: &mut ScreenState) -> Vec<Effect> {
    state.leaves_anyway = true;
    quit(state)
}

/// Leaving would have lost something: `why`. The next time it may.
pub(super) fn refused(state: &mut ScreenState, why: &str) {
    state.quitting = false;
    state.leaves_anyway = true;
    let quit = state.keys.name(Action::Quit);
    state.complain(format!("{why}; {quit} again leaves without it"));
}

/// Keeps everything that would else be lost with the program.
pub fn left(state: &ScreenState) -> [Effect; 2] {
    let asked = state.chat.turns().iter().any(|turn| turn.role == Role::User);
    let (with_it, alone) = match (state.input.unsent(), asked) {
        (unsent, true) => (unsent, None),
        (unsent, false) => (None, unsent),
    };
    let extras = Extras { unsent: with_it, ..state.chat.extras() };
    [
        Effect::Save { turns: state.chat.saved_turns(), extras, asked: false },
        Effect::KeepUnsent(alone),
    ]
}

/// A message that was left unsent is there again.
pub(super) fn found(state: &mut ScreenState, text: String) {
    if state.input.is_blank() {
        state.input.set(&text);
        // Nobody is choosing a command or a path yet.
        state.input.dismiss();
        state.focus = Focus::Input;
        state.say(match text.starts_with('/') {
            true => "here is the command that you did not run",
            false => "here is the message that you did not send",
        });
    } else {
        state.input.remember(text);
        state.say("↑ shows the message that you did not send here");
    }
}

/// Puts the message aside.
pub(super) fn put_aside(state: &mut ScreenState) {
    state.editing = None;
    state.input.stash();
    state.focus = Focus::Input;
    let again = state.keys.name(Action::Interrupt);
    state.say(format!("put aside: ↑ brings it back; {again} again quits"));
}
