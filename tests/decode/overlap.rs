//! Drafting while the target verifies: what works when, and what happens when either part fails.

use crate::support::generate::{options, request};
use crate::support::toy::{Beside, Guess, Letters, Toy, ToyDrafter, alone, decode};
use crate::support::watched::Watched;
use dovetail::decode::{Engine, Finish, RoundOptions, Summary};
use dovetail::draft::{DraftError, Drafter};
use dovetail::model::TargetError;
use dovetail::plan::Schedule;
use dovetail::speculate::{SamplerSettings, Shape, Tree};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SHAPE: Shape = Shape { gamma: 8, width: 3, depth: 4 };
const PROMPT: [u32; 3] = [1, 2, 3];
const LIMIT: Duration = Duration::from_secs(20);

/// A target with a drafter that proposes its tokens.
fn engine(
    verifying: impl FnMut(&Tree) -> Result<(), TargetError> + Send + 'static,
    drafting: impl FnMut(&Tree, &AtomicBool) -> Result<(), DraftError> + Send + 'static,
    reserves: usize,
) -> Engine {
    let target = Watched::new(Toy::new(3, 30, 500), verifying);
    let mut toy = ToyDrafter::new(Guess::Knowing, 3, 30);
    toy.reserves = reserves;
    toy.drafting = Some(Box::new(drafting));
    Engine::new(Box::new(target), [Box::new(toy) as Box<dyn Drafter>])
}

fn overlapping(_: usize) -> RoundOptions {
    let schedule = Schedule::Overlap;
    RoundOptions { schedule, ..options(SHAPE, true, SamplerSettings::default()) }
}

fn in_turn(_: usize) -> RoundOptions {
    options(SHAPE, true, SamplerSettings::default())
}

/// What an answer under overlap says, which is the text of the target alone.
fn says_plain(engine: &mut Engine, max_tokens: usize) -> (Summary, Vec<String>) {
    let (outcome, summary, notices) =
        decode(engine, &Letters, request(&PROMPT, max_tokens), overlapping);
    assert_eq!(outcome.tokens, wanted(max_tokens));
    (summary, notices)
}

/// The text of the target alone.
fn wanted(max_tokens: usize) -> Vec<u32> {
    let request = request(&PROMPT, max_tokens);
    alone(Toy::new(3, 30, 500), request, SamplerSettings::default()).tokens
}

/// A rendezvous of two threads: each signals and waits for the other.
struct Meeting {
    here: Sender<()>,
    there: Mutex<Receiver<()>>,
}

fn meeting() -> (Meeting, Meeting) {
    let ((a, from_a), (b, from_b)) = (channel(), channel());
    (Meeting { here: a, there: Mutex::new(from_b) }, Meeting { here: b, there: Mutex::new(from_a) })
}

impl Meeting {
    fn meet(&self) {
        let _ = self.here.send(());
        self.there.lock().unwrap().recv_timeout(LIMIT).expect("the other side is not at work");
    }
}

#[test]
fn draft_and_target_work_at_the_same_time_on_the_same_tree() {
    let (target, draft) = meeting();
    let (trees, seen) = channel();
    let of_target = trees.clone();
    let mut engine = engine(
        move |tree| {
            // The last round requests no draft, so that nothing comes after it.
            if tree.len() > 1 {
                of_target.send(tree.clone()).unwrap();
                target.meet();
            }
            Ok(())
        },
        move |tree, stop| {
            trees.send(tree.clone()).unwrap();
            draft.meet();
            // The target's pass ends at some point; only then may the drafter be stopped.
            while !stop.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            Ok(())
        },
        0,
    );
    let (summary, notices) = says_plain(&mut engine, 30);
    assert_eq!(notices, [""; 0]);
    drop(engine);
    let seen: Vec<Tree> = seen.iter().collect();
    assert!(seen.len() >= 2 * (summary.rounds - 1), "{} of {}", seen.len(), summary.rounds);
    assert!(seen.chunks(2).all(|pair| pair[0] == pair[1]), "each was told of another tree");
    let timing = summary.timing;
    assert!(timing.ahead_ms > 0.0 && timing.wait_ms >= 0.0, "{timing:?}");
    assert!(timing.ahead_ms <= timing.verify_ms + 0.001 * summary.rounds as f64, "{timing:?}");
    let handed_over = timing.transfer_ms;
    assert!(handed_over > 0.0 && handed_over < timing.verify_ms + timing.wait_ms, "{timing:?}");
    assert!(timing.draft_idle_ms() >= 0.0 && timing.target_idle_ms() >= timing.wait_ms);
}

/// A prompt of several chunks.
fn long_prompt() -> Vec<u32> {
    (0..300).map(|i| i % 29).collect()
}

#[test]
fn a_drafter_that_shares_no_processor_reads_the_prompt_while_the_target_does() {
    let (target, draft) = meeting();
    let (prompts, seen) = channel();
    let target =
        Watched::new(Toy::new(3, 30, 500), |_| Ok(())).before_prefill(move || target.meet());
    let mut toy = ToyDrafter::new(Guess::Knowing, 3, 30);
    toy.reading = Some(Box::new(move |prompt, stop| {
        draft.meet();
        prompts.send(prompt.to_vec()).unwrap();
        while !stop.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        Ok(())
    }));
    let mut engine = Engine::new(Box::new(target), [Box::new(toy) as Box<dyn Drafter>]);
    let asked = || request(&long_prompt(), 20);
    let (outcome, summary, notices) = decode(&mut engine, &Letters, asked(), in_turn);
    drop(engine);
    assert_eq!(outcome, alone(Toy::new(3, 30, 500), asked(), SamplerSettings::default()));
    assert!(notices.is_empty() && summary.tau > 3.0, "{notices:?}, {}", summary.tau);
    let seen: Vec<Vec<u32>> = seen.iter().collect();
    assert!(seen.len() > 1 && seen.iter().all(|prompt| *prompt == long_prompt()));
}

#[test]
fn a_drafter_that_fails_on_a_prompt_is_reported_and_plain_decoding_has_no_reader() {
    for speculate in [true, false] {
        let mut toy = ToyDrafter::new(Guess::Knowing, 3, 30);
        toy.reading = Some(Box::new(|_, _| Err(DraftError::Device("lost".into()))));
        let target = Box::new(Toy::new(3, 30, 500));
        let mut engine = Engine::new(target, [Box::new(toy) as Box<dyn Drafter>]);
        let asked = || request(&long_prompt(), 20);
        let options = |round| RoundOptions { speculate, ..in_turn(round) };
        let (outcome, _, notices) = decode(&mut engine, &Letters, asked(), options);
        assert_eq!(outcome, alone(Toy::new(3, 30, 500), asked(), SamplerSettings::default()));
        assert_eq!(notices.len(), usize::from(speculate), "{notices:?}");
    }
}

#[test]
fn nothing_is_drafted_ahead_under_alternation() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let mut engine = engine(
        |_| Ok(()),
        move |_, _| {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(())
        },
        0,
    );
    let (outcome, summary, _) = decode(&mut engine, &Letters, request(&PROMPT, 30), in_turn);
    assert_eq!((outcome.tokens, calls.load(Ordering::Relaxed)), (wanted(30), 0));
    assert_eq!((summary.timing.ahead_ms, summary.timing.wait_ms), (0.0, 0.0));
    // The schedule may change from one round to the next.
    decode(&mut engine, &Letters, request(&PROMPT, 30), |round| {
        if round % 2 == 0 { overlapping(round) } else { in_turn(round) }
    });
    let calls = calls.load(Ordering::Relaxed);
    assert!(calls > 0 && calls < summary.rounds, "{calls} of {}", summary.rounds);
}

#[test]
fn the_wait_for_a_drafter_is_measured() {
    let slow = Duration::from_millis(20);
    let drafting = move |_: &Tree, _: &AtomicBool| {
        std::thread::sleep(slow);
        Ok(())
    };
    let mut engine = engine(|_| Ok(()), drafting, 0);
    let mut answer = engine.generate(request(&PROMPT, 30), &Letters).unwrap();
    answer.first_token(&overlapping(0)).unwrap();
    let timing = answer.round(&overlapping(0)).unwrap().timing;
    assert!(timing.wait_ms + timing.ahead_ms >= 19.0, "{timing:?}");
    assert!(timing.wait_ms > 5.0 && timing.total_ms() >= timing.wait_ms, "{timing:?}");
}

#[test]
fn a_drafter_that_fails_or_panics_ahead_is_reported_once_and_changes_no_token() {
    for panics in [false, true] {
        for reserves in [0, 1] {
            let mut left = 2;
            let drafting = move |_: &Tree, _: &AtomicBool| {
                left -= 1;
                match left {
                    0 if panics => panic!("beyond the edge"),
                    0 => Err(DraftError::Device("lost".into())),
                    _ => Ok(()),
                }
            };
            let mut engine = engine(|_| Ok(()), drafting, reserves);
            let (summary, notices) = says_plain(&mut engine, 60);
            let what = if panics {
                "the draft failed while drafting ahead: beyond the edge"
            } else {
                "the draft device failed: lost"
            };
            let then = match reserves {
                0 => "decoding continues without a draft",
                _ => "drafting continues with toy (Knowing)",
            };
            assert_eq!(notices, [format!("{what}; {then}")]);
            assert_eq!(summary.tau > 3.0, reserves == 1, "{}", summary.tau);
        }
    }
}

#[test]
fn a_lost_or_broken_target_gets_its_drafter_back() {
    for panics in [false, true] {
        let mut left = 3;
        let verifying = move |_: &Tree| {
            left -= 1;
            match left {
                0 if panics => panic!("no more"),
                0 => Err(TargetError::Device("lost".into())),
                _ => Ok(()),
            }
        };
        let until_stopped = |_: &Tree, stop: &AtomicBool| {
            while !stop.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            Ok(())
        };
        let mut engine = engine(verifying, until_stopped, 0);
        let broken = catch_unwind(AssertUnwindSafe(|| {
            let mut answer = engine.generate(request(&PROMPT, 60), &Letters).unwrap();
            answer.first_token(&overlapping(0)).unwrap();
            std::iter::repeat_with(|| answer.round(&overlapping(0)).map(|_| ()))
                .find_map(Result::err)
                .unwrap()
                .to_string()
        }));
        assert_eq!(panics, broken.is_err());
        match broken {
            Ok(error) => assert_eq!(error, "the target's device failed: lost"),
            Err(_) => engine.forget(),
        }
        assert!(engine.drafter(0).is_some(), "the drafter is still away");
        let (summary, notices) = says_plain(&mut engine, 60);
        assert!(summary.tau > 3.0 && notices.is_empty(), "{} {notices:?}", summary.tau);
    }
}

#[test]
fn an_answer_cancelled_between_rounds_leaves_no_drafter_at_work() {
    for beside in [Beside::Stale, Beside::Late] {
        let mut drafter = ToyDrafter::new(Guess::Wild, 3, 30);
        drafter.beside = beside;
        let drafter: Box<dyn Drafter> = Box::new(drafter);
        let mut engine = Engine::new(Box::new(Toy::new(3, 30, 500)), [drafter]);
        for rounds in 0..4 {
            let mut answer = engine.generate(request(&PROMPT, 60), &Letters).unwrap();
            answer.first_token(&overlapping(0)).unwrap();
            for round in 0..rounds {
                answer.round(&overlapping(round)).unwrap();
            }
            answer.cancel();
            assert_eq!(answer.finish(), Some(Finish::Cancelled));
            drop(answer);
            assert!(engine.drafter(0).is_some());
            says_plain(&mut engine, 40);
        }
    }
}

thread_local! {
    /// Lives as long as its thread.
    static LIFE: RefCell<Option<Arc<()>>> = const { RefCell::new(None) };
}

#[test]
fn one_thread_serves_all_rounds_and_ends_with_the_engine() {
    let life = Arc::new(());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (given, noted) = (Arc::clone(&life), Arc::clone(&seen));
    let drafting = move |_: &Tree, _: &AtomicBool| {
        LIFE.with_borrow_mut(|life| *life = Some(Arc::clone(&given)));
        noted.lock().unwrap().push(std::thread::current().id());
        Ok(())
    };
    let mut engine = engine(|_| Ok(()), drafting, 0);
    for _ in 0..2 {
        says_plain(&mut engine, 30);
    }
    let mut threads = std::mem::take(&mut *seen.lock().unwrap());
    assert!(threads.len() > 5);
    threads.dedup();
    assert_eq!(threads.len(), 1, "another thread for another round");
    assert_ne!(threads[0], std::thread::current().id());
    assert_eq!(Arc::strong_count(&life), 3);
    drop(engine);
    assert_eq!(Arc::strong_count(&life), 1, "the thread outlives its engine");
}
