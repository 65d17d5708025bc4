//! The options with which a round runs. It must not depend on where the values come from.

use crate::draft::Budget;
use crate::plan::{Arm, Schedule, VerifyTimes};
use crate::speculate::SamplerSettings;

/// The options of one round; the next may have others. Only `sampler` can change a token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoundOptions {
    /// γ, k, D and M of the draft; reduced if the context or the answer ends sooner.
    pub budget: Budget,
    /// Whether to draft at all.
    pub speculate: bool,
    /// How tokens are drawn.
    pub sampler: SamplerSettings,
    /// The drafter's index in the engine.
    pub drafter: usize,
    /// The name of the strategy, for the record.
    pub strategy: &'static str,
    /// Whether draft and target take turns or overlap.
    pub schedule: Schedule,
    /// Whether the draft ranks its candidates with the target's noise.
    pub coupled: bool,
    /// T_V, for cutting the drafted tree to the nodes that pay off by their probabilities; `None`
    /// if all nodes are verified.
    pub verify_times: Option<VerifyTimes>,
    /// The path probability below which nothing is drafted further.
    pub least_pass: f64,
    /// c of DuoDecoding, for the record.
    pub duo_c: Option<f64>,
    /// A drafter for rounds in which the first drafter's tree promises less.
    pub arm: Option<Arm>,
}

impl RoundOptions {
    /// Speculation with the first drafter; draft and target take turns.
    pub fn new(budget: Budget, sampler: SamplerSettings) -> Self {
        Self {
            budget,
            speculate: true,
            sampler,
            drafter: 0,
            strategy: "",
            schedule: Schedule::Alternate,
            coupled: false,
            verify_times: None,
            least_pass: 0.0,
            duo_c: None,
            arm: None,
        }
    }
}
