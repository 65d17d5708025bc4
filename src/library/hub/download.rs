//! Downloads one repository's files into the cache. It must not depend on what the files hold.

use std::fs;
use std::path::{Path, PathBuf};

use hf_hub::Repo;
use hf_hub::api::RepoInfo;

use super::error::{FileServer, RequestFailure};
use super::files::{WantedFiles, choose, is_tame};
use super::http::Client;
use super::progress::{DownloadMeter, DownloadProgress};
use super::transfer::{Missing, transfer};
use super::{Hub, HubError, HubId, place};

/// A download in progress.
pub(super) struct Download<'a> {
    pub(super) hub: &'a Hub,
    pub(super) id: &'a HubId,
    pub(super) repo: Repo,
}

impl Download<'_> {
    /// Downloads the wanted files that are missing; returns the folder, or the (first) GGUF file.
    pub(super) fn run(
        &self,
        wanted: WantedFiles<'_>,
        report: &mut dyn FnMut(&DownloadProgress),
    ) -> Result<PathBuf, HubError> {
        let Hub { endpoint, token, patience, .. } = self.hub;
        let client = Client::new(FileServer::Hub, token.clone(), *patience);
        let cache = self.hub.cache_of(&self.repo);
        let url = format!("{endpoint}/api/{}", self.repo.api_url());
        let info: RepoInfo = client.json(&url).map_err(|failure| self.explain(failure, &url))?;
        if !is_tame(&info.sha) || info.sha.contains('/') {
            let reason = format!("the commit is `{}`", info.sha.escape_debug());
            return Err(self.explain(RequestFailure::Strange(reason), &url));
        }
        let names = info.siblings.into_iter().map(|sibling| sibling.rfilename);
        let present: Vec<String> = names.filter(|name| is_tame(name)).collect();
        let files = choose(&present, wanted)
            .map_err(|reason| HubError::Files { repo: self.id.clone(), reason })?;
        let folder = cache.pointer_path(&info.sha);
        let disk = |source| HubError::disk(FileServer::Hub, &folder, source);
        let mut missing = Vec::new();
        for name in &files {
            // `exists` follows the link, so a link without its content is downloaded again.
            if !folder.join(name).exists() {
                // By the commit, because the branch may move during the download.
                let url = format!("{endpoint}/{}/resolve/{}/{name}", self.id.repo, info.sha);
                let about = client.about(&url).map_err(|failure| self.explain(failure, &url))?;
                missing.push(Missing { name: name.clone(), url, about });
            }
        }
        let mut meter = DownloadMeter::new(missing.iter().map(|file| file.about.size).sum());
        for file in &missing {
            let blob = cache.blob_path(file.about.hash.hex());
            transfer(&client, file, &blob, &mut meter, report)
                .map_err(|failure| self.explain(failure, &file.url))?;
            link(&blob, &folder.join(&file.name)).map_err(disk)?;
        }
        // A later start without the hub finds the commit by its branch.
        cache.create_ref(&info.sha).map_err(disk)?;
        Ok(place(&folder, &files))
    }

    fn explain(&self, failure: RequestFailure, url: &str) -> HubError {
        let endpoint = &self.hub.endpoint;
        match failure {
            RequestFailure::Refused(refusal) => {
                refusal.explain(self.id, endpoint, self.hub.token.is_some())
            }
            RequestFailure::Strange(reason) => {
                HubError::Protocol { url: url.to_owned(), reason, server: FileServer::Hub }
            }
            RequestFailure::Broken(reason) => {
                HubError::Unreachable { endpoint: endpoint.clone(), reason }
            }
            RequestFailure::Final(error) => error,
        }
    }
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
