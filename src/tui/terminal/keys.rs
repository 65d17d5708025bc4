//! Keys, pastes and the mouse wheel, read on a thread of their own. crossterm's reader blocks in
//! the middle of an escape sequence until the rest has come, and never returns once the terminal is
//! gone (0.29 takes the end of the file for an empty read): neither may block the screen's thread.
//! Another thread detects the terminal's end. Must never know what keys mean.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
#[cfg(unix)]
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::mpsc::{Receiver, channel};

use super::output::lock_within;
use super::signals::SignalSender;

/// Capacity of the queue of events; beyond that they stay in the terminal's buffer.
const WAITING: usize = 1024;

/// Longest wait for a read under way before another program gets the keys.
const READING: Duration = Duration::from_millis(100);
/// Longest look for an event that has come. With no time at all crossterm 0.29 does not look.
const LOOK: Duration = Duration::from_millis(1);
/// Time between two looks at whether the keys are the screen's again.
const PAUSED: Duration = Duration::from_millis(20);

/// Leaves the keys to another program for a while.
#[derive(Clone, Debug, Default)]
pub struct InputPause(Arc<Mutex<bool>>);

impl InputPause {
    /// From now on no key is read, or they are again.
    pub fn set(&self, paused: bool) {
        // In the middle of an escape sequence the reader waits for the rest of it.
        if let Some(mut flag) = lock_within(&self.0, READING) {
            *flag = paused;
        }
    }
}

/// The next event, while the keys are the screen's.
fn next(pause: &InputPause) -> io::Result<Event> {
    loop {
        let paused = pause.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !*paused && crossterm::event::poll(LOOK)? {
            return crossterm::event::read();
        }
        let held = *paused;
        drop(paused);
        if held { std::thread::sleep(PAUSED) } else { wait_for_input() }
    }
}

/// What of `flags` holds of the terminal's input, or comes to hold within `limit`. A hang-up is
/// reported even if it is not among them.
#[cfg(unix)]
pub(super) fn poll_input(flags: PollFlags, limit: Option<Duration>) -> io::Result<PollFlags> {
    let stdin = io::stdin();
    let mut watched = [PollFd::new(&stdin, flags)];
    let limit = limit.map(Timespec::try_from).transpose().map_err(io::Error::other)?;
    poll(&mut watched, limit.as_ref())?;
    Ok(watched[0].revents())
}

/// Whether there is something to read, without reading it.
#[cfg(unix)]
pub(super) fn are_waiting() -> bool {
    poll_input(PollFlags::IN, Some(Duration::ZERO)).is_ok_and(|ready| !ready.is_empty())
}

#[cfg(not(unix))]
pub(super) fn are_waiting() -> bool {
    crossterm::event::poll(Duration::ZERO).unwrap_or(true)
}

/// Waits until there is something to read, without reading it.
#[cfg(unix)]
fn wait_for_input() {
    // A terminal that cannot be watched, or is gone, must not keep a core busy.
    if !poll_input(PollFlags::IN, None).is_ok_and(|ready| ready.contains(PollFlags::IN)) {
        std::thread::sleep(PAUSED);
    }
}

#[cfg(not(unix))]
fn wait_for_input() {
    // An event that comes meanwhile stays in crossterm's queue.
    let _ = crossterm::event::poll(Duration::from_millis(100));
}

/// Reads the terminal from now on, except while `pause` is set. The channel closes when it cannot
/// be read any more; `signals` is notified when it is gone.
///
/// # Errors
/// The system gives no thread.
pub fn listen(signals: SignalSender, pause: InputPause) -> io::Result<Receiver<Event>> {
    let (sender, receiver) = channel(WAITING);
    let read = move || {
        // What waits already was typed before raw mode, where Enter arrives as a line feed.
        while let Ok(true) = crossterm::event::poll(LOOK) {
            let Ok(event) = crossterm::event::read() else { return };
            if sender.blocking_send(typed_before(event)).is_err() {
                return;
            }
        }
        while let Ok(event) = next(&pause) {
            if sender.blocking_send(event).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("dovetail-input".into()).spawn(read)?;
    std::thread::Builder::new().name("dovetail-hangup".into()).spawn(move || hang_up(&signals))?;
    Ok(receiver)
}

/// A line feed as the Enter that it was.
fn typed_before(event: Event) -> Event {
    let line_feed = KeyEvent::new(KeyCode::Char('j'), KeyModifiers::CONTROL);
    match event {
        Event::Key(key) if key == line_feed => Event::Key(KeyCode::Enter.into()),
        other => other,
    }
}

/// Waits until the terminal is gone, which no read is needed to see.
#[cfg(unix)]
fn hang_up(signals: &SignalSender) {
    loop {
        match poll_input(PollFlags::empty(), None) {
            Ok(found) if found.contains(PollFlags::HUP) => return signals.end(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // This system cannot poll a terminal: SIGHUP remains.
            _ => return,
        }
    }
}

#[cfg(not(unix))]
fn hang_up(_: &SignalSender) {}
