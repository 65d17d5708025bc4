//! The log file. Must never write to the terminal, which belongs to the screen or to the answer.

use std::path::{Path, PathBuf};

use tracing_appender::non_blocking::WorkerGuard;
use tracing_subscriber::EnvFilter;

use crate::files::{Access, Open, open_regular, paths_in, private_folder, user_dirs};

/// The most logs, one for each day.
const KEPT: usize = 7;

/// The folder of the log files; `None` where the system has no such place.
pub fn folder() -> Option<PathBuf> {
    Some(user_dirs()?.state.join("log"))
}

/// Starts logging; what is logged reaches the file while the guard lives. A log that cannot be
/// written is left out: no command fails for it.
pub fn start(verbose: bool) -> Option<WorkerGuard> {
    let folder = folder()?;
    private_folder(&folder).ok()?;
    let today = jiff::Timestamp::now().strftime("dovetail.%Y-%m-%d.log").to_string();
    let file = open_regular(&folder.join(today), Open::Append(Access::Private)).ok()?;
    remove_old(&folder);
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

/// Removes all logs but the latest.
fn remove_old(folder: &Path) {
    let is_log = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("dovetail.") && name.ends_with(".log")
    };
    let logs: Vec<PathBuf> =
        paths_in(folder).unwrap_or_default().into_iter().filter(is_log).collect();
    for old in logs.iter().rev().skip(KEPT) {
        // Another process may have removed it.
        let _ = std::fs::remove_file(old);
    }
}
