//! The hub, played by the test's own server: its paths, redirects to a store on another host,
//! ranges, and every kind of misbehaviour.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::library::DEMO;
use dovetail::library::{DownloadProgress, Hub, HubError, HubId, Patience};
use sha1::{Digest, Sha1};
use sha2::Sha256;
use tempfile::TempDir;

pub const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// Contents up to this length are in the repository itself, longer ones in the store.
const LARGE: usize = 10_000;

/// How the server behaves.
#[derive(Default)]
pub struct Manners {
    /// Bodies from the store break off after this many bytes, one number per request.
    pub cuts: Vec<usize>,
    /// A break is a silence instead of an end.
    pub stalls: bool,
    /// The store ignores ranges.
    pub ignores_ranges: bool,
    /// Paths that begin with this are refused: status, X-Error-Code, whether a valid token helps.
    pub refusal: Option<(&'static str, u16, &'static str, bool)>,
    /// Names that the repository lists but does not have.
    pub extra: Vec<&'static str>,
    /// Answers everything with a web page.
    pub stranger: bool,
    /// Paths that contain the first are answered with these, as often as there are answers: status
    /// and `Retry-After`.
    pub busy: VecDeque<(&'static str, u16, String)>,
    /// Paths that contain the first are redirected to the second.
    pub circle: Vec<(&'static str, &'static str)>,
    /// The store is another server, on this port of the hub's own host.
    pub store_port: Option<u16>,
    /// Only the store names the hashes.
    pub mirrored: bool,
    /// How bodies are falsified.
    pub lie: Option<Lie>,
    /// The ETags are not hashes.
    pub nameless: bool,
}

/// How a body differs from the file.
#[derive(Clone, Copy, PartialEq)]
pub enum Lie {
    /// A hundred bytes are different.
    Changed,
    /// The last bytes are missing, and the length matches that.
    Short,
    /// More bytes come, and the length matches that.
    Long,
    /// It never ends.
    Endless,
    /// A single byte comes now and then.
    Trickle,
    /// Another part than the requested one.
    Elsewhere,
}

/// A request as it was received.
#[derive(Clone, Debug)]
pub struct Request {
    pub path: String,
    pub range: Option<u64>,
    /// The requested range is a single byte.
    pub probe: bool,
    pub token: Option<String>,
}

pub struct Server {
    pub port: u16,
    pub manners: Arc<Mutex<Manners>>,
    pub log: Arc<Mutex<Vec<Request>>>,
    pub cache: TempDir,
}

impl Server {
    pub fn start(files: HashMap<String, Vec<u8>>, manners: Manners) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let manners = Arc::new(Mutex::new(manners));
        let log = Arc::new(Mutex::new(Vec::new()));
        let files = Arc::new(files);
        let shared = (Arc::clone(&manners), Arc::clone(&log));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (manners, log) = (Arc::clone(&shared.0), Arc::clone(&shared.1));
                let files = Arc::clone(&files);
                std::thread::spawn(move || {
                    // A client that has disconnected is not a failure of the test.
                    let _ = stream.and_then(|stream| answer(stream, port, &files, &manners, &log));
                });
            }
        });
        Self { port, manners, log, cache: tempfile::tempdir().unwrap() }
    }

    pub fn hub(&self) -> Hub {
        Hub {
            endpoint: format!("http://127.0.0.1:{}", self.port),
            cache: self.cache.path().join("hub"),
            token: None,
            offline: false,
            patience: Patience {
                silence: Duration::from_secs(5),
                pause: Duration::from_millis(1),
                busy: Duration::from_millis(2500),
            },
        }
    }

    pub fn requests(&self, part: &str) -> Vec<Request> {
        let log = self.log.lock().unwrap();
        log.iter().filter(|request| request.path.contains(part)).cloned().collect()
    }
}

fn answer(
    mut stream: TcpStream,
    port: u16,
    files: &HashMap<String, Vec<u8>>,
    manners: &Mutex<Manners>,
    log: &Mutex<Vec<Request>>,
) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut request = Request { path: path.clone(), range: None, probe: false, token: None };
    for line in lines {
        let line = line?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(": ").unwrap_or((&line, ""));
        match name.to_lowercase().as_str() {
            "range" => {
                let from = value.trim_start_matches("bytes=").split('-').next().unwrap();
                request.range = from.parse().ok();
                request.probe = value == "bytes=0-0";
            }
            "authorization" => request.token = Some(value.to_owned()),
            _ => {}
        }
    }
    log.lock().unwrap().push(request.clone());

    let mut manners = manners.lock().unwrap();
    if manners.stranger {
        return reply(&mut stream, "200 OK", "", b"<html>Please log in to this network</html>");
    }
    if let Some((prefix, status, code, token_helps)) = manners.refusal {
        let let_in = token_helps && request.token.as_deref() == Some("Bearer right");
        if path.contains(prefix) && !let_in {
            let headers =
                format!("X-Error-Code: {code}\r\nX-Error-Message: said by the server\r\n");
            return reply(&mut stream, &format!("{status} No"), &headers, b"");
        }
    }
    if let Some(place) = manners.busy.iter().position(|busy| path.contains(busy.0))
        && let Some((_, status, after)) = manners.busy.remove(place)
    {
        let headers = if after.is_empty() { after } else { format!("Retry-After: {after}\r\n") };
        return reply(&mut stream, &format!("{status} Busy"), &headers, b"<html>busy</html>");
    }
    if let Some((_, to)) = manners.circle.iter().find(|(from, _)| path.contains(from)) {
        return reply(&mut stream, "302 Found", &format!("Location: {to}\r\n"), b"");
    }
    // Every repository has the same files.
    let of_main = path.starts_with("/api/models/") && path.ends_with("/revision/main");
    if of_main || path.starts_with("/api/datasets/") {
        let names = files.keys().map(String::as_str).chain(manners.extra.iter().copied());
        let siblings: Vec<_> = names.map(|name| serde_json::json!({ "rfilename": name })).collect();
        let body = serde_json::json!({"sha": COMMIT, "siblings": siblings}).to_string();
        return reply(&mut stream, "200 OK", "", body.as_bytes());
    }
    if let Some((_, name)) = path.split_once(&format!("/resolve/{COMMIT}/"))
        && let Some(content) = files.get(&unescaped(name))
    {
        // Large files are in a store on another host, as on the hub.
        let etag = if manners.nameless { "abc-12".to_owned() } else { etag(content) };
        if content.len() > LARGE {
            let store = match manners.store_port {
                Some(port) => format!("127.0.0.1:{port}"),
                None => format!("localhost:{port}"),
            };
            if manners.mirrored {
                let place = format!("Location: http://{store}/store/{name}\r\n");
                return reply(&mut stream, "308 Permanent Redirect", &place, b"");
            }
            let headers = format!(
                "Location: http://{store}/store/{name}?signed=1\r\n\
                 X-Repo-Commit: {COMMIT}\r\n\
                 X-Linked-Etag: \"{}\"\r\nX-Linked-Size: {}\r\nETag: \"other\"\r\n",
                etag,
                content.len()
            );
            return reply(&mut stream, "302 Found", &headers, b"");
        }
        let from = request.range.unwrap_or(0) as usize;
        // `bytes=0-0` requests one byte, to learn the size.
        let to = if request.probe { 1 } else { content.len() };
        let headers = format!(
            "Content-Range: bytes {from}-{}/{}\r\nETag: \"{}\"\r\nX-Repo-Commit: {COMMIT}\r\n",
            to.max(1) - 1,
            content.len(),
            etag
        );
        let body = falsified(&content[from..to], manners.lie.filter(|_| !request.probe));
        return reply(&mut stream, "206 Partial Content", &headers, &body);
    }
    if let Some(name) = path.strip_prefix("/store/").and_then(|name| name.split('?').next())
        && let Some(content) = files.get(&unescaped(name))
    {
        let ignored = manners.ignores_ranges;
        let from = if ignored { 0 } else { request.range.unwrap_or(0) as usize };
        let lie = manners.lie;
        if from >= content.len() {
            return reply(&mut stream, "416 Range Not Satisfiable", "", b"<html>no</html>");
        }
        let body = falsified(&content[from..], lie);
        let cut = if manners.cuts.is_empty() { None } else { Some(manners.cuts.remove(0)) };
        let stalls = manners.stalls;
        drop(manners);
        let (status, range) = if ignored {
            ("200 OK", String::new())
        } else {
            let from = if lie == Some(Lie::Elsewhere) { from + 1 } else { from };
            let (last, length) = (content.len() - 1, content.len());
            let range = format!("Content-Range: bytes {from}-{last}/{length}\r\n");
            ("206 Partial Content", format!("{range}ETag: \"{}\"\r\n", etag(content)))
        };
        let length = match lie {
            Some(Lie::Endless | Lie::Trickle) => String::new(),
            _ => format!("Content-Length: {}\r\n", body.len()),
        };
        write!(stream, "HTTP/1.1 {status}\r\n{range}{length}Connection: close\r\n\r\n")?;
        return match (lie, cut) {
            (Some(Lie::Endless), _) => loop {
                stream.write_all(&body)?;
            },
            (Some(Lie::Trickle), _) => loop {
                stream.write_all(b"x")?;
                std::thread::sleep(Duration::from_millis(10));
            },
            (_, Some(cut)) => {
                stream.write_all(&body[..cut.min(body.len())])?;
                stream.flush()?;
                if stalls {
                    std::thread::sleep(Duration::from_secs(3));
                }
                Ok(())
            }
            (_, None) => stream.write_all(&body),
        };
    }
    reply(&mut stream, "404 Not Found", "X-Error-Code: EntryNotFound\r\n", b"")
}

/// A name as it was before it became part of an address.
fn unescaped(name: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = name;
    while let Some((before, after)) = rest.split_once('%') {
        bytes.extend(before.bytes());
        bytes.push(u8::from_str_radix(&after[..2], 16).unwrap());
        rest = &after[2..];
    }
    bytes.extend(rest.bytes());
    String::from_utf8(bytes).unwrap()
}

/// The hub's ETag of a content: its SHA-256 if the store has it, otherwise git's hash of it.
fn etag(content: &[u8]) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    if content.len() > LARGE {
        return hex(&Sha256::digest(content));
    }
    let head = format!("blob {}\0", content.len());
    hex(&Sha1::new_with_prefix(head).chain_update(content).finalize())
}

fn falsified(content: &[u8], lie: Option<Lie>) -> Vec<u8> {
    let mut content = content.to_vec();
    match lie {
        Some(Lie::Changed | Lie::Endless) => {
            content.iter_mut().take(100).for_each(|byte| *byte ^= 1)
        }
        Some(Lie::Short) => content.truncate(content.len().saturating_sub(7)),
        Some(Lie::Long) => content.extend([0; 70_000]),
        _ => {}
    }
    content
}

fn reply(stream: &mut TcpStream, status: &str, headers: &str, body: &[u8]) -> std::io::Result<()> {
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n"
    )?;
    stream.write_all(body)
}

pub fn demo(part: &str) -> HashMap<String, Vec<u8>> {
    let entries = fs::read_dir(Path::new(DEMO).with_file_name(part)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .map(|path| {
            (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(path).unwrap())
        })
        .collect()
}

/// A repository of one file of this length.
pub fn one_file(length: usize) -> HashMap<String, Vec<u8>> {
    let content = (0..length).map(|i| (i * i % 251) as u8).collect();
    HashMap::from([("m.gguf".to_owned(), content)])
}

pub fn id(text: &str) -> HubId {
    HubId::parse(text).unwrap()
}

pub fn fetch(hub: &Hub) -> Result<(PathBuf, Vec<DownloadProgress>), HubError> {
    let mut reports = Vec::new();
    let path = hub.target(&id("owner/model"), &mut |report| reports.push(report.clone()))?;
    Ok((path, reports))
}

pub fn refusal(hub: &Hub) -> String {
    fetch(hub).unwrap_err().to_string()
}
