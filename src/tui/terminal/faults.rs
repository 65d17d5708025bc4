//! Signals that the system sends because of a file. Beyond the limit on a file's size (SIGXFSZ), a
//! write fails as on a full disk. After a mapped file was truncated (SIGBUS), the thread that reads
//! it never continues, and the program ends in order: the conversation is saved, the terminal is
//! restored. Must never know what is read.

use std::sync::atomic::{AtomicBool, Ordering};

/// What the user reads after [`truncated`].
pub(crate) const TRUNCATED_FILE: &str = "a file that is in use was truncated, or its disk failed; \
     start again, and do not change a model while it is loaded";

static TRUNCATED: AtomicBool = AtomicBool::new(false);

/// Whether a file was truncated while it was in use.
pub(crate) fn truncated() -> bool {
    TRUNCATED.load(Ordering::SeqCst)
}

/// Handles these signals from now on. `end` ends the program after a file was truncated.
///
/// # Errors
/// The system gives no pipe or no thread.
#[cfg(unix)]
#[allow(unsafe_code)]
pub(crate) fn watch(end: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    use std::io::Read;
    use std::os::fd::IntoRawFd;
    let (mut told, tell) = std::io::pipe()?;
    let wait = move || {
        if told.read_exact(&mut [0]).is_ok() {
            super::signals::end_screen();
            end();
        }
    };
    std::thread::Builder::new().name("dovetail-faults".into()).spawn(wait)?;
    handlers::TELL.store(tell.into_raw_fd(), Ordering::SeqCst);
    // SAFETY: both functions are handlers, and call nothing that a handler may not call.
    unsafe {
        libc::signal(libc::SIGXFSZ, handlers::go_on as *const () as libc::sighandler_t);
        libc::signal(libc::SIGBUS, handlers::park as *const () as libc::sighandler_t);
    }
    Ok(())
}

#[cfg(unix)]
mod handlers {
    use std::sync::atomic::{AtomicI32, Ordering};

    use super::TRUNCATED;

    /// The end of the pipe that wakes the thread that waits for a fault.
    pub(super) static TELL: AtomicI32 = AtomicI32::new(-1);

    /// The write fails. Ignoring the signal would do the same, but the user's editor would inherit
    /// that.
    pub(super) extern "C" fn go_on(_: libc::c_int) {}

    /// What was read is not there, so this thread can do nothing more.
    #[allow(unsafe_code)]
    pub(super) extern "C" fn park(_: libc::c_int) {
        TRUNCATED.store(true, Ordering::SeqCst);
        // SAFETY: a handler may call both.
        unsafe {
            libc::write(TELL.load(Ordering::SeqCst), [0_u8].as_ptr().cast(), 1);
            loop {
                libc::pause();
            }
        }
    }
}
