//! Answers from the question to the end: asked for, stopped, given anew. Must never do IO.

use super::event::Effect;
use crate::tui::state::{AnswerOutcome, Phase, ScreenState};
use crate::worker::{Command, Job};

/// Asks for an answer to the conversation as it stands; the chat already holds its empty answer.
pub(super) fn ask(state: &mut ScreenState) -> Vec<Effect> {
    state.controls.generation += 1;
    state.phase = Phase::Answering { since: state.now };
    state.begin_answer();
    let job = Job {
        generation: state.controls.generation,
        messages: state.chat.messages(),
        max_tokens: state.max_tokens,
        thinking: state.thinking,
    };
    vec![Effect::Apply(state.controls.clone()), Effect::Send(Command::Generate(job))]
}

pub(super) fn regenerate(state: &mut ScreenState) -> Vec<Effect> {
    if !state.chat.can_regenerate() {
        state.complain("there is no question to answer yet");
        return Vec::new();
    }
    let mut effects = stop(state);
    if state.phase != Phase::Idle {
        state.say("nothing can answer now");
        return effects;
    }
    if state.controls.sampler.temperature > 0.0 {
        // One seed gives one text: another one needs another seed.
        state.controls.sampler.seed = state.controls.sampler.seed.wrapping_add(1);
        state.say(format!("seed {}", state.controls.sampler.seed));
    } else {
        state.say("temperature is 0: the same text again");
    }
    state.chat.reopen();
    effects.extend(ask(state));
    effects
}

/// Ends the running answer: its later events are dropped.
pub(super) fn stop(state: &mut ScreenState) -> Vec<Effect> {
    if !state.answering() {
        return Vec::new();
    }
    state.controls.generation += 1;
    state.controls.paused = false;
    state.phase = Phase::Idle;
    let tokens = state.meters.tokens();
    state.chat.close(AnswerOutcome::Stopped { tokens });
    state.restore_answer();
    vec![Effect::Apply(state.controls.clone()), save(state)]
}

pub(super) fn save(state: &ScreenState) -> Effect {
    Effect::Save { turns: state.chat.saved_turns(), asked: false }
}

/// Returns a question that got no token to the input, so that it can be edited and sent again.
pub(super) fn take_back(state: &mut ScreenState) {
    if state.input.is_empty()
        && let Some(question) = state.chat.take_question()
    {
        state.input.set(&question);
    }
}

/// Saves and leaves.
pub(super) fn quit(state: &mut ScreenState) -> Vec<Effect> {
    state.quitting = true;
    let mut effects = stop(state);
    effects.push(save(state));
    effects.push(Effect::Quit);
    effects
}
