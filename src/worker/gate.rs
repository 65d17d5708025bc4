//! When the next round may begin: pause, single steps, pace, cancellation. It must not depend on
//! what a round does.

use super::{Controls, SharedControls};
use std::time::{Duration, Instant};

/// Grants the rounds of one answer.
#[derive(Debug)]
pub(crate) struct RoundGate {
    controls: SharedControls,
    generation: u64,
    /// How many steps of `Controls::steps` have been used or have passed.
    used: u64,
    /// When the last round began; `None` before the first.
    began: Option<Instant>,
}

impl RoundGate {
    /// For the answer `generation`; steps granted before it do not count.
    pub(crate) fn new(generation: u64, controls: &SharedControls) -> Self {
        let now = controls.get();
        Self { controls: controls.clone(), generation, used: now.steps, began: None }
    }

    /// The controls as they are.
    pub(crate) fn now(&self) -> Controls {
        self.controls.get()
    }

    /// Keeps the pace, then waits while rounds are paused and none is granted. `None` if the answer
    /// is no longer wanted.
    pub(crate) fn pass(&mut self) -> Option<Controls> {
        self.keep_pace();
        let Self { generation, used, .. } = *self;
        let holds = |c: &Controls| c.generation == generation && c.paused && c.steps <= used;
        let now = self.controls.wait_while(holds);
        // Steps requested while rounds run freely do not count later.
        self.used = if now.paused { used + 1 } else { now.steps };
        self.began = Some(Instant::now());
        (now.generation == generation).then_some(now)
    }

    /// Sleeps for `time` unless the answer is stopped earlier; whether it is still wanted.
    pub(crate) fn sleep(&self, time: Duration) -> bool {
        self.controls.wait_while_for(time, |c| c.generation == self.generation);
        !self.cancelled()
    }

    /// Waits until the last round has lasted as long as the pace requires, unless the answer is
    /// stopped earlier. A changed pace takes effect at once.
    fn keep_pace(&self) {
        let Some(began) = self.began else { return };
        loop {
            let pace = self.now().pace;
            let left = Duration::from_millis(pace as u64).saturating_sub(began.elapsed());
            if left.is_zero() || self.cancelled() {
                return;
            }
            let same = |c: &Controls| c.generation == self.generation && c.pace == pace;
            self.controls.wait_while_for(left, same);
        }
    }

    /// Whether the answer is no longer wanted.
    pub(crate) fn cancelled(&self) -> bool {
        self.now().generation != self.generation
    }
}
