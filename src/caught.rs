//! Panics of the libraries that read files from untrusted sources: they become errors, without
//! lines on the terminal or the end of a thread. It must not depend on the library.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    static CATCHING: Cell<bool> = const { Cell::new(false) };
}

/// The result of `work`, or `None` if it panics. Only for reading: anything that `work` was about
/// to change must be discarded with it.
pub fn caught<T>(work: impl FnOnce() -> T) -> Option<T> {
    survived(work).ok()
}

/// The result of `work`, or the message of its panic; otherwise as [`caught`].
///
/// # Errors
/// The message of the panic.
pub fn survived<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if CATCHING.get() {
                tracing::warn!("caught: {info}");
            } else {
                report(info);
            }
        }));
    });
    let outer = CATCHING.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    CATCHING.set(outer);
    done.map_err(|panic| panic_message(&*panic))
}

/// The message of a caught panic.
pub fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "unknown".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_nothing_and_only_while_it_is_looked_for() {
        assert_eq!(caught(|| 1), Some(1));
        let none: Vec<u8> = Vec::new();
        assert_eq!(caught(|| caught(|| none[0]).is_none()), Some(true));
        assert!(!CATCHING.get());
    }
}
