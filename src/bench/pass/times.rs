//! Times of real rounds over γ and M: the budgets take turns, each for some rounds in a row, as
//! they are decoded. It must not depend on where the models come from.

use std::time::Instant;

use super::predict::RoundPoint;
use crate::bench::MeasureError;
use crate::decode::{DecodeError, Engine, Generation, Request, RoundOptions, Timing, TokenText};
use crate::draft::Budget;
use crate::speculate::{SamplerSettings, Shape};

/// Turns of each budget that count at most.
const TURNS: usize = 6;
/// Rounds in a row in each. The first does not count: after a pass over more nodes, which leaves
/// other things in the caches of the processor, a pass takes longer than after one of its own size.
const IN_A_ROW: usize = 3;
/// The share of samples that is left out at either end, because other programs interrupt.
const LEFT_OUT: f64 = 0.1;

/// What is measured.
#[derive(Clone, Debug)]
pub struct TimesRequest {
    /// The text before the rounds.
    pub prompt: Vec<u32>,
    /// After so many tokens the rounds start again from the prompt, so that contexts are as long as
    /// those of the predicted answers.
    pub answer: usize,
    /// How tokens are drawn.
    pub sampler: SamplerSettings,
    /// Numbers of nodes.
    pub gammas: Vec<usize>,
    /// Numbers of blocks; 0 for a draft without blocks.
    pub blocks: Vec<usize>,
    /// Width k of the trees.
    pub width: usize,
    /// Depth D of the trees; `None` for a chain, which is as deep as its nodes allow.
    pub depth: Option<usize>,
    /// The drafter's index in the engine.
    pub drafter: usize,
    /// No further turn begins after this time.
    pub until: Instant,
}

impl TimesRequest {
    fn budget(&self, gamma: usize, blocks: usize) -> Budget {
        let depth = self.depth.unwrap_or(gamma.saturating_sub(2));
        let blocks = if gamma > 1 { blocks } else { 0 };
        Budget::new(Shape { gamma, width: self.width, depth }, blocks)
    }
}

/// Measures every budget, γ = 1 once. `report` is called with M before its rounds.
///
/// # Errors
/// [`MeasureError::Options`] if there is nothing to measure or no room for it;
/// [`MeasureError::Pass`] if the target fails.
pub fn measure(
    engine: &mut Engine,
    names: &dyn TokenText,
    request: &TimesRequest,
    report: &mut dyn FnMut(usize),
) -> Result<Vec<RoundPoint>, MeasureError> {
    if request.gammas.contains(&0) || request.gammas.is_empty() || request.blocks.is_empty() {
        let reason = "γ counts the root, so it is at least 1; give --gammas 1,8,16";
        return Err(MeasureError::Options(reason.to_owned()));
    }
    let mut all = Vec::new();
    let begun = Instant::now();
    let share = request.until.saturating_duration_since(begun) / request.blocks.len() as u32;
    for (number, &blocks) in request.blocks.iter().enumerate() {
        let gammas = gammas_of(number, &request.gammas);
        let budgets: Vec<Budget> =
            gammas.iter().map(|&gamma| request.budget(gamma, blocks)).collect();
        if budgets.is_empty() {
            continue;
        }
        report(blocks);
        let until = begun + share * (number as u32 + 1);
        let samples = in_turn(engine, names, request, &budgets, until)?;
        all.extend(gammas.iter().zip(&samples).map(|(&gamma, rounds)| {
            let of = |ms: &dyn Fn(&Timing) -> f64| mean(rounds.iter().map(ms).collect());
            let draft_ms = of(&|timing| timing.draft_ms);
            let verify_ms = of(&|timing| timing.verify_ms);
            let other_ms = of(&|timing| timing.other_ms);
            let round_ms = draft_ms + verify_ms + other_ms;
            let blocks = (gamma > 1).then_some(blocks);
            RoundPoint {
                gamma,
                blocks,
                draft_ms,
                verify_ms,
                other_ms,
                round_ms,
                ..RoundPoint::default()
            }
        }));
    }
    Ok(all)
}

/// γ of the rounds with one of the numbers of blocks. Without a draft the blocks do not matter, so
/// γ = 1 belongs to the first alone.
fn gammas_of(number: usize, gammas: &[usize]) -> Vec<usize> {
    gammas.iter().copied().filter(|gamma| number == 0 || *gamma > 1).collect()
}

/// Rounds of all budgets in turn, over and over, so that a change in the machine's state affects
/// all of them.
fn in_turn(
    engine: &mut Engine,
    names: &dyn TokenText,
    request: &TimesRequest,
    budgets: &[Budget],
    until: Instant,
) -> Result<Vec<Vec<Timing>>, MeasureError> {
    let options = |budget: &Budget| RoundOptions {
        drafter: request.drafter,
        speculate: budget.shape.gamma > 1,
        ..RoundOptions::new(*budget, request.sampler)
    };
    let alone = RoundOptions { speculate: false, ..options(&budgets[0]) };
    let capacity = engine.target().capacity();
    let mut samples = vec![Vec::new(); budgets.len()];
    let mut answer = begin(&mut *engine, names, request, &alone)?;
    for turn in 0..=TURNS {
        if turn > 1 && Instant::now() >= until {
            break;
        }
        for (at, counts) in rounds_of_turn(turn, budgets.len()) {
            let renewed = answer.finish().is_some() || answer.summary().tokens >= request.answer;
            if renewed {
                drop(answer);
                answer = begin(&mut *engine, names, request, &alone)?;
            }
            let round = answer.round(&options(&budgets[at])).map_err(failed)?;
            // The end of the context cuts the last tree.
            if counts && !renewed && round.finish.is_none() {
                samples[at].push(round.timing);
            }
        }
    }
    if samples.iter().any(Vec::is_empty) {
        return Err(no_room(request, capacity));
    }
    Ok(samples)
}

/// The rounds of one of the turns, from 0: the index of each one's kind, and whether its times
/// count. The first turn warms up: blocks that have not read the prompt read it in it.
fn rounds_of_turn(turn: usize, kinds: usize) -> Vec<(usize, bool)> {
    if turn == 0 {
        return (0..kinds).map(|at| (at, false)).collect();
    }
    (0..kinds).flat_map(|at| (0..IN_A_ROW).map(move |number| (at, number > 0))).collect()
}

/// Starts after the prompt, which stays in the caches; what rounds added to it is dropped.
fn begin<'a>(
    engine: &'a mut Engine,
    names: &'a dyn TokenText,
    request: &TimesRequest,
    first: &RoundOptions,
) -> Result<Generation<'a>, MeasureError> {
    let capacity = engine.target().capacity();
    let most = request.gammas.iter().copied().max().unwrap_or(1);
    // The last trees of an answer are cut, so its end is never reached.
    let max_tokens = request.answer.saturating_add(2 * most + request.depth.unwrap_or(most));
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
