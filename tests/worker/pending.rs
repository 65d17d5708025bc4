//! Rounds that the worker reports while its target verifies them.

use crate::support::duo::{pair, sequences};
use crate::support::events::{Said, controls, next, rest};
use crate::support::generate::{answer, plain, request};
use crate::support::toy::Toy;
use crate::support::toy_worker::{backend, job, knowing, spawn};
use crate::support::watched::Watched;
use dovetail::decode::{Engine, Round, RoundOptions};
use dovetail::plan::Schedule;
use dovetail::record::Recorder;
use dovetail::speculate::SamplerSettings;
use dovetail::worker::{Backend, Command, Controls, Event, Planner, Sink};
use std::sync::mpsc::channel;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(20);
const LENGTH: usize = 40;

/// Chooses DuoDecoding with γ = 12.
struct Duo;

impl Planner for Duo {
    fn choose(&mut self, controls: &Controls) -> RoundOptions {
        let schedule = Schedule::Overlap;
        let options = RoundOptions::new(sequences(12, None), controls.sampler);
        RoundOptions { schedule, strategy: "duo", speculate: controls.speculate, ..options }
    }
    fn observe(&mut self, _: &Round) {}
}

#[test]
fn a_round_is_told_while_it_is_verified_if_somebody_looks() {
    let shared = controls();
    let (send, events) = channel();
    let (go_on, wait) = channel();
    let sink: Sink = Box::new(move |event| {
        if let Event::Verifying { round, .. } = &event {
            let _ = go_on.send(round.index);
        }
        send.send(event).is_ok()
    });
    let turned = shared.clone();
    let mut pass = 0;
    // The first two passes end when they have been reported; the third lasts longer than those had
    // to, but by then the listener is gone.
    let verifying = move |_: &_| {
        match pass {
            0 | 1 => while wait.recv_timeout(LIMIT).expect("nothing is told") != pass {},
            2 => std::thread::sleep(Duration::from_millis(200)),
            _ => {}
        }
        turned.update(|controls| controls.watched = pass == 0);
        pass += 1;
        Ok(())
    };
    let worker = spawn(shared, sink, move |_| {
        let (target, drafter) = pair("target_mha", "target_gqa");
        let engine = Engine::new(Box::new(Watched::new(target, verifying)), [drafter]);
        let toy = backend(Box::new(Toy::new(3, 30, 100)), knowing());
        Ok(Backend { engine, planner: Box::new(Duo), ..toy })
    });
    let worker = worker.unwrap();
    while !matches!(next(&events), Event::Notice(_)) {}
    worker.controls().update(|controls| controls.watched = true);
    worker.send(Command::Generate(job(1, "hello", LENGTH)));
    let all = rest(&events);

    let prompt: Vec<u32> = "hello".bytes().map(|byte| u32::from(byte) % 30).collect();
    let (target, _) = pair("target_mha", "target_gqa");
    let mut alone = Engine::new(Box::new(target), None);
    let want = answer(&mut alone, &request(&prompt, LENGTH), plain(SamplerSettings::default())).0;
    assert_eq!(Said::among(all.clone()).tokens, want);
    // Each is reported before the round itself, and only these two.
    let mut rounds = 0;
    let mut told = Vec::new();
    for event in &all {
        match event {
            Event::Round { .. } => rounds += 1,
            Event::Verifying { generation, round } => {
                assert_eq!((*generation, round.index), (1, rounds));
                assert!(!round.ahead.sequences.is_empty() && round.ahead.gamma == 12);
                assert_eq!(Recorder::default().line(event), None, "it is recorded");
                told.push(round.index);
            }
            _ => {}
        }
    }
    told.dedup();
    assert_eq!(told, [0, 1]);
    assert!(rounds > 3);
}
