//! Keys, pastes and the mouse wheel, read on a thread of their own. crossterm's reader blocks in
//! the middle of an escape sequence until the rest has come, and never returns once the terminal is
//! gone (0.29 takes the end of the file for an empty read): neither may block the screen's thread.
//! Another thread detects the terminal's end. Must never know what keys mean.

use std::io;

use crossterm::event::Event;
use tokio::sync::mpsc::{Receiver, channel};

use super::signals::SignalSender;

/// Capacity of the queue of events; beyond that they stay in the terminal's buffer.
const WAITING: usize = 1024;

/// Reads the terminal from now on. The channel closes when it cannot be read any more; `signals`
/// is notified when it is gone.
///
/// # Errors
/// The system gives no thread.
pub fn listen(signals: SignalSender) -> io::Result<Receiver<Event>> {
    let (sender, receiver) = channel(WAITING);
    let read = move || {
        while let Ok(event) = crossterm::event::read() {
            if sender.blocking_send(event).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("dovetail-input".into()).spawn(read)?;
    std::thread::Builder::new().name("dovetail-hangup".into()).spawn(move || hang_up(&signals))?;
    Ok(receiver)
}

/// Waits until the terminal is gone, which no read is needed to see.
#[cfg(unix)]
fn hang_up(signals: &SignalSender) {
    use rustix::event::{PollFd, PollFlags, poll};
    let stdin = io::stdin();
    loop {
        // With no events requested, poll still reports a hang-up.
        let mut watched = [PollFd::new(&stdin, PollFlags::empty())];
        match poll(&mut watched, None) {
            Ok(_) if watched[0].revents().contains(PollFlags::HUP) => return signals.end(),
            Err(rustix::io::Errno::INTR) => {}
            // This system cannot poll a terminal: SIGHUP remains.
            _ => return,
        }
    }
}

#[cfg(not(unix))]
fn hang_up(_: &SignalSender) {}
