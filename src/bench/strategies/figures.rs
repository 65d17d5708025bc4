//! Figures computed from answers: by strategy and set, and as means over the sets. It must not
//! depend on how they are shown.

use std::collections::{BTreeMap, BTreeSet};

use super::record::{AnswerRecord, PLAIN};
use super::sequences::SequenceCounts;
use crate::speculate::Credits;

/// Figures over the answers of one strategy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Answers counted.
    pub answers: usize,
    /// Rounds of these.
    pub rounds: usize,
    /// The mean length of their prompts, in tokens.
    pub prompt_tokens: f64,
    /// Tokens per second of decoding, without the first token of each answer.
    pub tokens_s: f64,
    /// Tokens per target pass, without the prefill and its token.
    pub tau: f64,
    /// Median time from question to first token, first turns only.
    pub ttft_ms: f64,
    /// The same to the second token, of answers that have one.
    pub second_ms: f64,
    /// Time of a round: drafting.
    pub draft_ms: f64,
    /// Time of a round: the target's pass.
    pub verify_ms: f64,
    /// The part of `verify_ms` in which the drafter worked as well.
    pub ahead_ms: f64,
    /// Time of a round: the target waiting for the drafter.
    pub wait_ms: f64,
    /// The part of these two in which the drafter is handed over to its thread and back.
    pub transfer_ms: f64,
    /// Time of a round: choosing its drafter and its tree, and learning from it.
    pub plan_ms: f64,
    /// Time of a round: all else.
    pub other_ms: f64,
    /// Share of rounds whose tree was drafted while the target checked the one before.
    pub drafted_ahead: f64,
    /// Tree nodes per round, without the root.
    pub drafted: f64,
    /// Accepted tokens by the sources that proposed them.
    pub accepted_by: Credits,
    /// The sequences that DuoDecoding drafted ahead.
    pub sequences: SequenceCounts,
    /// Share of rounds that accepted at least 1, 2, … tokens of the draft.
    pub accepted: Vec<f64>,
    /// Most memory of the process, bytes.
    pub ram: u64,
    /// Most video memory of the process, bytes.
    pub vram: Option<u64>,
}

impl Figures {
    /// Sums up `answers`; all zeros if there are none.
    pub fn of<'a>(answers: impl IntoIterator<Item = &'a AnswerRecord>) -> Self {
        let answers: Vec<&AnswerRecord> = answers.into_iter().collect();
        let sum = |field: fn(&AnswerRecord) -> f64| {
            answers.iter().map(|answer| field(answer)).sum::<f64>()
        };
        let decoded = sum(|answer| answer.tokens.saturating_sub(1) as f64);
        let rounds = sum(|answer| answer.rounds as f64);
        let decode = sum(|answer| answer.decode_ms);
        let known = sum(|a| a.draft_ms + a.verify_ms + a.wait_ms + a.plan_ms);
        let each = |field: fn(&AnswerRecord) -> f64| ratio(sum(field), rounds);
        let depth = answers.iter().map(|answer| answer.accepted.len()).max().unwrap_or(0);
        let reached = |at: usize| -> usize {
            answers.iter().filter_map(|answer| answer.accepted.get(at)).sum()
        };
        let first = || answers.iter().filter(|answer| answer.turn == 0);
        let second = first().filter(|answer| answer.rounds > 0);
        let memory = leanest(&answers);
        let mut accepted_by = Credits::default();
        let mut sequences = SequenceCounts::default();
        for answer in &answers {
            accepted_by.add_all(&answer.accepted_by);
            sequences.add(&answer.sequences);
        }
        Self {
            answers: answers.len(),
            rounds: answers.iter().map(|answer| answer.rounds).sum(),
            prompt_tokens: ratio(sum(|answer| answer.prompt_tokens as f64), answers.len() as f64),
            tokens_s: ratio(decoded, decode / 1e3),
            tau: ratio(decoded, rounds),
            ttft_ms: median(first().map(|answer| answer.ttft_ms).collect()),
            second_ms: median(second.map(|answer| answer.second_ms).collect()),
            draft_ms: each(|answer| answer.draft_ms),
            verify_ms: each(|answer| answer.verify_ms),
            ahead_ms: each(|answer| answer.ahead_ms),
            wait_ms: each(|answer| answer.wait_ms),
            transfer_ms: each(|answer| answer.transfer_ms),
            plan_ms: each(|answer| answer.plan_ms),
            other_ms: ratio((decode - known).max(0.0), rounds),
            drafted_ahead: each(|answer| answer.drafted_ahead as f64),
            drafted: each(|answer| answer.drafted as f64),
            accepted_by,
            sequences,
            accepted: (0..depth).map(|at| ratio(reached(at) as f64, rounds)).collect(),
            ram: memory.0,
            vram: memory.1,
        }
    }

    /// A whole round.
    pub fn round_ms(&self) -> f64 {
        self.draft_ms + self.verify_ms + self.wait_ms + self.plan_ms + self.other_ms
    }
}

/// The most main and video memory of one batch, for the batch where that is least: the target alone
/// takes part in every batch, next to the models that the others have loaded.
fn leanest(answers: &[&AnswerRecord]) -> (u64, Option<u64>) {
    let mut batches: BTreeMap<usize, (u64, Option<u64>)> = BTreeMap::new();
    for answer in answers {
        let (ram, vram) = batches.entry(answer.batch).or_default();
        *ram = answer.ram.max(*ram);
        *vram = answer.vram.max(*vram);
    }
    batches.into_values().min_by_key(|(ram, _)| *ram).unwrap_or_default()
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// The mean of the middle two, or the middle one; 0 of nothing.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        even if even % 2 == 0 => (values[middle - 1] + values[middle]) / 2.0,
        _ => values[middle],
    }
}

/// Answers at one temperature by strategy and set, in the order in which they were run.
#[derive(Clone, Debug, Default)]
pub struct AnswerGrid<'a> {
    /// T.
    pub temperature: f32,
    /// Names of the strategies.
    pub strategies: Vec<&'a str>,
    /// Names of the sets.
    pub sets: Vec<&'a str>,
    answers: Vec<&'a AnswerRecord>,
}

impl<'a> AnswerGrid<'a> {
    /// One grid per temperature.
    pub fn of(answers: &'a [AnswerRecord]) -> Vec<Self> {
        let mut grids: Vec<Self> = Vec::new();
        for answer in answers {
            let temperature = answer.temperature;
            let known = grids.iter().position(|grid| grid.temperature == temperature);
            if known.is_none() {
                grids.push(Self { temperature, ..Self::default() });
            }
            let at = known.unwrap_or(grids.len() - 1);
            let grid = &mut grids[at];
            push_unique(&mut grid.strategies, &answer.strategy);
            push_unique(&mut grid.sets, &answer.set);
            grid.answers.push(answer);
        }
        grids
    }

    /// How many answers it holds.
    pub fn count(&self) -> usize {
        self.answers.len()
    }

    /// Figures of one strategy on one set.
    pub fn at(&self, strategy: &str, set: &str) -> Figures {
        Figures::of(self.own(strategy).filter(|answer| answer.set == set))
    }

    /// Figures of one strategy on all sets, every answer of the same weight.
    pub fn all(&self, strategy: &str) -> Figures {
        Figures::of(self.own(strategy))
    }

    /// [`Self::all`] of every strategy, by name.
    pub fn totals(&self) -> Vec<(&'a str, Figures)> {
        self.strategies.iter().map(|&strategy| (strategy, self.all(strategy))).collect()
    }

    /// The answers that a strategy's own figures are of: of the target alone those of the first
    /// batch, since later ones may have it elsewhere.
    fn own<'b>(&'b self, strategy: &'b str) -> impl Iterator<Item = &'a AnswerRecord> + 'b {
        let batches = self.of_strategy(strategy).map(|answer| answer.batch);
        let first = if strategy == PLAIN { batches.min() } else { None };
        self.of_strategy(strategy)
            .filter(move |answer| first.is_none_or(|first| answer.batch == first))
    }

    /// Whether not all candidates took turns with the target alone in one batch.
    pub fn has_batches(&self) -> bool {
        self.answers.iter().any(|answer| answer.batch != self.answers[0].batch)
    }

    fn of_strategy<'b>(&'b self, strategy: &'b str) -> impl Iterator<Item = &'a AnswerRecord> + 'b {
        self.answers.iter().copied().filter(move |answer| answer.strategy == strategy)
    }

    /// Figures of the target alone on one set, as it took turns with `strategy`.
    fn plain_beside(&self, strategy: &str, set: &str) -> Figures {
        if strategy == PLAIN {
            return self.at(PLAIN, set);
        }
        let of_set = |name| self.of_strategy(name).filter(|answer| answer.set == set);
        let batches: BTreeSet<usize> = of_set(strategy).map(|answer| answer.batch).collect();
        Figures::of(of_set(PLAIN).filter(|answer| batches.contains(&answer.batch)))
    }

    /// A figure relative to that of the target alone on the same prompts, in turn with it; `None`
    /// if the target alone was not run.
    pub fn relative(
        &self,
        strategy: &str,
        set: &str,
        figure: impl Fn(&Figures) -> f64,
    ) -> Option<f64> {
        let plain = figure(&self.plain_beside(strategy, set));
        (plain > 0.0).then(|| figure(&self.at(strategy, set)) / plain)
    }

    /// Tokens per second relative to the target alone.
    pub fn speed_up(&self, strategy: &str, set: &str) -> Option<f64> {
        self.relative(strategy, set, |figures| figures.tokens_s)
    }

    /// The mean of the sets' speed-ups, each set of the same weight.
    pub fn mean_speed_up(&self, strategy: &str) -> Option<f64> {
        let each: Option<Vec<f64>> =
            self.sets.iter().map(|set| self.speed_up(strategy, set)).collect();
        each.map(|each| mean(&each))
    }

    /// The mean of a figure of the sets, each set of the same weight.
    pub fn mean(&self, strategy: &str, figure: impl Fn(&Figures) -> f64) -> f64 {
        mean(&self.sets.iter().map(|set| figure(&self.at(strategy, set))).collect::<Vec<_>>())
    }
}

fn mean(values: &[f64]) -> f64 {
    ratio(values.iter().sum(), values.len() as f64)
}

/// Appends a name that is not there yet. `plain` always comes first.
fn push_unique<'a>(names: &mut Vec<&'a str>, name: &'a str) {
    if !names.contains(&name) {
        if name == PLAIN { names.insert(0, name) } else { names.push(name) }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::speculate::{DrafterId, Sources};

    /// `tokens` after the first in `rounds` rounds and `decode_ms`.
    pub(in crate::bench) fn answer(
        strategy: &str,
        set: &str,
        tokens: usize,
        rounds: usize,
        decode_ms: f64,
    ) -> AnswerRecord {
        let mut accepted_by = Credits::default();
        for _ in 0..if strategy == PLAIN { 0 } else { rounds / 2 + rounds / 4 } {
            accepted_by.add(Sources::of(DrafterId::Head));
        }
        AnswerRecord {
            set: set.to_owned(),
            id: format!("{set}/1"),
            strategy: strategy.to_owned(),
            prompt_tokens: 10,
            tokens: tokens + 1,
            rounds,
            drafted: rounds * 3,
            ttft_ms: 12.0,
            second_ms: 15.0,
            decode_ms,
            draft_ms: 0.25 * decode_ms,
            verify_ms: 0.5 * decode_ms,
            accepted: vec![rounds / 2, rounds / 4],
            accepted_by,
            ram: 64 << 20,
            digest: "00".to_owned(),
            ..AnswerRecord::default()
        }
    }

    /// Two strategies on two sets.
    pub(in super::super) fn sample() -> Vec<AnswerRecord> {
        vec![
            answer("dovetail", "everyday", 100, 40, 80.0),
            answer(PLAIN, "everyday", 100, 100, 100.0),
            answer(PLAIN, "gsm8k", 60, 60, 60.0),
            answer("dovetail", "gsm8k", 60, 40, 80.0),
        ]
    }

    #[test]
    fn figures_are_ratios_of_sums() {
        let answers = [answer("x", "s", 100, 50, 100.0), answer("x", "s", 20, 10, 140.0)];
        let figures = Figures::of(&answers);
        assert_eq!(figures.tokens_s, 500.0);
        assert_eq!(figures.tau, 2.0);
        assert_eq!((figures.draft_ms, figures.verify_ms, figures.other_ms), (1.0, 2.0, 1.0));
        assert_eq!(figures.drafted, 3.0);
        assert_eq!(figures.accepted, [30.0 / 60.0, 14.0 / 60.0]);
        assert_eq!(Figures::of(&[]), Figures::default());
    }

    #[test]
    fn speed_ups_are_against_plain_on_the_same_set_and_sets_count_alike() {
        let answers = sample();
        let grids = AnswerGrid::of(&answers);
        let [grid] = &grids[..] else { panic!("one temperature, not {grids:?}") };
        assert_eq!(grid.strategies, [PLAIN, "dovetail"]);
        assert_eq!(grid.sets, ["everyday", "gsm8k"]);
        assert_eq!(grid.speed_up("dovetail", "everyday"), Some(1.25));
        assert_eq!(grid.speed_up("dovetail", "gsm8k"), Some(0.75));
        assert_eq!(grid.mean_speed_up("dovetail"), Some(1.0));
        assert_eq!(grid.mean("dovetail", |figures| figures.tau), 2.0);
        assert_eq!(grid.relative("dovetail", "everyday", |f| f.ttft_ms), Some(1.0));
        let alone = AnswerGrid::of(&answers[..1]);
        assert_eq!(alone[0].relative("dovetail", "everyday", |f| f.ttft_ms), None);
        assert_eq!(alone[0].mean_speed_up("dovetail"), None, "without plain there is no speed-up");
    }

    #[test]
    fn a_candidate_is_set_beside_the_plain_answers_of_its_own_batch() {
        let slow = |answer| AnswerRecord { batch: 1, ram: 128 << 20, ..answer };
        let answers = [
            answer(PLAIN, "s", 100, 100, 100.0),
            answer("x", "s", 100, 50, 50.0),
            slow(answer(PLAIN, "s", 100, 100, 400.0)),
            slow(answer("y", "s", 100, 50, 100.0)),
        ];
        let grids = AnswerGrid::of(&answers);
        assert_eq!(grids[0].speed_up("x", "s"), Some(2.0));
        assert_eq!(grids[0].speed_up("y", "s"), Some(4.0));
        assert_eq!(grids[0].speed_up(PLAIN, "s"), Some(1.0));
        assert_eq!(grids[0].at(PLAIN, "s").tokens_s, 1000.0, "plain's own row is of one placement");
        assert!(grids[0].has_batches());
        let memory = |name: &str| grids[0].all(name).ram >> 20;
        assert_eq!((memory(PLAIN), memory("x"), memory("y")), (64, 64, 128));
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![9.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 9.0]), 3.0);
        assert_eq!(median(Vec::new()), 0.0);
    }
}
