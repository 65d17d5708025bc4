//! The strategies on the screen: the selected one, those that can run, and what is missing for the
//! others. Must never know how a strategy drafts.

use super::ScreenState;
use crate::plan::Strategy;
use crate::worker::{Controls, Ready, StrategyStatus};

/// Name of the strategy that `controls` select; empty while nothing is loaded.
pub fn in_force<'a>(ready: Option<&'a Ready>, controls: &Controls) -> &'a str {
    match (controls.strategy, ready) {
        (Some(strategy), _) => strategy.name,
        (None, Some(ready)) => &ready.strategy,
        (None, None) => "",
    }
}

/// What loading found out about that strategy.
pub fn status<'a>(ready: Option<&'a Ready>, controls: &Controls) -> Option<&'a StrategyStatus> {
    let name = in_force(ready, controls);
    ready?.strategies.iter().find(|status| status.name == name)
}

impl ScreenState {
    /// Name of the strategy in force; empty while nothing is loaded.
    pub fn strategy(&self) -> &str {
        in_force(self.ready.as_deref(), &self.controls)
    }

    /// The drafter's description under the strategy in force.
    pub fn draft(&self) -> Option<&str> {
        match status(self.ready.as_deref(), &self.controls) {
            Some(status) => status.draft.as_deref(),
            None => self.ready.as_ref()?.draft.as_deref(),
        }
    }

    /// All strategies; none while nothing is loaded.
    pub fn statuses(&self) -> &[StrategyStatus] {
        self.ready.as_ref().map_or(&[], |ready| &ready.strategies)
    }

    /// The place of the strategy in force among [`Self::statuses`].
    pub fn chosen(&self) -> usize {
        self.statuses().iter().position(|status| status.name == self.strategy()).unwrap_or(0)
    }
}

/// Selects the strategy `steps` further among those that can run; the first follows the last.
///
/// # Errors
/// There is nothing to choose from.
pub fn step(ready: Option<&Ready>, controls: &mut Controls, steps: i64) -> Result<(), String> {
    let can_run = |status: &&StrategyStatus| status.missing.is_none();
    let statuses = ready.map_or(&[][..], |ready| &ready.strategies);
    let names: Vec<&str> = statuses.iter().filter(can_run).map(|o| o.name.as_str()).collect();
    if names.is_empty() {
        return Err("No strategy to choose from yet".to_string());
    }
    let now = in_force(ready, controls);
    let at = names.iter().position(|name| *name == now).unwrap_or(0) as i64;
    let to = names[(at + steps).rem_euclid(names.len() as i64) as usize];
    controls.strategy = Strategy::named(to);
    Ok(())
}

/// Selects the strategy of this name.
///
/// # Errors
/// No strategy has this name, or it cannot run here: why, with the remedy.
pub fn choose(ready: Option<&Ready>, controls: &mut Controls, name: &str) -> Result<(), String> {
    let strategy = Strategy::named(name).ok_or_else(|| match Strategy::nearest(name) {
        Some(near) => format!("No strategy named {name}: did you mean {near}?"),
        None => format!("No strategy named {name}; choose one of {}", Strategy::names()),
    })?;
    let statuses = ready.map_or(&[][..], |ready| &ready.strategies);
    let missing =
        statuses.iter().find(|status| status.name == name).and_then(|o| o.missing.as_ref());
    if let Some(missing) = missing {
        return Err(format!("{name} needs {missing}"));
    }
    controls.strategy = Some(strategy);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::testing::{controls, ready};

    #[test]
    fn steps_skip_strategies_that_cannot_run() {
        let ready = ready();
        let mut controls = controls();
        let all = ready.strategies.len();
        let mut seen = Vec::new();
        for _ in 0..all {
            step(Some(&ready), &mut controls, 1).unwrap();
            seen.push(in_force(Some(&ready), &controls).to_string());
        }
        assert!(seen.contains(&"plain".to_string()) && seen.contains(&"pld".to_string()));
        assert!(!seen.contains(&"rest".to_string()), "it has no text");
        step(Some(&ready), &mut controls, -1).unwrap();
        assert!(step(None, &mut controls, 1).is_err());
    }

    #[test]
    fn a_strategy_that_cannot_run_says_why() {
        let (ready, mut controls) = (ready(), controls());
        let refused =
            |controls: &mut Controls, name| choose(Some(&ready), controls, name).unwrap_err();
        assert!(refused(&mut controls, "dovetial").contains("did you mean dovetail?"));
        assert!(refused(&mut controls, "magic").contains("plain, auto, dovetail"));
        assert!(refused(&mut controls, "rest").contains("--rest-text"));
        assert_eq!(controls.strategy, None);
        choose(Some(&ready), &mut controls, "pld").unwrap();
        assert_eq!(
            status(Some(&ready), &controls).unwrap().draft.as_deref(),
            Some("prompt lookup")
        );
    }
}
