//! Answers from the question to the end: asked for, stopped, given again. Must never do IO.

use super::{AnswerOutcome, conversation};
use crate::chat::{Given, Role, SessionStore};
use crate::tui::actions::Action;
use crate::tui::controls::FirstAnswer;
use crate::tui::event::Effect;
use crate::tui::models::Phase;
use crate::tui::state::ScreenState;
use crate::worker::Job;

/// Why something has to wait for the model.
pub(crate) const STILL_LOADING: &str = "The model is still loading";

/// Asks for an answer to the conversation as it stands; the chat already holds its empty answer.
pub(crate) fn ask(state: &mut ScreenState) {
    ask_from(state, Vec::new(), Vec::new());
}

/// The same for an answer that begins with these tokens and has `forced` tokens.
fn ask_from(state: &mut ScreenState, begun: Vec<u32>, forced: Vec<(usize, u32)>) {
    state.leaving.anyway = false;
    state.chat.goes_on = state.chat.went_on_at.is_some();
    state.begin_answer();
    begin_first_answer(state);
    let mut messages = state.chat.messages();
    if !forced.is_empty() {
        // Its tokens say more than the text of its beginning.
        messages.pop_if(|last| last.role == Role::Assistant);
    }
    let thinking = state.controls.thinking;
    let asked = match messages.split_last() {
        Some((last, asked)) if last.role == Role::Assistant => asked,
        _ => &messages[..],
    };
    let sampler = state.controls.worker.sampler;
    let given = Given::new(state.chat.saved_forgotten(), asked, thinking, sampler);
    state.chat.note_given(given);
    let max_tokens = state.controls.max_tokens.or(Job::ROOM_LEFT);
    state.generate(Job { messages, begun, forced, max_tokens, thinking, ..Job::default() });
}

/// Slows the very first answer of the bundled pair down.
fn begin_first_answer(state: &mut ScreenState) {
    if state.controls.first_answer != FirstAnswer::ToCome {
        return;
    }
    let bundled = state.models.ready.as_ref().is_some_and(|ready| ready.models.is_bundled());
    if bundled && state.controls.worker.pace == 0 {
        state.controls.first_answer = FirstAnswer::Playing { pace: state.controls.worker.pace };
        state.controls.worker.pace = FirstAnswer::PACE;
    } else {
        state.controls.first_answer = FirstAnswer::Past;
    }
    state.emit(Effect::Remember(SessionStore::ANSWERED, String::new()));
}

/// The first answer continues at full speed, or has ended; `true` if it was under way.
pub(crate) fn end_first_answer(state: &mut ScreenState) -> bool {
    let FirstAnswer::Playing { pace } = state.controls.first_answer else { return false };
    state.controls.first_answer = FirstAnswer::Past;
    state.controls.worker.pace = pace;
    true
}

/// Sends the next message that waits, if it can be answered now.
pub(crate) fn send_queued(state: &mut ScreenState) {
    if state.input.queue.is_empty() || state.models.phase != Phase::Idle {
        return;
    }
    let text = state.input.queue.remove(0);
    state.chat.ask(text);
    ask(state);
    save(state);
}

/// Messages that wait come back to where they were written; `false` if there are none.
pub(crate) fn return_queued(state: &mut ScreenState) -> bool {
    let texts = std::mem::take(&mut state.input.queue);
    if !texts.is_empty() {
        state.input.take_back(&texts);
    }
    !texts.is_empty()
}

pub(crate) fn regenerate(state: &mut ScreenState) {
    if !state.chat.can_regenerate() {
        return state.complain("There is no question to answer yet");
    }
    stop(state);
    if state.models.phase != Phase::Idle {
        return refuse_now(state);
    }
    let sampler = &mut state.controls.worker.sampler;
    if state.chat.is_unanswered() {
        // There is no other text that this one could be like.
    } else if sampler.temperature > 0.0 {
        // The same seed would give the same text.
        sampler.seed = sampler.seed.wrapping_add(1);
        let words = format!("Seed {}", sampler.seed);
        state.say(words);
    } else {
        state.refuse("The temperature is 0, so the text will be the same");
    }
    state.chat.reopen();
    ask(state);
}

/// Continues from another of the target's likeliest tokens, number `number` of them, in the place
/// of the token that is looked at.
pub(crate) fn force(state: &mut ScreenState, number: usize) {
    let Some((turn, at)) = state.tree.token else {
        return state.refuse("Click a word of an answer first, or go to one with ← and →");
    };
    let Some(said) = state.chat.turns().get(turn) else { return };
    let Some(here) = said.minds.tokens.get(at) else { return };
    let likely = here.wanted.as_ref().and_then(|wanted| wanted.top.get(number));
    let Some(token) = likely.map(|likely| likely.token) else {
        return state.refuse("The target's likeliest tokens there have no such number");
    };
    if token == here.token {
        return state.refuse("The answer has this token there already");
    }
    if state.models.target() != said.minds.target {
        return state.refuse("Another model wrote this answer");
    }
    if !said.minds.is_whole() {
        return state.refuse("This answer was begun in an earlier run: its tokens are not known");
    }
    stop(state);
    if state.models.phase != Phase::Idle {
        return refuse_now(state);
    }
    if turn + 1 < state.chat.turns().len() {
        conversation::branch(state, turn + 1);
    }
    let (begun, forced) = state.chat.force(at, token);
    ask_from(state, begun, forced);
    save(state);
}

/// Says why nothing is answered now.
pub(crate) fn refuse_now(state: &mut ScreenState) {
    let stop = state.display.keys.name(Action::Escape);
    match state.models.phase {
        Phase::Answering { .. } => {
            state.refuse_while_answering(format!("An answer is under way · {stop} stops it"));
        }
        Phase::Loading { .. } => state.refuse(STILL_LOADING),
        Phase::Idle | Phase::Broken => state.refuse("No model is loaded that could answer"),
    }
}

/// Ends the running answer: its later events are dropped.
pub(crate) fn stop(state: &mut ScreenState) {
    if !state.answering() {
        return_queued(state);
        return;
    }
    state.controls.worker.generation += 1;
    state.controls.worker.paused = false;
    state.models.phase = Phase::Idle;
    state.chat.summarising = None;
    if let Some(answer) = state.chat.open_answer() {
        answer.count(&state.meters.answer.summary);
    }
    state.chat.close(AnswerOutcome::STOPPED);
    state.chat.remember();
    state.restore_answer();
    end_first_answer(state);
    return_queued(state);
    state.apply();
    save(state);
}

pub(crate) fn save(state: &mut ScreenState) {
    save_as(state, false);
}

/// Saves; `asked`: the user wants to know.
pub(crate) fn save_as(state: &mut ScreenState, asked: bool) {
    let turns = state.chat.saved_turns();
    let extras = state.chat.extras();
    state.emit(Effect::Save { turns, extras, asked });
}

/// Continues an answer that was cut off, or answers the last question if it has none.
pub(crate) fn go_on(state: &mut ScreenState) {
    if state.models.phase != Phase::Idle {
        refuse_now(state);
    } else if state.chat.can_go_on() {
        state.chat.go_on();
        ask(state);
    } else if state.chat.is_unanswered() {
        state.chat.reopen();
        ask(state);
    } else {
        state.refuse("The last answer is complete: there is nothing to continue");
    }
}

/// Returns a question that got no token to the input, so that it can be edited and sent again.
pub(crate) fn take_back(state: &mut ScreenState) {
    if state.input.is_empty()
        && state.chat.is_unanswered()
        && let Some(question) = state.chat.turns.pop()
    {
        state.input.take_back(&[question.text]);
    }
}
