//! What keys and commands do to the controls, and the strategies in the order of their list. Must
//! never do IO.

use super::DialRanges;
use super::strategies::{self, FIRST, in_force, status};
use crate::plan::Strategy;
use crate::tui::actions::Dial;
use crate::tui::state::ScreenState;
use crate::worker::StrategyStatus;

/// A strategy as it is listed.
#[derive(Clone, Copy, Debug)]
pub struct StrategyRow<'a> {
    /// The heading before its like, if they have one.
    pub heading: Option<&'static str>,
    /// Its status from loading.
    pub status: &'a StrategyStatus,
}

/// The place of a strategy in the list: first those that most people need, then the others that
/// are Dovetail's own, those of published methods, and those that cannot run here.
fn place(status: &StrategyStatus) -> (usize, Option<&'static str>) {
    let origin = Strategy::named(&status.name).map_or("", |row| row.origin);
    let first = FIRST.iter().position(|first| first.0 == status.name);
    match first {
        _ if status.missing.is_some() => (FIRST.len() + 2, Some("Not available here")),
        Some(place) => (place, None),
        None if origin.is_empty() || origin.starts_with("Dovetail") => (FIRST.len(), None),
        None => (FIRST.len() + 1, Some("More")),
    }
}

impl ScreenState {
    /// The dials with what their values depend on.
    pub(crate) fn dials(&self) -> DialRanges<'_> {
        let latest = self.tree.latest().map(|round| &round.budget);
        DialRanges { ready: self.models.ready.as_deref(), latest }
    }

    /// Name of the strategy in force; empty while nothing is loaded.
    pub fn strategy(&self) -> &str {
        in_force(self.models.ready.as_deref(), &self.controls.worker)
    }

    /// The drafter's description under the strategy in force.
    pub fn draft(&self) -> Option<&str> {
        match status(self.models.ready.as_deref(), &self.controls.worker) {
            Some(status) => status.draft.as_deref(),
            None => self.models.ready.as_ref()?.draft.as_deref(),
        }
    }

    /// All strategies; none while nothing is loaded.
    pub fn statuses(&self) -> &[StrategyStatus] {
        self.models.ready.as_ref().map_or(&[], |ready| &ready.strategies)
    }

    /// All strategies as they are listed: those that most people need first, those that cannot run
    /// here last.
    pub fn listed_strategies(&self) -> Vec<StrategyRow<'_>> {
        let mut statuses: Vec<_> = self.statuses().iter().collect();
        statuses.sort_by_key(|status| place(status).0);
        let row = |status| StrategyRow { heading: place(status).1, status };
        statuses.into_iter().map(row).collect()
    }

    /// The place of the strategy in force among [`Self::listed_strategies`].
    pub fn chosen(&self) -> usize {
        let mut rows = self.listed_strategies().into_iter();
        rows.position(|row| row.status.name == self.strategy()).unwrap_or(0)
    }
}

/// Changes a dial by `steps`, which fixes its value; `false` if it says why it cannot.
pub(crate) fn adjust(state: &mut ScreenState, dial: Dial, steps: i8) -> bool {
    let mut controls = state.controls.worker.clone();
    let done = state.dials().adjust(dial, i64::from(steps), &mut controls);
    match done.as_ref() {
        Ok(()) => {
            state.controls.worker = controls;
            state.apply();
        }
        Err(why) => state.refuse(why),
    }
    done.is_ok()
}

/// Puts a strategy into force, from the next round on.
///
/// # Errors
/// Why it cannot run, with the remedy.
pub(crate) fn choose(state: &mut ScreenState, name: &str) -> Result<(), String> {
    strategies::choose(state.models.ready.as_deref(), &mut state.controls.worker, name)?;
    let title = strategies::title(state.strategy());
    state.say(format!("Strategy: {title}, from the next round on"));
    state.apply();
    Ok(())
}
