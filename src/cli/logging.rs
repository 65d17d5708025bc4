//! The log file. Must never write to the terminal, which belongs to the screen or to the answer.

use std::path::PathBuf;

use tracing_appender::non_blocking::WorkerGuard;
use tracing_appender::rolling::{RollingFileAppender, Rotation};
use tracing_subscriber::EnvFilter;

/// Days after which a log is deleted.
const KEPT: usize = 7;

/// The folder of the log files; `None` where the system has no such place.
pub fn folder() -> Option<PathBuf> {
    let dirs = crate::files::user_dirs()?;
    Some(dirs.state.join("log"))
}

/// Starts logging; what is logged reaches the file while the guard lives. A log that cannot be
/// written is left out: no command fails for it.
pub fn start(verbose: bool) -> Option<WorkerGuard> {
    let folder = folder()?;
    // The appender would report a missing folder on stderr.
    std::fs::create_dir_all(&folder).ok()?;
    let file = RollingFileAppender::builder()
        .rotation(Rotation::DAILY)
        .filename_prefix("dovetail")
        .filename_suffix("log")
        .max_log_files(KEPT)
        .build(folder)
        .ok()?;
    let (writer, guard) = tracing_appender::non_blocking(file);
    let default = if verbose { "dovetail=debug,info" } else { "dovetail=info,warn" };
    let filter = std::env::var("DOVETAIL_LOG")
        .ok()
        .and_then(|spec| EnvFilter::try_new(spec).ok())
        .unwrap_or_else(|| EnvFilter::new(default));
    let logger = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    logger.with_ansi(false).try_init().ok()?;
    Some(guard)
}
