//! SIGINT and SIGTERM, handled on a thread of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::exit::{Code, report};
use crate::bench::strategies::Stop;
use crate::worker::SharedControls;

/// Calls `on_signal` at the first Ctrl-C (or SIGTERM); when that returns `false`, or at the second
/// one, ends the program at once.
pub fn watch(on_signal: impl Fn() -> bool + Send + 'static) {
    let started = on_thread(async move {
        signal().await;
        if on_signal() {
            signal().await;
        }
        std::process::exit(Code::Interrupted as i32);
    });
    if let Err(error) = started {
        report(&format!("note: Ctrl-C will end the program without saving: {error}"));
    }
}

/// Runs a task on a thread of its own.
fn on_thread(task: impl Future<Output = ()> + Send + 'static) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let thread = std::thread::Builder::new().name("dovetail-signals".into());
    thread.spawn(move || runtime.block_on(task)).map(drop)
}

/// A flag that the first Ctrl-C sets, after `said` is reported if it is not empty.
pub fn stop_flag(said: &'static str) -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let requested = Arc::clone(&stop);
    watch(move || {
        if !said.is_empty() {
            report(said);
        }
        requested.store(true, Ordering::Relaxed);
        true
    });
    stop
}

/// Lets the first Ctrl-C end the answers that are decoded under `controls`.
pub fn stop_answers(controls: &SharedControls) -> Arc<Stop> {
    let stop = Arc::new(Stop::new(controls.clone()));
    let stopped = Arc::clone(&stop);
    watch(move || {
        stopped.stop();
        true
    });
    stop
}

/// Leaves Ctrl-C to the program that has the terminal meanwhile, such as a pager.
pub fn ignore_ctrl_c() {
    // Without the thread, Ctrl-C ends this program and the pager continues.
    let _ = on_thread(async { while tokio::signal::ctrl_c().await.is_ok() {} });
}

#[cfg(unix)]
async fn signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut term) = signal(SignalKind::terminate()) else { return std::future::pending().await };
    tokio::select! {
        _ = term.recv() => {}
        result = tokio::signal::ctrl_c() => if result.is_err() { std::future::pending().await },
    }
}

#[cfg(not(unix))]
async fn signal() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending().await
    }
}
