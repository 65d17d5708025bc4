//! Rounds that are reported while the target verifies them. A target in these tests does not
//! continue before the report, so a report after the pass would never arrive.

use crate::support::duo::{duo, pair};
use crate::support::generate::{answer as generated, options, plain, request, samplers};
use crate::support::golden::prompts;
use crate::support::toy::Letters;
use crate::support::watched::Watched;
use dovetail::decode::{Engine, Round, RoundOptions, Timing, TokenText as _};
use dovetail::draft::Drafter;
use dovetail::model::Target;
use dovetail::overlap::{OutcomeRecord, PassListener, PendingRound, TellTimes};
use dovetail::plan::Schedule;
use dovetail::speculate::{SamplerSettings, Shape};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const GAMMA: usize = 12;
const LENGTH: usize = 48;
const LIMIT: Duration = Duration::from_secs(20);
const LONG: Duration = Duration::from_secs(3600);

/// The tokens and rounds of an answer, and what was reported about it. In the first `held` rounds,
/// which all draft, the target's passes end only after the report.
fn watched(
    sampler: SamplerSettings,
    times: TellTimes,
    held: usize,
) -> (Vec<u32>, Vec<Round>, Receiver<PendingRound>) {
    let (tell, told) = channel();
    let (go_on, wait) = channel();
    let listener = PassListener::new(
        |token| Letters.label(token),
        times,
        move |round: PendingRound| {
            let _ = (go_on.send(round.index), tell.send(round));
        },
    );
    let (target, drafter) = pair("target_mha", "target_mha");
    let mut pass = 0;
    let target = Watched::new(target, move |_| {
        while pass < held && wait.recv_timeout(LIMIT).expect("nothing is told") != pass {}
        pass += 1;
        Ok(())
    });
    let (tokens, rounds) = listened(Box::new(target), drafter, listener, duo(GAMMA, None, sampler));
    assert!(rounds.len() > held);
    (tokens, rounds, told)
}

/// Tokens and rounds, without their times, of an answer with a listener.
fn listened(
    target: Box<dyn Target>,
    drafter: Box<dyn Drafter>,
    listener: PassListener,
    options: RoundOptions,
) -> (Vec<u32>, Vec<Round>) {
    let mut engine = Engine::new(target, [drafter]);
    let prompt = prompts().swap_remove(0);
    let mut answer = engine.generate(request(&prompt, LENGTH), &Letters).unwrap();
    answer.watch(Some(listener));
    let mut tokens = vec![answer.first_token(&options).unwrap().token];
    let mut rounds = Vec::new();
    while answer.finish().is_none() {
        let round = answer.round(&options).unwrap();
        tokens.extend(round.committed.iter().map(|committed| committed.token));
        rounds.push(Round { timing: Timing::default(), ..round });
    }
    (tokens, rounds)
}

/// The same answer without a listener.
fn alone(sampler: SamplerSettings) -> (Vec<u32>, Vec<Round>) {
    let (target, drafter) = pair("target_mha", "target_mha");
    let mut engine = Engine::new(Box::new(target), [drafter]);
    let prompt = prompts().swap_remove(0);
    let options = |_| duo(GAMMA, None, sampler);
    let (tokens, rounds) = generated(&mut engine, &request(&prompt, LENGTH), options);
    let untimed = |round| Round { timing: Timing::default(), ..round };
    (tokens, rounds.into_iter().map(untimed).collect())
}

/// The tokens of the sequences.
fn tokens(round: &PendingRound) -> Vec<Vec<u32>> {
    let sequences = round.ahead.sequences.iter();
    sequences.map(|sequence| sequence.iter().map(|drafted| drafted.token).collect()).collect()
}

#[test]
fn sequences_are_told_as_they_grow_and_no_token_changes() {
    let mut tails = 0;
    for sampler in samplers() {
        let (text, rounds, told) = watched(sampler, TellTimes::default(), 3);
        assert_eq!((&text, &rounds), (&alone(sampler).0, &alone(sampler).1), "{sampler:?}");
        let told: Vec<PendingRound> = told.iter().collect();
        tails += told.iter().filter(|pending| pending.tree.len() > 1).count();
        for round in &rounds {
            let of_it: Vec<_> = told.iter().filter(|told| told.index == round.index).collect();
            let Some(ahead) = &round.ahead else {
                assert!(of_it.is_empty());
                continue;
            };
            for pending in &of_it {
                assert_eq!((&pending.tree, &pending.labels), (&round.tree, &round.labels));
                assert_eq!((pending.ahead.gamma, pending.ahead.adopted), (ahead.gamma, None));
            }
            // Each pass makes every sequence longer by a token; after the first, their number is
            // known.
            assert_eq!(of_it.len(), ahead.sequences[0].len(), "{of_it:?}");
            for pair in of_it.windows(2) {
                let (before, after) = (tokens(pair[0]), tokens(pair[1]));
                assert!(before.len() <= after.len());
                for (before, after) in before.iter().zip(&after) {
                    assert!(after.starts_with(before), "{before:?} {after:?}");
                }
            }
            assert_eq!(of_it.last().unwrap().ahead.sequences, ahead.sequences);
        }
    }
    assert!(tails > 0, "no tail was ever verified");
}

#[test]
fn what_was_drafted_too_early_to_be_told_is_told_in_time() {
    let times = TellTimes { after: Duration::from_millis(200), every: LONG };
    let began = Instant::now();
    let (_, rounds, told) = watched(SamplerSettings::default(), times, 1);
    assert!(began.elapsed() >= times.after);
    let told: Vec<PendingRound> = told.iter().filter(|told| told.index == 0).collect();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].ahead.sequences, rounds[0].ahead.as_ref().unwrap().sequences);
}

#[test]
fn nothing_is_told_of_short_passes_nor_too_often() {
    let short = TellTimes { after: LONG, every: Duration::ZERO };
    let (_, _, told) = watched(SamplerSettings::default(), short, 0);
    assert_eq!(told.iter().count(), 0);
    let seldom = TellTimes { after: Duration::ZERO, every: LONG };
    let (_, rounds, told) = watched(SamplerSettings::default(), seldom, 3);
    let told: Vec<usize> = told.iter().map(|told| told.index).collect();
    let drafted = rounds.iter().filter(|round| round.ahead.is_some()).map(|round| round.index);
    assert_eq!(told, drafted.collect::<Vec<_>>(), "once a round");
}

/// Trees for the likeliest outcomes (`--overlap`), by a small model that is the same as its target
/// and so is always right.
#[test]
fn outcomes_are_told_and_recorded_and_the_one_that_came_is_the_next_tree() {
    let shape = Shape { gamma: 8, width: 3, depth: 4 };
    let (mut came, mut used, mut told_of) = (0, 0, 0);
    for sampler in samplers() {
        let (tell, told) = channel();
        let listener = PassListener::new(
            |token| Letters.label(token),
            TellTimes::default(),
            move |round| {
                let _ = tell.send(round);
            },
        );
        let (target, drafter) = pair("target_mha", "target_mha");
        // Long enough for trees to be grown at the same time.
        let target = Watched::new(target, |_| {
            std::thread::sleep(Duration::from_millis(20));
            Ok(())
        });
        let schedule = Schedule::Overlap;
        let options = RoundOptions { schedule, ..options(shape, true, sampler) };
        let (text, rounds) = listened(Box::new(target), drafter, listener, options);
        let prompt = prompts().swap_remove(0);
        let (target, _) = pair("target_mha", "target_mha");
        let mut alone = Engine::new(Box::new(target), None);
        let plain = generated(&mut alone, &request(&prompt, LENGTH), plain(sampler)).0;
        assert_eq!(text, plain, "{sampler:?}");

        // These were reported before the pass was over; the sender still exists.
        let told: Vec<PendingRound> = told.try_iter().collect();
        for (at, round) in rounds.iter().enumerate() {
            assert!(round.ahead.is_none() && round.outcomes.len() <= 4);
            assert_eq!(round.check_ahead(), Ok(()));
            let last = told.iter().rfind(|told| told.index == round.index);
            let last = last.map_or(&[][..], |told| &told.outcomes);
            let untold = |outcome: &OutcomeRecord| OutcomeRecord { came: false, ..outcome.clone() };
            let recorded: Vec<OutcomeRecord> = round.outcomes.iter().map(untold).collect();
            assert_eq!(last, recorded, "round {at}");
            told_of += last.len();
            let Some(outcome) = round.outcomes.iter().find(|outcome| outcome.came) else {
                continue;
            };
            came += 1;
            let Some(next) = rounds.get(at + 1).filter(|next| next.drafted_ahead) else { continue };
            // Near the end of the answer the tree is smaller than what was drafted ahead.
            if next.tree.len() == outcome.tree.len() {
                used += 1;
                assert_eq!(next.tree.nodes()[0].token, outcome.tree.nodes()[0].token);
            }
        }
    }
    assert!(came > 4 && used > 2 && told_of > 20, "{came} {used} {told_of}");
}
