//! Keys, pastes, the mouse and the terminal's answers, read on a thread of their own. Another
//! thread detects the terminal's end. Must never know what keys mean.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

#[cfg(unix)]
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::mpsc::{Receiver, channel};

use super::bursts::Bursts;
use super::output::lock_within;
use super::sequences::Received;
#[cfg(unix)]
use super::sequences::{Answer, InputParser};
use super::signals::SignalSender;

/// Capacity of the queue of events; beyond that they stay in the terminal's buffer.
const WAITING: usize = 1024;

/// Longest wait for a read under way before another program gets the keys.
const READING: Duration = Duration::from_millis(100);
/// Time between two looks at whether the keys are the screen's again.
const PAUSED: Duration = Duration::from_millis(20);

/// Leaves the keys to another program for a while.
#[derive(Clone, Debug, Default)]
pub struct InputPause(Arc<Mutex<bool>>);

impl InputPause {
    /// From now on no key is read, or they are again.
    pub fn set(&self, paused: bool) {
        if let Some(mut flag) = lock_within(&self.0, READING) {
            *flag = paused;
        }
    }
}

/// What of `flags` holds of the terminal's input, or comes to hold within `limit`. A hang-up is
/// reported even if it is not among them.
#[cfg(unix)]
fn poll_input(flags: PollFlags, limit: Option<Duration>) -> io::Result<PollFlags> {
    let stdin = io::stdin();
    let mut watched = [PollFd::new(&stdin, flags)];
    let limit = limit.map(Timespec::try_from).transpose().map_err(io::Error::other)?;
    poll(&mut watched, limit.as_ref())?;
    Ok(watched[0].revents())
}

/// Reads the terminal from now on, except while `pause` is set. The channel closes when it cannot
/// be read any more; `signals` is notified when it is gone. `asked`: whether answers are due.
///
/// # Errors
/// The system gives no thread.
pub fn listen(
    signals: SignalSender,
    pause: InputPause,
    asked: bool,
) -> io::Result<Receiver<Received>> {
    let (sender, receiver) = channel(WAITING);
    let read =
        move || reader::read(&pause, asked, |received| sender.blocking_send(received).is_ok());
    std::thread::Builder::new().name("dovetail-input".into()).spawn(read)?;
    std::thread::Builder::new().name("dovetail-hangup".into()).spawn(move || hang_up(&signals))?;
    Ok(receiver)
}

#[cfg(unix)]
mod reader {
    use std::time::Instant;

    use rustix::io::Errno;

    use super::*;

    /// Longest time for which answers are due.
    const ANSWERS: Duration = Duration::from_secs(5);
    /// Bytes read at once.
    const BYTES: usize = 1 << 16;

    /// Reads until the terminal is gone, or `send` is refused.
    pub(super) fn read(pause: &InputPause, asked: bool, mut send: impl FnMut(Received) -> bool) {
        let mut parser = InputParser::default();
        parser.answers_due = asked;
        let mut bursts = Bursts::default();
        let mut bytes = vec![0; BYTES];
        let began = Instant::now();
        let mut last = began;
        // What waits already was typed before raw mode, where Enter arrives as a line feed.
        let mut typed_before = is_waiting();
        loop {
            let patience = parser.patience().into_iter().chain(bursts.patience()).min();
            let left = patience.map(|patience| patience.saturating_sub(last.elapsed()));
            let ready = match poll_input(PollFlags::IN, left) {
                Ok(ready) if ready.is_empty() => false,
                Ok(ready) if ready.intersects(PollFlags::IN | PollFlags::HUP) => true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // This system cannot poll a terminal, but knows what waits.
                _ => {
                    std::thread::sleep(PAUSED);
                    rustix::io::ioctl_fionread(io::stdin()).is_ok_and(|bytes| bytes > 0)
                }
            };
            let received = if ready {
                let paused = pause.0.lock().unwrap_or_else(PoisonError::into_inner);
                if *paused {
                    drop(paused);
                    std::thread::sleep(PAUSED);
                    continue;
                }
                let read = match rustix::io::read(io::stdin(), &mut bytes) {
                    Ok(read @ 1..) => read,
                    Err(Errno::INTR | Errno::AGAIN) => continue,
                    // The terminal is gone.
                    _ => return,
                };
                drop(paused);
                last = Instant::now();
                if typed_before {
                    let feeds = bytes[..read].iter_mut().filter(|byte| **byte == b'\n');
                    feeds.for_each(|byte| *byte = b'\r');
                }
                parser.feed(&bytes[..read])
            } else if parser.patience().is_some_and(|patience| patience <= last.elapsed()) {
                parser.give_up()
            } else {
                Vec::new()
            };
            let mut events = Vec::new();
            for one in received {
                match one {
                    Received::Event(event) => events.push(event),
                    Received::Answer(answer) => {
                        parser.answers_due &= !matches!(answer, Answer::Attributes(_));
                        if !send(Received::Answer(answer)) {
                            return;
                        }
                    }
                }
            }
            parser.answers_due &= began.elapsed() < ANSWERS;
            if !std::mem::take(&mut typed_before) {
                events = bursts.take(events);
            }
            if bursts.patience().is_some_and(|patience| patience <= last.elapsed()) {
                events.extend(bursts.end());
            }
            if !events.into_iter().all(|event| send(Received::Event(event))) {
                return;
            }
        }
    }

    fn is_waiting() -> bool {
        poll_input(PollFlags::IN, Some(Duration::ZERO)).is_ok_and(|ready| !ready.is_empty())
    }
}

#[cfg(not(unix))]
mod reader {
    use super::*;

    /// Longest look for an event that has come.
    const LOOK: Duration = Duration::from_millis(1);

    /// Reads until the terminal is gone, or `send` is refused. An event that comes while the keys
    /// are another program's stays in crossterm's queue.
    pub(super) fn read(pause: &InputPause, _: bool, mut send: impl FnMut(Received) -> bool) {
        let mut bursts = Bursts::default();
        loop {
            let limit = bursts.patience().unwrap_or(Duration::from_millis(100));
            let ready = crossterm::event::poll(limit).unwrap_or(true);
            let paused = pause.0.lock().unwrap_or_else(PoisonError::into_inner);
            if *paused {
                drop(paused);
                std::thread::sleep(PAUSED);
                continue;
            }
            let mut events = Vec::new();
            if ready {
                while let Ok(true) = crossterm::event::poll(LOOK) {
                    let Ok(event) = crossterm::event::read() else { return };
                    events.push(event);
                }
                events = bursts.take(events);
            } else {
                events.extend(bursts.end());
            }
            if !events.into_iter().all(|event| send(Received::Event(event))) {
                return;
            }
        }
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
