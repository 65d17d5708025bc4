//! Events of the worker. Those of an answer that was stopped are dropped. Must never do IO.

use super::leaving;
use crate::decode::{PrefillProgress, Summary};
use crate::tui::actions::Action;
use crate::tui::chat::AnswerOutcome;
use crate::tui::chat::answer::{end_first_answer, return_queued, save, send_queued, take_back};
use crate::tui::chat::full;
use crate::tui::meters::Speedup;
use crate::tui::models::{Phase, update as models};
use crate::tui::overlays::Overlay;
use crate::tui::race::update as race;
use crate::tui::state::ScreenState;
use crate::worker::Event;

/// Handles an event of the worker.
pub(super) fn event(state: &mut ScreenState, event: Event) {
    let late = |of: u64| of != state.generation() || !state.answering();
    if event.generation().is_some_and(late) {
        return;
    }
    let of_answer = event.generation().is_some() && !matches!(event, Event::Failed { .. });
    if of_answer && state.racing() {
        return race::event(state, event);
    }
    if of_answer && state.chat.summarising.is_some() {
        return full::summarised(state, event);
    }
    match event {
        Event::Loading { stage, fraction } => {
            state.models.phase = Phase::Loading { stage, fraction }
        }
        Event::Ready(ready) => {
            let sampler = ready.sampler;
            state.models.ready = Some(ready);
            state.models.phase = Phase::Idle;
            models::reopened(state);
            if state.overlays.open == Some(Overlay::Reopened) {
                // Which model answers is to be chosen before anything is sent.
                return_queued(state);
            }
            if let Some(sampler) = sampler {
                state.controls.take_sampler(sampler);
                state.apply();
            }
            send_queued(state);
        }
        Event::Verifying { generation, round } => state.tree.pending = Some((generation, round)),
        Event::Prefill { done, total, .. } => {
            state.meters.answer.prefill = Some(PrefillProgress { done, total })
        }
        Event::TooLong { total, alone, .. } => {
            state.meters.answer.prefill = Some(PrefillProgress { done: 0, total });
            state.meters.answer.alone = alone;
        }
        Event::First { token, summary, .. } => {
            state.earlier = None;
            state.chat.remembered = None;
            state.chat.answered_by = state.models.in_use();
            state.meters.answer.first(state.now, summary);
            let of = state.generation();
            let target = state.models.target();
            state.chat.begin(token, of, target);
        }
        Event::Round { round, .. } => {
            state.meters.answer.round(&round);
            state.note_pace(&round);
            let of = state.generation();
            let bytes = state.chat.extend(&round, of);
            state.tree.push(*round, of, bytes);
        }
        Event::Finished { summary, .. } => finished(state, summary),
        Event::Reasons(reasons) => {
            if let Some(ready) = &mut state.models.ready {
                ready.reasons = reasons;
            }
        }
        Event::Notice(text) => state.toasts.notice(&text, state.now),
        Event::Sampled(sampler) => {
            state.controls.worker.sampler = sampler;
            state.apply();
        }
        Event::LoadProgress { load, stage, fraction } => {
            models::progress(state, load, stage, fraction);
        }
        Event::Unloaded { load, reason } => models::unloaded(state, load, reason),
        Event::Swapped { ready, .. } => {
            models::swapped(state, ready);
            race::swapped(state);
        }
        Event::NotSwapped { load, error } => {
            race::not_swapped(state);
            models::not_swapped(state, load, error);
        }
        Event::Failed { generation: Some(_), error } => failed(state, error),
        Event::Failed { generation: None, error } => not_loaded(state, error),
    }
}

/// An answer is complete.
fn finished(state: &mut ScreenState, summary: Box<Summary>) {
    state.models.phase = Phase::Idle;
    state.controls.worker.paused = false;
    state.earlier = None;
    state.meters.answer.prefill = None;
    state.meters.answer.summary = summary.clone();
    let speedup = state.speedup();
    let counts_rounds = state.models.counts_rounds();
    if let Some(answer) = state.chat.open_answer() {
        answer.counts_rounds = counts_rounds;
        answer.count(&summary);
        answer.speedup = speedup.map(|part| match answer.totals {
            // All of it, as the tokens per second next to it.
            Some(all) if summary.tokens_per_second > 0.0 => {
                let share = all.tokens_per_second() / summary.tokens_per_second;
                Speedup { ratio: part.ratio * share, ..part }
            }
            _ => part,
        });
    }
    state.chat.close(AnswerOutcome::of(&summary));
    // With what is written meanwhile, which was saved with the answer so far.
    let [saved, _] = leaving::left(state);
    state.emit(saved);
    state.next_tip();
    if end_first_answer(state) {
        state.apply();
    }
    send_queued(state);
}

/// The models could not be loaded.
fn not_loaded(state: &mut ScreenState, error: String) {
    state.models.phase = Phase::Broken;
    state.models.load = None;
    let asked = state.chat.open_answer().is_some();
    if asked {
        state.chat.close(AnswerOutcome::Failed);
        state.restore_answer();
        take_back(state);
    }
    return_queued(state);
    state.fail("Not loaded", error);
    if asked {
        save(state);
    }
}

/// An answer failed.
fn failed(state: &mut ScreenState, error: String) {
    let refused = state
        .context()
        .filter(|context| !state.meters.answer.begun() && context.used > context.holds);
    if state.racing() {
        return race::failed(state, error);
    }
    if state.chat.summarising.is_some() {
        return full::not_summarised(state, &error);
    }
    state.models.phase = Phase::Idle;
    state.controls.worker.paused = false;
    state.meters.answer.prefill = None;
    state.chat.close(AnswerOutcome::Failed);
    state.restore_answer();
    if let Some(context) = refused {
        return full::refused(state, context);
    }
    state.chat.remember();
    take_back(state);
    state.fail("No answer", error);
    save(state);
}

/// The decode thread ended by itself.
pub(super) fn gone(state: &mut ScreenState, reason: Option<String>) {
    if state.leaving.quitting || state.models.phase == Phase::Broken {
        return;
    }
    state.models.phase = Phase::Broken;
    state.meters.answer.prefill = None;
    state.chat.close(AnswerOutcome::Failed);
    state.restore_answer();
    return_queued(state);
    let reason = reason.unwrap_or_else(|| "it gave no reason".to_string());
    let quit = state.display.keys.name(Action::Quit);
    let text = format!(
        "The decode thread ended: {reason}\n\nThe conversation is saved. Quit with {quit} and \
         start again with --continue."
    );
    state.fail("Decoding stopped", text);
    save(state);
}
