//! Output to the terminal, written on a thread of its own: a terminal that accepts nothing (stopped
//! with Ctrl+S, or at the end of a frozen connection) must not block the screen's thread, which
//! handles signals. A frame is written whole or, once the terminal is restored, not at all. Must
//! never know what is drawn.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Locked while something is written.
static WRITING: Mutex<()> = Mutex::new(());

/// Buffer in which a frame is composed.
#[derive(Clone, Debug, Default)]
pub struct FrameBuffer(Rc<RefCell<Vec<u8>>>);

impl FrameBuffer {
    /// Takes what was composed so far.
    pub fn take(&self) -> Vec<u8> {
        self.0.take()
    }
}

impl Write for FrameBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The writer's thread and its queue.
#[derive(Debug)]
pub struct FrameWriter {
    frames: Sender<Vec<u8>>,
    written: UnboundedReceiver<io::Result<()>>,
    waiting: usize,
}

impl FrameWriter {
    /// Writes to the standard output from now on, whenever `ours` is set.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(ours: &'static AtomicBool) -> io::Result<Self> {
        let (frames, receiver) = channel::<Vec<u8>>();
        let (sender, written) = unbounded_channel();
        let mut out = unbuffered()?;
        let work = move || {
            for frame in receiver {
                let writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
                let result =
                    if ours.load(Ordering::SeqCst) { write(&mut out, &frame) } else { Ok(()) };
                drop(writing);
                if sender.send(result).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("dovetail-output".into()).spawn(work)?;
        Ok(Self { frames, written, waiting: 0 })
    }

    /// Queues `bytes`.
    pub fn send(&mut self, bytes: Vec<u8>) {
        if !bytes.is_empty() && self.frames.send(bytes).is_ok() {
            self.waiting += 1;
        }
    }

    /// Whether something is still to be written.
    pub fn busy(&self) -> bool {
        self.waiting > 0
    }

    /// Waits until something was written.
    ///
    /// # Errors
    /// The terminal cannot be written to.
    pub async fn written(&mut self) -> io::Result<()> {
        match self.written.recv().await {
            Some(result) => {
                self.waiting = self.waiting.saturating_sub(1);
                result
            }
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

/// Waits until nothing is being written, `limit` at most: a stopped terminal never accepts it.
pub fn pause(limit: Duration) -> Option<MutexGuard<'static, ()>> {
    lock_within(&WRITING, limit)
}

/// Locks, unless another thread holds the lock for longer than `limit`.
pub(super) fn lock_within<T>(mutex: &Mutex<T>, limit: Duration) -> Option<MutexGuard<'_, T>> {
    let began = Instant::now();
    loop {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(error)) => return Some(error.into_inner()),
            Err(TryLockError::WouldBlock) if began.elapsed() >= limit => return None,
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// The standard output without the library's lines: a frame is one write.
#[cfg(unix)]
fn unbuffered() -> io::Result<std::fs::File> {
    use std::os::fd::AsFd;
    Ok(io::stdout().as_fd().try_clone_to_owned()?.into())
}

#[cfg(not(unix))]
fn unbuffered() -> io::Result<io::Stdout> {
    Ok(io::stdout())
}

/// Writes all of it, also where another program has made the terminal non-blocking.
fn write(out: &mut impl Write, mut rest: &[u8]) -> io::Result<()> {
    while !rest.is_empty() {
        match out.write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => rest = &rest[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(error) => return Err(error),
        }
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Accepts three bytes at a time, and nothing every other time.
    struct Slow(Vec<u8>, bool);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let taken = bytes.len().min(3);
            self.0.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_non_blocking_terminal_gets_everything_once() {
        let mut out = Slow(Vec::new(), false);
        write(&mut out, b"a whole frame").unwrap();
        assert_eq!(out.0, b"a whole frame");
    }
}
