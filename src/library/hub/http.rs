//! The hub's few requests. hf-hub's own downloader has no time limits, does not check sizes and
//! drops the hub's reasons, so the transfer is done here; its cache layout is hf-hub's.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use ureq::config::RedirectAuthHeaders;
use ureq::http::{HeaderMap, Response, Uri};
use ureq::{Agent, Body};

use super::error::Refusal;
use super::progress::{Meter, Progress};

/// A client with the hub's manners.
pub(super) struct Client {
    /// Follows redirects; the token stays with the hub's own host.
    following: Agent,
    /// Shows redirects: the hub says a file's size and hash on the way to its store.
    staying: Agent,
    token: Option<String>,
}

/// Why a request gave nothing.
#[derive(Debug)]
pub(super) enum Failure {
    /// The hub answered and said no.
    Refused(Refusal),
    /// No answer, or a broken one: may work at the next try.
    Broken(String),
    /// The answer is not the hub's.
    Strange(String),
    /// The disk.
    Disk(std::io::Error),
}

/// What the hub says about a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct About {
    /// Name of its content.
    pub(super) etag: String,
    pub(super) size: u64,
}

impl Client {
    /// `patience` is how long the hub may keep silent before the connection counts as broken.
    pub(super) fn new(token: Option<String>, patience: Duration) -> Self {
        let agent = |redirects| {
            Agent::config_builder()
                .http_status_as_error(false)
                .max_redirects(redirects)
                .max_redirects_will_error(false)
                .redirect_auth_headers(RedirectAuthHeaders::SameHost)
                .timeout_connect(Some(patience))
                .timeout_recv_response(Some(patience))
                .timeout_per_read(Some(patience))
                .user_agent(concat!("dovetail/", env!("CARGO_PKG_VERSION")))
                .build()
                .into()
        };
        Self { following: agent(10), staying: agent(0), token }
    }

    /// Whether requests carry a token.
    pub(super) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    fn get(&self, agent: &Agent, url: &str, range: &str) -> Result<Response<Body>, Failure> {
        let mut request = agent.get(url);
        if !range.is_empty() {
            request = request.header("Range", range);
        }
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let response = request.call().map_err(|error| Failure::Broken(error.to_string()))?;
        let status = response.status().as_u16();
        if status < 400 || status == 416 {
            return Ok(response);
        }
        let said = |name: &str| header(response.headers(), name).unwrap_or_default();
        let mut message = said("x-error-message");
        if message.is_empty() {
            message = response.status().canonical_reason().unwrap_or("no reason given").to_owned();
        }
        Err(Failure::Refused(Refusal { status, code: said("x-error-code"), message }))
    }

    /// A JSON document.
    pub(super) fn json<T: DeserializeOwned>(&self, url: &str) -> Result<T, Failure> {
        let response = self.get(&self.following, url, "")?;
        let text = response.into_body().read_to_string();
        let text = text.map_err(|error| Failure::Broken(error.to_string()))?;
        serde_json::from_str(&text).map_err(|error| Failure::Strange(error.to_string()))
    }

    /// Name and size of a file.
    pub(super) fn about(&self, url: &str) -> Result<About, Failure> {
        const ONE_BYTE: &str = "bytes=0-0";
        let mut url = url.to_owned();
        let mut response = self.get(&self.staying, &url, ONE_BYTE)?;
        // A renamed repository is a redirect within the hub; one to the store has the answers.
        for _ in 0..5 {
            let Some(place) = header(response.headers(), "location") else { break };
            if !place.starts_with('/') {
                break;
            }
            url = within(&url, &place).ok_or_else(|| Failure::Strange(place.clone()))?;
            response = self.get(&self.staying, &url, ONE_BYTE)?;
        }
        let headers = response.headers();
        let etag = header(headers, "x-linked-etag").or_else(|| header(headers, "etag"));
        let etag = etag.unwrap_or_default();
        let etag = etag.trim_start_matches("W/").trim_matches('"');
        if etag.is_empty() || !etag.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            return Err(Failure::Strange(format!("the file's ETag is `{etag}`")));
        }
        let size = match header(headers, "x-linked-size") {
            Some(size) => Some(size),
            None if response.status().is_redirection() => {
                let response = self.get(&self.following, &url, ONE_BYTE)?;
                whole_size(response.headers())
            }
            None => whole_size(headers),
        };
        let size = size.and_then(|size| size.parse().ok());
        let size =
            size.ok_or_else(|| Failure::Strange("the file's size is not told".to_owned()))?;
        Ok(About { etag: etag.to_owned(), size })
    }

    /// Fetches the rest of a file behind what `part` holds of it.
    ///
    /// Bytes are written at their own offsets and never appended, so that two programs fetching
    /// the same file write the same.
    pub(super) fn fetch(
        &self,
        url: &str,
        part: &Path,
        size: u64,
        meter: &mut Meter,
        report: &mut dyn FnMut(&Progress),
    ) -> Result<(), Failure> {
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(part)
            .map_err(Failure::Disk)?;
        let mut at = file.metadata().map_err(Failure::Disk)?.len();
        if at > size {
            restart(&mut file, &mut at, meter)?;
        }
        if at == size {
            return Ok(());
        }
        let response = self.get(&self.following, url, &format!("bytes={at}-"))?;
        if response.status() != 206 && at > 0 {
            // The whole file comes: what was there is written again.
            restart(&mut file, &mut at, meter)?;
        }
        file.seek(SeekFrom::Start(at)).map_err(Failure::Disk)?;
        let mut body = response.into_body().into_reader();
        let mut buffer = vec![0; 64 * 1024];
        while at < size {
            let read = match body.read(&mut buffer) {
                Ok(0) => return Err(Failure::Broken("the file ended early".to_owned())),
                Ok(read) => read,
                Err(error) => return Err(Failure::Broken(error.to_string())),
            };
            if at + read as u64 > size {
                let problem = format!("more than the {size} bytes of the file came");
                return Err(Failure::Strange(problem));
            }
            file.write_all(&buffer[..read]).map_err(Failure::Disk)?;
            at += read as u64;
            if let Some(progress) = meter.add(read as u64, Instant::now()) {
                report(&progress);
            }
        }
        file.sync_all().map_err(Failure::Disk)
    }
}

fn restart(file: &mut File, at: &mut u64, meter: &mut Meter) -> Result<(), Failure> {
    file.set_len(0).map_err(Failure::Disk)?;
    meter.lose(std::mem::take(at));
    Ok(())
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

/// `bytes 0-0/1234` → `1234`.
fn whole_size(headers: &HeaderMap) -> Option<String> {
    header(headers, "content-range")?.rsplit_once('/').map(|(_, size)| size.to_owned())
}

/// The address of `path` on the host of `url`.
fn within(url: &str, path: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    Some(format!("{}://{}{path}", uri.scheme()?, uri.authority()?))
}
