//! Events of the worker. Those of an answer that was stopped are dropped. Must never do IO.

use super::{Effect, save};
use crate::tui::state::{Model, Outcome, Overlay, Phase, Prefill};
use crate::worker::Event;

/// Whose answer an event belongs to.
fn generation(event: &Event) -> Option<u64> {
    match event {
        Event::Prefill { generation, .. }
        | Event::First { generation, .. }
        | Event::Round { generation, .. }
        | Event::Finished { generation, .. } => Some(*generation),
        Event::Failed { generation, .. } => *generation,
        Event::Loading { .. } | Event::Ready(_) | Event::Reasons(_) | Event::Notice(_) => None,
    }
}

/// Handles an event of the worker.
pub fn event(model: &mut Model, event: Event) -> Vec<Effect> {
    let late = |of: u64| of != model.generation() || !model.answering();
    if generation(&event).is_some_and(late) {
        return Vec::new();
    }
    match event {
        Event::Loading { stage, fraction } => {
            model.phase = Phase::Loading { stage, fraction };
            Vec::new()
        }
        Event::Ready(ready) => {
            let sampler = ready.sampler;
            model.ready = Some(ready);
            model.phase = Phase::Idle;
            match sampler {
                Some(sampler) => {
                    model.take_sampler(sampler);
                    super::keys::apply(model)
                }
                None => Vec::new(),
            }
        }
        Event::Prefill { done, total, .. } => {
            model.meters.prefill = Some(Prefill { done, total });
            Vec::new()
        }
        Event::First { token, summary, .. } => {
            model.answer_begun();
            model.meters.first(model.now, summary);
            model.chat.extend(&[token]);
            Vec::new()
        }
        Event::Round { round, .. } => {
            model.meters.round(&round);
            model.chat.extend(&round.committed);
            model.rounds.push(*round);
            Vec::new()
        }
        Event::Finished { summary, .. } => {
            model.phase = Phase::Idle;
            model.controls.paused = false;
            model.answer_begun();
            model.meters.prefill = None;
            model.meters.summary = Some(summary.clone());
            model.chat.close(Outcome::Finished(summary));
            vec![save(model)]
        }
        Event::Reasons(reasons) => {
            if let Some(ready) = &mut model.ready {
                ready.reasons = reasons;
            }
            Vec::new()
        }
        Event::Notice(text) => {
            model.notice(text);
            Vec::new()
        }
        Event::Failed { generation: Some(_), error } => failed(model, error),
        Event::Failed { generation: None, error } => {
            model.phase = Phase::Broken;
            model.overlay = Some(Overlay::Error { title: "Not loaded".to_string(), text: error });
            Vec::new()
        }
    }
}

/// An answer failed.
fn failed(model: &mut Model, error: String) -> Vec<Effect> {
    let refused = model
        .context()
        .filter(|context| model.meters.summary.is_none() && context.used > context.holds);
    let (title, text) = match refused {
        Some(context) => ("The context is full", context.refusal()),
        None => ("No answer", error),
    };
    model.phase = Phase::Idle;
    model.controls.paused = false;
    model.meters.prefill = None;
    model.chat.close(Outcome::Failed);
    model.restore_answer();
    super::keys::take_back(model);
    model.overlay = Some(Overlay::Error { title: title.to_string(), text });
    vec![save(model)]
}

/// The decode thread ended, though nobody asked it to.
pub fn gone(model: &mut Model, reason: Option<String>) -> Vec<Effect> {
    if model.quitting || model.phase == Phase::Broken {
        return Vec::new();
    }
    model.phase = Phase::Broken;
    model.meters.prefill = None;
    model.chat.close(Outcome::Failed);
    model.restore_answer();
    let reason = reason.unwrap_or_else(|| "it gave no reason".to_string());
    let text = format!(
        "The decode thread ended: {reason}\n\nThe conversation is saved. Quit with Ctrl+C, start \
         again and /load it."
    );
    model.overlay = Some(Overlay::Error { title: "Decoding stopped".to_string(), text });
    vec![save(model)]
}
