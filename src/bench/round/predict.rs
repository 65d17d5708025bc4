//! From times and acceptance to tokens a second: (1 + accepted) a round over its time (method.md,
//! Cost model). Must never measure.

use serde::Serialize;

use super::accept::AcceptanceProfile;
use super::times::RoundTimes;

/// How far below the best a point may lie to be as good in practice.
const NEAR: f64 = 0.05;

/// One point of γ × M, or the target alone.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Predicted {
    /// γ.
    pub gamma: usize,
    /// M; `None` for the target alone, where γ is 1.
    pub blocks: Option<usize>,
    /// T_D.
    pub draft_ms: f64,
    /// T_V.
    pub verify_ms: f64,
    /// Acceptance and commit.
    pub other_ms: f64,
    /// Tokens of the draft accepted a round; `None` where the profile does not tell.
    pub accepted: Option<f64>,
    /// To expect.
    pub tokens_s: Option<f64>,
}

/// All points.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// By M, then γ, as they were measured.
    pub points: Vec<Predicted>,
}

/// A point that was decoded for real as well.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Check {
    /// γ.
    pub gamma: usize,
    /// M.
    pub blocks: usize,
    /// What was to be expected.
    pub predicted: f64,
    /// What it was.
    pub measured: f64,
}

impl Check {
    /// How much more was predicted than measured, as a share of the latter.
    pub fn error(&self) -> f64 {
        self.predicted / self.measured.max(f64::MIN_POSITIVE) - 1.0
    }
}

impl Prediction {
    /// What `times` and `profile` lead to; without a profile times alone.
    pub fn new(times: &[RoundTimes], profile: Option<&AcceptanceProfile>) -> Self {
        let point = |times: &RoundTimes| {
            let RoundTimes { gamma, blocks, draft_ms, verify_ms, other_ms } = *times;
            let accepted = profile.and_then(|profile| match blocks {
                Some(blocks) => profile.accepted(gamma, blocks),
                None => Some(0.0),
            });
            let rate = |accepted: f64| 1e3 * (1.0 + accepted) / times.total_ms();
            let tokens_s = accepted.map(rate).filter(|rate| rate.is_finite());
            Predicted { gamma, blocks, draft_ms, verify_ms, other_ms, accepted, tokens_s }
        };
        Self { points: times.iter().map(point).collect() }
    }

    /// The points that draft.
    pub fn drafting(&self) -> impl Iterator<Item = &Predicted> {
        self.points.iter().filter(|point| point.blocks.is_some())
    }

    /// The drafting point with most tokens a second.
    pub fn best(&self) -> Option<&Predicted> {
        let known = self.drafting().filter(|point| point.tokens_s.is_some());
        known.max_by(|a, b| rate(a).total_cmp(&rate(b)))
    }

    /// The target alone.
    pub fn plain(&self) -> Option<&Predicted> {
        self.points.iter().find(|point| point.blocks.is_none())
    }

    /// The drafting points that are within a twentieth of the best, itself included.
    pub fn near_best(&self) -> Vec<&Predicted> {
        let Some(best) = self.best() else { return Vec::new() };
        let least = rate(best) * (1.0 - NEAR);
        self.drafting().filter(|point| rate(point) >= least).collect()
    }

    /// The point of this budget.
    pub fn at(&self, gamma: usize, blocks: usize) -> Option<&Predicted> {
        self.drafting().find(|point| (point.gamma, point.blocks) == (gamma, Some(blocks)))
    }
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
            blocks: Some(blocks).filter(|_| gamma > 1),
            draft_ms: 0.25 * ms,
            verify_ms: 0.5 * ms,
            other_ms: 0.25 * ms,
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
        assert_eq!((best.gamma, best.blocks), (8, Some(1)));
        let near: Vec<(usize, usize)> =
            prediction.near_best().iter().map(|p| (p.gamma, p.blocks.unwrap())).collect();
        assert_eq!(near, [(8, 1), (16, 1), (8, 2)]);
        // However fast it is, the target alone is no setting of the draft.
        let mut fast = sample();
        fast.points[0].tokens_s = Some(99.0);
        assert_eq!(fast.best().unwrap().gamma, 8);
        assert_eq!(prediction.plain().unwrap().tokens_s, Some(10.0));
        assert!(prediction.at(16, 2).unwrap().tokens_s.is_none());
    }

    #[test]
    fn without_a_profile_there_are_times_alone() {
        let times = [RoundTimes {
            gamma: 4,
            blocks: Some(1),
            draft_ms: 1.0,
            verify_ms: 2.0,
            other_ms: 1.0,
        }];
        let prediction = Prediction::new(&times, None);
        assert!(prediction.best().is_none() && prediction.near_best().is_empty());
        assert_eq!(prediction.points[0].verify_ms, 2.0);
        let alone = RoundTimes { gamma: 1, blocks: None, ..times[0] };
        let profile = AcceptanceProfile::default();
        let prediction = Prediction::new(&[alone], Some(&profile));
        assert_eq!(prediction.points[0].tokens_s, Some(250.0));
    }

    #[test]
    fn an_error_is_a_share_of_what_was_measured() {
        let check = Check { gamma: 4, blocks: 1, predicted: 110.0, measured: 100.0 };
        assert!((check.error() - 0.1).abs() < 1e-9);
    }
}
