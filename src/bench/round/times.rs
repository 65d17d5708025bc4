//! Times of real rounds over γ and M or k: the budgets take turns, each for some rounds in a row,
//! as they are decoded. Must never know where the models come from.

use std::time::Instant;

use super::turned::Turned;
use crate::bench::MeasureError;
use crate::decode::{
    DecodeError, Engine, Generation, Request, Round, RoundOptions, Timing, TokenText,
};
use crate::draft::Budget;
use crate::plan::{Schedule, Strategy};
use crate::speculate::{Method, SamplerSettings, Shape};

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
    /// Who drafts how.
    pub strategy: &'static Strategy,
    /// Numbers of nodes; of DuoDecoding's sequences the tokens that they share.
    pub gammas: Vec<usize>,
    /// Numbers of blocks, or widths.
    pub turned: Vec<Turned>,
    /// k, where that is not what is turned.
    pub width: usize,
    /// D, where the strategy does not say it.
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
    /// M or k; `None` for the target alone, which γ = 1 is whatever could draft.
    pub turned: Option<Turned>,
    /// T_D.
    pub draft_ms: f64,
    /// T_V.
    pub verify_ms: f64,
    /// Acceptance and commit.
    pub other_ms: f64,
    /// Where draft and target work at the same time (DuoDecoding): a whole round in which the
    /// target verifies the root alone. The other times are those of a round with a tail.
    pub root_ms: Option<f64>,
}

impl RoundTimes {
    /// A whole round; with a tail, where there are others too.
    pub fn total_ms(&self) -> f64 {
        match self.root_ms {
            Some(_) => self.draft_ms.max(self.verify_ms) + self.other_ms,
            None => self.draft_ms + self.verify_ms + self.other_ms,
        }
    }
}

/// Measures every budget, γ = 1 once. `report` is told M or k before its rounds.
///
/// # Errors
/// [`MeasureError::Options`] if there is nothing to measure or no room for it;
/// [`MeasureError::Pass`] if the target fails.
pub fn measure(
    engine: &mut Engine,
    names: &dyn TokenText,
    request: &TimesRequest,
    report: &mut dyn FnMut(Turned),
) -> Result<Vec<RoundTimes>, MeasureError> {
    if request.gammas.contains(&0) || request.gammas.is_empty() || request.turned.is_empty() {
        let reason = "γ counts the root, so it is at least 1; give --gammas 1,8,16";
        return Err(MeasureError::Options(reason.to_owned()));
    }
    let mut all = Vec::new();
    let count = request.turned.len() as u32;
    let begun = Instant::now();
    let share = request.until.saturating_duration_since(begun) / count.max(1);
    for (number, &turned) in request.turned.iter().enumerate() {
        let gammas = gammas_of(number, &request.gammas);
        let kinds: Vec<RoundKind> =
            gammas.iter().flat_map(|&gamma| kinds(request, turned, gamma)).collect();
        if kinds.is_empty() {
            continue;
        }
        report(turned);
        let until = begun + share * (number as u32 + 1);
        let samples = in_turn(engine, names, request, &kinds, until)?;
        all.extend(gammas.iter().filter_map(|&gamma| {
            let of = kinds.iter().zip(&samples).filter(|(kind, _)| kind.gamma == gamma);
            times(gamma, turned, &of.collect::<Vec<_>>())
        }));
    }
    if all.is_empty() {
        let reason = "none of the numbers of sequences divides any γ; give --widths 1,2 or \
                      --gammas 8,12";
        return Err(MeasureError::Options(reason.to_owned()));
    }
    Ok(all)
}

/// What is measured with one of the numbers of blocks: without a draft they are all the same, so
/// that γ = 1 belongs to the first alone.
fn gammas_of(number: usize, gammas: &[usize]) -> Vec<usize> {
    gammas.iter().copied().filter(|gamma| number == 0 || *gamma > 1).collect()
}

/// Rounds that are timed for one budget.
#[derive(Clone, Copy, Debug, PartialEq)]
struct RoundKind {
    gamma: usize,
    budget: Budget,
    schedule: Schedule,
    /// Nodes that the target verifies; others do not count. `None`: however many there are.
    nodes: Option<usize>,
}

/// What is to be timed for γ: a round of it; of sequences, which are drafted beside the target's
/// pass, one of the root alone and one whose pass is over a tail. The tail is a chain that is
/// drafted before, so that none has to be right for that.
fn kinds(request: &TimesRequest, turned: Turned, gamma: usize) -> Vec<RoundKind> {
    let TimesRequest { strategy, width, depth, .. } = *request;
    let alone = Budget::new(Shape { gamma: 1, width, depth }, 0);
    let budget = match gamma {
        0 | 1 => Some(alone),
        _ => turned.budget(strategy, gamma, (width, depth)),
    };
    let Some(budget) = budget else { return Vec::new() };
    let in_turn = RoundKind { gamma, budget, schedule: Schedule::Alternate, nodes: None };
    if gamma <= 1 || !matches!(budget.method, Method::Sequences { .. }) {
        return vec![in_turn];
    }
    let nodes = gamma / turned.value();
    let chain = Shape { gamma: nodes, width: 1, depth: nodes.saturating_sub(2) };
    let beside = RoundKind { schedule: Schedule::Overlap, nodes: Some(1), ..in_turn };
    let tail = RoundKind { budget: Budget::new(chain, 0), nodes: Some(nodes), ..beside };
    vec![beside, tail]
}

/// The means of one budget's rounds.
fn times(
    gamma: usize,
    turned: Turned,
    samples: &[(&RoundKind, &Vec<Timing>)],
) -> Option<RoundTimes> {
    let of =
        |samples: &[Timing], ms: &dyn Fn(&Timing) -> f64| mean(samples.iter().map(ms).collect());
    let verify = |timing: &Timing| timing.verify_ms;
    let other = |timing: &Timing| timing.other_ms;
    match *samples {
        [(_, rounds)] => Some(RoundTimes {
            gamma,
            turned: (gamma > 1).then_some(turned),
            draft_ms: of(rounds, &|timing| timing.draft_ms),
            verify_ms: of(rounds, &verify),
            other_ms: of(rounds, &other),
            root_ms: None,
        }),
        [(_, root), (_, tail)] => Some(RoundTimes {
            gamma,
            turned: Some(turned),
            draft_ms: of(root, &|timing| timing.ahead_ms + timing.wait_ms),
            verify_ms: of(tail, &verify),
            other_ms: of(tail, &other),
            root_ms: Some(of(root, &Timing::total_ms)),
        }),
        _ => None,
    }
}

/// All kinds in turn, over and over, so that a change in the machine's state meets all of them.
fn in_turn(
    engine: &mut Engine,
    names: &dyn TokenText,
    request: &TimesRequest,
    kinds: &[RoundKind],
    until: Instant,
) -> Result<Vec<Vec<Timing>>, MeasureError> {
    let options = |kind: &RoundKind| RoundOptions {
        drafter: request.drafter,
        speculate: kind.gamma > 1,
        schedule: kind.schedule,
        ..RoundOptions::new(kind.budget, request.sampler)
    };
    let alone = RoundOptions { speculate: false, ..options(&kinds[0]) };
    let capacity = engine.target().capacity();
    let mut samples = vec![Vec::new(); kinds.len()];
    let mut answer = begin(&mut *engine, names, request, &alone)?;
    for turn in 0..=TURNS {
        if turn > 1 && Instant::now() >= until {
            break;
        }
        for (at, counts) in rounds_of_turn(turn, kinds.len()) {
            let renewed = answer.finish().is_some() || answer.summary().tokens >= request.answer;
            if renewed {
                drop(answer);
                answer = begin(&mut *engine, names, request, &alone)?;
            }
            let round = answer.step(&options(&kinds[at])).map_err(failed)?;
            // A round of the root alone follows one that prepared no sequence.
            let first = kinds[at].nodes == Some(1) && turn > 0;
            if (counts && !renewed || first) && is_whole(&round, &kinds[at]) {
                samples[at].push(round.timing);
            }
        }
    }
    if samples.iter().any(Vec::is_empty) {
        return Err(no_room(request, capacity));
    }
    Ok(samples)
}

/// A tree that the end of the context has cut is none of this size.
fn is_whole(round: &Round, kind: &RoundKind) -> bool {
    round.finish.is_none() && kind.nodes.is_none_or(|nodes| round.tree.len() == nodes)
}

/// The rounds of one of the turns, from 0: the index of each one's kind, and whether its times
/// count. The first turn warms up: blocks that have not read the prompt read it in it.
fn rounds_of_turn(turn: usize, kinds: usize) -> Vec<(usize, bool)> {
    if turn == 0 {
        return (0..kinds).map(|at| (at, false)).collect();
    }
    (0..kinds).flat_map(|at| (0..IN_A_ROW).map(move |number| (at, number > 0))).collect()
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
    fn sequences_are_timed_beside_a_pass_of_the_root_and_beside_one_of_a_tail() {
        let request = TimesRequest {
            prompt: Vec::new(),
            answer: 1,
            sampler: SamplerSettings::default(),
            strategy: Strategy::named("duo").unwrap(),
            gammas: vec![12],
            turned: vec![Turned::Width(3)],
            width: 10,
            depth: 7,
            drafter: 0,
            until: Instant::now(),
        };
        let kinds = kinds(&request, Turned::Width(3), 12);
        assert_eq!([kinds[0].nodes, kinds[1].nodes], [Some(1), Some(4)]);
        assert_eq!(kinds[1].budget.shape, Shape { gamma: 4, width: 1, depth: 2 });
        let timing = |ahead_ms, verify_ms, wait_ms| {
            vec![Timing { ahead_ms, verify_ms, wait_ms, other_ms: 1.0, ..Timing::default() }]
        };
        // The draft takes 6 + 4 ms, passes 6 and 14.
        let (root, tail) = (timing(6.0, 6.0, 4.0), timing(8.0, 14.0, 0.0));
        let found = times(12, Turned::Width(3), &[(&kinds[0], &root), (&kinds[1], &tail)]).unwrap();
        assert_eq!((found.draft_ms, found.verify_ms, found.root_ms), (10.0, 14.0, Some(11.0)));
        assert_eq!(found.total_ms(), 15.0, "the slower of the two");
        let none = super::kinds(&request, Turned::Width(5), 12);
        assert!(none.is_empty(), "12 tokens are not five times as many");
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
