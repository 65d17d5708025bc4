//! Downloads one repository's files into the cache. It must not depend on what the files hold.

use std::fs;
use std::path::{Path, PathBuf};

use hf_hub::CacheRepo;
use hf_hub::api::RepoInfo;

use super::files::{Wanted, choose, is_tame};
use super::http::{Client, HttpFailure};
use super::progress::{DownloadMeter, DownloadProgress};
use super::transfer::{Missing, TransferFailure, transfer};
use super::{Hub, HubError, HubId, place};

/// A download in progress.
pub(super) struct Download<'a> {
    pub(super) hub: &'a Hub,
    pub(super) id: &'a HubId,
    pub(super) client: &'a Client,
    pub(super) cache: CacheRepo,
}

impl Download<'_> {
    /// Downloads the wanted files that are missing; returns the folder, or the (first) GGUF file.
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
            // `exists` follows the link, so a link without its content is downloaded again.
            if !folder.join(name).exists() {
                // By the commit, because the branch may move during the download.
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

    /// Downloads the content of one file.
    fn fetch(
        &self,
        file: &Missing,
        meter: &mut DownloadMeter,
        report: &mut dyn FnMut(&DownloadProgress),
    ) -> Result<PathBuf, HubError> {
        let hash = &file.about.hash;
        let blob = self.cache.blob_path(hash.hex());
        let moved = transfer(self.client, self.hub, file, &blob, meter, report);
        moved.map(|()| blob).map_err(|failure| match failure {
            TransferFailure::Refused(refusal) => {
                self.explain(HttpFailure::Refused(refusal), &file.url)
            }
            TransferFailure::Strange(reason) => {
                self.explain(HttpFailure::Strange(reason), &file.url)
            }
            TransferFailure::Cut { done, reason } => {
                HubError::Cut { file: file.name.clone(), done, total: file.about.size, reason }
            }
            TransferFailure::Changed { found } => HubError::Changed {
                file: file.name.clone(),
                hash: hash.name(),
                expected: hash.hex().to_owned(),
                found,
            },
            TransferFailure::Disk { path, source } => HubError::Disk { path, source },
        })
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

fn disk(path: &Path, source: std::io::Error) -> HubError {
    HubError::Disk { path: path.to_owned(), source }
}

/// Makes the content `blob` appear as `file`: through a relative link, or a copy if links are not
/// possible.
fn link(blob: &Path, file: &Path) -> std::io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    if fs::symlink_metadata(file).is_ok() {
        fs::remove_file(file)?;
    }
    #[cfg(unix)]
    {
        // snapshots/<commit>/<file> → ../../blobs/<etag>, with one more step for each folder in a
        // name.
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
