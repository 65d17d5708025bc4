//! A worker's events, as a test receives them.

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use dovetail::worker::{Controls, Event, SharedControls, Sink};

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
