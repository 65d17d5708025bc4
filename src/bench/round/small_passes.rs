//! T_D of a small model's trees from its passes: trees of random weights are not as deep as real
//! ones, so that their own times would not tell; how many rows each pass has is told by recorded
//! trees. Must never know where the weights come from.

use std::time::Instant;

use super::accept::AcceptanceProfile;
use super::times::RoundTimes;
use super::turned::Turned;
use crate::bench::MeasureError;
use crate::model::{DraftRow, SmallLm};
use crate::plan::Strategy;
use crate::speculate::Method;

/// Rows of the passes that are timed.
const ROWS: [usize; 6] = [1, 4, 8, 16, 32, 128];
/// Passes of each that count; one before them warms up.
const COUNTED: usize = 5;

/// What a pass of a small model takes by its rows.
#[derive(Clone, Debug, PartialEq)]
pub struct PassTimes {
    /// (rows, ms), rows rising.
    points: Vec<(usize, f64)>,
}

impl PassTimes {
    /// Times passes behind `prompt`, of which nothing stays.
    ///
    /// # Errors
    /// [`MeasureError::Pass`].
    pub fn measure(lm: &mut dyn SmallLm, prompt: &[u32]) -> Result<Self, MeasureError> {
        lm.truncate(0);
        lm.read(prompt)?;
        let mut points = Vec::new();
        for rows in ROWS {
            let beam: Vec<DraftRow> =
                (0..rows as u32).map(|token| DraftRow { parent: None, token }).collect();
            let mut all = Vec::new();
            for pass in 0..=COUNTED {
                let began = Instant::now();
                lm.grow(&beam)?;
                let ms = 1e3 * began.elapsed().as_secs_f64();
                lm.truncate(prompt.len());
                all.extend((pass > 0).then_some(ms));
            }
            all.sort_by(f64::total_cmp);
            points.push((rows, all[all.len() / 2]));
        }
        lm.truncate(0);
        Ok(Self { points })
    }

    /// A pass of so many rows, ms: on the line between those that were timed.
    pub fn ms(&self, rows: usize) -> f64 {
        let above = self.points.iter().position(|(timed, _)| *timed >= rows);
        let at = above.unwrap_or(self.points.len().saturating_sub(1));
        let ((from, low), (to, high)) = match (self.points.get(at.saturating_sub(1)), at) {
            (Some(&below), 1..) => (below, self.points[at]),
            (Some(&first), _) => return first.1,
            (None, _) => return 0.0,
        };
        low + (high - low) * (rows as f64 - from as f64) / (to - from) as f64
    }
}

/// `times` with T_D of trees by their passes; those that no round of `profile` tells of are left
/// out. Chains and sequences have as many passes whatever the weights, and keep their times.
pub fn drafted_in_passes(
    strategy: &Strategy,
    times: Vec<RoundTimes>,
    profile: &AcceptanceProfile,
    passes: &PassTimes,
) -> Vec<RoundTimes> {
    let told = |times: RoundTimes| {
        let Some(turned) = times.turned else { return Some(times) };
        let budget = turned.budget(strategy, times.gamma, profile.shape())?;
        let is_tree = matches!(budget.method, Method::Tree | Method::Search);
        if !is_tree || turned == Turned::Width(1) {
            return Some(times);
        }
        let rounds = profile.passes(strategy, &budget);
        let ms: f64 = rounds.iter().flatten().map(|&rows| passes.ms(rows)).sum();
        (!rounds.is_empty()).then(|| RoundTimes { draft_ms: ms / rounds.len() as f64, ..times })
    };
    times.into_iter().filter_map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_the_timed_passes_is_a_line() {
        let times = PassTimes { points: vec![(1, 2.0), (4, 5.0), (8, 13.0)] };
        assert_eq!(
            [1, 2, 4, 6, 8, 10].map(|rows| times.ms(rows)),
            [2.0, 3.0, 5.0, 9.0, 13.0, 17.0]
        );
    }

    #[test]
    fn trees_that_nothing_tells_of_are_left_out_and_chains_are_not() {
        let passes = PassTimes { points: vec![(1, 2.0), (4, 5.0)] };
        let of = |width| RoundTimes {
            gamma: 8,
            turned: Some(Turned::Width(width)),
            draft_ms: 7.0,
            verify_ms: 1.0,
            other_ms: 0.0,
            root_ms: None,
        };
        let alone = RoundTimes { gamma: 1, turned: None, ..of(1) };
        let strategy = Strategy::named("small-model").unwrap();
        let profile = AcceptanceProfile::default();
        let left = drafted_in_passes(strategy, vec![alone, of(1), of(4)], &profile, &passes);
        assert_eq!(left, [alone, of(1)]);
    }
}
