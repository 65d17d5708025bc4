//! The content of one file, over as many connections as needed, checked by its hash before it
//! appears under its name. It must not depend on what requested it.

use std::fs;
use std::path::Path;
use std::time::Instant;

use super::check::Hash;
use super::error::{HubError, RequestFailure};
use super::http::Client;
use super::patience::least_bytes;
use super::progress::DownloadMeter;
use crate::files::{Access, Open, durable_rename, open_regular};

/// How many consecutive attempts that bring almost nothing are made before a download is given up.
const TRIES: u32 = 5;

/// A file that is not here yet.
pub(super) struct Missing {
    /// Its display name.
    pub(super) name: String,
    pub(super) url: String,
    /// The expected hash of its content.
    pub(super) hash: Hash,
    pub(super) size: u64,
}

impl Missing {
    /// Downloads its content to `place`, continuing where an earlier attempt stopped, and verifies
    /// it; content that differs from the expected one is removed.
    pub(super) fn transfer(
        &self,
        client: &Client,
        place: &Path,
        meter: &mut DownloadMeter<'_>,
    ) -> Result<(), HubError> {
        let disk = |path: &Path, source| client.server.disk(path, &source);
        if let Some(folder) = place.parent() {
            fs::create_dir_all(folder).map_err(|source| disk(folder, source))?;
        }
        // Downloads of one file wait for each other. Where the disk knows no locks, they do not.
        let waits = place.with_extension("lock");
        let lock =
            open_regular(&waits, Open::Create(Access::Usual)).map_err(|e| disk(&waits, e))?;
        if let Err(error) = lock.lock() {
            tracing::debug!(%error, "no lock for a download");
        }
        let done = self.locked(client, place, meter);
        // Who waits for it finds the file in its place.
        let _ = fs::remove_file(&waits);
        done
    }

    fn locked(
        &self,
        client: &Client,
        place: &Path,
        meter: &mut DownloadMeter<'_>,
    ) -> Result<(), HubError> {
        let disk = |path: &Path, source| client.server.disk(path, &source);
        let size = |path: &Path| fs::metadata(path).map_or(0, |metadata| metadata.len());
        if place.exists() && size(place) == self.size {
            meter.begin(&self.name, self.size, Instant::now());
            match self.check(client, place, meter) {
                // The part from an earlier download is damaged, so it is downloaded again.
                Err(HubError::Changed(why)) => {
                    tracing::warn!(why, "downloading a damaged file again");
                    meter.lose(self.size);
                }
                checked => return checked,
            }
        }
        let part = place.with_extension("part");
        meter.begin(&self.name, size(&part), Instant::now());
        let mut tries = 0;
        loop {
            let before = size(&part);
            match client.fetch(&self.url, &part, self.size, meter) {
                Ok(()) => {
                    self.check(client, &part, meter)?;
                    return durable_rename(&part, place).map_err(|source| disk(place, source));
                }
                Err(RequestFailure::Broken(reason)) => {
                    let done = size(&part);
                    let enough = before + least_bytes(client.patience.silence).max(1);
                    tries = if done >= enough { 0 } else { tries + 1 };
                    if tries >= TRIES {
                        return Err(HubError::Other(format!(
                            "{}: the connection broke at {done} of {} bytes: {reason}; check the \
                             network and start again to continue from there",
                            self.url, self.size
                        )));
                    }
                    tracing::info!(file = self.name, reason, "the connection broke, continuing");
                    std::thread::sleep(client.patience.pause * 2u32.pow(tries));
                }
                Err(RequestFailure::Final(error)) => return Err(error),
            }
        }
    }

    /// Refuses and removes the content at `path` unless it is the file's.
    fn check(
        &self,
        client: &Client,
        path: &Path,
        meter: &mut DownloadMeter<'_>,
    ) -> Result<(), HubError> {
        let disk = |source| client.server.disk(path, &source);
        meter.check(Instant::now());
        let found = self.hash.of(path).map_err(disk)?;
        if found == self.hash {
            return Ok(());
        }
        fs::remove_file(path).map_err(disk)?;
        Err(client.server.changed(&self.url, self.hash.name(), self.hash.hex(), found.hex()))
    }
}
