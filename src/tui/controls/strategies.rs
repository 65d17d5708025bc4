//! The strategies on the screen: the selected one, those that can run, and what is missing for the
//! others. Must never know how a strategy drafts.

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

/// The strategies that most people need, first in the list, and what people call them.
pub(super) const FIRST: [(&str, &str); 3] =
    [("auto", "Automatic"), ("plain", "Off"), ("small-model", "Draft model")];

/// What people call a strategy.
pub fn title(name: &str) -> &str {
    FIRST.iter().find(|first| first.0 == name).map_or(name, |first| first.1)
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

/// Puts the strategy of this name, or of this title, into force.
///
/// # Errors
/// No strategy has this name, or it cannot run here: why, with the remedy.
pub fn choose(ready: Option<&Ready>, controls: &mut Controls, name: &str) -> Result<(), String> {
    let titled = FIRST.iter().find(|first| first.1.eq_ignore_ascii_case(name));
    let name = titled.map_or(name, |first| first.0);
    let strategy = Strategy::named(name).ok_or_else(|| match Strategy::nearest(name) {
        Some(near) => format!("No strategy named {name}: did you mean {near}?"),
        None => format!("No strategy named {name}; choose one of {}", Strategy::names()),
    })?;
    let statuses = ready.map_or(&[][..], |ready| &ready.strategies);
    let missing =
        statuses.iter().find(|status| status.name == name).and_then(|o| o.missing.as_ref());
    if let Some(missing) = missing {
        return Err(format!("Strategy {} needs {missing}", title(name)));
    }
    controls.strategy = Some(strategy);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::state::ScreenState;
    use crate::tui::tests::{controls, ready};

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
    fn those_that_most_people_need_come_first_and_those_that_cannot_run_last() {
        let mut state = crate::tui::tests::loaded(80, 24);
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
        assert_eq!(title("small-model"), "Draft model");
    }

    #[test]
    fn a_strategy_that_cannot_run_says_why() {
        let ready = ready();
        let mut controls = controls();
        let refused =
            |controls: &mut Controls, name| choose(Some(&ready), controls, name).unwrap_err();
        assert!(refused(&mut controls, "dovetial").contains("did you mean dovetail?"));
        assert!(refused(&mut controls, "magic").contains("plain, auto, dovetail"));
        assert!(refused(&mut controls, "rest").contains("--rest-text"));
        assert_eq!(controls.strategy, None);
        choose(Some(&ready), &mut controls, "off").unwrap();
        assert_eq!(in_force(Some(&ready), &controls), "plain");
        choose(Some(&ready), &mut controls, "pld").unwrap();
        assert_eq!(
            status(Some(&ready), &controls).unwrap().draft.as_deref(),
            Some("prompt lookup")
        );
    }
}
