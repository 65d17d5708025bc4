//! The few requests to the hub. The address of the list, its form and the layout of the cache are
//! hf-hub's, but not the transfer: hf-hub 0.5 sends the token to the host that a file's redirect
//! names, uses an `ETag` and a commit as file names unchecked, has no time limits, checks no hash
//! and drops the hub's reasons, and its builder takes no client of ours. Its version 1.0 adds 88
//! crates (an asynchronous client and another transfer protocol) and over HTTP neither checks a
//! hash nor continues a file that broke off.

use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Instant, SystemTime};

use serde::de::DeserializeOwned;
use ureq::config::RedirectAuthHeaders;
use ureq::http::{HeaderMap, Response, Uri};
use ureq::{Agent, Body, ResponseExt};

use super::check::Hash;
use super::error::{FileServer, RequestFailure};
use super::patience::{BUSY, Patience, Steady, Waits, retry_after};
use super::progress::DownloadMeter;

/// How many redirects are followed.
const MOST_REDIRECTS: u32 = 10;

/// The most bytes of a list of files that are read.
const MOST_JSON: u64 = 32 << 20;

/// An HTTP client for the hub or another server of files.
pub(super) struct Client {
    /// Follows redirects; the token stays with the hub's own host.
    following: Agent,
    /// Does not follow redirects: the hub states a file's size and hash in the redirect to its
    /// store.
    staying: Agent,
    pub(super) patience: Patience,
    pub(super) server: FileServer,
}

impl Client {
    pub(super) fn new(server: FileServer, patience: Patience) -> Self {
        let silence = Some(patience.silence);
        let agent = |redirects| {
            Agent::config_builder()
                .http_status_as_error(false)
                .max_redirects(redirects)
                .max_redirects_will_error(false)
                .save_redirect_history(true)
                .redirect_auth_headers(RedirectAuthHeaders::SameHost)
                .timeout_connect(silence)
                .timeout_recv_response(silence)
                .timeout_per_read(silence)
                .user_agent(concat!("dovetail/", env!("CARGO_PKG_VERSION")))
                .build()
                .into()
        };
        Self { following: agent(MOST_REDIRECTS), staying: agent(0), patience, server }
    }

    /// The answer to a request, which is repeated while the hub says that it is busy.
    fn get(&self, agent: &Agent, url: &str, range: &str) -> Result<Response<Body>, RequestFailure> {
        let mut waits = Waits::new(self.patience.pause, self.patience.busy);
        loop {
            let response = self.ask(agent, url, range)?;
            let status = response.status().as_u16();
            if status < 400 || status == 416 {
                return Ok(response);
            }
            let said = |name: &str| header(response.headers(), name).unwrap_or_default();
            let mut message = said("x-error-message");
            if message.is_empty() {
                message =
                    response.status().canonical_reason().unwrap_or("no reason given").to_owned();
            }
            if BUSY.contains(&status) {
                match waits.next(retry_after(&said("retry-after"), SystemTime::now())) {
                    Ok(wait) => {
                        tracing::info!(url, status, ?wait, "the hub is busy, trying again");
                        std::thread::sleep(wait);
                        continue;
                    }
                    Err(why) => message = format!("{message}; {why}"),
                }
            }
            return Err(self.server.refused(url, status, &said("x-error-code"), &message).into());
        }
    }

    fn ask(&self, agent: &Agent, url: &str, range: &str) -> Result<Response<Body>, RequestFailure> {
        let mut request = agent.get(url);
        if !range.is_empty() {
            request = request.header("Range", range);
        }
        if let FileServer::Hub { token: Some(token), .. } = &self.server {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let response = request.call().map_err(broken)?;
        if agent.config().max_redirects() > 0 && response.status().is_redirection() {
            let history = response.get_redirect_history().unwrap_or_default();
            return Err(self.strange(url, astray(history)));
        }
        Ok(response)
    }

    /// An answer that does not come from the server.
    fn strange(&self, url: &str, reason: impl Display) -> RequestFailure {
        self.server.strange(url, reason).into()
    }

    /// A JSON document.
    pub(super) fn json<T: DeserializeOwned>(&self, url: &str) -> Result<T, RequestFailure> {
        let response = self.get(&self.following, url, "")?;
        let mut body = Steady::new(response.into_body().into_reader(), self.patience.silence);
        let mut text = Vec::new();
        (&mut body).take(MOST_JSON + 1).read_to_end(&mut text).map_err(broken)?;
        if text.len() as u64 > MOST_JSON {
            let reason = format!("it is longer than {} MiB", MOST_JSON >> 20);
            return Err(self.strange(url, reason));
        }
        serde_json::from_slice(&text).map_err(|error| self.strange(url, error))
    }

    /// The expected hash of a file's content, and its size.
    pub(super) fn about(&self, asked: &str) -> Result<(Hash, u64), RequestFailure> {
        const ONE_BYTE: &str = "bytes=0-0";
        let strange = |reason: String| self.strange(asked, reason);
        let mut url = asked.to_owned();
        let mut response = self.get(&self.staying, &url, ONE_BYTE)?;
        // A renamed repository causes a redirect within the hub; a redirect to the store has the
        // answers.
        let mut history: Vec<Uri> = url.parse().into_iter().collect();
        while let Some(place) = header(response.headers(), "location") {
            if !place.starts_with('/') || place.starts_with("//") {
                break;
            }
            let next: Uri = within(&url, &place).ok_or_else(|| strange(place))?;
            history.push(next.clone());
            if history.len() > MOST_REDIRECTS as usize {
                return Err(strange(astray(&history)));
            }
            url = next.to_string();
            response = self.get(&self.staying, &url, ONE_BYTE)?;
        }
        let headers = response.headers();
        let etag = header(headers, "x-linked-etag").or_else(|| header(headers, "etag"));
        let etag = etag.unwrap_or_default();
        let hash = Hash::from_etag(&etag).ok_or_else(|| {
            let reason = "not a SHA-256 or git hash, so the content cannot be checked";
            strange(format!("the file's ETag is `{etag}`, {reason}"))
        })?;
        let size = match header(headers, "x-linked-size") {
            Some(size) => Some(size),
            None if response.status().is_redirection() => {
                whole_size(self.get(&self.following, &url, ONE_BYTE)?.headers())
            }
            None => whole_size(headers),
        };
        let size = size.and_then(|size| size.parse().ok());
        let size = size.ok_or_else(|| strange("the size of the file is missing".to_owned()))?;
        Ok((hash, size))
    }

    /// Downloads the rest of a file after what `part` already holds of it.
    ///
    /// Bytes are written at their own offsets and never appended, so that two programs that
    /// download the same file write the same.
    pub(super) fn fetch(
        &self,
        url: &str,
        part: &Path,
        size: u64,
        meter: &mut DownloadMeter<'_>,
    ) -> Result<(), RequestFailure> {
        let disk = |source| self.server.disk(part, &source);
        let opened = OpenOptions::new().write(true).create(true).truncate(false).open(part);
        let mut file = opened.map_err(disk)?;
        let mut at = file.metadata().map_err(disk)?.len();
        if at > size {
            restart(&mut file, &mut at, meter).map_err(disk)?;
        }
        if at == size {
            return Ok(());
        }
        let response = self.get(&self.following, url, &format!("bytes={at}-"))?;
        if response.status() == 416 {
            return Err(broken(format!("the server has no bytes after {at} (416)")));
        }
        if response.status() == 206 {
            check_range(response.headers(), at, size).map_err(|why| self.strange(url, why))?;
        } else if at > 0 {
            // The whole file comes, so what was there is written again.
            restart(&mut file, &mut at, meter).map_err(disk)?;
        }
        let too_long = || {
            let reason = format!("the server sent more than the {size} bytes of the file");
            self.strange(url, reason)
        };
        if response.body().content_length().is_some_and(|length| length > size - at) {
            return Err(too_long());
        }
        file.seek(SeekFrom::Start(at)).map_err(disk)?;
        let mut body = Steady::new(response.into_body().into_reader(), self.patience.silence);
        let mut buffer = vec![0; 64 * 1024];
        while at < size {
            let read = body.read(&mut buffer).map_err(broken)?;
            if read == 0 {
                return Err(broken("the file ended early"));
            }
            if at + read as u64 > size {
                return Err(too_long());
            }
            file.write_all(&buffer[..read]).map_err(disk)?;
            at += read as u64;
            meter.add(read as u64, Instant::now());
        }
        Ok(file.sync_all().map_err(disk)?)
    }
}

fn broken(reason: impl ToString) -> RequestFailure {
    RequestFailure::Broken(reason.to_string())
}

fn restart(file: &mut File, at: &mut u64, meter: &mut DownloadMeter<'_>) -> std::io::Result<()> {
    file.set_len(0)?;
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

/// Checks that a part of a file is the requested part.
fn check_range(headers: &HeaderMap, at: u64, size: u64) -> Result<(), String> {
    let Some(range) = header(headers, "content-range") else { return Ok(()) };
    let from = range.strip_prefix("bytes ").and_then(|range| range.split('-').next());
    let total = range.rsplit_once('/').map(|(_, total)| total);
    if from.is_some_and(|from| from.parse() != Ok(at))
        || total.is_some_and(|total| total != "*" && total.parse() != Ok(size))
    {
        return Err(format!(
            "the request was for bytes from {at} of {size}, but the server sent `{range}`"
        ));
    }
    Ok(())
}

/// The address of `path` on the host of `url`.
fn within(url: &str, path: &str) -> Option<Uri> {
    let uri: Uri = url.parse().ok()?;
    format!("{}://{}{path}", uri.scheme()?, uri.authority()?).parse().ok()
}

/// What is wrong with redirects that lead nowhere, with their addresses. Queries are left out,
/// because they are long and a store's contain signatures.
fn astray(history: &[Uri]) -> String {
    let address = |uri: &Uri| {
        let scheme = uri.scheme_str().unwrap_or_default();
        let host = uri.host().unwrap_or_default();
        let port = uri.port().map(|port| format!(":{port}")).unwrap_or_default();
        format!("{scheme}://{host}{port}{}", uri.path())
    };
    let again = (1..history.len()).find_map(|end| {
        let start = history[..end].iter().position(|uri| uri == &history[end])?;
        Some((start, end))
    });
    let last = history.len().saturating_sub(1);
    let (what, (start, end)) = match again {
        Some(circle) => ("it redirects in a circle".to_owned(), circle),
        None => (format!("more than {last} redirects"), (0, last)),
    };
    let way: Vec<String> = history.iter().take(end + 1).skip(start).map(address).collect();
    format!("{what}: {}", way.join(" → "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uris(addresses: &[&str]) -> Vec<Uri> {
        addresses.iter().map(|address| address.parse().unwrap()).collect()
    }

    #[test]
    fn a_circle_of_redirects_is_named_without_what_led_to_it() {
        let history =
            uris(&["http://h/a", "http://h:81/b?key=1", "http://s/c", "http://h:81/b?key=1"]);
        let expected = "it redirects in a circle: http://h:81/b → http://s/c → http://h:81/b";
        assert_eq!(astray(&history), expected);
        let history = uris(&["http://h/a", "http://h/b"]);
        assert_eq!(astray(&history), "more than 1 redirects: http://h/a → http://h/b");
    }

    #[test]
    fn only_the_part_that_was_asked_for_is_taken() {
        let checked = |range: &str| {
            let headers = [("content-range".parse().unwrap(), range.parse().unwrap())];
            check_range(&headers.into_iter().collect(), 10, 30).is_ok()
        };
        assert!(checked("bytes 10-29/30") && checked("bytes 10-29/*"));
        assert!(!checked("bytes 0-29/30") && !checked("bytes 10-39/40"));
        assert!(check_range(&HeaderMap::new(), 10, 30).is_ok());
    }
}
