//! When the next round may begin: pause, single steps, pace, cancellation. It must not depend on
//! what a round does.

use super::{Controls, SharedControls};
use std::time::{Duration, Instant};

/// Grants the rounds of one answer.
#[derive(Debug)]
pub(crate) struct RoundGate {
    generation: u64,
    /// How many steps of `Controls::steps` have been used or have passed.
    used: u64,
    /// When the last round began; `None` before the first.
    began: Option<Instant>,
}

impl RoundGate {
    /// For the answer `generation`; steps granted before it do not count.
    pub(crate) fn new(generation: u64, controls: &SharedControls) -> Self {
        Self { generation, used: controls.get().steps, began: None }
    }

    /// Waits while rounds are paused and none is granted. `None` if the answer is no longer wanted.
    pub(crate) fn pass(&mut self, controls: &SharedControls) -> Option<Controls> {
        let generation = self.generation;
        let used = self.used;
        let now =
            controls.wait_while(|c| c.generation == generation && c.paused && c.steps <= used);
        // Steps requested while rounds run freely do not count later.
        self.used = if now.paused { used + 1 } else { now.steps };
        self.began = Some(Instant::now());
        (now.generation == generation).then_some(now)
    }

    /// Sleeps for `time` unless the answer is stopped earlier.
    pub(crate) fn sleep(&self, controls: &SharedControls, time: Duration) {
        let generation = self.generation;
        controls.wait_while_for(time, |c| c.generation == generation);
    }

    /// Waits until the last round has lasted as long as the pace requires, unless the answer is
    /// stopped earlier. A changed pace takes effect at once.
    pub(crate) fn keep_pace(&self, controls: &SharedControls) {
        let Some(began) = self.began else { return };
        loop {
            let pace = controls.get().pace;
            let left = Duration::from_millis(pace as u64).saturating_sub(began.elapsed());
            if left.is_zero() || self.cancelled(controls) {
                return;
            }
            let generation = self.generation;
            let same = move |c: &Controls| c.generation == generation && c.pace == pace;
            controls.wait_while_for(left, same);
        }
    }

    /// Whether the answer is no longer wanted.
    pub(crate) fn cancelled(&self, controls: &SharedControls) -> bool {
        controls.get().generation != self.generation
    }
}
