//! The controls that the user changes while the worker runs. Values overwrite each other, so they
//! are shared state and not a queue; the worker reads them before every round. It must not depend
//! on who changes them.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::plan::{Strategy, TreeOverrides};
use crate::settings::Settings;
use crate::speculate::SamplerSettings;

pub use crate::plan::Setting;

/// One snapshot of everything that can be changed live.
#[derive(Clone, Debug, PartialEq)]
pub struct Controls {
    /// Speculation on or off; the text is the same in both cases.
    pub speculate: bool,
    /// The strategy; `None` means the one chosen during loading.
    pub strategy: Option<&'static Strategy>,
    /// Whether the drafter drafts ahead while the target verifies, if it can.
    pub overlap: bool,
    /// Whether drafts are ranked with the target's own noise when sampling.
    pub coupled: bool,
    /// The minimum milliseconds from one round to the next, for watching; 0 does not wait.
    pub pace: usize,
    /// γ, M, k and D, each automatic or fixed.
    pub tree: TreeOverrides,
    /// Temperature, filters, penalties, seed.
    pub sampler: SamplerSettings,
    /// Whether rounds wait for a step.
    pub paused: bool,
    /// Whether the draft tree is on display: rounds are then also reported while the target still
    /// verifies them.
    pub watched: bool,
    /// How many rounds have been granted so far while paused; the screen adds one per step.
    pub steps: u64,
    /// The number of the wanted answer: the worker stops any other. 0 before the first.
    pub generation: u64,
    /// The number of the wanted load: the worker stops any other. 0 before the first.
    pub load: u64,
    /// When the thread must have ended, if what it holds is to be saved by then.
    pub leave_by: Option<Instant>,
}

impl Default for Controls {
    /// Everything automatic, greedy, running, no wanted answer yet.
    fn default() -> Self {
        Self {
            speculate: true,
            strategy: None,
            overlap: false,
            coupled: true,
            pace: 0,
            tree: TreeOverrides::default(),
            sampler: SamplerSettings::default(),
            paused: false,
            watched: false,
            steps: 0,
            generation: 0,
            load: 0,
            leave_by: None,
        }
    }
}

impl Controls {
    /// Takes over what the settings say of decoding.
    pub fn take(&mut self, settings: &Settings) {
        self.speculate = settings.speculate;
        self.strategy = settings.strategy;
        self.overlap = settings.overlap;
        self.coupled = settings.coupled;
        self.pace = settings.pace;
        self.tree = settings.controls;
        self.sampler = settings.sampler;
    }
}

/// The controls in a lock, with a condition variable that wakes a paused worker.
#[derive(Clone, Debug)]
pub struct SharedControls(Arc<(Mutex<Controls>, Condvar)>);

impl SharedControls {
    /// Shares `controls`.
    pub fn new(controls: Controls) -> Self {
        Self(Arc::new((Mutex::new(controls), Condvar::new())))
    }

    /// A copy of the current values.
    pub fn get(&self) -> Controls {
        self.lock().clone()
    }

    /// Changes the values and wakes a paused worker.
    pub fn update(&self, change: impl FnOnce(&mut Controls)) {
        change(&mut self.lock());
        self.0.1.notify_all();
    }

    /// Blocks while `hold` returns true, which is checked again after every update.
    pub fn wait_while(&self, hold: impl Fn(&Controls) -> bool) -> Controls {
        let guard = self.lock();
        let guard = self.0.1.wait_while(guard, |c| hold(c)).unwrap_or_else(PoisonError::into_inner);
        guard.clone()
    }

    /// Blocks while `hold` returns true, which is checked after every update, but at most for
    /// `limit`.
    pub fn wait_while_for(&self, limit: Duration, hold: impl Fn(&Controls) -> bool) {
        let guard = self.lock();
        let _ = self.0.1.wait_timeout_while(guard, limit, |c| hold(c));
    }

    fn lock(&self) -> MutexGuard<'_, Controls> {
        // A panic while the lock is held leaves plain values, which are still usable.
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
