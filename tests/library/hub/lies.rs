//! A hub that is busy, redirects in circles, or sends something other than it claims: the download
//! ends within the time limit, and nothing of it is taken for a model.

use crate::support::program::assert_has;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::support::hub::{Lie, Manners, Server, fetch, one_file, refusal};
use dovetail::library::Hub;

const NONE: [PathBuf; 0] = [];

/// Every file under `folder`, except links.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => files.extend(files_below(&entry.path())),
            kind if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
    files
}

fn lying(length: usize, lie: Lie) -> Server {
    Server::start(one_file(length), Manners { lie: Some(lie), ..Manners::default() })
}

/// What the cache holds under a name that marks it as complete: it must be empty after a failure.
fn whole(server: &Server) -> Vec<PathBuf> {
    let mut files = files_below(&server.hub().cache);
    files.retain(|file| file.extension().is_none_or(|suffix| suffix != "part"));
    files
}

#[test]
fn a_content_of_another_hash_is_refused_and_removed() {
    // A large file is identified by its SHA-256, a small one by git's hash.
    for (length, hash) in [(200_000, "SHA-256"), (300, "git blob SHA-1")] {
        let server = lying(length, Lie::Changed);
        let text = refusal(&server.hub());
        assert_has(&text, &["m.gguf", hash, "deleted", "Start again", "HF_ENDPOINT"]);
        assert_eq!(files_below(&server.hub().cache), NONE);
        let offline = Hub { offline: true, ..server.hub() };
        assert!(refusal(&offline).contains("not in the cache"));
        // After the error nothing is left: a correct answer is accepted.
        server.manners.lock().unwrap().lie = None;
        let (path, reports) = fetch(&server.hub()).unwrap();
        assert_eq!(fs::read(path).unwrap(), one_file(length)["m.gguf"]);
        assert!(reports.iter().any(|report| report.checking));
    }
}

#[test]
fn what_an_interrupted_start_left_is_checked_too() {
    let files = one_file(300_000);
    let cuts = std::iter::once(120_000).chain([0; 20]).collect();
    let server = Server::start(files.clone(), Manners { cuts, ..Manners::default() });
    refusal(&server.hub());
    let part = files_below(&server.hub().cache).pop().unwrap();
    let mut content = fs::read(&part).unwrap();
    content[60_000] ^= 1;
    fs::write(&part, content).unwrap();
    server.manners.lock().unwrap().cuts.clear();
    let text = refusal(&server.hub());
    assert!(text.contains("SHA-256") && !part.exists(), "{text}");
    assert_eq!(fs::read(fetch(&server.hub()).unwrap().0).unwrap(), files["m.gguf"]);
}

// The content is found through its link, which needs a permission on Windows.
#[cfg(unix)]
#[test]
fn a_damaged_content_in_the_cache_is_fetched_again() {
    let files = one_file(200_000);
    let server = Server::start(files.clone(), Manners::default());
    let (path, _) = fetch(&server.hub()).unwrap();
    let blob = path.canonicalize().unwrap();
    fs::remove_file(&path).unwrap();
    fs::write(&blob, vec![0; 200_000]).unwrap();
    assert_eq!(fs::read(fetch(&server.hub()).unwrap().0).unwrap(), files["m.gguf"]);
}

#[test]
fn an_etag_that_is_no_hash_cannot_be_checked_and_is_refused() {
    for length in [200_000, 300] {
        let manners = Manners { nameless: true, ..Manners::default() };
        let server = Server::start(one_file(length), manners);
        let text = refusal(&server.hub());
        assert!(text.contains("`\"abc-12\"`") && text.contains("HF_ENDPOINT"), "{text}");
        assert!(server.requests("/store/").is_empty());
    }
}

#[test]
fn a_busy_hub_is_asked_again_when_it_says() {
    let long_ago = "Sun, 06 Nov 1994 08:49:37 GMT".to_owned();
    let busy = [
        ("/api/", 429, "1".to_owned()),
        ("/api/", 503, String::new()),
        ("/resolve/", 502, long_ago),
        ("/store/", 504, "nonsense".to_owned()),
    ];
    let files = one_file(50_000);
    let server = Server::start(files.clone(), Manners { busy: busy.into(), ..Manners::default() });
    let start = Instant::now();
    let (path, _) = fetch(&server.hub()).unwrap();
    assert!(start.elapsed() >= Duration::from_secs(1));
    assert_eq!(fs::read(path).unwrap(), files["m.gguf"]);
    assert_eq!((server.requests("/api/").len(), server.requests("/store/").len()), (3, 2));
}

#[test]
fn a_hub_that_stays_busy_is_given_up_with_the_limit_named() {
    // `/api/` asks for a longer wait than the limit, or never stops being busy.
    for (after, reason) in [("3600", "asks to wait 3600 s"), ("0", "tried 6 times")] {
        let busy = std::iter::repeat_n(("/api/", 429, after.to_owned()), 50).collect();
        let server = Server::start(one_file(20), Manners { busy, ..Manners::default() });
        let text = refusal(&server.hub());
        assert!(text.contains("responded 429") && text.contains(reason), "{text}");
        assert!(server.requests("/api/").len() <= 6);
    }
    // A model that is already here is used meanwhile.
    let server = Server::start(one_file(20), Manners::default());
    let (path, _) = fetch(&server.hub()).unwrap();
    server.manners.lock().unwrap().busy =
        std::iter::repeat_n(("/api/", 503, String::new()), 50).collect();
    assert_eq!(fetch(&server.hub()).unwrap().0, path);
}

#[test]
fn a_circle_of_redirects_is_named_with_its_addresses() {
    for path in ["/api/", "/resolve/", "/store/"] {
        let circle = vec![
            (path, "/elsewhere/a"),
            ("/elsewhere/a", "/elsewhere/b"),
            ("/elsewhere/b", "/elsewhere/a"),
        ];
        let server = Server::start(one_file(50_000), Manners { circle, ..Manners::default() });
        let text = refusal(&server.hub());
        let parts = ["redirects in a circle", "/elsewhere/a → http://", "/elsewhere/b → http://"];
        assert_has(&text, &parts);
        assert!(server.log.lock().unwrap().len() < 20);
        assert_eq!(whole(&server), NONE);
    }
}

#[test]
fn a_false_length_never_makes_a_model() {
    let cases = [
        (Lie::Short, "broke at 199"),
        (Lie::Long, "sent more than the 200000 bytes"),
        (Lie::Endless, "HF_ENDPOINT"),
        (Lie::Elsewhere, "the server sent `bytes 1-199999/200000`"),
    ];
    for (lie, reason) in cases {
        let server = lying(200_000, lie);
        let text = refusal(&server.hub());
        assert!(text.contains("m.gguf") && text.contains(reason), "{text}");
        assert_eq!(whole(&server), NONE, "{text}");
    }
    // A small file comes from the hub itself.
    for lie in [Lie::Short, Lie::Long] {
        let server = lying(300, lie);
        refusal(&server.hub());
        assert_eq!(whole(&server), NONE);
    }
}

#[test]
fn a_trickle_of_bytes_ends_within_the_patience() {
    let server = lying(200_000, Lie::Trickle);
    let mut hub = server.hub();
    hub.patience.silence = Duration::from_millis(100);
    let start = Instant::now();
    let text = refusal(&hub);
    assert!(text.contains("received only ") && text.contains("bytes in"), "{text}");
    assert!(start.elapsed() < Duration::from_secs(10));
    assert_eq!(whole(&server), NONE);
}
