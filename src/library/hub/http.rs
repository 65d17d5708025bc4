//! The few requests to the hub. The address of the list, its form and the layout of the cache are
//! hf-hub's, but not the transfer: hf-hub 0.5 sends the token to the host that a file's redirect
//! names, uses an `ETag` and a commit as file names unchecked, has no time limits, checks no hash
//! and drops the hub's reasons, and its builder takes no client of ours. Its version 1.0 adds 88
//! crates (an asynchronous client and another transfer protocol) and over HTTP neither checks a
//! hash nor continues a file that broke off.

use std::fmt::Display;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Instant, SystemTime};

use serde::de::DeserializeOwned;
use ureq::http::{HeaderMap, Response, Uri};
use ureq::{Agent, Body};

use super::check::Hash;
use super::error::{FileServer, RequestFailure};
use super::patience::{BUSY, Patience, Steady, Waits, retry_after};
use super::progress::DownloadMeter;
use crate::files::{Access, Open, open_regular};

type Result<T, E = RequestFailure> = std::result::Result<T, E>;

/// How many redirects are followed.
const MOST_REDIRECTS: usize = 10;

/// The most bytes of a list of files that are read.
const MOST_JSON: u64 = 32 << 20;

/// Which redirects are followed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Redirects {
    All,
    /// Only those of a renamed repository. The hub states a file's size and hash in the redirect to
    /// its store.
    OfRepository,
}

/// An HTTP client for the hub or another server of files.
pub(super) struct Client {
    /// Follows no redirect: it would send the token to every port of the hub's host, and without
    /// encryption.
    agent: Agent,
    pub(super) patience: Patience,
    pub(super) server: FileServer,
}

impl Client {
    pub(super) fn new(server: FileServer, patience: Patience) -> Self {
        let silence = Some(patience.silence);
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(silence)
            .timeout_recv_response(silence)
            .timeout_per_read(silence)
            .user_agent(concat!("dovetail/", env!("CARGO_PKG_VERSION")))
            .build()
            .into();
        Self { agent, patience, server }
    }

    /// The answer to a request, which is repeated while the hub says that it is busy.
    fn get(&self, url: &str, range: &str, redirects: Redirects) -> Result<Response<Body>> {
        let mut waits = Waits::new(self.patience.pause, self.patience.busy);
        loop {
            let response = self.ask(url, range, redirects)?;
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

    /// The answer to one request, after its redirects. The token goes to the hub's origin alone.
    fn ask(&self, url: &str, range: &str, redirects: Redirects) -> Result<Response<Body>> {
        let mut uri: Uri = url.parse().map_err(|error| self.strange(url, error))?;
        let own = origin(&uri);
        let mut history = vec![uri.clone()];
        loop {
            let mut request = self.agent.get(&uri);
            if !range.is_empty() {
                request = request.header("Range", range);
            }
            if let FileServer::Hub { token: Some(token), .. } = &self.server
                && origin(&uri) == own
            {
                request = request.header("Authorization", format!("Bearer {token}"));
            }
            let response = request.call().map_err(broken)?;
            let is_redirect = response.status().is_redirection();
            let Some(place) = header(response.headers(), "location").filter(|_| is_redirect) else {
                return Ok(response);
            };
            if redirects == Redirects::OfRepository && !is_path(&place) {
                return Ok(response);
            }
            uri = resolved(&uri, &place).ok_or_else(|| self.strange(url, place))?;
            history.push(uri.clone());
            if history.len() > MOST_REDIRECTS {
                return Err(self.strange(url, astray(&history)));
            }
        }
    }

    /// An answer that does not come from the server.
    fn strange(&self, url: &str, reason: impl Display) -> RequestFailure {
        self.server.strange(url, reason).into()
    }

    /// A JSON document.
    pub(super) fn json<T: DeserializeOwned>(&self, url: &str) -> Result<T> {
        let response = self.get(url, "", Redirects::All)?;
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
    pub(super) fn about(&self, url: &str) -> Result<(Hash, u64)> {
        const ONE_BYTE: &str = "bytes=0-0";
        let strange = |reason: String| self.strange(url, reason);
        let etag = |response: &Response<Body>| {
            let named = |name| header(response.headers(), name);
            named("x-linked-etag").or_else(|| named("etag")).unwrap_or_default()
        };
        let mut response = self.get(url, ONE_BYTE, Redirects::OfRepository)?;
        // The hub names the hash in its redirect; a mirror elsewhere does in its answer.
        let says = header(response.headers(), "x-linked-etag").is_some();
        let known = says || Hash::from_etag(&etag(&response)).is_some();
        if response.status().is_redirection() && !known {
            response = self.get(url, ONE_BYTE, Redirects::All)?;
        }
        let headers = response.headers();
        let etag = etag(&response);
        let hash = Hash::from_etag(&etag).ok_or_else(|| {
            let reason = "not a SHA-256 or git hash, so the content cannot be checked";
            strange(format!("the file's ETag is `{etag}`, {reason}"))
        })?;
        let size = match header(headers, "x-linked-size") {
            Some(size) => Some(size),
            None if response.status().is_redirection() => {
                whole_size(self.get(url, ONE_BYTE, Redirects::All)?.headers())
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
    ) -> Result<()> {
        let disk = |source| self.server.disk(part, &source);
        let opened = open_regular(part, Open::Create(Access::Usual));
        let mut file = opened.map_err(disk)?;
        let mut at = file.metadata().map_err(disk)?.len();
        if at > size {
            restart(&mut file, &mut at, meter).map_err(disk)?;
        }
        if at == size {
            return Ok(());
        }
        let response = self.get(url, &format!("bytes={at}-"), Redirects::All)?;
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

/// Whether a redirect stays at its origin.
fn is_path(place: &str) -> bool {
    place.starts_with('/') && !place.starts_with("//")
}

/// The address that a redirect from `uri` names.
fn resolved(uri: &Uri, place: &str) -> Option<Uri> {
    let place = match place {
        path if is_path(path) => format!("{}://{}{path}", uri.scheme()?, uri.authority()?),
        host if host.starts_with("//") => format!("{}:{host}", uri.scheme()?),
        whole => whole.to_owned(),
    };
    place.parse().ok().filter(|uri: &Uri| uri.scheme().is_some())
}

/// To whom a token belongs: another port of the host may be somebody else's, and without encryption
/// everybody reads it.
fn origin(uri: &Uri) -> Option<String> {
    let scheme = uri.scheme_str()?;
    let port = uri.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 });
    Some(format!("{scheme}://{}:{port}", uri.host()?.to_lowercase()))
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
    fn an_origin_is_scheme_host_and_port() {
        let own = uris(&["https://h/a", "https://H:443/b", "HTTPS://h"]);
        assert!(own.iter().all(|uri| origin(uri) == origin(&own[0])));
        for other in uris(&["http://h/a", "https://h:8443/a", "http://h:443", "https://i/a"]) {
            assert_ne!(origin(&other), origin(&own[0]), "{other}");
        }
    }

    #[test]
    fn redirects_are_resolved_as_browsers_do() {
        let from: Uri = "https://h:81/a/b?c".parse().unwrap();
        for (place, expected) in [
            ("/d?e", Some("https://h:81/d?e")),
            ("//i/d", Some("https://i/d")),
            ("http://i:82/d", Some("http://i:82/d")),
            ("d", None),
        ] {
            let found = resolved(&from, place).map(|uri| uri.to_string());
            assert_eq!(found.as_deref(), expected, "{place}");
        }
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
