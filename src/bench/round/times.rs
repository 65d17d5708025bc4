//! Times of real rounds over γ × M: the budgets take turns, each for some rounds in a row, as they
//! are decoded. Must never know where the models come from.

use std::time::Instant;

use crate::bench::MeasureError;
use crate::decode::{DecodeError, Engine, Generation, Request, RoundOptions, Timing, TokenText};
use crate::draft::Budget;
use crate::speculate::{SamplerSettings, Shape};

/// Turns of each budget that count at most.
const TURNS: usize = 6;
/// Rounds in a row in each. The first does not count: after a pass over more nodes, which leaves
/// other things in the caches of the processor, a pass takes longer than after one of its own size.
const IN_A_ROW: usize = 3;
/// A share of the samples of each time that is left out at either end: other programs interrupt.
const LEFT_OUT: f64 = 0.1;

/// What is measured.
#[derive(Clone, Debug)]
pub struct TimesRequest {
    /// The text in front of the rounds.
    pub prompt: Vec<u32>,
    /// Tokens behind it, after which the rounds begin behind the prompt again, so that contexts are
    /// those of the answers that are predicted.
    pub answer: usize,
    /// How tokens are drawn.
    pub sampler: SamplerSettings,
    /// Numbers of nodes.
    pub gammas: Vec<usize>,
    /// Numbers of blocks.
    pub blocks: Vec<usize>,
    /// k.
    pub width: usize,
    /// D.
    pub depth: usize,
    /// The drafter's index in the engine.
    pub drafter: usize,
    /// No further turn is begun after this.
    pub until: Instant,
}

/// Means of one budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoundTimes {
    /// γ.
    pub gamma: usize,
    /// M; `None` for the target alone, which γ = 1 is whatever could draft.
    pub blocks: Option<usize>,
    /// T_D.
    pub draft_ms: f64,
    /// T_V.
    pub verify_ms: f64,
    /// Acceptance and commit.
    pub other_ms: f64,
}

impl RoundTimes {
    /// A whole round.
    pub fn total_ms(&self) -> f64 {
        self.draft_ms + self.verify_ms + self.other_ms
    }
}

/// Measures every budget, γ = 1 once. `report` is told M before its rounds.
///
/// # Errors
/// [`MeasureError::Options`] if there is nothing to measure or no room for it;
/// [`MeasureError::Pass`] if the target fails.
pub fn measure(
    engine: &mut Engine,
    names: &dyn TokenText,
    request: &TimesRequest,
    report: &mut dyn FnMut(usize),
) -> Result<Vec<RoundTimes>, MeasureError> {
    if request.gammas.contains(&0) || request.gammas.is_empty() || request.blocks.is_empty() {
        let reason = "γ counts the root, so it is at least 1; give --gammas 1,8,16";
        return Err(MeasureError::Options(reason.to_owned()));
    }
    let mut all = Vec::new();
    let count = request.blocks.len() as u32;
    let begun = Instant::now();
    let share = request.until.saturating_duration_since(begun) / count.max(1);
    for (number, &blocks) in request.blocks.iter().enumerate() {
        let gammas = gammas_of(number, &request.gammas);
        if gammas.is_empty() {
            continue;
        }
        report(blocks);
        let until = begun + share * (number as u32 + 1);
        all.extend(of_blocks(engine, names, request, (blocks, &gammas), until)?);
    }
    Ok(all)
}

/// What is measured with one of the numbers of blocks: without a draft they are all the same, so
/// that γ = 1 belongs to the first alone.
fn gammas_of(number: usize, gammas: &[usize]) -> Vec<usize> {
    gammas.iter().copied().filter(|gamma| number == 0 || *gamma > 1).collect()
}

/// All γ in turn, over and over, so that a change in the machine's state meets all of them.
fn of_blocks(
    engine: &mut Engine,
    names: &dyn TokenText,
    request: &TimesRequest,
    (blocks, gammas): (usize, &[usize]),
    until: Instant,
) -> Result<Vec<RoundTimes>, MeasureError> {
    let options = |gamma: usize| {
        let shape = Shape { gamma, width: request.width, depth: request.depth };
        RoundOptions {
            drafter: request.drafter,
            speculate: gamma > 1,
            ..RoundOptions::new(Budget::new(shape, blocks), request.sampler)
        }
    };
    let capacity = engine.target().capacity();
    let mut samples = vec![Vec::new(); gammas.len()];
    let mut answer = begin(&mut *engine, names, request, &options(1))?;
    for turn in 0..=TURNS {
        if turn > 1 && Instant::now() >= until {
            break;
        }
        for (at, counts) in rounds_of_turn(turn, gammas.len()) {
            let renewed = answer.finish().is_some() || answer.summary().tokens >= request.answer;
            if renewed {
                drop(answer);
                answer = begin(&mut *engine, names, request, &options(1))?;
            }
            let round = answer.step(&options(gammas[at])).map_err(failed)?;
            // A tree that the end of the context has cut is none of this size.
            if counts && !renewed && round.finish.is_none() {
                samples[at].push(round.timing);
            }
        }
    }
    if samples.iter().any(Vec::is_empty) {
        return Err(no_room(request, capacity));
    }
    let times = |(&gamma, samples): (&usize, &Vec<Timing>)| RoundTimes {
        gamma,
        blocks: (gamma > 1).then_some(blocks),
        draft_ms: mean(samples.iter().map(|timing| timing.draft_ms).collect()),
        verify_ms: mean(samples.iter().map(|timing| timing.verify_ms).collect()),
        other_ms: mean(samples.iter().map(|timing| timing.other_ms).collect()),
    };
    Ok(gammas.iter().zip(&samples).map(times).collect())
}

/// The rounds of one of the turns, from 0: the index of each one's γ, and whether its times count.
/// The first turn warms up: blocks that have not read the prompt read it in it.
fn rounds_of_turn(turn: usize, gammas: usize) -> Vec<(usize, bool)> {
    if turn == 0 {
        return (0..gammas).map(|at| (at, false)).collect();
    }
    (0..gammas).flat_map(|at| (0..IN_A_ROW).map(move |number| (at, number > 0))).collect()
}

/// Begins behind the prompt. It stays in the caches: only what rounds added to it goes.
fn begin<'a>(
    engine: &'a mut Engine,
    names: &'a dyn TokenText,
    request: &TimesRequest,
    first: &RoundOptions,
) -> Result<Generation<'a>, MeasureError> {
    let capacity = engine.target().capacity();
    let most = request.gammas.iter().copied().max().unwrap_or(1);
    // The last trees of an answer are cut, so its end is never reached.
    let max_tokens = request.answer.saturating_add(2 * most + request.depth);
    let prompt = request.prompt.clone();
    let wanted = Request { prompt, max_tokens, ..Request::default() };
    let mut answer = engine.generate(wanted, names).map_err(failed)?;
    answer.first_token(first).map_err(failed)?;
    if answer.finish().is_some() { Err(no_room(request, capacity)) } else { Ok(answer) }
}

fn no_room(request: &TimesRequest, capacity: usize) -> MeasureError {
    MeasureError::Options(format!(
        "a prompt of {} tokens leaves no room for rounds in a context of {capacity}",
        request.prompt.len(),
    ))
}

fn failed(error: DecodeError) -> MeasureError {
    match error {
        DecodeError::Target(error) => MeasureError::Pass(error),
        other => MeasureError::Options(other.to_string()),
    }
}

/// The mean of what is left without the least and the most. A median would leave out what takes few
/// rounds longer, such as a draft that goes all the way down.
fn mean(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let cut = (values.len() as f64 * LEFT_OUT) as usize;
    let kept = &values[cut..values.len() - cut];
    kept.iter().sum::<f64>() / kept.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_count_after_a_round_of_the_same_size_alone() {
        assert!(rounds_of_turn(0, 3).iter().all(|(_, counts)| !counts));
        let rounds = rounds_of_turn(1, 3);
        for (number, (at, counts)) in rounds.iter().enumerate() {
            let same = number > 0 && rounds[number - 1].0 == *at;
            assert_eq!(*counts, same, "round {number}");
        }
        for at in 0..3 {
            assert_eq!(rounds.iter().filter(|round| **round == (at, true)).count(), IN_A_ROW - 1);
        }
    }

    #[test]
    fn the_target_alone_is_timed_once() {
        assert_eq!(gammas_of(0, &[1, 8, 16]), [1, 8, 16]);
        assert_eq!(gammas_of(1, &[1, 8, 16]), [8, 16]);
        assert!(gammas_of(1, &[1]).is_empty());
    }

    #[test]
    fn a_mean_leaves_out_interruptions_and_nothing_else() {
        assert_eq!(mean(vec![4.0]), 4.0);
        assert_eq!(mean(vec![1.0, 2.0, 6.0]), 3.0);
        let mut many = vec![2.0; 8];
        many.extend([4.0, 900.0]);
        assert_eq!(mean(many), (7.0 * 2.0 + 4.0) / 8.0);
    }
}
