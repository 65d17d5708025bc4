//! The controls that the user changes while the worker runs. Values overwrite each other, so they
//! are shared state and not a queue; the worker reads them before every round. Must never know who
//! changes them.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::plan::{Strategy, TreeOverrides};
use crate::speculate::SamplerSettings;

pub use crate::plan::Setting;

/// One snapshot of everything that can be changed live.
#[derive(Clone, Debug, PartialEq)]
pub struct Controls {
    /// Speculation on or off; the text is the same either way.
    pub speculate: bool,
    /// The strategy; `None` is the one chosen while loading.
    pub strategy: Option<&'static Strategy>,
    /// Whether the drafter drafts ahead while the target verifies, where it can.
    pub overlap: bool,
    /// Whether drafts are ranked with the target's own noise when sampling.
    pub coupled: bool,
    /// Least milliseconds from round to round, for watching; 0 does not wait.
    pub pace: usize,
    /// γ, M, k and D, each automatic or fixed.
    pub tree: TreeOverrides,
    /// Temperature, filters, penalties, seed.
    pub sampler: SamplerSettings,
    /// Whether rounds wait for a step.
    pub paused: bool,
    /// Whether somebody looks at the draft tree: rounds are then told of while the target still
    /// verifies them, too.
    pub watched: bool,
    /// Rounds granted so far while paused; the screen adds one a step.
    pub steps: u64,
    /// Number of the answer that is wanted: the worker stops any other. 0 before the first.
    pub generation: u64,
    /// Number of the load that is wanted: the worker stops any other. 0 before the first.
    pub load: u64,
    /// By when the thread has to have ended, where what it holds is to be kept then.
    pub leave_by: Option<Instant>,
}

impl Default for Controls {
    /// Everything automatic, greedy, running, no answer wanted yet.
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

/// The controls behind a lock, with a condition variable that wakes a paused worker.
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

    /// Blocks while `hold` is true, which is checked again after every update.
    pub fn wait_while(&self, hold: impl Fn(&Controls) -> bool) -> Controls {
        let guard = self.lock();
        let guard = self.0.1.wait_while(guard, |c| hold(c)).unwrap_or_else(PoisonError::into_inner);
        guard.clone()
    }

    /// Blocks for `limit` at most while `hold` is true, which is checked after every update.
    pub fn wait_while_for(&self, limit: Duration, hold: impl Fn(&Controls) -> bool) {
        let guard = self.lock();
        let _ = self.0.1.wait_timeout_while(guard, limit, |c| hold(c));
    }

    fn lock(&self) -> MutexGuard<'_, Controls> {
        // A panic while holding the lock leaves plain values behind: still usable.
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
