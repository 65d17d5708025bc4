//! What one round is run with. Must never know where the values come from.

use crate::draft::Budget;
use crate::plan::{Schedule, VerifyTimes};
use crate::speculate::SamplerSettings;

/// Options of one round; the next may have others. Only `sampler` can change a token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoundOptions {
    /// γ, k, D and M of the draft; cut where the context or the answer ends sooner.
    pub budget: Budget,
    /// Whether to draft at all.
    pub speculate: bool,
    /// How tokens are drawn.
    pub sampler: SamplerSettings,
    /// Index of the drafter in the engine.
    pub drafter: usize,
    /// Name of the strategy, for the record.
    pub strategy: &'static str,
    /// Whether draft and target take turns or overlap.
    pub schedule: Schedule,
    /// Whether the draft ranks its candidates with the target's noise.
    pub coupled: bool,
    /// T_V to cut the drafted tree to the nodes that pay by their probabilities; `None`: all are
    /// verified.
    pub verify_times: Option<VerifyTimes>,
    /// A drafter for rounds in which the first one's tree promises less.
    pub rival: Option<Rival>,
}

/// A drafter that is asked only where the first one's tree is expected to give fewer tokens a
/// millisecond than it does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rival {
    /// Its index in the engine.
    pub drafter: usize,
    /// What its tree may spend.
    pub budget: Budget,
    /// Whether it works while the target does.
    pub schedule: Schedule,
    /// Tokens a millisecond that are expected of it.
    pub rate: f64,
    /// T_V, for what the first one's tree promises.
    pub verify_times: VerifyTimes,
}

impl RoundOptions {
    /// Speculation with the first drafter, draft and target taking turns.
    pub fn new(budget: Budget, sampler: SamplerSettings) -> Self {
        let schedule = Schedule::Alternate;
        let (drafter, strategy) = (0, "");
        let (coupled, verify_times, rival) = (false, None, None);
        let speculate = true;
        Self {
            budget,
            speculate,
            sampler,
            drafter,
            strategy,
            schedule,
            coupled,
            verify_times,
            rival,
        }
    }
}
