//! One answer from a job to its last event: the path that the thread, `run` and `bench` share.

use super::gate::Gate;
use super::{Backend, Chosen, Controls, Event, Job, Planner, SharedControls};
use crate::decode::{Answer, DecodeError, Request, Summary, Turn};

/// Why an answer has no end of its own.
enum Broken {
    Failed(String),
    /// Nobody listens any more.
    Deaf,
}

impl From<DecodeError> for Broken {
    fn from(error: DecodeError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl Backend {
    /// Makes the answer `job` and tells `sink` of every step; the last event is `Finished` or
    /// `Failed`. Stops between prefill slices and rounds once `Controls::generation` is not the
    /// job's: set it before. Returns `false` if `sink` did, so nobody listens any more.
    pub fn answer(
        &mut self,
        job: &Job,
        controls: &SharedControls,
        sink: &mut dyn FnMut(Event) -> bool,
    ) -> bool {
        let generation = job.generation;
        let last = match self.work(job, controls, sink) {
            Ok(summary) => Event::Finished { generation, summary: Box::new(summary) },
            Err(Broken::Failed(error)) => Event::Failed { generation: Some(generation), error },
            Err(Broken::Deaf) => return false,
        };
        sink(last)
    }

    fn work(
        &mut self,
        job: &Job,
        controls: &SharedControls,
        sink: &mut dyn FnMut(Event) -> bool,
    ) -> Result<Summary, Broken> {
        let generation = job.generation;
        let mut tell = |event| if sink(event) { Ok(()) } else { Err(Broken::Deaf) };
        let mut gate = Gate::new(generation, controls);
        let prompt = (self.prompter)(&job.messages).map_err(Broken::Failed)?;
        let request = Request {
            prompt,
            max_tokens: job.max_tokens,
            eos: self.eos.clone(),
            stop: self.stop.clone(),
        };
        let planner = self.planner.as_mut();
        let mut answer = self.engine.answer(request, self.names.as_ref())?;
        let cancelled = |mut answer: Answer<'_>| {
            answer.cancel();
            Ok(answer.summary().clone())
        };

        let mut progress = answer.progress();
        loop {
            let (done, total) = (progress.done, progress.total);
            tell(Event::Prefill { generation, done, total })?;
            if gate.cancelled(controls) {
                return cancelled(answer);
            }
            if progress.is_complete() {
                break;
            }
            progress = answer.read(&turn(planner, &controls.get()))?;
            notices(&mut answer, &mut tell)?;
        }
        let token = answer.first(&turn(planner, &controls.get()))?;
        let summary = Box::new(answer.summary().clone());
        tell(Event::First { generation, token, summary })?;

        while answer.finish().is_none() {
            gate.keep_pace(controls);
            let Some(now) = gate.pass(controls) else { return cancelled(answer) };
            let round = answer.round(&turn(planner, &now))?;
            planner.observe(&round);
            if let Some(reasons) = planner.news() {
                tell(Event::Reasons(reasons))?;
            }
            notices(&mut answer, &mut tell)?;
            tell(Event::Round { generation, round: Box::new(round) })?;
        }
        Ok(answer.summary().clone())
    }
}

fn turn(planner: &mut dyn Planner, controls: &Controls) -> Turn {
    let Chosen { strategy, drafter, budget } = planner.choose(controls);
    Turn {
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
    answer: &mut Answer<'_>,
    tell: &mut impl FnMut(Event) -> Result<(), Broken>,
) -> Result<(), Broken> {
    answer.take_notices().into_iter().try_for_each(|text| tell(Event::Notice(text)))
}
