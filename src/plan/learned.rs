//! What a controller has learned about a machine with its models, for the next start. It is plain
//! data and must not depend on where it is stored.

use serde::{Deserialize, Serialize};

use super::DrafterId;
use super::pace::{Mean, Pace};
use crate::files::Cached;

/// What the controller of `auto` has learned. Times are in units of rounds without a draft: other
/// load on the machine slows these and all others alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Learned {
    /// A round whose draft comes from the context.
    pub(super) context: LearnedRound,
    /// The model drafters.
    pub(super) arms: Vec<LearnedArm>,
    /// The exploration budget: a single start may be too short to earn it.
    #[serde(rename = "credit")]
    pub(super) budget: f64,
}

/// What was learned of one model drafter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct LearnedArm {
    pub(super) kind: DrafterId,
    /// Its average round.
    pub(super) round: LearnedRound,
    /// Time for each token that it has missed.
    pub(super) read: f64,
    /// How many rounds ago it last drafted: a start may be as short as one answer.
    pub(super) since: u64,
}

/// An average round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct LearnedRound {
    tokens: f64,
    /// Its time.
    plain_rounds: f64,
    /// How many rounds were observed, as far as more rounds carry more weight.
    pub(super) seen: f64,
}

impl LearnedRound {
    /// The average round of a pace on a machine where a round without a draft takes `plain_ms`.
    pub(super) fn of(pace: &Pace, plain_ms: f64) -> Self {
        let Mean { tokens, ms } = pace.long();
        Self { tokens, plain_rounds: ms / plain_ms, seen: pace.seen() }
    }

    /// The pace that it means on a machine where a round without a draft takes `plain_ms`.
    pub(super) fn at(self, plain_ms: f64) -> Pace {
        let ms = self.plain_rounds * plain_ms;
        Pace::recalled(Mean { tokens: self.tokens, ms }, self.seen)
    }
}

impl Cached for Learned {
    const VERSION: u32 = 4;

    fn is_sound(&self) -> bool {
        let sound = |round: LearnedRound| {
            round.at(1.0).long().is_sound() && round.seen.is_finite() && round.seen >= 0.0
        };
        let arm = |arm: &LearnedArm| sound(arm.round) && arm.read.is_finite() && arm.read >= 0.0;
        let budget = self.budget.is_finite() && self.budget >= 0.0;
        budget && sound(self.context) && self.arms.iter().all(arm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_earlier_version_stored_is_read_unless_it_is_impossible() {
        let stored = r#"{"context":{"tokens":1.5,"plain_rounds":1.0,"seen":9.0},"credit":1.0,
            "arms":[{"kind":"head",
            "round":{"tokens":2.0,"plain_rounds":5.5,"seen":9.0},"read":0.01,"since":3}]}"#;
        let sound = |text: &str| serde_json::from_str::<Learned>(text).unwrap().is_sound();
        assert!(sound(stored));
        assert!(!sound(&stored.replace("5.5", "-5.5")));
    }
}
