//! The first choice: made from the machine's description, then corrected by a measurement. It must
//! never measure.

use super::reason::{Basis, Reason};
use super::search_space::SearchSpace;
use super::{CostInputs, Costs, Measured, prior, reasons};
use crate::speculate::Budget;

/// What was chosen before the first round, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The choice.
    pub budget: Budget,
    /// The times on which it is based.
    pub costs: Costs,
    /// The expected tokens per second.
    pub expected: f64,
    /// Why.
    pub reasons: Vec<Reason>,
}

/// The first choice, from what is known without running anything. It is a pure function: the same
/// inputs give the same plan.
pub fn choose(inputs: &CostInputs, space: &SearchSpace) -> Plan {
    plan(Costs::guess(inputs), space, Basis::Estimated)
}

/// The choice corrected by a short measurement.
pub fn correct(plan_before: Plan, found: &Measured, space: &SearchSpace) -> Plan {
    let costs = plan_before.costs.measured(found);
    let basis = match (found.verify.is_empty(), found.level.is_some()) {
        (false, _) => Basis::Measured,
        (true, true) => Basis::DraftMeasured,
        (true, false) => Basis::Estimated,
    };
    plan(costs, space, basis)
}

fn plan(costs: Costs, space: &SearchSpace, basis: Basis) -> Plan {
    let (budget, expected) = space.best(&costs, prior::omega);
    let reasons = reasons::explain(&budget, space, &costs, prior::omega, basis);
    Plan { budget, costs, expected, reasons }
}
