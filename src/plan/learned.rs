//! What a controller has learned of a machine with its models, for the next start. Plain data; must
//! never know where it is kept.

use serde::{Deserialize, Serialize};

use super::DraftKind;
use super::pace::Mean;

/// What the controller of `auto` has learned. Times are in rounds without a draft: whatever else
/// the machine does slows these and all others alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Learned {
    /// A round whose draft comes from the context.
    pub(super) context: LearnedRound,
    /// The model drafters.
    pub(super) arms: Vec<LearnedArm>,
}

/// What was learned of one model drafter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct LearnedArm {
    pub(super) kind: DraftKind,
    /// A round of it in the long run.
    pub(super) round: LearnedRound,
    /// Time for each token that it has missed.
    pub(super) read: f64,
}

/// A round in the long run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct LearnedRound {
    tokens: f64,
    /// Its time.
    plain_rounds: f64,
}

impl LearnedRound {
    /// Of a mean on a machine where a round without a draft takes `plain_ms`.
    pub(super) fn of(mean: Mean, plain_ms: f64) -> Self {
        Self { tokens: mean.tokens, plain_rounds: mean.ms / plain_ms }
    }

    /// What it means where a round without a draft takes `plain_ms`.
    pub(super) fn at(self, plain_ms: f64) -> Mean {
        Mean { tokens: self.tokens, ms: self.plain_rounds * plain_ms }
    }
}

impl Learned {
    /// Whether a controller can have learned this: a file may hold anything.
    pub fn is_sound(&self) -> bool {
        let sound = |round: LearnedRound| round.at(1.0).is_sound();
        let arm = |arm: &LearnedArm| sound(arm.round) && arm.read.is_finite() && arm.read >= 0.0;
        sound(self.context) && self.arms.iter().all(arm)
    }
}
