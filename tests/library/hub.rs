//! The hub, played by a server of the test's own: its paths, redirects to a store on another
//! host, ranges, and connections that break.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{open_head, open_target};
use dovetail::library::{Hub, HubError, HubId, Progress, Spec};
use tempfile::TempDir;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo");

/// How the server behaves.
#[derive(Default)]
struct Manners {
    /// Bodies from the store break off after so many bytes, for as many requests as there are.
    cuts: Vec<usize>,
    /// The break is a silence and not an end.
    stalls: bool,
    /// The store ignores ranges.
    deaf: bool,
    /// Paths that begin so are refused: status, X-Error-Code, whether a right token helps.
    refusal: Option<(&'static str, u16, &'static str, bool)>,
    /// Names that the repository lists without having them.
    extra: Vec<&'static str>,
    /// Answers everything with a web page.
    stranger: bool,
}

/// A request as it came.
#[derive(Clone, Debug)]
struct Request {
    path: String,
    range: Option<u64>,
    /// The range is a single byte.
    probe: bool,
    token: Option<String>,
}

struct Server {
    port: u16,
    manners: Arc<Mutex<Manners>>,
    log: Arc<Mutex<Vec<Request>>>,
    cache: TempDir,
}

impl Server {
    fn start(files: HashMap<String, Vec<u8>>, manners: Manners) -> Self {
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
                    // A client that has gone away is no failure of the test.
                    let _ = stream.and_then(|stream| answer(stream, port, &files, &manners, &log));
                });
            }
        });
        Self { port, manners, log, cache: tempfile::tempdir().unwrap() }
    }

    fn hub(&self) -> Hub {
        Hub {
            endpoint: format!("http://127.0.0.1:{}", self.port),
            cache: self.cache.path().join("hub"),
            token: None,
            offline: false,
            patience: Duration::from_secs(5),
            pause: Duration::from_millis(1),
        }
    }

    fn requests(&self, part: &str) -> Vec<Request> {
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
    if path == "/api/models/owner/model/revision/main" {
        let names = files.keys().map(String::as_str).chain(manners.extra.iter().copied());
        let siblings: Vec<_> = names.map(|name| serde_json::json!({ "rfilename": name })).collect();
        let body = serde_json::json!({"sha": COMMIT, "siblings": siblings}).to_string();
        return reply(&mut stream, "200 OK", "", body.as_bytes());
    }
    let etag = |name: &str| format!("etag-of-{}", name.replace(['.', '/', '_'], "-"));
    if let Some(name) = path.strip_prefix(&format!("/owner/model/resolve/{COMMIT}/"))
        && let Some(content) = files.get(name)
    {
        // Large files lie in a store on another host, as the hub's do.
        if content.len() > 10_000 {
            let headers = format!(
                "Location: http://localhost:{port}/store/{name}?signed=1\r\nX-Repo-Commit: {COMMIT}\r\n\
                 X-Linked-Etag: \"{}\"\r\nX-Linked-Size: {}\r\nETag: \"other\"\r\n",
                etag(name),
                content.len()
            );
            return reply(&mut stream, "302 Found", &headers, b"");
        }
        let from = request.range.unwrap_or(0) as usize;
        // `bytes=0-0` asks for one byte, to learn the size.
        let to = if request.probe { 1 } else { content.len() };
        let headers = format!(
            "Content-Range: bytes {from}-{}/{}\r\nETag: \"{}\"\r\nX-Repo-Commit: {COMMIT}\r\n",
            to.max(1) - 1,
            content.len(),
            etag(name)
        );
        return reply(&mut stream, "206 Partial Content", &headers, &content[from..to]);
    }
    if let Some(name) = path.strip_prefix("/store/").and_then(|name| name.split('?').next())
        && let Some(content) = files.get(name)
    {
        let ignored = manners.deaf;
        let from = if ignored { 0 } else { request.range.unwrap_or(0) as usize };
        let body = &content[from..];
        let cut = if manners.cuts.is_empty() { None } else { Some(manners.cuts.remove(0)) };
        let stalls = manners.stalls;
        drop(manners);
        let (status, range) = if ignored {
            ("200 OK", String::new())
        } else {
            let (last, length) = (content.len() - 1, content.len());
            ("206 Partial Content", format!("Content-Range: bytes {from}-{last}/{length}\r\n"))
        };
        write!(
            stream,
            "HTTP/1.1 {status}\r\n{range}Content-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        )?;
        match cut {
            Some(cut) => {
                stream.write_all(&body[..cut.min(body.len())])?;
                stream.flush()?;
                if stalls {
                    std::thread::sleep(Duration::from_secs(3));
                }
                return Ok(());
            }
            None => return stream.write_all(body),
        }
    }
    reply(&mut stream, "404 Not Found", "X-Error-Code: EntryNotFound\r\n", b"")
}

fn reply(stream: &mut TcpStream, status: &str, headers: &str, body: &[u8]) -> std::io::Result<()> {
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n"
    )?;
    stream.write_all(body)
}

fn demo(part: &str) -> HashMap<String, Vec<u8>> {
    let entries = fs::read_dir(Path::new(DEMO).join(part)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .map(|path| {
            (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(path).unwrap())
        })
        .collect()
}

/// A repository of one file, as long as asked.
fn one_file(length: usize) -> HashMap<String, Vec<u8>> {
    let content = (0..length).map(|i| (i * i % 251) as u8).collect();
    HashMap::from([("m.gguf".to_owned(), content)])
}

fn id(text: &str) -> HubId {
    HubId::parse(text).unwrap()
}

fn fetch(hub: &Hub) -> Result<(PathBuf, Vec<Progress>), HubError> {
    let mut reports = Vec::new();
    let path = hub.target(&id("owner/model"), &mut |report| reports.push(report.clone()))?;
    Ok((path, reports))
}

fn refusal(hub: &Hub) -> String {
    fetch(hub).unwrap_err().to_string()
}

#[test]
fn a_repository_becomes_a_model_and_stays_one_offline() {
    let files = demo("target");
    let total: u64 = files.values().map(|content| content.len() as u64).sum();
    let server = Server::start(files, Manners::default());
    let hub = server.hub();
    let (folder, reports) = fetch(&hub).unwrap();
    let last = reports.last().unwrap();
    assert_eq!((last.done, last.total), (total, total));
    assert!(reports.windows(2).all(|two| two[0].done <= two[1].done));
    let target = open_target(&Spec::Folder(folder.clone())).unwrap();
    assert_eq!(target.config, open_target(&Spec::Bundled).unwrap().config);

    // Nothing is fetched twice, and nothing at all is asked offline.
    let before = server.requests("/store/").len();
    assert_eq!(fetch(&hub).unwrap().0, folder);
    assert_eq!(server.requests("/store/").len(), before);
    let asked = server.log.lock().unwrap().len();
    let offline = Hub { offline: true, ..hub.clone() };
    assert_eq!(fetch(&offline).unwrap().0, folder);
    assert_eq!(server.log.lock().unwrap().len(), asked);

    // The network may be down too.
    let nowhere = Hub { endpoint: "http://127.0.0.1:9".to_owned(), ..hub };
    assert_eq!(fetch(&nowhere).unwrap().0, folder);
}

#[test]
fn a_draft_head_is_fetched_without_what_it_does_not_need() {
    let mut files = demo("head");
    files.insert("training_log.txt".to_owned(), vec![0; 50]);
    let server = Server::start(files, Manners::default());
    let folder = server.hub().head(&id("owner/model"), &mut |_| {}).unwrap();
    open_head(&Spec::Folder(folder)).unwrap();
    assert!(server.requests("training_log").is_empty());
}

#[test]
fn a_cut_connection_goes_on_where_it_broke() {
    let files = one_file(300_000);
    let server = Server::start(
        files.clone(),
        Manners { cuts: vec![100_000, 0, 50_000], ..Manners::default() },
    );
    let (path, reports) = fetch(&server.hub()).unwrap();
    assert_eq!(fs::read(&path).unwrap(), files["m.gguf"]);
    assert_eq!(reports.last().unwrap().done, 300_000);
    let starts: Vec<_> =
        server.requests("/store/").iter().map(|request| request.range.unwrap()).collect();
    assert_eq!(starts, [0, 100_000, 100_000, 150_000]);
}

#[test]
fn what_came_before_giving_up_is_kept_for_the_next_start() {
    let files = one_file(300_000);
    let mut cuts = vec![120_000];
    cuts.extend([0; 20]);
    let server = Server::start(files.clone(), Manners { cuts, ..Manners::default() });
    let text = refusal(&server.hub());
    assert!(text.contains("m.gguf") && text.contains("120000 of 300000"), "{text}");
    server.manners.lock().unwrap().cuts.clear();
    let (path, reports) = fetch(&server.hub()).unwrap();
    assert_eq!(reports[0].done, 120_000);
    assert_eq!(fs::read(path).unwrap(), files["m.gguf"]);
    assert_eq!(server.requests("/store/").last().unwrap().range, Some(120_000));
}

#[test]
fn a_silent_connection_counts_as_broken() {
    let files = one_file(200_000);
    let manners = Manners { cuts: vec![70_000], stalls: true, ..Manners::default() };
    let server = Server::start(files.clone(), manners);
    let hub = Hub { patience: Duration::from_millis(300), ..server.hub() };
    let (path, _) = fetch(&hub).unwrap();
    assert_eq!(fs::read(path).unwrap(), files["m.gguf"]);
}

#[test]
fn a_store_that_ignores_ranges_does_not_spoil_the_file() {
    let files = one_file(200_000);
    let manners = Manners { cuts: vec![60_000], deaf: true, ..Manners::default() };
    let server = Server::start(files.clone(), manners);
    let (path, reports) = fetch(&server.hub()).unwrap();
    assert_eq!(fs::read(path).unwrap(), files["m.gguf"]);
    assert_eq!(reports.last().unwrap().done, 200_000);
}

#[test]
fn the_token_goes_to_the_hub_and_not_to_its_store() {
    let server = Server::start(one_file(50_000), Manners::default());
    let hub = Hub { token: Some("right".to_owned()), ..server.hub() };
    fetch(&hub).unwrap();
    let asked = |part: &str| server.requests(part);
    assert!(asked("/api/").iter().all(|r| r.token.as_deref() == Some("Bearer right")));
    assert!(!asked("/store/").is_empty());
    assert!(asked("/store/").iter().all(|request| request.token.is_none()));
}

#[test]
fn refusals_say_what_to_do() {
    type Refusal = (&'static str, u16, &'static str, bool);
    let cases: [(Refusal, Option<&str>, &[&str]); 9] = [
        (
            ("/resolve/", 401, "GatedRepo", true),
            None,
            &["accepted the terms", "/owner/model", "HF_TOKEN"],
        ),
        (("/resolve/", 403, "GatedRepo", true), Some("wrong"), &["account of your HF_TOKEN"]),
        (("/api/", 401, "", true), Some("wrong"), &["rejects the token", "said by the server"]),
        (("/api/", 401, "RepoNotFound", false), None, &["no such repository", "set HF_TOKEN"]),
        (
            ("/api/", 404, "RepoNotFound", false),
            Some("right"),
            &["no such repository", "may see it"],
        ),
        (("/api/", 404, "RevisionNotFound", false), None, &["no such revision"]),
        (("/api/", 503, "", false), None, &["answers 503", "try again later"]),
        (("/api/", 429, "", false), None, &["wait some minutes"]),
        (("/resolve/", 404, "EntryNotFound", false), None, &["said by the server"]),
    ];
    for (refused, token, expected) in cases {
        let manners = Manners { refusal: Some(refused), ..Manners::default() };
        let server = Server::start(one_file(20), manners);
        let hub = Hub { token: token.map(str::to_owned), ..server.hub() };
        let text = refusal(&hub);
        assert!(text.contains("owner/model"), "{text}");
        for part in expected {
            assert!(text.contains(part), "{text} lacks {part}");
        }
    }
    let manners =
        Manners { refusal: Some(("/resolve/", 401, "GatedRepo", true)), ..Manners::default() };
    let server = Server::start(one_file(20), manners);
    fetch(&Hub { token: Some("right".to_owned()), ..server.hub() }).unwrap();
}

#[test]
fn other_answers_are_not_taken_for_the_hub() {
    let server = Server::start(one_file(20), Manners { stranger: true, ..Manners::default() });
    assert!(refusal(&server.hub()).contains("check HF_ENDPOINT"));
    let nowhere = Hub { endpoint: "http://127.0.0.1:9".to_owned(), ..server.hub() };
    assert!(refusal(&nowhere).contains("cannot reach http://127.0.0.1:9"));
    let offline = Hub { offline: true, ..server.hub() };
    assert!(refusal(&offline).contains("HF_HUB_OFFLINE"));
}

#[test]
fn a_name_that_leads_out_of_the_cache_is_never_fetched() {
    let manners =
        Manners { extra: vec!["../../evil.gguf", "/etc/evil.gguf"], ..Manners::default() };
    let server = Server::start(one_file(20), manners);
    fetch(&server.hub()).unwrap();
    assert!(server.requests("evil").is_empty());
}

#[test]
fn a_cache_that_cannot_be_written_is_named() {
    let server = Server::start(one_file(20), Manners::default());
    let file = server.cache.path().join("file");
    fs::write(&file, "").unwrap();
    let hub = Hub { cache: file.join("hub"), ..server.hub() };
    let text = refusal(&hub);
    assert!(text.contains("file/hub") && text.contains("HF_HOME"), "{text}");
}
