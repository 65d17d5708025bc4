//! From times and acceptance to tokens a second: (1 + accepted) a round over its time (method.md,
//! Cost model). Must never measure.

use serde::Serialize;

use super::accept::AcceptanceProfile;
use super::times::RoundTimes;
use super::turned::Turned;
use crate::plan::{Schedule, Strategy};

/// How far below the best a point may lie to be as good in practice.
const NEAR: f64 = 0.05;

/// One point of γ × M or γ × k, or the target alone.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Predicted {
    /// γ.
    pub gamma: usize,
    /// M or k; `None` for the target alone, where γ is 1.
    #[serde(flatten)]
    pub turned: Option<Turned>,
    /// T_D.
    pub draft_ms: f64,
    /// T_V.
    pub verify_ms: f64,
    /// Acceptance and commit.
    pub other_ms: f64,
    /// A round in the mean: the sum of these, unless draft and target work at the same time.
    pub round_ms: f64,
    /// Tokens of the draft accepted a round; `None` where the profile does not tell.
    pub accepted: Option<f64>,
    /// To expect.
    pub tokens_s: Option<f64>,
}

/// All points.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// By M or k, then γ, as they were measured.
    pub points: Vec<Predicted>,
}

/// A point that was decoded for real as well.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Check {
    /// γ.
    pub gamma: usize,
    /// M or k.
    #[serde(flatten)]
    pub turned: Turned,
    /// What was to be expected.
    pub predicted: f64,
    /// What it was.
    pub measured: f64,
    /// Tokens a round that were to be expected, τ, and its time.
    pub expected: Won,
    /// What they were.
    pub decoded: Won,
}

/// What a round wins in the mean, and what it takes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Won {
    /// τ.
    pub tau: f64,
    /// Milliseconds.
    pub round_ms: f64,
}

impl Check {
    /// How much more was predicted than measured, as a share of the latter.
    pub fn error(&self) -> f64 {
        self.predicted / self.measured.max(f64::MIN_POSITIVE) - 1.0
    }
}

impl Prediction {
    /// What `times` of rounds under `strategy` and `profile` lead to; without a profile times
    /// alone.
    pub fn new(
        strategy: &Strategy,
        times: &[RoundTimes],
        profile: Option<&AcceptanceProfile>,
    ) -> Self {
        let point = |times: &RoundTimes| {
            let RoundTimes { gamma, turned, draft_ms, verify_ms, other_ms, .. } = *times;
            let (accepted, round_ms) = won(strategy, times, profile);
            let rate = |accepted: f64| 1e3 * (1.0 + accepted) / round_ms;
            let tokens_s = accepted.map(rate).filter(|rate| rate.is_finite());
            Predicted { gamma, turned, draft_ms, verify_ms, other_ms, round_ms, accepted, tokens_s }
        };
        Self { points: times.iter().map(point).collect() }
    }

    /// The points that draft.
    pub fn drafting(&self) -> impl Iterator<Item = &Predicted> {
        self.points.iter().filter(|point| point.turned.is_some())
    }

    /// The drafting point with most tokens a second.
    pub fn best(&self) -> Option<&Predicted> {
        let known = self.drafting().filter(|point| point.tokens_s.is_some());
        known.max_by(|a, b| rate(a).total_cmp(&rate(b)))
    }

    /// The target alone.
    pub fn plain(&self) -> Option<&Predicted> {
        self.points.iter().find(|point| point.turned.is_none())
    }

    /// The drafting points that are within a twentieth of the best, itself included.
    pub fn near_best(&self) -> Vec<&Predicted> {
        let Some(best) = self.best() else { return Vec::new() };
        let least = rate(best) * (1.0 - NEAR);
        self.drafting().filter(|point| rate(point) >= least).collect()
    }

    /// The point of this budget.
    pub fn at(&self, gamma: usize, turned: Turned) -> Option<&Predicted> {
        self.drafting().find(|point| (point.gamma, point.turned) == (gamma, Some(turned)))
    }
}

/// Tokens of the draft that a round accepts, and its time, both in the mean.
fn won(
    strategy: &Strategy,
    times: &RoundTimes,
    profile: Option<&AcceptanceProfile>,
) -> (Option<f64>, f64) {
    let total = times.total_ms();
    let (Some(profile), Some(turned)) = (profile, times.turned) else {
        return (profile.map(|_| 0.0), total);
    };
    if strategy.schedule == Schedule::Overlap {
        let won = profile.sequences(times.gamma, turned.value());
        let (share, tokens) = won.map_or((0.0, None), |won| (won.with_tail, Some(won.tokens)));
        let root = times.root_ms.unwrap_or(total);
        return (tokens.map(|tokens| tokens - 1.0), share * total + (1.0 - share) * root);
    }
    // Width and depth beside what is turned are those of the profile.
    let budget = turned.budget(strategy, times.gamma, profile.shape());
    (budget.and_then(|budget| profile.accepted(strategy, turned, &budget)), total)
}

fn rate(point: &Predicted) -> f64 {
    point.tokens_s.unwrap_or(0.0)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn sample() -> Prediction {
        let point = |gamma, blocks, accepted: Option<f64>, ms: f64| Predicted {
            gamma,
            turned: Some(Turned::Blocks(blocks)).filter(|_| gamma > 1),
            draft_ms: 0.25 * ms,
            verify_ms: 0.5 * ms,
            other_ms: 0.25 * ms,
            round_ms: ms,
            accepted,
            tokens_s: accepted.map(|accepted| 1e3 * (1.0 + accepted) / ms),
        };
        Prediction {
            points: vec![
                point(1, 1, Some(0.0), 100.0),
                point(8, 1, Some(1.4), 120.0),
                point(16, 1, Some(1.9), 150.0),
                point(8, 2, Some(1.5), 128.0),
                point(16, 2, None, 170.0),
            ],
        }
    }

    #[test]
    fn the_best_point_and_its_plateau_are_found() {
        let prediction = sample();
        let best = prediction.best().unwrap();
        assert_eq!((best.gamma, best.turned), (8, Some(Turned::Blocks(1))));
        let near: Vec<(usize, usize)> =
            prediction.near_best().iter().map(|p| (p.gamma, p.turned.unwrap().value())).collect();
        assert_eq!(near, [(8, 1), (16, 1), (8, 2)]);
        // However fast it is, the target alone is no setting of the draft.
        let mut fast = sample();
        fast.points[0].tokens_s = Some(99.0);
        assert_eq!(fast.best().unwrap().gamma, 8);
        assert_eq!(prediction.plain().unwrap().tokens_s, Some(10.0));
        assert!(prediction.at(16, Turned::Blocks(2)).unwrap().tokens_s.is_none());
    }

    #[test]
    fn without_a_profile_there_are_times_alone() {
        let strategy = Strategy::named("dovetail").unwrap();
        let times = [RoundTimes {
            gamma: 4,
            turned: Some(Turned::Blocks(1)),
            draft_ms: 1.0,
            verify_ms: 2.0,
            other_ms: 1.0,
            root_ms: None,
        }];
        let prediction = Prediction::new(strategy, &times, None);
        assert!(prediction.best().is_none() && prediction.near_best().is_empty());
        assert_eq!(prediction.points[0].verify_ms, 2.0);
        let alone = RoundTimes { gamma: 1, turned: None, ..times[0] };
        let profile = AcceptanceProfile::default();
        let prediction = Prediction::new(strategy, &[alone], Some(&profile));
        assert_eq!(prediction.points[0].tokens_s, Some(250.0));
    }

    #[test]
    fn an_error_is_a_share_of_what_was_measured() {
        let won = Won { tau: 1.1, round_ms: 10.0 };
        let check = Check {
            gamma: 4,
            turned: Turned::Blocks(1),
            predicted: 110.0,
            measured: 100.0,
            expected: won,
            decoded: won,
        };
        assert!((check.error() - 0.1).abs() < 1e-9);
    }
}
