//! The controls: every change takes effect from the next round on. Must never do IO.

use super::{DialRanges, strategies};
use crate::tui::actions::Dial;
use crate::tui::state::ScreenState;
use crate::worker::Controls;

impl ScreenState {
    /// The dials with what their values depend on.
    pub(crate) fn dials(&self) -> DialRanges<'_> {
        DialRanges::new(self.models.ready.as_deref(), &self.tree)
    }
}

/// Changes a dial by `steps`, which fixes its value.
pub(crate) fn adjust(state: &mut ScreenState, dial: Dial, steps: i8) {
    let adjusted =
        with_dials(state, |dials, controls| dials.adjust(dial, i64::from(steps), controls));
    match adjusted {
        Ok(()) => state.apply(),
        Err(why) => state.refuse(why),
    }
}

/// Works on the controls with what the dials need to know.
pub(crate) fn with_dials<T>(
    state: &mut ScreenState,
    work: impl FnOnce(&DialRanges<'_>, &mut Controls) -> T,
) -> T {
    let dials = DialRanges::new(state.models.ready.as_deref(), &state.tree);
    work(&dials, &mut state.controls.worker)
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
