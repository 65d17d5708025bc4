//! The variants that a run measures, by name: rows of the table of strategies, with `+overlap` or
//! `+uncoupled` behind the name for a variant. Must never run them.

use super::record::PLAIN;
use super::{Contender, Controls};
use crate::plan::{DraftKind, Schedule, Strategy};
use crate::worker::StrategyStatus;

/// Drafting goes on while the target verifies.
const OVERLAP: &str = "overlap";
/// Candidates are ranked without the target's noise.
const UNCOUPLED: &str = "uncoupled";

/// Why a strategy cannot be measured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContenderError {
    /// No such strategy.
    #[error(
        "--strategies: `{name}` is not one of {known}; `+{OVERLAP}` or `+{UNCOUPLED}` may follow"
    )]
    Unknown {
        /// As given.
        name: String,
        /// What there is.
        known: String,
    },
    /// It lacks something here.
    #[error("--strategies: `{name}` needs {missing}")]
    Missing {
        /// As given.
        name: String,
        /// What, with the remedy.
        missing: String,
    },
    /// It cannot overlap with the target, or always does.
    #[error("--strategies: `{name}` has no variant that drafts while the target verifies")]
    NoOverlap {
        /// As given.
        name: String,
    },
}

/// The strategies `wanted`, or all that can run, over the controls `base`; plain is always among
/// them and first.
///
/// # Errors
/// [`ContenderError`].
pub fn contenders(
    base: &Controls,
    statuses: &[StrategyStatus],
    wanted: &[String],
) -> Result<Vec<Contender>, ContenderError> {
    let mut names: Vec<String> = vec![PLAIN.to_owned()];
    let all: Vec<String> = if wanted.is_empty() { runnable(statuses) } else { wanted.to_vec() };
    for name in all {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.into_iter().map(|name| contender(base, statuses, name)).collect()
}

/// All that can run here, and the variant of the head's strategy that overlaps.
fn runnable(statuses: &[StrategyStatus]) -> Vec<String> {
    let mut names = Vec::new();
    for status in statuses.iter().filter(|status| status.missing.is_none()) {
        names.push(status.name.clone());
        let own = Strategy::named(&status.name).is_some_and(|row| {
            row.draft == DraftKind::Head && row.shape.is_none() && !row.gpu_layers
        });
        if own {
            names.push(format!("{}+{OVERLAP}", status.name));
        }
    }
    names
}

fn contender(
    base: &Controls,
    statuses: &[StrategyStatus],
    name: String,
) -> Result<Contender, ContenderError> {
    let unknown = || ContenderError::Unknown { name: name.clone(), known: Strategy::names() };
    let mut parts = name.split('+');
    let row = parts.next().and_then(Strategy::named).ok_or_else(unknown)?;
    let status = statuses.iter().find(|status| status.name == row.name);
    if let Some(missing) = status.and_then(|status| status.missing.clone()) {
        return Err(ContenderError::Missing { name, missing });
    }
    let speculate = row.draft != DraftKind::None;
    let mut controls = Controls { speculate, strategy: Some(row), pace: 0, ..base.clone() };
    for variant in parts {
        match variant {
            OVERLAP if row.schedule == Schedule::Overlap => {
                return Err(ContenderError::NoOverlap { name });
            }
            OVERLAP if row.schedule_with(true) == row.schedule => {
                return Err(ContenderError::NoOverlap { name });
            }
            OVERLAP => controls.overlap = true,
            UNCOUPLED => controls.coupled = false,
            _ => return Err(unknown()),
        }
    }
    Ok(Contender { name, controls })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draft::Depths;
    use crate::plan::STRATEGIES;

    fn statuses(missing: &[&str]) -> Vec<StrategyStatus> {
        let status = |row: &Strategy| StrategyStatus {
            name: row.name.to_owned(),
            draft: None,
            depths: Depths::Fixed(0),
            limit: None,
            missing: missing
                .contains(&row.name)
                .then(|| "a head: name one with --draft".to_owned()),
        };
        STRATEGIES.iter().map(status).collect()
    }

    fn names(contenders: &[Contender]) -> Vec<&str> {
        contenders.iter().map(|contender| contender.name.as_str()).collect()
    }

    #[test]
    fn all_that_can_run_take_part_plain_first() {
        let base = Controls { pace: 50, ..Controls::default() };
        let all = contenders(&base, &statuses(&["eagle2-60"]), &[]).unwrap();
        let names = names(&all);
        assert_eq!(names[0], PLAIN);
        assert!(!all[0].controls.speculate);
        assert!(!names.contains(&"eagle2-60"));
        assert!(names.contains(&"dovetail") && names.contains(&"dovetail+overlap"), "{names:?}");
        assert_eq!(names.len(), STRATEGIES.len() - 1 + 1);
        for contender in &all[1..] {
            let row = contender.controls.strategy.unwrap();
            assert_eq!(contender.controls.speculate, row.draft != DraftKind::None);
            assert_eq!(contender.controls.pace, 0);
        }
    }

    #[test]
    fn variants_turn_one_thing() {
        let wanted = ["pld", "dovetail+overlap", "dovetail+uncoupled", "pld"].map(str::to_owned);
        let some = contenders(&Controls::default(), &statuses(&[]), &wanted).unwrap();
        assert_eq!(names(&some), ["plain", "pld", "dovetail+overlap", "dovetail+uncoupled"]);
        assert!(some[2].controls.overlap && some[2].controls.coupled);
        assert!(!some[3].controls.overlap && !some[3].controls.coupled);
    }

    #[test]
    fn what_cannot_take_part_says_why() {
        let error = |name: &str, missing: &[&str]| {
            let wanted = [name.to_owned()];
            let found = contenders(&Controls::default(), &statuses(missing), &wanted);
            found.unwrap_err().to_string()
        };
        assert!(error("warp", &[]).contains("plain, auto, dovetail"), "{}", error("warp", &[]));
        assert!(error("dovetail+warp", &[]).contains("dovetail+warp"));
        assert!(error("dovetail", &["dovetail"]).contains("--draft"));
        assert!(error("pld+overlap", &[]).contains("no variant"));
    }
}
