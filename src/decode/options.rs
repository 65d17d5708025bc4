//! What one round is run with.

use crate::draft::Budget;
use crate::plan::Schedule;
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
}

impl RoundOptions {
    /// Speculation with the first drafter, draft and target taking turns.
    pub fn new(budget: Budget, sampler: SamplerSettings) -> Self {
        let schedule = Schedule::Alternate;
        let (drafter, strategy) = (0, "");
        Self { budget, speculate: true, sampler, drafter, strategy, schedule, coupled: false }
    }
}
