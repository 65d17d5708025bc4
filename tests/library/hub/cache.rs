//! A cache into which somebody else has put links, pipes and names: what is wanted of it is found
//! soon, and nothing outside it is read or written.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::support::hub::{Manners, Server, fetch, one_file, refusal};
use dovetail::library::{Hub, ModelPlaces, Store, find};
use sha2::{Digest, Sha256};

const LENGTH: usize = 50_000;

/// A cache with one model, the model, and the folder of its repository.
fn filled() -> (Server, PathBuf, PathBuf) {
    let server = Server::start(one_file(LENGTH), Manners::default());
    let (model, _) = fetch(&server.hub()).unwrap();
    let repository = model.ancestors().nth(3).unwrap().to_owned();
    (server, model, repository)
}

fn offline(server: &Server) -> Hub {
    Hub { offline: true, ..server.hub() }
}

/// The names of the models that are found in the cache.
fn listed(server: &Server) -> Vec<String> {
    let found = find(&ModelPlaces(vec![(Store::Hub, server.hub().cache)]));
    found.models[1..].iter().map(|model| model.located.name.clone()).collect()
}

#[test]
fn links_to_folders_are_not_followed() {
    let (server, model, _) = filled();
    for (name, target) in [("a", "."), ("b", "."), ("root", "/"), ("processes", "/proc")] {
        symlink(target, model.with_file_name(name)).unwrap();
    }
    assert_eq!(fetch(&offline(&server)).unwrap().0, model);
    assert_eq!(listed(&server), ["m"]);
    // Nor one in place of a snapshot.
    let snapshot = model.parent().unwrap();
    let elsewhere = server.cache.path().join("elsewhere");
    fs::rename(snapshot, &elsewhere).unwrap();
    symlink(&elsewhere, snapshot).unwrap();
    refusal(&offline(&server));
    assert!(listed(&server).is_empty());
}

#[test]
fn a_link_out_of_its_repository_is_replaced_and_never_opened() {
    let (server, model, _) = filled();
    let other = server.cache.path().join("other.gguf");
    fs::write(&other, "another file").unwrap();
    fs::remove_file(&model).unwrap();
    symlink(&other, &model).unwrap();
    refusal(&offline(&server));
    assert!(listed(&server).is_empty());
    assert_eq!(fs::read(fetch(&server.hub()).unwrap().0).unwrap(), one_file(LENGTH)["m.gguf"]);
    assert_eq!(fs::read(&other).unwrap(), b"another file");
}

#[test]
fn a_branch_that_is_no_file_or_no_commit_is_none() {
    let (server, _, repository) = filled();
    let branch = repository.join("refs/main");
    fs::remove_file(&branch).unwrap();
    let pipe = std::process::Command::new("mkfifo").arg(&branch).status().unwrap();
    assert!(pipe.success());
    refusal(&offline(&server));
    fs::remove_file(&branch).unwrap();
    symlink("/dev/zero", &branch).unwrap();
    refusal(&offline(&server));
    // The model is found without its branch.
    assert_eq!(listed(&server), ["m"]);
    fs::remove_file(&branch).unwrap();
    let outside = server.cache.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("m.gguf"), "another file").unwrap();
    fs::write(&branch, "../../../outside").unwrap();
    refusal(&offline(&server));
}

#[test]
fn a_part_that_is_a_link_or_a_pipe_is_refused() {
    let model = &one_file(LENGTH)["m.gguf"];
    let hash: String = Sha256::digest(model).iter().map(|byte| format!("{byte:02x}")).collect();
    let server = Server::start(one_file(LENGTH), Manners::default());
    let contents = server.hub().cache.join("models--owner--model/blobs");
    fs::create_dir_all(&contents).unwrap();
    let part = contents.join(format!("{hash}.part"));
    let other = server.cache.path().join("other");
    fs::write(&other, "before").unwrap();
    symlink(&other, &part).unwrap();
    let text = refusal(&server.hub());
    assert!(text.contains("not a regular file; remove it"), "{text}");
    assert_eq!(fs::read(&other).unwrap(), b"before");
    fs::remove_file(&part).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&part).status().unwrap().success());
    let text = refusal(&server.hub());
    assert!(text.contains("not a regular file; remove it"), "{text}");
}

#[test]
fn names_that_change_what_a_terminal_shows_are_left_out() {
    let extra = vec!["a\u{202e}fugg.gguf", "b\u{2066}.gguf"];
    let server = Server::start(one_file(LENGTH), Manners { extra, ..Manners::default() });
    let (model, _) = fetch(&server.hub()).unwrap();
    assert!(model.ends_with("m.gguf"));
    fs::copy(&model, model.with_file_name("a\u{202e}fugg.gguf")).unwrap();
    assert_eq!(fetch(&offline(&server)).unwrap().0, model);
    assert!(!Path::new(&model).with_file_name("b\u{2066}.gguf").exists());
}
