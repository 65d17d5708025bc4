//! The log file. Must never write to the terminal, which belongs to the screen or to the answer.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tracing::Level;
use tracing_appender::non_blocking::WorkerGuard;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::files::{Access, Open, open_regular, paths_in, private_folder, user_dirs};
use crate::library::Hub;

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
        .filter(|spec| !spec.is_empty())
        .and_then(|spec| EnvFilter::try_new(spec).ok())
        .unwrap_or_else(|| EnvFilter::new(default));
    let secrets = Hub::from_env().ok().and_then(|hub| hub.token).into_iter().collect::<Vec<_>>();
    let logger = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false);
    let writer = move || Redacted { log: writer.clone(), secrets: secrets.clone() };
    let quiet =
        filter_fn(|record| !(on_the_wire(record.target()) && *record.level() > Level::WARN));
    logger.with_writer(writer).finish().with(quiet).try_init().ok()?;
    Some(guard)
}

/// The libraries that log what they send and receive, also cut into pieces.
const WIRE: [&str; 9] =
    ["axum", "h2", "hf_hub", "hyper", "reqwest", "rustls", "tower", "ureq", "want"];

/// Whether a record comes from one of them, or from a crate of its family: `ureq_proto::…`.
fn on_the_wire(target: &str) -> bool {
    let name = target.split("::").next().unwrap_or_default();
    WIRE.contains(&name.split('_').next().unwrap_or_default()) || WIRE.contains(&name)
}

/// The log without secrets, from every library. Each record comes in one piece.
struct Redacted<W> {
    log: W,
    secrets: Vec<String>,
}

impl<W: Write> Write for Redacted<W> {
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(record);
        self.log.write_all(redacted(&text, &self.secrets).as_bytes())?;
        Ok(record.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.log.flush()
    }
}

/// What stands for a secret.
const MASK: &str = "[redacted]";

/// `text` without these secrets, the hub's tokens, bearer tokens, and the credentials of URLs.
fn redacted(text: &str, secrets: &[String]) -> String {
    let secrets = secrets.iter().filter(|secret| !secret.is_empty());
    let mut text = secrets.fold(text.to_owned(), |text, secret| text.replace(secret, MASK));
    let ends = |c: char| c.is_whitespace() || "\"'<>,;\\".contains(c);
    for sign in ["Bearer ", "bearer ", "hf_", "://"] {
        let mut from = 0;
        while let Some(at) = text[from..].find(sign) {
            from += at + sign.len();
            let mut end = text[from..].find(ends).map_or(text.len(), |end| from + end);
            if sign == "://" {
                let host = text[from..end].find(['/', '?', '#']).map_or(end, |slash| from + slash);
                let Some(credentials) = text[from..host].rfind('@') else { continue };
                end = from + credentials;
            } else if sign == "hf_" && end - from < 8 {
                // A name such as `hf_hub`.
                continue;
            }
            text.replace_range(from..end, MASK);
            from += MASK.len();
        }
    }
    text
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_reaches_the_log() {
        let secrets = vec!["mysecret".to_owned()];
        for (said, logged) in [
            ("token mysecret, twice mysecret", "token [redacted], twice [redacted]"),
            ("Authorization: Bearer abc.def/x\n", "Authorization: Bearer [redacted]\n"),
            (r#"("authorization", "bearer abc")"#, r#"("authorization", "bearer [redacted]")"#),
            ("key hf_abcdefghij.", "key hf_[redacted]"),
            ("GET https://me:pw@hub.example/a@b", "GET https://[redacted]@hub.example/a@b"),
            ("GET https://hub.example/a@b?c=d", "GET https://hub.example/a@b?c=d"),
            ("hf_hub: loaded", "hf_hub: loaded"),
            ("", ""),
        ] {
            let mut log = Vec::new();
            let mut writer = Redacted { log: &mut log, secrets: secrets.clone() };
            writer.write_all(said.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(log).unwrap(), logged);
        }
        for (target, wire) in [
            ("ureq::unversioned::transport", true),
            ("ureq_proto::client", true),
            ("rustls::client::hs", true),
            ("hf_hub::api", true),
            ("hyper_util::client", true),
            ("dovetail::library::hub", false),
            ("wgpu_core", false),
        ] {
            assert_eq!(on_the_wire(target), wire, "{target}");
        }
    }
}
