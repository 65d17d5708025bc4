//! What a round takes from a controller in addition to its budget: another drafter. It must not
//! depend on controllers.

use super::strategy::Schedule;
use super::verify_times::VerifyTimes;
use crate::speculate::Budget;

/// A drafter that is only called if the first drafter's tree is expected to give fewer tokens per
/// millisecond.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arm {
    /// Its index in the engine.
    pub drafter: usize,
    /// What its tree may spend.
    pub budget: Budget,
    /// Whether it works at the same time as the target.
    pub schedule: Schedule,
    /// How many tokens per millisecond are expected of it.
    pub rate: f64,
    /// T_V, for computing what trees promise.
    pub verify_times: VerifyTimes,
    /// The path probability below which its tree is not drafted further.
    pub least_pass: f64,
    /// Whether its tree is cut to the nodes that pay off by their probabilities.
    pub cut: bool,
}
