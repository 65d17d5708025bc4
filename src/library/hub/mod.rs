//! Models from the Hugging Face hub, in the cache shared with its own programs. It must not depend
//! on model formats.

mod check;
mod error;
mod files;
mod gguf_models;
mod http;
mod patience;
mod pinned;
mod progress;
mod snapshot;
mod transfer;

use std::fmt;
use std::path::{Path, PathBuf};

use hf_hub::api::RepoInfo;
use hf_hub::{Cache, CacheRepo, Repo, RepoType};
use serde::Deserialize;

use crate::files::{home_dir, read_text};
pub use error::HubError;
use error::{FileServer, RequestFailure};
use files::{WantedFiles, choose, index_of, is_tame, shards_in};
use http::Client;
pub use patience::Patience;
pub use pinned::{PinnedFile, PinnedFiles};
use progress::DownloadMeter;
pub use progress::{DownloadProgress, Downloading};
pub(super) use snapshot::{is_content, is_snapshot};
use snapshot::{link, names_below};
use transfer::Missing;

/// The most bytes of a file that names the commit of a branch.
pub(super) const LONGEST_COMMIT: u64 = 1000;

/// The most bytes of a list of shards.
const LONGEST_INDEX: u64 = 64 << 20;
/// The most bytes of a file with a token.
const LONGEST_TOKEN: u64 = 10_000;

/// A repository, or one model of it: `owner/name[@revision][:file or quantisation]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct HubId {
    /// `owner/name`.
    pub repo: String,
    /// Branch, tag or commit; the main branch if absent.
    pub revision: Option<String>,
    /// A file, or the quantisation of a GGUF model: `model-Q4_K_M.gguf` or `Q4_K_M`.
    pub file: Option<String>,
}

impl HubId {
    /// Reads an id; `None` if the text does not have that form.
    pub fn parse(text: &str) -> Option<Self> {
        let (rest, file) = match text.split_once(':') {
            Some((rest, file)) => (rest, Some(file)),
            None => (text, None),
        };
        let (repo, revision) = match rest.split_once('@') {
            Some((repo, revision)) => (repo, Some(revision)),
            None => (rest, None),
        };
        let (owner, name) = repo.split_once('/')?;
        let plain = |part: &str| {
            part.starts_with(|c: char| c.is_ascii_alphanumeric())
                && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        };
        let tame = |part: Option<&str>| part.is_none_or(is_tame);
        (plain(owner) && plain(name) && tame(revision) && tame(file)).then(|| Self {
            repo: repo.to_owned(),
            revision: revision.map(str::to_owned),
            file: file.map(str::to_owned),
        })
    }
}

impl TryFrom<String> for HubId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("`{text}` is not the name of a repository"))
    }
}

impl fmt::Display for HubId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.repo)?;
        if let Some(revision) = &self.revision {
            write!(f, "@{revision}")?;
        }
        match &self.file {
            Some(file) => write!(f, ":{file}"),
            None => Ok(()),
        }
    }
}

/// Where the hub is and how it may be used.
#[derive(Clone, Debug)]
pub struct Hub {
    /// Address, without a slash at the end.
    pub endpoint: String,
    /// Folder of the cache.
    pub cache: PathBuf,
    /// Sent with every request to the hub itself.
    pub token: Option<String>,
    /// Use the cache only.
    pub offline: bool,
    /// How long the hub may take.
    pub patience: Patience,
}

impl Hub {
    /// From the environment, as the hub's own programs read it: `HF_ENDPOINT`, `HF_HUB_CACHE`,
    /// `HF_HOME`, `HF_TOKEN` (otherwise the file that `hf auth login` writes, or the one that
    /// `HF_TOKEN_PATH` names), `HF_HUB_OFFLINE`.
    ///
    /// # Errors
    /// If there is no place for the cache.
    pub fn from_env() -> Result<Self, HubError> {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        let home = match set("HF_HOME") {
            Some(home) => PathBuf::from(home),
            None => home_dir().ok_or_else(no_cache)?.join(".cache/huggingface"),
        };
        let cache = set("HF_HUB_CACHE").map_or_else(|| home.join("hub"), PathBuf::from);
        let token_file = set("HF_TOKEN_PATH").map(PathBuf::from).unwrap_or(home.join("token"));
        let token = set("HF_TOKEN").or_else(|| read_text(&token_file, LONGEST_TOKEN).ok());
        let endpoint = set("HF_ENDPOINT").unwrap_or_else(|| "https://huggingface.co".to_owned());
        let yes = |value: String| {
            ["1", "on", "yes", "true"].contains(&value.trim().to_lowercase().as_str())
        };
        Ok(Self {
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            cache,
            token: token.map(|it| it.trim().to_owned()).filter(|token| !token.is_empty()),
            offline: set("HF_HUB_OFFLINE").is_some_and(yes),
            patience: Patience::default(),
        })
    }

    /// Whether the cache has a target or a draft head of this repository.
    pub fn has(&self, id: &HubId) -> bool {
        let wanted = [WantedFiles::of(id), WantedFiles::Head(id.file.as_deref())];
        wanted.into_iter().any(|wanted| self.cached(id, wanted).is_some())
    }

    /// Downloads a target; returns its folder, or its GGUF file (the first of its shards).
    ///
    /// # Errors
    /// [`HubError`] with what to do.
    pub fn target(&self, id: &HubId, report: Downloading<'_>) -> Result<PathBuf, HubError> {
        self.fetch(id, WantedFiles::of(id), report)
    }

    /// Downloads a draft head; returns its folder.
    ///
    /// # Errors
    /// [`HubError`] with what to do.
    pub fn head(&self, id: &HubId, report: Downloading<'_>) -> Result<PathBuf, HubError> {
        self.fetch(id, WantedFiles::Head(id.file.as_deref()), report)
    }

    /// Downloads the file of a data set that `id` names; returns its path.
    ///
    /// # Errors
    /// [`HubError`] with what to do.
    pub fn data_file(&self, id: &HubId, report: Downloading<'_>) -> Result<PathBuf, HubError> {
        let file = id.file.as_deref().unwrap_or_default();
        Ok(self.fetch(id, WantedFiles::Data(file), report)?.join(file))
    }

    fn fetch(
        &self,
        id: &HubId,
        wanted: WantedFiles<'_>,
        report: Downloading<'_>,
    ) -> Result<PathBuf, HubError> {
        let cached = || self.cached(id, wanted);
        if self.offline {
            let offline = || {
                HubError::Other(format!(
                    "{id}: it is not in the cache ({}), and HF_HUB_OFFLINE forbids downloads; \
                     unset HF_HUB_OFFLINE to download it",
                    self.cache.display()
                ))
            };
            return cached().ok_or_else(offline);
        }
        match self.download(id, wanted, report) {
            // A model that is already here can be used without the hub.
            Err(error @ HubError::NoAnswer(_)) => cached().ok_or(error),
            result => result,
        }
    }

    /// Downloads the wanted files that are missing; returns the folder, or the (first) GGUF file.
    fn download(
        &self,
        id: &HubId,
        wanted: WantedFiles<'_>,
        report: Downloading<'_>,
    ) -> Result<PathBuf, HubError> {
        let repo = repo(id, wanted);
        let endpoint = self.endpoint.clone();
        let server = FileServer::Hub { repo: id.clone(), endpoint, token: self.token.clone() };
        let client = Client::new(server, self.patience);
        let cache = self.cache_of(&repo);
        let url = format!("{}/api/{}", self.endpoint, repo.api_url());
        let explain = |failure, url: &str| match failure {
            RequestFailure::Broken(reason) => client.server.unreachable(url, &reason),
            RequestFailure::Final(error) => error,
        };
        let info: RepoInfo = client.json(&url).map_err(|failure| explain(failure, &url))?;
        if !is_tame(&info.sha) || info.sha.contains('/') {
            let reason = format!("the commit is `{}`", info.sha.escape_debug());
            return Err(client.server.strange(&url, reason));
        }
        let names = info.siblings.into_iter().map(|sibling| sibling.rfilename);
        let present: Vec<String> = names.filter(|name| is_tame(name)).collect();
        let other = |reason| HubError::Other(format!("{id}: {reason}"));
        let mut files = choose(&present, wanted).map_err(other)?;
        let folder = cache.pointer_path(&info.sha);
        let disk = |source| client.server.disk(&folder, &source);
        let bring = |files: &[String], report: Downloading<'_>| -> Result<(), HubError> {
            let mut missing = Vec::new();
            for name in files {
                // A link without its content is downloaded again.
                if !is_content(&folder.join(name), &folder) {
                    // By the commit, because the branch may move during the download.
                    let path = escaped(name);
                    let url =
                        format!("{}/{}/resolve/{}/{path}", self.endpoint, repo.url(), info.sha);
                    let about = client.about(&url).map_err(|failure| explain(failure, &url))?;
                    let (hash, size) = about;
                    missing.push(Missing { name: name.clone(), url, hash, size });
                }
            }
            let total = missing.iter().map(|file| file.size).sum();
            let mut meter = DownloadMeter::new(total, report);
            for file in &missing {
                let blob = cache.blob_path(file.hash.hex());
                file.transfer(&client, &blob, &mut meter)?;
                link(&blob, &folder.join(&file.name)).map_err(disk)?;
            }
            Ok(())
        };
        if let Some(index) = index_of(&files).cloned() {
            bring(std::slice::from_ref(&index), &mut |_| {})?;
            let listed = read_text(&folder.join(&index), LONGEST_INDEX).map_err(disk)?;
            let shards = shards_in(&index, listed.as_bytes()).map_err(other)?;
            if let Some(absent) = shards.iter().find(|shard| !present.contains(shard)) {
                return Err(other(format!("{index} lists {absent}, which is not there")));
            }
            files.extend(shards);
        }
        bring(&files, report)?;
        // A later start without the hub finds the commit by its branch.
        cache.create_ref(&info.sha).map_err(disk)?;
        Ok(place(&folder, &files))
    }

    /// What the cache has of a repository, if that is everything that is wanted.
    fn cached(&self, id: &HubId, wanted: WantedFiles<'_>) -> Option<PathBuf> {
        let repo = repo(id, wanted);
        let reference = self.cache.join(repo.folder_name()).join("refs").join(repo.revision());
        let commit =
            read_text(&reference, LONGEST_COMMIT).unwrap_or_else(|_| repo.revision().to_owned());
        let commit = Some(commit.trim()).filter(|commit| is_tame(commit))?;
        let folder = self.cache_of(&repo).pointer_path(commit);
        let present = names_below(&folder)?;
        let files = choose(&present, wanted).ok()?;
        if let Some(index) = index_of(&files) {
            let listed = read_text(&folder.join(index), LONGEST_INDEX).ok()?;
            let shards = shards_in(index, listed.as_bytes()).ok()?;
            if !shards.iter().all(|shard| present.contains(shard)) {
                return None;
            }
        }
        Some(place(&folder, &files))
    }

    fn cache_of(&self, repo: &Repo) -> CacheRepo {
        Cache::new(self.cache.clone()).repo(repo.clone())
    }
}

fn no_cache() -> HubError {
    let problem = "no home folder for downloaded models; set HF_HOME to a folder that you can \
                   write to";
    HubError::Other(problem.to_owned())
}

fn repo(id: &HubId, wanted: WantedFiles<'_>) -> Repo {
    let revision = id.revision.clone().unwrap_or_else(|| "main".to_owned());
    let kind = match wanted {
        WantedFiles::Data(_) => RepoType::Dataset,
        _ => RepoType::Model,
    };
    Repo::with_revision(id.repo.clone(), kind, revision)
}

/// The GGUF file, or the first if it comes in shards, otherwise the folder of the `config.json`.
fn place(folder: &Path, files: &[String]) -> PathBuf {
    match files {
        [first, ..] if first.ends_with(".gguf") => folder.join(first),
        [first, ..] => match first.strip_suffix("/config.json") {
            Some(inside) => folder.join(inside),
            None => folder.to_owned(),
        },
        [] => folder.to_owned(),
    }
}

/// A file's name as part of an address.
fn escaped(name: &str) -> String {
    let kept = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.~/".contains(byte);
    let parts = name.bytes().map(|byte| match kept(&byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_and_written() {
        let cases = [
            ("owner/name", ("owner/name", None, None)),
            ("owner/name@v1.0", ("owner/name", Some("v1.0"), None)),
            ("o/n@refs/pr/1:sub/m.gguf", ("o/n", Some("refs/pr/1"), Some("sub/m.gguf"))),
            ("o/n:m.Q4_K_M.gguf", ("o/n", None, Some("m.Q4_K_M.gguf"))),
        ];
        for (text, (repo, revision, file)) in cases {
            let id = HubId::parse(text).unwrap();
            assert_eq!(
                (id.repo.as_str(), id.revision.as_deref(), id.file.as_deref()),
                (repo, revision, file)
            );
            assert_eq!(id.to_string(), text);
        }
        for wrong in ["name", "a/b/c", "/b", "a/", "a b/c", "../b", "a/b:../../x", "a/b@", "a/b:"] {
            assert_eq!(HubId::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn names_are_escaped_in_addresses() {
        assert_eq!(escaped("sub/m-Q4_K.gguf"), "sub/m-Q4_K.gguf");
        assert_eq!(escaped("a b#c?d%é.gguf"), "a%20b%23c%3Fd%25%C3%A9.gguf");
    }
}
