//! Files whose hash is known in advance, from a server that cuts off, refuses and lies.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use crate::support::hub::{Lie, Manners, Server, one_file};
use dovetail::library::{Patience, PinnedFile, PinnedFiles};
use sha2::{Digest, Sha256};

const LENGTH: usize = 60_000;

/// A server with one file, the expected file, and where it is to be stored.
fn served(manners: Manners) -> (Server, PinnedFile, PinnedFiles) {
    let files: HashMap<String, Vec<u8>> = one_file(LENGTH);
    let hash = Sha256::digest(&files["m.gguf"]);
    let server = Server::start(files, manners);
    let file = PinnedFile {
        name: "a file".to_owned(),
        url: format!("http://127.0.0.1:{}/store/m.gguf", server.port),
        sha256: hash.iter().map(|byte| format!("{byte:02x}")).collect(),
        size: LENGTH as u64,
    };
    let kept = PinnedFiles {
        folder: server.cache.path().join("prompts"),
        patience: Patience { busy: Duration::from_millis(200), ..server.hub().patience },
    };
    (server, file, kept)
}

fn said(kept: &PinnedFiles, file: &PinnedFile) -> String {
    let error = kept.fetch(file, &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains(&file.url) && !kept.has(file), "{error}");
    error
}

#[test]
fn a_file_comes_over_broken_connections_and_only_once() {
    let (server, file, kept) = served(Manners { cuts: vec![20_000, 15_000], ..Manners::default() });
    assert!(!kept.has(&file));
    let mut reports = Vec::new();
    let place = kept.fetch(&file, &mut |report| reports.push(report.clone())).unwrap();
    assert_eq!(place, kept.place(&file));
    assert!(kept.has(&file) && kept.is_sound(&file).unwrap());
    let from: Vec<_> = server.requests("/store/").iter().map(|request| request.range).collect();
    assert_eq!(from, [Some(0), Some(20_000), Some(35_000)]);
    assert!(server.requests("").iter().all(|request| request.token.is_none()));
    assert!(reports.last().unwrap().checking);
    kept.fetch(&file, &mut |_| {}).unwrap();
    assert_eq!(server.requests("/store/").len(), 3, "it was here");

    // Damage on the disk is detected, and the file is downloaded again.
    fs::write(&place, vec![0; LENGTH]).unwrap();
    assert!(kept.has(&file) && !kept.is_sound(&file).unwrap());
    kept.fetch(&file, &mut |_| {}).unwrap();
    assert!(kept.is_sound(&file).unwrap());
}

#[test]
fn an_earlier_try_is_gone_on_with() {
    let cuts = vec![9_000; 5];
    let (server, file, kept) = served(Manners { cuts, ..Manners::default() });
    let mut hurried = kept.clone();
    hurried.patience.silence = Duration::from_secs(3600);
    let error = said(&hurried, &file);
    assert!(error.contains("broke at 45000 of 60000 bytes"), "{error}");
    kept.fetch(&file, &mut |_| {}).unwrap();
    assert_eq!(server.requests("/store/").last().unwrap().range, Some(45_000));
}

#[test]
fn other_content_is_refused_and_removed() {
    let (other, longer) = ("it is another file", "more than the 60000 bytes");
    for (lie, words) in [
        (Lie::Changed, &[other][..]),
        (Lie::Long, &[longer]),
        // Depends on how much of it comes at a time.
        (Lie::Endless, &[other, longer]),
        (Lie::Elsewhere, &["the request was for"]),
    ] {
        let (_server, file, kept) = served(Manners { lie: Some(lie), ..Manners::default() });
        let error = said(&kept, &file);
        assert!(words.iter().any(|words| error.contains(words)), "{words:?}: {error}");
    }
    let stranger = Manners { stranger: true, ..Manners::default() };
    let (_server, file, kept) = served(stranger);
    let error = said(&kept, &file);
    assert!(error.contains("broke at") || error.contains("not the file"), "{error}");
}

#[test]
fn what_the_server_says_is_told_with_the_remedy() {
    let (_server, file, kept) = served(Manners::default());
    let elsewhere = PinnedFile { url: format!("{}x", file.url), ..file.clone() };
    let error = said(&kept, &elsewhere);
    assert!(error.contains("responded 404") && error.contains("--mirror"), "{error}");
    let nowhere = PinnedFile { url: "http://127.0.0.1:1/x".to_owned(), ..file };
    let error = said(&kept, &nowhere);
    assert!(error.contains("check the network"), "{error}");
}
