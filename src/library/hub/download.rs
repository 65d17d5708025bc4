//! Downloads one repository's files into the cache. Must never know what the files hold.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use hf_hub::CacheRepo;
use hf_hub::api::RepoInfo;

use super::files::{Wanted, choose, is_tame};
use super::http::{About, Client, HttpFailure};
use super::patience::least_bytes;
use super::progress::{DownloadMeter, DownloadProgress};
use super::{Hub, HubError, HubId, place};
use crate::files::durable_rename;

/// Tries in a row that bring next to nothing before a download is given up.
const TRIES: u32 = 5;

/// A download under way.
pub(super) struct Download<'a> {
    pub(super) hub: &'a Hub,
    pub(super) id: &'a HubId,
    pub(super) client: &'a Client,
    pub(super) cache: CacheRepo,
}

/// A file that is not in the cache yet.
struct Missing {
    name: String,
    url: String,
    about: About,
}

impl Download<'_> {
    /// Fetches what is wanted and not there; gives the folder, or the (first) GGUF file.
    pub(super) fn run(
        &self,
        wanted: Wanted<'_>,
        report: &mut dyn FnMut(&DownloadProgress),
    ) -> Result<PathBuf, HubError> {
        let Hub { endpoint, cache, .. } = self.hub;
        let HubId { repo, revision, .. } = self.id;
        let revision = revision.as_deref().unwrap_or("main").replace('/', "%2F");
        let url = format!("{endpoint}/api/models/{repo}/revision/{revision}");
        let info: RepoInfo =
            self.client.json(&url).map_err(|failure| self.explain(failure, &url))?;
        if !is_tame(&info.sha) || info.sha.contains('/') {
            let reason = format!("the commit is `{}`", info.sha.escape_debug());
            return Err(HubError::Protocol { url, reason });
        }
        let names = info.siblings.into_iter().map(|sibling| sibling.rfilename);
        let present: Vec<String> = names.filter(|name| is_tame(name)).collect();
        let files = choose(&present, wanted)
            .map_err(|reason| HubError::Files { repo: self.id.clone(), reason })?;
        let folder = self.cache.pointer_path(&info.sha);
        let mut missing = Vec::new();
        for name in &files {
            // `exists` follows the link, so a link without its content is fetched again.
            if !folder.join(name).exists() {
                // By the commit: the branch may move while we fetch.
                let url = format!("{endpoint}/{repo}/resolve/{}/{name}", info.sha);
                let about =
                    self.client.about(&url).map_err(|failure| self.explain(failure, &url))?;
                missing.push(Missing { name: name.clone(), url, about });
            }
        }
        let mut meter = DownloadMeter::new(missing.iter().map(|file| file.about.size).sum());
        for file in &missing {
            let blob = self.fetch(file, &mut meter, report)?;
            link(&blob, &folder.join(&file.name)).map_err(|source| disk(&folder, source))?;
        }
        // A later start without the hub finds the commit by its branch.
        self.cache.create_ref(&info.sha).map_err(|source| disk(cache, source))?;
        Ok(place(&folder, &files))
    }

    /// Fetches the content of one file, over as many connections as it takes, and verifies it;
    /// content that differs from the hub's is removed.
    fn fetch(
        &self,
        file: &Missing,
        meter: &mut DownloadMeter,
        report: &mut dyn FnMut(&DownloadProgress),
    ) -> Result<PathBuf, HubError> {
        let total = file.about.size;
        let blob = self.cache.blob_path(file.about.hash.hex());
        let size = |path: &Path| fs::metadata(path).map_or(0, |metadata| metadata.len());
        if let Some(folder) = blob.parent() {
            fs::create_dir_all(folder).map_err(|source| disk(folder, source))?;
        }
        if blob.exists() && size(&blob) == total {
            report(&meter.begin(&file.name, total, Instant::now()));
            match check(file, &blob, meter, report) {
                // The part of an earlier download is damaged: it is fetched again.
                Err(error @ HubError::Changed { .. }) => {
                    tracing::warn!("{error}");
                    meter.lose(total);
                }
                checked => return checked.map(|()| blob),
            }
        }
        let part = blob.with_extension("part");
        report(&meter.begin(&file.name, size(&part), Instant::now()));
        let mut tries = 0;
        loop {
            let before = size(&part);
            match self.client.fetch(&file.url, &part, total, meter, report) {
                Ok(()) => {
                    check(file, &part, meter, report)?;
                    durable_rename(&part, &blob).map_err(|source| disk(&blob, source))?;
                    return Ok(blob);
                }
                Err(HttpFailure::Broken(reason)) => {
                    let done = size(&part);
                    let enough = before + least_bytes(self.hub.patience).max(1);
                    tries = if done >= enough { 0 } else { tries + 1 };
                    if tries >= TRIES {
                        return Err(HubError::Cut { file: file.name.clone(), done, total, reason });
                    }
                    tracing::info!(file = file.name, reason, "the connection broke, going on");
                    std::thread::sleep(self.hub.pause * 2u32.pow(tries));
                }
                Err(HttpFailure::Disk(source)) => return Err(disk(&part, source)),
                Err(failure) => return Err(self.explain(failure, &file.url)),
            }
        }
    }

    fn explain(&self, failure: HttpFailure, url: &str) -> HubError {
        let endpoint = &self.hub.endpoint;
        match failure {
            HttpFailure::Refused(refusal) => {
                refusal.explain(self.id, endpoint, self.client.has_token())
            }
            HttpFailure::Strange(reason) => HubError::Protocol { url: url.to_owned(), reason },
            HttpFailure::Broken(reason) => {
                HubError::Unreachable { endpoint: endpoint.clone(), reason }
            }
            HttpFailure::Disk(source) => disk(&self.hub.cache, source),
        }
    }
}

/// Refuses and removes the content at `path` unless it is the file's.
fn check(
    file: &Missing,
    path: &Path,
    meter: &DownloadMeter,
    report: &mut dyn FnMut(&DownloadProgress),
) -> Result<(), HubError> {
    let expected = &file.about.hash;
    report(&meter.checking(Instant::now()));
    let found = expected.of(path).map_err(|source| disk(path, source))?;
    if found == *expected {
        return Ok(());
    }
    fs::remove_file(path).map_err(|source| disk(path, source))?;
    Err(HubError::Changed {
        file: file.name.clone(),
        hash: expected.name(),
        expected: expected.hex().to_owned(),
        found: found.hex().to_owned(),
    })
}

fn disk(path: &Path, source: std::io::Error) -> HubError {
    HubError::Disk { path: path.to_owned(), source }
}

/// Makes the content `blob` appear as `file`: by a relative link, or a copy where there are none.
fn link(blob: &Path, file: &Path) -> std::io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    if fs::symlink_metadata(file).is_ok() {
        fs::remove_file(file)?;
    }
    #[cfg(unix)]
    {
        // snapshots/<commit>/<file> → ../../blobs/<etag>, one step more for each folder in a name.
        let (Some(root), Some(content)) = (blob.parent().and_then(Path::parent), blob.file_name())
        else {
            return Err(std::io::ErrorKind::InvalidInput.into());
        };
        let below = file.strip_prefix(root).map_err(std::io::Error::other)?;
        let mut target: PathBuf = below.components().skip(1).map(|_| "..").collect();
        target.push("blobs");
        target.push(content);
        std::os::unix::fs::symlink(target, file)
    }
    #[cfg(not(unix))]
    fs::copy(blob, file).map(|_| ())
}
