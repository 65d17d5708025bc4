//! A worker's events, as a test receives them.

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use dovetail::decode::{Round, Summary};
use dovetail::worker::{Backend, Controls, Event, Job, SharedControls, Sink};

pub fn controls() -> SharedControls {
    SharedControls::new(Controls::default())
}

/// Where a worker's events go, and where a test receives them.
pub fn sink() -> (Sink, Receiver<Event>) {
    let (send, events) = channel();
    (Box::new(move |event| send.send(event).is_ok()), events)
}

pub fn next(events: &Receiver<Event>) -> Event {
    events.recv_timeout(Duration::from_secs(30)).expect("an event")
}

/// The events up to the end of the current answer.
pub fn rest(events: &Receiver<Event>) -> Vec<Event> {
    let mut all = Vec::new();
    while !matches!(all.last(), Some(Event::Finished { .. } | Event::Failed { .. })) {
        all.push(next(events));
    }
    all
}

/// What a worker said of an answer.
#[derive(Default)]
pub struct Said {
    pub text: String,
    pub tokens: Vec<u32>,
    pub rounds: Vec<Round>,
    pub summary: Option<Summary>,
}

impl Said {
    /// An answer of this backend, which must not fail.
    pub fn of(backend: &mut Backend, job: &Job, controls: &SharedControls) -> Self {
        let mut said = Self::default();
        backend.answer(job, controls, &mut |event| said.hear(event));
        assert!(said.summary.is_some());
        said
    }

    /// The current answer of a worker.
    pub fn rest(events: &Receiver<Event>) -> Self {
        Self::among(rest(events))
    }

    pub fn among(events: impl IntoIterator<Item = Event>) -> Self {
        let mut said = Self::default();
        for event in events {
            said.hear(event);
        }
        said
    }

    pub fn hear(&mut self, event: Event) -> bool {
        let committed = event.committed();
        self.text.extend(committed.iter().map(|token| token.text.as_str()));
        self.tokens.extend(committed.iter().map(|token| token.token));
        match event {
            Event::Round { round, .. } => self.rounds.push(*round),
            Event::Finished { summary, .. } => self.summary = Some(*summary),
            Event::Failed { error, .. } => panic!("{error}"),
            _ => {}
        }
        true
    }
}
