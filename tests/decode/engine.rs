//! Decoding with a toy target: no matter what is drafted, the text is the plain one.

use crate::support::generate::{options, plain, request};
use crate::support::toy::{Beside, Guess, Letters, Outcome, Toy, ToyDrafter, alone, decode};
use dovetail::decode::{DecodeError, Engine, Finish, Origin, Request, RoundOptions, Summary};
use dovetail::draft::Drafter;
use dovetail::model::TargetError;
use dovetail::plan::Schedule;
use dovetail::speculate::{SamplerSettings, Shape};
use proptest::prelude::*;

const SHAPE: Shape = Shape { gamma: 8, width: 3, depth: 4 };

fn greedy() -> SamplerSettings {
    SamplerSettings::default()
}

fn engine(toy: Toy, drafters: impl IntoIterator<Item = ToyDrafter>) -> Engine {
    let drafters = drafters.into_iter().map(|d| Box::new(d) as Box<dyn Drafter>);
    Engine::new(Box::new(toy), drafters)
}

/// A greedy answer with trees of one shape.
fn answer(engine: &mut Engine, prompt: &[u32], length: usize) -> (Outcome, Summary, Vec<String>) {
    decode(engine, &Letters, request(prompt, length), |_| options(SHAPE, true, greedy()))
}

fn samplers() -> impl Strategy<Value = SamplerSettings> {
    let penalties = prop_oneof![Just((1.0f32, 0.0f32, 0.0f32)), Just((1.3, 0.4, 0.2))];
    let filters = prop_oneof![Just((0usize, 1.0f32, 0.0f32)), Just((5, 0.9, 0.02))];
    let temperature = prop_oneof![Just(0.0f32), 0.3f32..2.0];
    (temperature, filters, penalties, any::<u64>()).prop_map(|(temperature, f, p, seed)| {
        SamplerSettings {
            temperature,
            top_k: f.0,
            top_p: f.1,
            min_p: f.2,
            repetition_penalty: p.0,
            presence_penalty: p.1,
            frequency_penalty: p.2,
            seed,
        }
    })
}

fn shapes() -> impl Strategy<Value = Shape> {
    (1usize..=64, 1usize..=10, 0usize..=8).prop_map(|(gamma, width, depth)| Shape {
        gamma,
        width,
        depth,
    })
}

fn guesses() -> impl Strategy<Value = Guess> {
    prop_oneof![
        5 => Just(Guess::Knowing), 5 => Just(Guess::Wild), 1 => Just(Guess::TooMany),
        1 => Just(Guess::Unknown), 1 => Just(Guess::OtherRoot),
    ]
}

fn besides() -> impl Strategy<Value = Beside> {
    use Beside::*;
    prop_oneof![Just(Idle), Just(Stale), Just(Late), Just(Fails)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Several turns of a conversation on one engine, with all options and the drafter changing
    /// between rounds, against a fresh plain engine for every turn.
    #[test]
    fn any_draft_gives_the_plain_text(
        seed in any::<u64>(),
        vocab in 2usize..40,
        guesses in proptest::collection::vec(guesses(), 1..4),
        sampler in samplers(),
        rounds in proptest::collection::vec(
            (shapes(), any::<bool>(), any::<bool>(), 0usize..4), 1..6),
        turns in proptest::collection::vec(
            (0usize..60, proptest::collection::vec(any::<u32>(), 1..90), 1usize..50), 1..4),
        eos in proptest::collection::vec(0u32..40, 0..2),
        stop in proptest::collection::vec("[a-e é]{1,3}", 0..2),
        capacity in 40usize..300,
        draft_capacity in prop_oneof![Just(usize::MAX), 0usize..80],
        failures in proptest::collection::vec(0usize..30, 0..3),
        reserves in 0usize..3,
        beside in besides(),
    ) {
        let drafters = guesses.into_iter().enumerate().map(|(at, guess)| {
            let mut drafter = ToyDrafter::new(guess, seed, vocab);
            drafter.beside = beside;
            drafter.capacity = draft_capacity;
            drafter.failures = failures.iter().map(|after| after + 3 * at).collect();
            drafter.reserves = reserves;
            drafter
        });
        let mut speculative = engine(Toy::new(seed, vocab, capacity), drafters);
        let mut text: Vec<u32> = Vec::new();
        for (kept, fresh, max_tokens) in turns {
            text.truncate(kept);
            text.extend(fresh.iter().map(|&token| token % vocab as u32));
            if text.len() > capacity {
                break;
            }
            let request = Request {
                prompt: text.clone(), max_tokens, eos: eos.clone(), stop: stop.clone(),
                ..Request::default()
            };
            let mut fresh = engine(Toy::new(seed, vocab, capacity), None);
            let (want, want_summary, _) =
                decode(&mut fresh, &Letters, request.clone(), plain(sampler));
            let (got, summary, _) = decode(&mut speculative, &Letters, request, |round| {
                let (shape, speculate, overlap, drafter) = rounds[round % rounds.len()];
                let schedule = if overlap { Schedule::Overlap } else { Schedule::Alternate };
                RoundOptions { schedule, drafter, ..options(shape, speculate, sampler) }
            });
            prop_assert_eq!(&got, &want);
            prop_assert_eq!(summary.tokens, want_summary.tokens);
            prop_assert!(summary.rounds <= want_summary.rounds);
            prop_assert_eq!(want_summary.rounds + 1, want_summary.tokens);
            prop_assert!(got.tokens.len() <= max_tokens);
            text.extend(&got.tokens);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A branch under speculation, plain decoding from the question with the token forced in its
    /// place, and plain decoding of the forced prefix as a prompt.
    #[test]
    fn a_forced_token_is_followed_by_the_plain_text_of_its_prefix(
        seed in any::<u64>(),
        vocab in 3usize..40,
        guess in guesses(),
        sampler in samplers(),
        shape in shapes(),
        (before, token) in (0usize..20, any::<u32>()),
    ) {
        let toy = || Toy::new(seed, vocab, 300);
        let token = token % vocab as u32;
        let mut branching = engine(toy(), Some(ToyDrafter::new(guess, seed, vocab)));
        let speculated = |_| options(shape, true, sampler);
        let prompt = [1, 2, 0];
        let first = decode(&mut branching, &Letters, request(&prompt, 30), speculated).0;
        let begun = [&prompt[..], &first.tokens[..before]].concat();
        let forced = vec![(0, token)];
        let branch = Request { forced, ..request(&begun, 40) };
        let branch = decode(&mut branching, &Letters, branch, speculated).0;
        prop_assert_eq!(branch.tokens[0], token);

        let forced = vec![(before, token)];
        let whole = Request { forced, ..request(&prompt, 40 + before) };
        let whole = alone(toy(), whole, sampler);
        let all = [&first.tokens[..before], &branch.tokens].concat();
        prop_assert_eq!(&whole.tokens, &all);
        prop_assert_eq!(&whole.logprobs[before..], &branch.logprobs[..]);
        let after = alone(toy(), request(&[&begun[..], &[token]].concat(), 39), sampler);
        prop_assert_eq!(&branch.tokens[1..], &after.tokens[..]);
    }
}

#[test]
fn only_the_token_that_was_forced_is_marked() {
    let mut engine = engine(Toy::new(3, 30, 500), Some(ToyDrafter::new(Guess::Knowing, 3, 30)));
    let options = options(SHAPE, true, greedy());
    let forced = Request { forced: vec![(0, 7)], ..request(&[1, 2, 3], 20) };
    let mut answer = engine.generate(forced, &Letters).unwrap();
    let first = answer.first_token(&options).unwrap();
    assert_eq!((first.token, first.origin), (7, Origin::Forced));
    let wanted = first.logprobs.unwrap();
    assert!(wanted.rank > 1 && wanted.top[0].token != 7, "the target wanted another: {wanted:?}");
    let round = answer.round(&options).unwrap();
    assert!(round.committed.iter().all(|token| token.origin != Origin::Forced));
}

#[test]
fn what_a_draft_proposed_stands_next_to_what_came() {
    let mut engine = engine(Toy::new(3, 30, 500), Some(ToyDrafter::new(Guess::Knowing, 3, 30)));
    let mut answer = engine.generate(request(&[1, 2, 3], 40), &Letters).unwrap();
    let options = options(SHAPE, true, greedy());
    answer.first_token(&options).unwrap();
    let round = answer.round(&options).unwrap();
    for (at, token) in round.committed.iter().enumerate() {
        let guesses = round.guesses(at);
        let proposed = guesses.iter().any(|(guess, _)| guess.token == token.token);
        assert_eq!(proposed, token.origin == Origin::Accepted);
        assert!(guesses.iter().all(|(guess, label)| *label == format!("t{}", guess.token)));
    }
    assert!(round.accepted.len() > 1 && round.guesses(round.accepted.len() + 1).is_empty());
}

#[test]
fn a_draft_that_is_right_has_whole_paths_accepted() {
    let mut engine = engine(Toy::new(3, 30, 500), Some(ToyDrafter::new(Guess::Knowing, 3, 30)));
    let chain = Shape { gamma: 5, width: 1, depth: 3 };
    let (outcome, summary, _) =
        decode(&mut engine, &Letters, request(&[1, 2, 3], 41), |_| options(chain, true, greedy()));
    assert_eq!((outcome.tokens.len(), summary.rounds), (41, 8));
    assert_eq!(summary.tau, 5.0);
    assert_eq!(outcome.finish, Some(Finish::MaxTokens));

    let mut answer = engine.generate(request(&[1, 2, 3], 10), &Letters).unwrap();
    let first = answer.first_token(&options(chain, true, greedy())).unwrap();
    assert_eq!(first.origin, Origin::Target);
    let round = answer.round(&options(chain, true, greedy())).unwrap();
    let origins: Vec<Origin> = round.committed.iter().map(|c| c.origin).collect();
    assert_eq!(origins[..4], [Origin::Accepted; 4]);
    assert_eq!(origins[4], Origin::Target);
    assert!(round.speculative);
    let round = answer.round(&options(chain, false, greedy())).unwrap();
    assert!(!round.speculative && round.tree.len() == 1 && round.accepted.is_empty());
}

#[test]
fn trees_are_no_deeper_than_the_tokens_left() {
    let mut engine = engine(Toy::new(3, 30, 500), Some(ToyDrafter::new(Guess::Knowing, 3, 30)));
    let mut answer = engine.generate(request(&[1, 2, 3], 4), &Letters).unwrap();
    let options = options(Shape { gamma: 30, width: 2, depth: 8 }, true, greedy());
    answer.first_token(&options).unwrap();
    // Three tokens are left, one of them the bonus token.
    let round = answer.round(&options).unwrap();
    assert_eq!((round.tree.height(), round.committed.len()), (2, 3));
    assert_eq!(round.finish, Some(Finish::MaxTokens));
}

#[test]
fn the_common_prefix_is_computed_once() {
    let prompt: Vec<u32> = (0..40).map(|i| i % 7).collect();
    for drafter in [false, true] {
        let draft = drafter.then(|| ToyDrafter::new(Guess::Knowing, 3, 30));
        let mut engine = engine(Toy::new(3, 30, 500), draft);
        let (first, summary, _) = answer(&mut engine, &prompt, 12);
        assert_eq!((summary.prompt_tokens, summary.reused_tokens), (40, 0));
        // The last token is not in the cache yet; a drafter needs the last feature again.
        let again = usize::from(drafter);
        let next = [prompt.as_slice(), &first.tokens, &[5, 6]].concat();
        let (_, summary, _) = answer(&mut engine, &next, 5);
        assert_eq!((summary.prompt_tokens, summary.reused_tokens), (54, 51 - again));
        // The same prompt again: its last token has to be run for its logits.
        let (_, summary, _) = answer(&mut engine, &next, 5);
        assert_eq!(summary.reused_tokens, 53 - again);
        let (_, summary, _) = answer(&mut engine, &[9, 9], 5);
        assert_eq!(summary.reused_tokens, 0);
    }
}

#[test]
fn an_answer_dropped_at_any_point_leaves_a_sound_engine() {
    let prompt: Vec<u32> = (0..700).map(|i| i % 29).collect();
    for stage in 0..5 {
        let mut dropped = engine(Toy::new(9, 30, 900), Some(ToyDrafter::new(Guess::Wild, 9, 30)));
        let options = options(SHAPE, true, greedy());
        let mut answer = dropped.generate(request(&prompt, 20), &Letters).unwrap();
        let progress = answer.prefill().unwrap();
        assert!(progress.done > 0 && !progress.is_complete(), "a long prompt is read in slices");
        for step in 1..=stage {
            if step == 1 {
                answer.first_token(&options).unwrap();
            } else {
                answer.round(&options).unwrap();
            }
        }
        answer.cancel();
        assert_eq!(answer.summary().finish, Some(Finish::Cancelled));
        drop(answer);
        let other = [&prompt[..500], &[3, 3, 3]].concat();
        let got = decode(&mut dropped, &Letters, request(&other, 30), |_| options).0;
        assert_eq!(got, alone(Toy::new(9, 30, 900), request(&other, 30), greedy()));
    }
}

#[test]
fn a_failing_draft_is_reported_once_and_changes_no_token() {
    let wanted = alone(Toy::new(3, 30, 500), request(&[1, 2], 60), greedy());
    let run = |reserves, failures: &[usize]| {
        let mut drafter = ToyDrafter::new(Guess::Knowing, 3, 30);
        drafter.reserves = reserves;
        drafter.failures = failures.to_vec();
        let mut engine = engine(Toy::new(3, 30, 500), Some(drafter));
        let (outcome, summary, notices) = answer(&mut engine, &[1, 2], 60);
        assert_eq!(outcome, wanted);
        (summary.rounds, notices, engine.drafter(0).is_some())
    };
    let (best, notices, _) = run(0, &[]);
    assert_eq!(notices, [""; 0]);
    let (rounds, notices, goes_on) = run(1, &[5]);
    assert!(goes_on && rounds <= best + 1, "{rounds} rounds, {best} without a failure");
    assert_eq!(
        notices,
        ["the draft device failed: out of memory; drafting continues with toy (Knowing)"]
    );
    let (rounds, notices, goes_on) = run(0, &[5]);
    assert!(!goes_on && rounds > best);
    assert_eq!(
        notices,
        ["the draft device failed: out of memory; decoding continues without a draft"]
    );
}

#[test]
fn an_unused_drafter_has_observed_the_text() {
    let drafters = [Guess::Wild, Guess::Knowing].map(|guess| ToyDrafter::new(guess, 3, 30));
    let mut engine = engine(Toy::new(3, 30, 500), drafters);
    let chain = Shape { gamma: 5, width: 1, depth: 3 };
    let mut answer = engine.generate(request(&[1, 2, 3], 60), &Letters).unwrap();
    let with = |drafter| RoundOptions { drafter, ..options(chain, true, greedy()) };
    answer.first_token(&with(0)).unwrap();
    for _ in 0..4 {
        answer.round(&with(0)).unwrap();
    }
    assert_eq!(answer.round(&with(1)).unwrap().accepted, [1, 2, 3, 4]);
    let alone = answer.round(&with(7)).unwrap();
    assert!(!alone.speculative && alone.tree.len() == 1, "there is no such drafter");
}

#[test]
fn a_lost_drafter_leaves_the_others() {
    let mut drafters = [0, 1, 2].map(|_| ToyDrafter::new(Guess::Knowing, 3, 30));
    drafters[1].failures = vec![6];
    let mut engine = engine(Toy::new(3, 30, 500), drafters);
    let (outcome, _, notices) = decode(&mut engine, &Letters, request(&[1, 2], 60), |round| {
        RoundOptions { drafter: round % 3, ..options(SHAPE, true, greedy()) }
    });
    assert_eq!(outcome, alone(Toy::new(3, 30, 500), request(&[1, 2], 60), greedy()));
    let lost = "the draft device failed: out of memory; toy (Knowing) is no longer used";
    assert_eq!(notices, [lost]);
    assert_eq!([0, 1, 2].map(|at| engine.drafter(at).is_some()), [true, false, true]);
}

#[test]
fn a_drafter_that_panics_loses_its_guesses_and_is_reported_once() {
    for calls in 0..8 {
        for reserves in [0, 1] {
            let mut drafter = ToyDrafter::new(Guess::Knowing, 3, 30);
            (drafter.failures, drafter.panics, drafter.reserves) = (vec![calls], true, reserves);
            let mut engine = engine(Toy::new(3, 30, 500), Some(drafter));
            let (outcome, summary, notices) = answer(&mut engine, &[1, 2], 60);
            assert_eq!(outcome, alone(Toy::new(3, 30, 500), request(&[1, 2], 60), greedy()));
            let then = match reserves {
                0 => "decoding continues without a draft",
                _ => "drafting continues with toy (Knowing)",
            };
            assert_eq!(notices, [format!("the draft failed: beyond the edge; {then}")]);
            assert_eq!(summary.tau > 3.0, reserves == 1, "{calls}: {}", summary.tau);
        }
    }
}

#[test]
fn what_is_no_number_ends_the_answer_with_the_same_tokens_before_it() {
    let sampled = SamplerSettings { temperature: 1.0, top_p: 0.9, ..greedy() };
    for sampler in [greedy(), sampled] {
        let whole = alone(Toy::new(3, 30, 500), request(&[1, 2], 60), sampler).tokens;
        for drafts in [false, true] {
            for nan_from in 2..20 {
                let mut toy = Toy::new(3, 30, 500);
                toy.nan_from = nan_from;
                let mut engine = engine(toy, Some(ToyDrafter::new(Guess::Knowing, 3, 30)));
                let options = options(SHAPE, drafts, sampler);
                let mut answer = engine.generate(request(&[1, 2], 60), &Letters).unwrap();
                let mut tokens = Vec::new();
                let first = answer.first_token(&options).map(|first| tokens.push(first.token));
                let error = first.err().unwrap_or_else(|| {
                    loop {
                        match answer.round(&options) {
                            Ok(round) => tokens.extend(round.committed.iter().map(|it| it.token)),
                            Err(error) => break error,
                        }
                    }
                });
                let DecodeError::Target(TargetError::NoNumbers { after }) = error else {
                    panic!("{error}")
                };
                assert_eq!((after, &tokens[..]), (nan_from, &whole[..nan_from - 2]));
                assert!(engine.target().is_empty(), "what was computed may be damaged");
            }
        }
    }
}

#[test]
fn a_drafter_without_room_is_left_out_with_a_notice() {
    let mut drafter = ToyDrafter::new(Guess::Knowing, 3, 30);
    drafter.capacity = 20;
    let mut engine = engine(Toy::new(3, 30, 500), Some(drafter));
    let (_, _, notices) = answer(&mut engine, &[1, 2], 60);
    assert_eq!(
        notices,
        ["the draft's context of 20 tokens is full; decoding continues without a draft"]
    );
    // A shorter conversation fits again.
    let (_, summary, notices) = answer(&mut engine, &[4, 2], 12);
    assert!(summary.tau > 2.0 && notices.is_empty());
}

#[test]
fn the_end_of_the_context_ends_the_answer() {
    for drafter in [None, Some(ToyDrafter::new(Guess::Knowing, 3, 30))] {
        let mut engine = engine(Toy::new(3, 30, 32), drafter);
        let outcome = answer(&mut engine, &[1, 2], 1000).0;
        assert_eq!(outcome.finish, Some(Finish::ContextFull));
        // There are 30 positions after the prompt, and the last token needs none.
        assert_eq!(outcome.tokens.len(), 31);
        let full: Vec<u32> = vec![1; 32];
        let outcome = answer(&mut engine, &full, 9).0;
        assert_eq!((outcome.tokens.len(), outcome.finish), (1, Some(Finish::ContextFull)));
    }
}

/// As the first token of an answer, and as a later one.
#[test]
fn what_may_begin_a_stop_string_is_shown_when_the_context_is_full() {
    let mut shown = 0;
    for seed in 0..20 {
        for rest in [0, 1] {
            let prompt: Vec<u32> = vec![1; 32 - rest];
            let text = |stop: Vec<String>| {
                let mut engine = engine(Toy::new(seed, 30, 32), None);
                let request = Request { stop, ..request(&prompt, 9) };
                let found =
                    decode(&mut engine, &Letters, request, |_| options(SHAPE, true, greedy()));
                found.0.text
            };
            let right = text(Vec::new());
            if right.is_ascii() && !right.is_empty() {
                assert_eq!(text(vec![format!("{right}QQ")]), right);
                shown += 1;
            }
        }
    }
    assert!(shown > 5);
}

#[test]
fn impossible_prompts_are_refused_and_a_lost_target_is_an_error() {
    let mut refusing = engine(Toy::new(3, 30, 32), None);
    let error = refusing.generate(request(&[], 5), &Letters).err().unwrap();
    assert!(matches!(error, DecodeError::EmptyPrompt));
    let error = refusing.generate(request(&[1; 33], 5), &Letters).err().unwrap().to_string();
    assert!(error.contains("33 tokens") && error.contains("shorten"), "{error}");

    let mut toy = Toy::new(3, 30, 500);
    toy.fails_after = Some(4);
    let mut failing = engine(toy, Some(ToyDrafter::new(Guess::Knowing, 3, 30)));
    let mut answer = failing.generate(request(&[1, 2], 100), &Letters).unwrap();
    let options = options(SHAPE, true, greedy());
    answer.first_token(&options).unwrap();
    let error = std::iter::repeat_with(|| answer.round(&options)).find_map(Result::err).unwrap();
    assert_eq!(error.to_string(), "the target's device failed: lost");
}
