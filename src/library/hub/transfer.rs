//! The content of one file, over as many connections as needed, checked by its hash before it
//! appears under its name. It must not depend on what requested it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::Hub;
use super::error::Refusal;
use super::http::{About, Client, HttpFailure};
use super::patience::least_bytes;
use super::progress::{DownloadMeter, DownloadProgress};
use crate::files::durable_rename;

/// How many consecutive attempts that bring almost nothing are made before a download is given up.
const TRIES: u32 = 5;

/// A file that is not here yet.
pub(super) struct Missing {
    /// Its display name.
    pub(super) name: String,
    pub(super) url: String,
    pub(super) about: About,
}

/// Why the content is not here.
#[derive(Debug)]
pub(super) enum TransferFailure {
    /// The server answers with an error status.
    Refused(Refusal),
    /// The answer cannot be the file.
    Strange(String),
    /// The connection broke repeatedly.
    Cut { done: u64, reason: String },
    /// Different content was received and has been removed. `found` is its hash.
    Changed { found: String },
    /// The disk failed.
    Disk { path: PathBuf, source: std::io::Error },
}

/// Downloads the content of `file` to `place`, continuing where an earlier attempt stopped, and
/// verifies it; content that differs from the expected one is removed.
pub(super) fn transfer(
    client: &Client,
    hub: &Hub,
    file: &Missing,
    place: &Path,
    meter: &mut DownloadMeter,
    report: &mut dyn FnMut(&DownloadProgress),
) -> Result<(), TransferFailure> {
    let total = file.about.size;
    let size = |path: &Path| fs::metadata(path).map_or(0, |metadata| metadata.len());
    if let Some(folder) = place.parent() {
        fs::create_dir_all(folder).map_err(|source| disk(folder, source))?;
    }
    if place.exists() && size(place) == total {
        report(&meter.begin(&file.name, total, Instant::now()));
        match check(file, place, meter, report) {
            // The part from an earlier download is damaged, so it is downloaded again.
            Err(TransferFailure::Changed { found }) => {
                tracing::warn!(file = file.name, found, "downloading a damaged file again");
                meter.lose(total);
            }
            checked => return checked,
        }
    }
    let part = place.with_extension("part");
    report(&meter.begin(&file.name, size(&part), Instant::now()));
    let mut tries = 0;
    loop {
        let before = size(&part);
        match client.fetch(&file.url, &part, total, meter, report) {
            Ok(()) => {
                check(file, &part, meter, report)?;
                return durable_rename(&part, place).map_err(|source| disk(place, source));
            }
            Err(HttpFailure::Broken(reason)) => {
                let done = size(&part);
                let enough = before + least_bytes(hub.patience).max(1);
                tries = if done >= enough { 0 } else { tries + 1 };
                if tries >= TRIES {
                    return Err(TransferFailure::Cut { done, reason });
                }
                tracing::info!(file = file.name, reason, "the connection broke, continuing");
                std::thread::sleep(hub.pause * 2u32.pow(tries));
            }
            Err(HttpFailure::Disk(source)) => return Err(disk(&part, source)),
            Err(HttpFailure::Refused(refusal)) => return Err(TransferFailure::Refused(refusal)),
            Err(HttpFailure::Strange(reason)) => return Err(TransferFailure::Strange(reason)),
        }
    }
}

/// Refuses and removes the content at `path` unless it is the file's.
fn check(
    file: &Missing,
    path: &Path,
    meter: &DownloadMeter,
    report: &mut dyn FnMut(&DownloadProgress),
) -> Result<(), TransferFailure> {
    let expected = &file.about.hash;
    report(&meter.checking(Instant::now()));
    let found = expected.of(path).map_err(|source| disk(path, source))?;
    if found == *expected {
        return Ok(());
    }
    fs::remove_file(path).map_err(|source| disk(path, source))?;
    Err(TransferFailure::Changed { found: found.hex().to_owned() })
}

fn disk(path: &Path, source: std::io::Error) -> TransferFailure {
    TransferFailure::Disk { path: path.to_owned(), source }
}
