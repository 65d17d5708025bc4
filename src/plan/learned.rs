//! What a controller has learned of a machine with its models, for the next start. Plain data; must
//! never know where it is kept.

use serde::{Deserialize, Serialize};

use super::DraftKind;
use super::pace::Mean;

/// What the controller of `auto` has learned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Learned {
    /// A round whose draft comes from the context.
    pub(super) context: Mean,
    /// The model drafters.
    pub(super) arms: Vec<LearnedArm>,
}

/// What was learned of one model drafter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct LearnedArm {
    pub(super) kind: DraftKind,
    /// A round of it in the long run.
    pub(super) round: Mean,
    /// Milliseconds for each token that it has missed.
    pub(super) read_ms: f64,
}

impl Learned {
    /// Whether a controller can have learned this: a file may hold anything.
    pub fn is_sound(&self) -> bool {
        let arm = |arm: &LearnedArm| {
            arm.round.is_sound() && arm.read_ms.is_finite() && arm.read_ms >= 0.0
        };
        self.context.is_sound() && self.arms.iter().all(arm)
    }
}
