use super::*;
use crate::chat::{Message, Role, SavedTurn};

fn said(role: Role, content: &str) -> SavedTurn {
    let message = Message::new(role, content.to_owned());
    SavedTurn::whole(message)
}

fn talk() -> Vec<SavedTurn> {
    vec![
        said(Role::System, "Be brief."),
        said(Role::User, "Where is Rome?"),
        said(Role::Assistant, "In Italy 🇮🇹."),
    ]
}

/// The conversation and one more question.
fn talk_and(question: &str) -> Vec<SavedTurn> {
    let mut turns = talk();
    turns.push(said(Role::User, question));
    turns
}

fn store() -> (tempfile::TempDir, SessionStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = SessionStore::at(folder.path().join("new"));
    (folder, store)
}

fn save(store: &SessionStore, open: &mut OpenSession, turns: Vec<SavedTurn>) -> Saved {
    open.update(turns);
    store.save(open).unwrap()
}

/// Every question in the folder, with its file.
fn questions(store: &SessionStore) -> Vec<String> {
    let mut all = Vec::new();
    for head in store.list().unwrap().sessions {
        let open = store.load(&head.id).unwrap();
        all.extend(open.session().turns().into_iter().map(|turn| turn.message.content));
    }
    all
}

#[test]
fn what_is_saved_is_loaded() {
    let (_folder, store) = store();
    assert!(store.list().unwrap().sessions.is_empty());
    let mut open = OpenSession::new("demo");
    save(&store, &mut open, talk());
    save(&store, &mut open, talk_and("Thanks"));
    assert_eq!(store.load(&open.name).unwrap().session, open.session);
    let listing = store.list().unwrap();
    assert_eq!(listing.sessions.len(), 1);
    assert_eq!(listing.sessions[0].messages, 3, "nobody said the system prompt");
    let files = fs::read_dir(store.folder()).unwrap().flatten();
    let files: Vec<_> = files.filter(|entry| entry.file_name() != LOCK).collect();
    assert_eq!(files.len(), 1, "no unfinished file may stay behind: {files:?}");
}

#[test]
fn two_windows_on_one_conversation_lose_no_turn() {
    let (_folder, store) = store();
    let mut first = OpenSession::new("demo");
    save(&store, &mut first, talk());
    let mut second = store.load(&first.name).unwrap();
    let mut idle = store.load(&first.name).unwrap();

    assert!(!save(&store, &mut first, talk_and("From the first")).copied);
    // The second program does not know this and says something else.
    let saved = save(&store, &mut second, talk_and("From the second"));
    assert!(saved.copied);
    assert_eq!(second.session.title, "Where is Rome? (copy)");
    // Each continues in its own file.
    let mut more = talk_and("From the second");
    more.push(said(Role::Assistant, "Indeed."));
    assert_eq!(save(&store, &mut second, more), Saved { copied: false, ..saved });
    assert!(!save(&store, &mut first, talk_and("From the first, again")).copied);
    // A window that added nothing changes nothing when it is closed.
    assert!(!save(&store, &mut idle, talk()).copied);

    let said = questions(&store);
    for question in ["From the first, again", "From the second", "Indeed."] {
        assert!(said.contains(&question.to_owned()), "{question} is lost: {said:?}");
    }
    assert_eq!(store.list().unwrap().sessions.len(), 2);
}

#[test]
fn a_continuation_of_another_windows_messages_replaces_them() {
    let (_folder, store) = store();
    let mut first = OpenSession::new("demo");
    save(&store, &mut first, talk());
    let mut second = store.load(&first.name).unwrap();
    save(&store, &mut first, talk_and("Same"));
    let mut more = talk_and("Same");
    more.push(said(Role::Assistant, "More."));
    assert!(!save(&store, &mut second, more).copied);
    assert_eq!(store.list().unwrap().sessions.len(), 1);
}

#[test]
fn many_windows_at_once_lose_no_turn() {
    let (_folder, store) = store();
    let mut first = OpenSession::new("demo");
    save(&store, &mut first, talk());
    let name = first.name;
    std::thread::scope(|scope| {
        for window in 0..4 {
            let store = &store;
            let name = &name;
            scope.spawn(move || {
                let mut open = store.load(name).unwrap();
                let mut turns = open.session().turns();
                for turn in 0..5 {
                    turns.push(said(Role::User, &format!("window {window} turn {turn}")));
                    save(store, &mut open, turns.clone());
                }
            });
        }
    });
    let said = questions(&store);
    for window in 0..4 {
        for turn in 0..5 {
            let question = format!("window {window} turn {turn}");
            assert!(said.contains(&question), "{question} is lost: {said:?}");
        }
    }
}

#[test]
fn a_file_is_found_by_its_name_and_never_saved_over_another() {
    let (_folder, store) = store();
    let mut other = OpenSession::new("demo");
    let path = save(&store, &mut other, talk()).path;
    let before = fs::read(&path).unwrap();
    // Written by an earlier version and copied by hand: its JSON contains the other's name.
    let mut json: serde_json::Value = serde_json::from_slice(&before).unwrap();
    json["id"] = other.name.clone().into();
    fs::write(store.folder().join("my copy.v2.json"), json.to_string()).unwrap();
    let mut copy = store.load("my copy.v2").unwrap();
    assert!(!save(&store, &mut copy, talk()).copied, "nothing to add");
    let saved = save(&store, &mut copy, talk_and("Only in the copy"));
    assert_eq!(saved.path, store.folder().join("my copy.v2.json"));
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!(store.load("my copy.v2").unwrap().session.messages.len(), 4);
}

#[test]
fn a_file_damaged_by_another_program_is_not_overwritten() {
    let (_folder, store) = store();
    let mut open = OpenSession::new("demo");
    let path = save(&store, &mut open, talk()).path;
    fs::write(&path, "notes of my own").unwrap();
    assert!(save(&store, &mut open, talk_and("More")).copied);
    assert_eq!(fs::read_to_string(&path).unwrap(), "notes of my own");
    // A file that was removed comes back, because it holds what is on the screen.
    let path = store.path(&open.name).unwrap();
    fs::remove_file(&path).unwrap();
    assert!(!save(&store, &mut open, talk_and("And more")).copied);
    assert!(path.exists());
}

#[test]
fn a_stopped_program_with_the_lock_blocks_nobody_and_loses_nothing() {
    let (_folder, store) = store();
    let mut open = OpenSession::new("demo");
    save(&store, &mut open, talk());
    // It may already have compared and be about to replace the file.
    let _halted = store.lock().ok().flatten().unwrap();
    let saved = save(&store, &mut open, talk_and("Still here"));
    assert!(saved.copied);
    assert_eq!(store.list().unwrap().sessions.len(), 2);
}

#[test]
fn a_title_is_found_by_its_beginning() {
    let (_folder, store) = store();
    for question in ["Tell", "Tell me a story", "tell me a joke", "Élan vital"] {
        save(&store, &mut OpenSession::new("demo"), vec![said(Role::User, question)]);
    }
    let title = |words: &str| match store.find(words).unwrap() {
        SessionMatch::One(open) => open.session.title,
        SessionMatch::Several(heads) => {
            let mut titles: Vec<_> = heads.into_iter().map(|head| head.title).collect();
            titles.sort();
            titles.join("|")
        }
    };
    assert_eq!(title("TELL ME A S"), "Tell me a story");
    assert_eq!(title("tell me"), "Tell me a story|tell me a joke");
    assert_eq!(title("tell"), "Tell", "the whole title goes before others");
    assert_eq!(title("éLAN"), "Élan vital");
    let id = store.list().unwrap().sessions[0].id.clone();
    assert!(matches!(store.find(&id).unwrap(), SessionMatch::One(open) if open.name == id));
    let error = store.find("story").unwrap_err().to_string();
    assert!(error.contains("`story`") && error.contains("/load"), "{error}");
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let mut open = OpenSession::new("demo");
    let error = SessionStore::at(file.join("sessions")).save(&mut open).unwrap_err();
    let text = error.to_string();
    let named = Path::new("file").join("sessions");
    assert!(text.contains(named.to_str().unwrap()) && text.contains("move it away"), "{text}");
}

#[test]
fn damaged_files_are_reported_and_kept() {
    let (_folder, store) = store();
    save(&store, &mut OpenSession::new("demo"), talk());
    let torn = store.folder().join("torn.json");
    fs::write(&torn, "{\"id\": \"to").unwrap();
    let listing = store.list().unwrap();
    assert_eq!((listing.sessions.len(), listing.broken.len()), (1, 1));
    assert!(listing.broken[0].1.to_string().contains("torn.json"), "{:?}", listing.broken[0]);
    assert!(torn.exists());
    assert!(matches!(store.load("torn"), Err(SessionError::Corrupt { .. })));
}

#[cfg(unix)]
#[test]
fn pipes_devices_folders_and_giants_are_refused_at_once() {
    let (_folder, store) = store();
    save(&store, &mut OpenSession::new("demo"), talk());
    let path = |name: &str| store.folder().join(format!("{name}.json"));
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, path("pipe"), fifo, mode, 0).unwrap();
    std::os::unix::fs::symlink("/dev/zero", path("device")).unwrap();
    fs::create_dir(path("folder")).unwrap();
    fs::File::create(path("giant")).unwrap().set_len(1 << 40).unwrap();
    for (name, what) in [
        ("pipe", "it is a pipe"),
        ("device", "it is a device"),
        ("folder", "it is a folder"),
        ("giant", "the limit is 64 MB"),
    ] {
        let error = store.find(name).unwrap_err().to_string();
        assert!(error.contains(what) && error.contains(&format!("{name}.json")), "{error}");
    }
    assert_eq!(store.list().unwrap().broken.len(), 4);
}

#[test]
fn a_name_cannot_leave_the_folder() {
    let store = SessionStore::at("/nowhere");
    for name in ["../x", "", "a/b", "a\\b", ".", ".hidden", "a\0b"] {
        assert!(matches!(store.load(name), Err(SessionError::Name(_))), "{name}");
    }
}

#[test]
fn a_deleted_conversation_comes_back_for_a_week() {
    let (_folder, store) = store();
    let mut open = OpenSession::new("demo");
    save(&store, &mut open, talk());
    let name = open.name().to_owned();
    store.delete(&name).unwrap();
    assert!(store.list().unwrap().sessions.is_empty() && store.load(&name).is_err());
    store.clean();
    store.restore(&name).unwrap();
    assert_eq!(store.load(&name).unwrap().session().turns(), talk());
    assert!(store.restore(&name).is_err(), "there is nothing left to bring back");
    store.delete(&name).unwrap();
    let old = store.folder().join("deleted").join(format!("1000-{name}.json"));
    let now = std::fs::read_dir(store.folder().join("deleted")).unwrap().next().unwrap().unwrap();
    std::fs::rename(now.path(), &old).unwrap();
    store.clean();
    assert!(!old.exists());
    assert!(store.delete("../talk").is_err() && store.restore("../talk").is_err());
}

#[test]
fn a_title_given_by_hand_stays() {
    let (_folder, store) = store();
    let mut open = OpenSession::new("demo");
    save(&store, &mut open, talk());
    open.rename("Travels");
    save(&store, &mut open, talk_and("And Milan?"));
    let head = &store.list().unwrap().sessions[0];
    assert_eq!(head.title, "Travels");
    assert_eq!(head.preview, [(Role::User, "And Milan?".to_owned())]);
    assert!(head.said.contains("In Italy"));
}

#[test]
fn branches_follow_their_origins_even_if_a_file_was_edited_by_hand() {
    let head = |id: &str, of: &str| {
        let branch_of = BranchOf { title: String::new(), id: Some(of.to_owned()), messages: 1 };
        SessionHead { id: id.to_owned(), branch_of: Some(branch_of), ..SessionHead::default() }
    };
    // The first is its own origin, and the origin of "d" is gone.
    let of = [("e", "b"), ("d", "gone"), ("c", "a"), ("b", "a"), ("a", "a")];
    let heads = of.map(|(id, of)| head(id, of));
    let ids =
        |name: &str| -> String { branches(&heads, name).into_iter().map(|it| it.id).collect() };
    assert_eq!(["e", "a", "d", "none"].map(ids), ["abec", "abec", "d", ""]);
    let circle = [head("a", "b"), head("b", "a")];
    assert!(branches(&circle, "a").iter().any(|it| it.id == "a"));
}

#[cfg(unix)]
#[test]
fn a_pipe_in_the_place_of_the_lock_holds_nothing_up() {
    let (_folder, store) = store();
    private_folder(store.folder()).unwrap();
    let name = store.folder().join(LOCK);
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, name, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let mut open = OpenSession::new("demo");
    save(&store, &mut open, talk());
    assert_eq!(store.load(&open.name).unwrap().session, open.session);
}
