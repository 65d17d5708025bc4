//! From times and acceptance to tokens per second: (1 + accepted) tokens per round, divided by the
//! time of the round (method.md, Cost model). It must not measure.

use serde::Serialize;

use super::accept::AcceptanceProfile;

/// How far below the best a point may lie to be as good in practice.
const NEAR: f64 = 0.05;

/// Rounds at one point of γ × M, or of the target alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct RoundPoint {
    /// γ.
    pub gamma: usize,
    /// M, 0 for a draft without blocks; `None` for the target alone, where γ is 1.
    pub blocks: Option<usize>,
    /// T_D.
    pub draft_ms: f64,
    /// T_V.
    pub verify_ms: f64,
    /// Acceptance and commit.
    pub other_ms: f64,
    /// A whole round: the sum of these.
    pub round_ms: f64,
    /// Tokens of the draft that a round accepts, if the profile says so.
    pub accepted: Option<f64>,
    /// The expected tokens per second.
    pub tokens_s: Option<f64>,
}

/// All points.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// By M, then γ, as they were measured.
    pub points: Vec<RoundPoint>,
}

impl Prediction {
    /// What follows from measured rounds and a profile; a point that the profile does not cover
    /// keeps its times.
    pub fn new(times: Vec<RoundPoint>, profile: &AcceptanceProfile) -> Self {
        let point = |point: RoundPoint| {
            let accepted = match point.blocks {
                None => Some(0.0),
                Some(blocks) => profile.accepted(point.gamma, blocks),
            };
            let tokens_s = accepted.map(|accepted| 1e3 * (1.0 + accepted) / point.round_ms);
            RoundPoint { accepted, tokens_s: tokens_s.filter(|rate| rate.is_finite()), ..point }
        };
        Self { points: times.into_iter().map(point).collect() }
    }

    /// The points that draft.
    pub fn drafting(&self) -> impl Iterator<Item = &RoundPoint> {
        self.points.iter().filter(|point| point.blocks.is_some())
    }

    /// The drafting point with the most tokens per second.
    pub fn best(&self) -> Option<&RoundPoint> {
        let known = self.drafting().filter(|point| point.tokens_s.is_some());
        known.max_by(|a, b| rate(a).total_cmp(&rate(b)))
    }

    /// The target alone.
    pub fn plain(&self) -> Option<&RoundPoint> {
        self.points.iter().find(|point| point.blocks.is_none())
    }

    /// The drafting points that are within a twentieth of the best, itself included.
    pub fn near_best(&self) -> Vec<&RoundPoint> {
        let Some(best) = self.best() else { return Vec::new() };
        let least = rate(best) * (1.0 - NEAR);
        self.drafting().filter(|point| rate(point) >= least).collect()
    }

    /// The point of this budget.
    pub fn at(&self, gamma: usize, blocks: usize) -> Option<&RoundPoint> {
        self.drafting().find(|point| (point.gamma, point.blocks) == (gamma, Some(blocks)))
    }
}

fn rate(point: &RoundPoint) -> f64 {
    point.tokens_s.unwrap_or(0.0)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn sample() -> Prediction {
        let point = |gamma, blocks, accepted: Option<f64>, ms: f64| RoundPoint {
            gamma,
            blocks: (gamma > 1).then_some(blocks),
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
        assert_eq!((best.gamma, best.blocks), (8, Some(1)));
        let near: Vec<(usize, usize)> =
            prediction.near_best().iter().map(|p| (p.gamma, p.blocks.unwrap())).collect();
        assert_eq!(near, [(8, 1), (16, 1), (8, 2)]);
        // However fast it is, the target alone is not a setting of the draft.
        let mut fast = sample();
        fast.points[0].tokens_s = Some(99.0);
        assert_eq!(fast.best().unwrap().gamma, 8);
        assert_eq!(prediction.plain().unwrap().tokens_s, Some(10.0));
        assert!(prediction.at(16, 2).unwrap().tokens_s.is_none());
    }

    #[test]
    fn without_a_record_there_are_times_alone() {
        let point = RoundPoint { gamma: 4, blocks: Some(1), ..RoundPoint::default() };
        let times = RoundPoint { verify_ms: 2.0, round_ms: 4.0, ..point };
        let alone = RoundPoint { gamma: 1, blocks: None, ..times };
        let prediction = Prediction::new(vec![alone, times], &AcceptanceProfile::default());
        assert!(prediction.best().is_none() && prediction.near_best().is_empty());
        assert_eq!(prediction.points[0].tokens_s, Some(250.0));
        assert_eq!((prediction.points[1].verify_ms, prediction.points[1].tokens_s), (2.0, None));
    }
}
