//! Asks a loaded model and times the answer: the one way in which every measurement decodes.

use std::sync::atomic::{AtomicBool, Ordering};

use super::recorder::{AnswerRecorder, TimedAnswer};
use crate::hardware::{Peak, PeakMeter};
use crate::worker::{Backend, Controls, Event, Job, SharedControls};

/// Ends a run early from another thread.
#[derive(Debug, Default)]
pub struct Stop(AtomicBool);

impl Stop {
    /// Ends the answer in progress and the run.
    pub fn stop(&self, controls: &SharedControls) {
        self.0.store(true, Ordering::Relaxed);
        controls.update(|controls| controls.generation = 0);
    }

    /// Whether the run should end.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum NoAnswer {
    /// The user stopped the run.
    Stopped,
    /// The backend failed, and says why.
    Failed(String),
}

/// Answers questions one after the other on one backend.
pub(super) struct Answerer<'a> {
    backend: &'a mut Backend,
    controls: &'a SharedControls,
    stop: &'a Stop,
    generation: u64,
    peak: PeakMeter,
}

impl<'a> Answerer<'a> {
    pub(super) fn new(
        backend: &'a mut Backend,
        controls: &'a SharedControls,
        stop: &'a Stop,
    ) -> Self {
        Self { backend, controls, stop, generation: 0, peak: PeakMeter::start() }
    }

    /// Discards what the model has read, so that the next answer reads its prompt again.
    pub(super) fn forget(&mut self) {
        self.backend.engine.forget();
    }

    /// Notices of the backend since the last call.
    pub(super) fn notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.backend.notices)
    }

    /// Answers `job` under these controls. Its generation is chosen here.
    pub(super) fn answer(
        &mut self,
        controls: &Controls,
        job: Job,
    ) -> Result<TimedAnswer, NoAnswer> {
        self.generation += 1;
        let generation = self.generation;
        let stop = self.stop;
        self.controls.update(|shared| {
            *shared = controls.clone();
            // `Stop::stop` writes the controls under the same lock.
            shared.generation = if stop.is_set() { 0 } else { generation };
        });
        if stop.is_set() {
            return Err(NoAnswer::Stopped);
        }
        let mut recorder = AnswerRecorder::start();
        let mut notices = Vec::new();
        self.backend.answer(&Job { generation, ..job }, self.controls, &mut |event: Event| {
            if let Event::Notice(text) = &event {
                notices.push(text.clone());
            }
            recorder.take(&event);
            true
        });
        self.backend.notices.extend(notices);
        if stop.is_set() {
            return Err(NoAnswer::Stopped);
        }
        let Peak { ram, vram } = self.peak.peak();
        // Without a driver's figure, we know what we put there.
        let placed = self.backend.ready.vram_used;
        let vram = vram.or_else(|| (placed > 0).then_some(placed));
        recorder.end(ram, vram).map_err(NoAnswer::Failed)
    }
}
