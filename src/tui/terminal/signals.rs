//! Signals: end, suspend, resume, new size of the terminal. They are received on a thread of their
//! own, and a request to end sets a deadline: the process ends even if the screen's thread never
//! handles it. Must never know what is shown.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::tui::terminal;

/// Deadline from a request to end, if the screen's thread does not handle it.
const END_DEADLINE: Duration = Duration::from_secs(5);
/// Longest time from the last save to the end: the decode thread may be in the middle of a round,
/// the terminal may take nothing.
const SAVED_DEADLINE: Duration = Duration::from_millis(600);

/// Longest time to restore the terminal at the very end.
const RESTORE_LIMIT: Duration = Duration::from_millis(100);

/// Whether another program has the terminal: an interrupt typed there is meant for it.
static LENT: AtomicBool = AtomicBool::new(false);

/// When it was given back last.
static BACK: Mutex<Option<Instant>> = Mutex::new(None);
/// An interrupt that ended the other program may be heard of later than its end, on a busy machine
/// much later. In raw mode no key makes one.
const LATE: Duration = Duration::from_secs(2);

/// Another program has the terminal from now on, or no longer.
pub fn lend(lent: bool) {
    if !lent {
        *BACK.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }
    LENT.store(lent, Ordering::SeqCst);
}

/// Whether an interrupt is, or was, another program's.
fn lent() -> bool {
    let back = *BACK.lock().unwrap_or_else(PoisonError::into_inner);
    LENT.load(Ordering::SeqCst) || back.is_some_and(|back| back.elapsed() < LATE)
}

/// A request of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Save and end: SIGTERM, SIGHUP and others that would end the process, the terminal is gone,
    /// or Windows closes the console.
    End,
    /// Save and end (SIGINT, SIGQUIT), unless another program has the terminal.
    Interrupt,
    /// Stop until [`Self::Continue`] (SIGTSTP).
    #[cfg_attr(not(unix), allow(dead_code, reason = "job control needs Unix"))]
    Stop,
    /// Go on (SIGCONT).
    #[cfg_attr(not(unix), allow(dead_code, reason = "job control needs Unix"))]
    Continue,
    /// The terminal has another size (SIGWINCH).
    Resize,
}

/// The screen's, once there is one.
static SCREEN: Mutex<Option<SignalSender>> = Mutex::new(None);

/// Ends the screen, if there is one, and with it the process. It returns if that fails, with the
/// terminal restored.
#[cfg(unix)]
pub fn end_screen() {
    let screen = SCREEN.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(screen) = screen
        && screen.signals.send(Signal::End).is_ok()
    {
        std::thread::sleep(END_DEADLINE);
    }
    terminal::restore_within(RESTORE_LIMIT);
}

/// Sends requests to the event loop.
#[derive(Clone, Debug)]
pub struct SignalSender {
    signals: UnboundedSender<Signal>,
    /// Whether an interrupt ends the program; else it stops the answer, as it does in lines.
    interrupt_ends: bool,
}

impl SignalSender {
    /// Requests the end and sets its deadline.
    pub fn end(&self) {
        deadline(END_DEADLINE, 1);
        self.send(Signal::End);
    }

    fn send(&self, signal: Signal) {
        // There is no receiver once the screen has ended.
        let _ = self.signals.send(signal);
    }

    fn forward(&self, signal: Signal) {
        match signal {
            Signal::End => self.end(),
            Signal::Interrupt if lent() => {}
            Signal::Interrupt if self.interrupt_ends => self.end(),
            other => self.send(other),
        }
    }
}

/// Handles signals from now on; whether an interrupt is a request to end.
///
/// # Errors
/// The system gives no handler or no thread.
pub fn listen(interrupt_ends: bool) -> io::Result<(SignalSender, UnboundedReceiver<Signal>)> {
    let (signals, receiver) = unbounded_channel();
    let sender = SignalSender { signals, interrupt_ends };
    start(sender.clone())?;
    *SCREEN.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender.clone());
    Ok((sender, receiver))
}

#[cfg(unix)]
fn start(sender: SignalSender) -> io::Result<()> {
    use rustix::process::Signal as Raw;
    use tokio::signal::unix::{SignalKind, signal};
    let kinds = [
        (Raw::TERM, Signal::End),
        (Raw::HUP, Signal::End),
        (Raw::USR1, Signal::End),
        (Raw::USR2, Signal::End),
        (Raw::ALARM, Signal::End),
        (Raw::XCPU, Signal::End),
        (Raw::INT, Signal::Interrupt),
        (Raw::QUIT, Signal::Interrupt),
        (Raw::TSTP, Signal::Stop),
        (Raw::CONT, Signal::Continue),
        (Raw::WINCH, Signal::Resize),
    ];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let inside = runtime.enter();
    for (raw, meaning) in kinds {
        let mut stream = signal(SignalKind::from_raw(raw.as_raw()))?;
        let sender = sender.clone();
        runtime.spawn(async move {
            while stream.recv().await.is_some() {
                sender.forward(meaning);
            }
        });
    }
    drop(inside);
    let thread = std::thread::Builder::new().name("dovetail-signals".into());
    thread.spawn(move || runtime.block_on(sender.signals.closed()))?;
    Ok(())
}

#[cfg(windows)]
fn start(sender: SignalSender) -> io::Result<()> {
    use tokio::signal::windows;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let inside = runtime.enter();
    let mut interrupt = windows::ctrl_c()?;
    // The window is closed, the user logs off, the machine is shut down: each leaves some seconds.
    let mut close = windows::ctrl_close()?;
    let mut logoff = windows::ctrl_logoff()?;
    let mut shutdown = windows::ctrl_shutdown()?;
    drop(inside);
    let thread = std::thread::Builder::new().name("dovetail-signals".into());
    thread.spawn(move || {
        runtime.block_on(async {
            loop {
                let (got, signal) = tokio::select! {
                    got = interrupt.recv() => (got, Signal::Interrupt),
                    got = close.recv() => (got, Signal::End),
                    got = logoff.recv() => (got, Signal::End),
                    got = shutdown.recv() => (got, Signal::End),
                };
                if got.is_none() {
                    return;
                }
                sender.forward(signal);
            }
        });
    })?;
    Ok(())
}

/// To be called when everything is saved: shortens the deadline.
pub fn saved() {
    deadline(SAVED_DEADLINE, 0);
}

/// Ends the process with `code` unless it has ended within `limit`.
fn deadline(limit: Duration, code: i32) {
    let end = move || {
        std::thread::sleep(limit);
        terminal::restore_within(RESTORE_LIMIT);
        std::process::exit(code);
    };
    // Without a thread there is no deadline; everything else still ends the process.
    if let Err(error) = std::thread::Builder::new().name("dovetail-deadline".into()).spawn(end) {
        tracing::warn!("cannot start a thread for the deadline: {error}");
    }
}

/// Asks the whole foreground job to stop, this process among it, as the terminal's own Ctrl+Z does:
/// a pipeline or a wrapper stops with it.
///
/// # Errors
/// Nothing could bring the job back, or this system has no jobs.
#[cfg(unix)]
pub fn stop_job() -> Result<(), String> {
    if !has_shell() {
        return Err(
            "Cannot suspend: the program was not started by a shell with job control".to_string()
        );
    }
    rustix::process::kill_current_process_group(rustix::process::Signal::TSTP)
        .map_err(|error| format!("Cannot suspend: {error}"))
}

/// Asks the whole foreground job to stop.
///
/// # Errors
/// This system has no jobs.
#[cfg(not(unix))]
pub fn stop_job() -> Result<(), String> {
    Err("Cannot suspend: this system has no job control".to_string())
}

/// Stops this process at once, until SIGCONT.
///
/// # Errors
/// Nothing could bring it back, or the system refuses.
pub fn stop() -> io::Result<()> {
    #[cfg(unix)]
    if has_shell() {
        use rustix::process::{Signal as Raw, getpid, kill_process};
        return Ok(kill_process(getpid(), Raw::STOP)?);
    }
    Err(io::ErrorKind::Unsupported.into())
}

/// Whether a shell with job control can bring this process back: it gives each job a process group
/// of its own. The group of the session's first process is not a job of a shell.
#[cfg(unix)]
fn has_shell() -> bool {
    rustix::process::getsid(None).is_ok_and(|session| session != rustix::process::getpgrp())
}
