//! The strategies on the screen: the one in force, those that can run, what is missing for the
//! others, and all in the order of their list. Must never know how a strategy drafts.

use crate::plan::Strategy;
use crate::tui::state::ScreenState;
use crate::worker::StrategyStatus;

/// The strategies that most people need, first in the list.
const FIRST: [&str; 3] = ["auto", "plain", "small-model"];

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
    let first = FIRST.iter().position(|first| *first == status.name);
    match first {
        _ if status.missing.is_some() => (FIRST.len() + 2, Some("Not available here")),
        Some(place) => (place, None),
        None if origin.is_empty() || origin.starts_with("Dovetail") => (FIRST.len(), None),
        None => (FIRST.len() + 1, Some("More")),
    }
}

impl ScreenState {
    /// Name of the strategy in force; empty while nothing is loaded.
    pub fn strategy(&self) -> &str {
        let chosen = self.controls.worker.strategy.map(|strategy| strategy.name);
        chosen.or(self.models.ready.as_ref().map(|ready| &*ready.strategy)).unwrap_or_default()
    }

    /// What loading found out about that strategy.
    pub(super) fn strategy_status(&self) -> Option<&StrategyStatus> {
        self.statuses().iter().find(|status| status.name == self.strategy())
    }

    /// The drafter's description under the strategy in force.
    pub fn draft(&self) -> Option<&str> {
        match self.strategy_status() {
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

    /// Selects the strategy `steps` further among those that can run; the first follows the last.
    ///
    /// # Errors
    /// There is nothing to choose from.
    pub(super) fn step_strategy(&mut self, steps: i8) -> Result<(), String> {
        let can_run = self.statuses().iter().filter(|status| status.missing.is_none());
        let names: Vec<&str> = can_run.map(|status| status.name.as_str()).collect();
        if names.is_empty() {
            return Err("No strategy to choose from yet".to_string());
        }
        let at = names.iter().position(|name| *name == self.strategy()).unwrap_or(0);
        let to = (at as i64 + i64::from(steps)).rem_euclid(names.len() as i64) as usize;
        self.controls.worker.strategy = Strategy::named(names[to]);
        Ok(())
    }

    /// Puts the strategy of this name into force, from the next round on.
    ///
    /// # Errors
    /// No strategy has this name, or it cannot run here: why, with the remedy.
    pub(crate) fn choose_strategy(&mut self, name: &str) -> Result<(), String> {
        let strategy = Strategy::named(name).ok_or_else(|| match Strategy::nearest(name) {
            Some(near) => format!("No strategy named {name}: did you mean {near}?"),
            None => format!("No strategy named {name}; choose one of {}", Strategy::names()),
        })?;
        let status = self.statuses().iter().find(|status| status.name == name);
        if let Some(missing) = status.and_then(|status| status.missing.as_ref()) {
            return Err(format!("Strategy {name} needs {missing}"));
        }
        self.controls.worker.strategy = Some(strategy);
        self.say(format!("Strategy: {}, from the next round on", strategy.name));
        self.apply();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::tests::loaded;

    #[test]
    fn steps_skip_strategies_that_cannot_run() {
        let mut state = loaded(80, 24);
        let mut seen = Vec::new();
        for _ in 0..state.statuses().len() {
            state.step_strategy(1).unwrap();
            seen.push(state.strategy().to_string());
        }
        assert!(seen.contains(&"plain".to_string()) && seen.contains(&"pld".to_string()));
        assert!(!seen.contains(&"rest".to_string()), "it has no text");
        state.step_strategy(-1).unwrap();
        state.models.ready = None;
        assert!(state.step_strategy(1).is_err());
    }

    #[test]
    fn those_that_most_people_need_come_first_and_those_that_cannot_run_last() {
        let mut state = loaded(80, 24);
        let ready = state.models.ready.as_mut().unwrap();
        let plain = ready.strategies[0].clone();
        let status = |row: &Strategy| StrategyStatus {
            name: row.name.to_string(),
            missing: ["small-model", "rest"].contains(&row.name).then(|| "a model".to_string()),
            ..plain.clone()
        };
        ready.strategies = crate::plan::STRATEGIES.iter().map(status).collect();
        let listed = |state: &ScreenState| -> Vec<String> {
            state.listed_strategies().iter().map(|row| row.status.name.clone()).collect()
        };
        let names = listed(&state);
        assert_eq!(names[..3], ["auto", "plain", "dovetail"]);
        assert_eq!(names[names.len() - 2..], ["small-model", "rest"]);
        let place = |name: &str| names.iter().position(|other| other == name).unwrap();
        assert!(place("context") < place("duo") && place("partial") < place("eagle2-60"));
        for row in &mut state.models.ready.as_mut().unwrap().strategies {
            row.missing = None;
        }
        assert_eq!(listed(&state)[..3], ["auto", "plain", "small-model"]);
    }

    #[test]
    fn a_strategy_that_cannot_run_says_why() {
        let mut state = loaded(80, 24);
        let refused = |state: &mut ScreenState, name| state.choose_strategy(name).unwrap_err();
        assert!(refused(&mut state, "dovetial").contains("did you mean dovetail?"));
        assert!(refused(&mut state, "magic").contains("plain, auto, dovetail"));
        assert!(refused(&mut state, "rest").contains("--rest-text"));
        assert_eq!(state.controls.worker.strategy, None);
        state.choose_strategy("plain").unwrap();
        assert_eq!(state.strategy(), "plain");
        state.choose_strategy("pld").unwrap();
        assert_eq!(state.draft(), Some("prompt lookup"));
    }
}
