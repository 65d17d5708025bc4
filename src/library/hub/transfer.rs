//! The content of one file, over as many connections as needed, checked by its hash before it
//! appears under its name. It must not depend on what requested it.

use std::fs;
use std::path::Path;
use std::time::Instant;

use super::error::{HubError, RequestFailure};
use super::http::{About, Client};
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

/// Downloads the content of `file` to `place`, continuing where an earlier attempt stopped, and
/// verifies it; content that differs from the expected one is removed.
pub(super) fn transfer(
    client: &Client,
    file: &Missing,
    place: &Path,
    meter: &mut DownloadMeter,
    report: &mut dyn FnMut(&DownloadProgress),
) -> Result<(), RequestFailure> {
    let total = file.about.size;
    let disk = |path: &Path, source| HubError::disk(client.server, path, source);
    let size = |path: &Path| fs::metadata(path).map_or(0, |metadata| metadata.len());
    if let Some(folder) = place.parent() {
        fs::create_dir_all(folder).map_err(|source| disk(folder, source))?;
    }
    if place.exists() && size(place) == total {
        report(&meter.begin(&file.name, total, Instant::now()));
        match check(file, client, place, meter, report) {
            // The part from an earlier download is damaged, so it is downloaded again.
            Err(HubError::Changed { found, .. }) => {
                tracing::warn!(file = file.name, found, "downloading a damaged file again");
                meter.lose(total);
            }
            checked => return Ok(checked?),
        }
    }
    let part = place.with_extension("part");
    report(&meter.begin(&file.name, size(&part), Instant::now()));
    let mut tries = 0;
    loop {
        let before = size(&part);
        match client.fetch(&file.url, &part, total, meter, report) {
            Ok(()) => {
                check(file, client, &part, meter, report)?;
                return Ok(durable_rename(&part, place).map_err(|source| disk(place, source))?);
            }
            Err(RequestFailure::Broken(reason)) => {
                let done = size(&part);
                let enough = before + least_bytes(client.patience.silence).max(1);
                tries = if done >= enough { 0 } else { tries + 1 };
                if tries >= TRIES {
                    let url = file.url.clone();
                    return Err(HubError::Cut { url, done, total, reason }.into());
                }
                tracing::info!(file = file.name, reason, "the connection broke, continuing");
                std::thread::sleep(client.patience.pause * 2u32.pow(tries));
            }
            Err(failure) => return Err(failure),
        }
    }
}

/// Refuses and removes the content at `path` unless it is the file's.
fn check(
    file: &Missing,
    client: &Client,
    path: &Path,
    meter: &DownloadMeter,
    report: &mut dyn FnMut(&DownloadProgress),
) -> Result<(), HubError> {
    let disk = |source| HubError::disk(client.server, path, source);
    let expected = &file.about.hash;
    report(&meter.checking(Instant::now()));
    let found = expected.of(path).map_err(disk)?;
    if found == *expected {
        return Ok(());
    }
    fs::remove_file(path).map_err(disk)?;
    Err(HubError::Changed {
        url: file.url.clone(),
        hash: expected.name(),
        expected: expected.hex().to_owned(),
        found: found.hex().to_owned(),
        server: client.server,
    })
}
