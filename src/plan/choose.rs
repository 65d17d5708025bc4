//! The first choice: made from the machine's description, corrected by what was measured. It must
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

/// The first choice, from what is known without running anything and, where there are some, from
/// measured times. It is a pure function: the same inputs give the same plan.
pub fn choose(inputs: &CostInputs, measured: &Measured, space: &SearchSpace) -> Plan {
    let costs = Costs::guess(inputs).measured(measured);
    let basis = match (measured.verify.is_empty(), measured.level.is_some()) {
        (false, _) => Basis::Measured,
        (true, true) => Basis::DraftMeasured,
        (true, false) => Basis::Estimated,
    };
    let (budget, expected) = space.best(&costs, prior::omega);
    let reasons = reasons::explain(&budget, space, &costs, prior::omega, basis);
    Plan { budget, costs, expected, reasons }
}
