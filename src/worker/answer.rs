//! One answer from a job to its last event: the path that the thread, `run` and `bench` share.

use super::gate::RoundGate;
use super::{Backend, Controls, Event, Job, Planner, RoundPlan, SharedControls};
use crate::decode::{DecodeError, Generation, Request, RoundOptions, Summary};

/// Why an answer has no end of its own.
enum AnswerError {
    Failed(String),
    /// The receiver of the events is gone.
    ReceiverGone,
}

impl From<DecodeError> for AnswerError {
    fn from(error: DecodeError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl Backend {
    /// Makes the answer `job` and sends every step to `sink`; the last event is `Finished` or
    /// `Failed`. Stops between prefill slices and rounds once `Controls::generation` is not the
    /// job's: set it before. Returns `false` if `sink` did: the receiver is gone.
    pub fn answer(
        &mut self,
        job: &Job,
        controls: &SharedControls,
        sink: &mut dyn FnMut(Event) -> bool,
    ) -> bool {
        let generation = job.generation;
        let last = match self.work(job, controls, sink) {
            Ok(summary) => Event::Finished { generation, summary: Box::new(summary) },
            Err(AnswerError::Failed(error)) => {
                Event::Failed { generation: Some(generation), error }
            }
            Err(AnswerError::ReceiverGone) => return false,
        };
        sink(last)
    }

    fn work(
        &mut self,
        job: &Job,
        controls: &SharedControls,
        sink: &mut dyn FnMut(Event) -> bool,
    ) -> Result<Summary, AnswerError> {
        let generation = job.generation;
        let mut send = |event| if sink(event) { Ok(()) } else { Err(AnswerError::ReceiverGone) };
        let mut gate = RoundGate::new(generation, controls);
        let prompt = (self.prompter)(&job.messages).map_err(AnswerError::Failed)?;
        let request = Request {
            prompt,
            max_tokens: job.max_tokens,
            eos: self.eos.clone(),
            stop: self.stop.clone(),
        };
        let planner = self.planner.as_mut();
        let mut answer = match self.engine.generate(request, self.names.as_ref()) {
            Ok(answer) => answer,
            Err(error) => {
                // Whoever shows the failure can say by how much the prompt is too long.
                if let DecodeError::PromptTooLong { tokens: total, .. } = error {
                    send(Event::Prefill { generation, done: 0, total })?;
                }
                return Err(error.into());
            }
        };
        let cancelled = |mut answer: Generation<'_>| {
            answer.cancel();
            Ok(answer.summary().clone())
        };

        let mut progress = answer.progress();
        loop {
            let (done, total) = (progress.done, progress.total);
            send(Event::Prefill { generation, done, total })?;
            if gate.cancelled(controls) {
                return cancelled(answer);
            }
            if progress.is_complete() {
                break;
            }
            progress = answer.prefill(&options(planner, &controls.get()))?;
            notices(&mut answer, &mut send)?;
        }
        let token = answer.first_token(&options(planner, &controls.get()))?;
        let summary = Box::new(answer.summary().clone());
        send(Event::First { generation, token, summary })?;

        while answer.finish().is_none() {
            gate.keep_pace(controls);
            let Some(now) = gate.pass(controls) else { return cancelled(answer) };
            let round = answer.step(&options(planner, &now))?;
            planner.observe(&round);
            if let Some(reasons) = planner.take_new_reasons() {
                send(Event::Reasons(reasons))?;
            }
            notices(&mut answer, &mut send)?;
            send(Event::Round { generation, round: Box::new(round) })?;
        }
        Ok(answer.summary().clone())
    }
}

fn options(planner: &mut dyn Planner, controls: &Controls) -> RoundOptions {
    let RoundPlan { strategy, drafter, budget } = planner.choose(controls);
    RoundOptions {
        budget,
        speculate: controls.speculate && drafter.is_some(),
        sampler: controls.sampler,
        drafter: drafter.unwrap_or_default(),
        strategy: strategy.name,
        schedule: strategy.schedule_with(controls.overlap),
        coupled: controls.coupled,
    }
}

fn notices(
    answer: &mut Generation<'_>,
    send: &mut impl FnMut(Event) -> Result<(), AnswerError>,
) -> Result<(), AnswerError> {
    answer.take_notices().into_iter().try_for_each(|text| send(Event::Notice(text)))
}
