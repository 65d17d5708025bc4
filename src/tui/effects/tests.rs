use super::*;
use crate::chat::{
    AnsweredBy, BranchOf, Message, Role, Saved, SavedChat, SavedTurn, SessionHead, SessionStore,
};
use crate::record::Script;
use crate::tui::event::ScreenEvent;
use crate::tui::tests::controls;
use crate::worker::Job;

fn said(role: Role, content: &str) -> SavedTurn {
    SavedTurn::whole(Message::new(role, content))
}

/// A question and its answer.
fn hello() -> Vec<SavedTurn> {
    vec![said(Role::User, "Hi"), said(Role::Assistant, "Hello!")]
}

fn ask(runner: &mut Keeper, question: &str) -> Result<Option<Saved>, String> {
    runner.save("t", vec![said(Role::User, question)])
}

fn runner(folder: &std::path::Path) -> Keeper {
    let keeper = Keeper::new(Some(SessionStore::at(folder)), ModelFinder::default());
    keeper.clean();
    keeper
}

/// Opens the conversation of this name or beginning of a title.
fn opened(keeper: &mut Keeper, words: &str) -> Result<Vec<SavedTurn>, String> {
    let read = loaded(keeper.load(words));
    keeper.adopt();
    read
}

fn loaded(event: ScreenEvent) -> Result<Vec<SavedTurn>, String> {
    match event {
        ScreenEvent::Loaded(result) => result.map(|chat| chat.turns),
        other => panic!("not loaded: {other:?}"),
    }
}

#[test]
fn a_conversation_is_one_file_until_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    // A program that was killed has left this file.
    let leftover = folder.path().join(".dovetail-abc123.tmp");
    std::fs::write(&leftover, "{").unwrap();
    let mut runner = runner(folder.path());
    assert!(!leftover.exists());
    assert_eq!(runner.save("t", vec![said(Role::System, "Be brief.")]), Ok(None));
    let mut talk = hello();
    assert!(runner.save("t", talk.clone()).unwrap().is_some());
    talk[1].message.content = "Hello again!".to_string();
    runner.save("t", talk.clone()).unwrap();
    let list = runner.list().unwrap();
    assert_eq!((list.len(), list[0].title.as_str(), list[0].messages), (1, "Hi", 2));
    runner.forget();
    ask(&mut runner, "Other").unwrap();
    assert_eq!(runner.list().unwrap().len(), 2);
    assert_eq!(opened(&mut runner, &list[0].id).unwrap(), talk);
    assert!(loaded(runner.load("nothing")).unwrap_err().contains("nothing"));
}

#[test]
fn a_conversation_keeps_the_models_that_answered_last() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("qwen.gguf");
    std::fs::write(&file, "GGUF").unwrap();
    let mut runner = runner(folder.path());
    let named = |name: &str| ModelChoice { target: Some(name.into()), ..ModelChoice::default() };
    let by = |models: ModelChoice| {
        let target = "Qwen".to_string();
        Some(AnsweredBy { target, models: Some(models), gone: false })
    };
    let chat = |answered_by| SavedChat { answered_by, ..hello().into() };
    let opened = |runner: &mut Keeper| match runner.open(Opening::Latest) {
        ScreenEvent::Loaded(Ok(chat)) => chat.answered_by,
        other => panic!("not loaded: {other:?}"),
    };
    let model = named(file.to_str().unwrap());
    runner.save("demo", chat(by(ModelChoice::default()))).unwrap();
    runner.save("demo", chat(by(model.clone()))).unwrap();
    assert_eq!(runner.left(folder.path()).models, Some(model.clone()));
    assert_eq!(opened(&mut runner), by(model.clone()));
    std::fs::remove_file(&file).unwrap();
    assert!(opened(&mut runner).is_some_and(|by| by.gone && by.models == Some(model)));
    // A file of this folder is found from other folders too.
    runner.save("demo", chat(by(named("Cargo.toml")))).unwrap();
    let absolute = std::env::current_dir().unwrap().join("Cargo.toml");
    let saved = runner.left(folder.path()).models.unwrap();
    assert_eq!(saved, named(absolute.to_str().unwrap()));
}

#[test]
fn a_branch_is_a_file_of_its_own_that_says_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let mut runner = runner(folder.path());
    let talk = hello();
    runner.save("t", talk.clone()).unwrap();
    runner.branch(0);
    ask(&mut runner, "Good day").unwrap();
    let list = runner.list().unwrap();
    let branch = list.iter().find(|head| head.title == "Good day").unwrap();
    let first = list.iter().find(|head| head.title == "Hi").unwrap();
    let id = Some(first.id.clone());
    let origin = BranchOf { title: "Hi".to_string(), id, messages: 0 };
    let tree = runner.branches().unwrap();
    let titles: Vec<_> = tree.iter().map(|head| head.title.as_str()).collect();
    assert_eq!(titles, ["Hi", "Good day"]);
    assert_eq!(branch.branch_of.as_ref(), Some(&origin));
    assert_eq!(opened(&mut runner, "Hi").unwrap(), talk, "the other one is as it was");
    runner.save("t", talk.clone()).unwrap();
    assert_eq!(runner.list().unwrap().iter().filter(|head| head.branch_of.is_some()).count(), 1);
    opened(&mut runner, &branch.id).unwrap();
    runner.save("t", vec![said(Role::User, "Good day"), talk[1].clone()]).unwrap();
    let list = runner.list().unwrap();
    let of = |head: &SessionHead| head.messages == 2 && head.branch_of.as_ref() == Some(&origin);
    assert!(list.iter().any(of), "{list:?}");
}

#[test]
fn an_answer_is_told_its_conversation_and_what_is_kept_goes_with_that() {
    let folder = tempfile::tempdir().unwrap();
    let sessions = folder.path().join("sessions");
    let kept = folder.path().join("kv");
    std::fs::create_dir(&kept).unwrap();
    let asked = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let heard = asked.clone();
    let shared = SharedControls::new(controls());
    let worker = Script::default().play(shared.clone(), Box::new(|_| true)).unwrap();
    let worker = worker.tapped(Box::new(move |command| {
        heard.lock().unwrap().push(command.clone());
    }));
    let store = SessionStore::at(sessions.clone());
    let models = ModelFinder::default();
    let mut screen = EffectRunner::new(worker, shared, Some(store), models).unwrap();
    let job = Job { generation: 1, messages: Vec::new(), max_tokens: 1, ..Job::default() };
    // The first question is on its way before it is saved.
    assert!(screen.send(Command::Generate(job)));
    let mut runner = runner(&sessions);
    runner.snapshots = Some(kept.clone());
    assert_eq!(runner.left(folder.path()), Left::default(), "nothing is saved yet");
    runner.next_name = screen.name().map(str::to_string);
    ask(&mut runner, "Hi").unwrap();
    let id = runner.list().unwrap()[0].id.clone();
    let told = |asked: &[Command]| match asked.last() {
        Some(Command::Generate(job)) => job.conversation.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(told(&asked.lock().unwrap()), Some(id.clone()));
    let file = |id: &str| crate::decode::snapshot_path(&kept, "target", id);
    std::fs::write(file(&id), "x").unwrap();
    std::fs::write(file("another"), "x").unwrap();
    runner.forget();
    runner.delete(id.clone()).unwrap();
    assert!(!file(&id).exists() && file("another").exists());
    // At the next start what belongs to no conversation goes too.
    runner.restore(Some(&id)).unwrap();
    std::fs::write(file(&id), "x").unwrap();
    runner.keep_snapshots(kept.clone());
    assert!(file(&id).exists() && !file("another").exists());
    drop(runner);
}

#[test]
fn what_was_not_sent_is_kept_and_what_cannot_be_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = runner(folder.path());
    assert!(first.unsent().is_none());
    first.keep_unsent(Some("half".to_string()));
    assert_eq!(first.left(folder.path()), Left { unsent_alone: true, ..Left::default() });
    let mut second = runner(folder.path());
    assert!(matches!(second.unsent(), Some(ScreenEvent::Unsent(text)) if text == "half"));
    let mut chat = SavedChat::from(vec![said(Role::User, "half and all of it")]);
    chat.extras.unsent = Some("more".to_string());
    second.save("t", chat.clone()).unwrap();
    second.keep_unsent(None);
    let title = Some("half and all of it".to_string());
    assert_eq!(second.left(folder.path()), Left { title, unsent: true, ..Left::default() });
    assert!(runner(folder.path()).unsent().is_none(), "it was sent");
    let ScreenEvent::Loaded(Ok(again)) = second.load("half") else { panic!("not loaded") };
    assert_eq!(again.extras.unsent.as_deref(), Some("more"));
}

#[test]
fn what_cannot_be_saved_is_told_tried_again_and_kept_elsewhere_at_last() {
    let folder = tempfile::tempdir().unwrap();
    let last = tempfile::tempdir().unwrap();
    // A folder that is a file takes nothing.
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let mut runner = runner(&file.join("below"));
    assert_eq!(runner.unsaved(), None);
    let mut chat = SavedChat::from(vec![said(Role::User, "First")]);
    chat.extras.unsent = Some("mo\u{1b}re".to_string());
    let told = runner.save("t", chat.clone()).unwrap_err();
    assert!(told.contains("move it away"), "{told}");
    // Left for another one, which is not saved either.
    runner.forget();
    assert!(ask(&mut runner, "Second").is_err());
    runner.keep_unsent(Some("alone".to_string()));
    let why = runner.unsaved().unwrap();
    assert!(why.contains("below") && !why.contains("screen") && !why.contains("move"), "{why}");

    let lost = runner.left(last.path()).lost.unwrap();
    let read = |path: &std::path::PathBuf| {
        let text = std::fs::read_to_string(path).unwrap();
        crate::chat::Exchange::Json.read(&text).unwrap().0.turns
    };
    let kept: Vec<Vec<SavedTurn>> = lost.conversations.iter().map(read).collect();
    assert_eq!(kept, [[said(Role::User, "First")], [said(Role::User, "Second")]]);
    let first = std::fs::read_to_string(&lost.conversations[0]).unwrap();
    let first: crate::chat::Session = serde_json::from_str(&first).unwrap();
    assert_eq!(first.extras.unsent, chat.extras.unsent);
    assert_eq!(std::fs::read_to_string(lost.message.clone().unwrap()).unwrap(), "alone");
    assert!(lost.failed.is_none() && lost.unsent.is_empty(), "{lost:?}");
    let words = lost.to_string();
    assert!(words.contains(&format!("/import {}", lost.conversations[1].display())), "{words}");

    // Where there is no folder of last resort either, what was not sent is shown at least.
    let lost = runner.left(&last.path().join("nowhere")).lost.unwrap();
    assert!(lost.conversations.is_empty() && lost.failed.is_some(), "{lost:?}");
    let words = lost.to_string();
    assert!(words.contains("mo␛re") && words.ends_with("alone"), "{words}");

    // Once there is room again, what could not be saved is saved too.
    std::fs::remove_file(&file).unwrap();
    ask(&mut runner, "Second").unwrap();
    runner.keep_unsent(None);
    assert_eq!(runner.unsaved(), None);
    let list = runner.list().unwrap();
    let mut titles: Vec<&str> = list.iter().map(|head| head.title.as_str()).collect();
    titles.sort_unstable();
    assert_eq!(titles, ["First", "Second"]);
    assert!(runner.left(last.path()).lost.is_none());
}

#[test]
fn several_titles_that_begin_alike_are_offered() {
    let folder = tempfile::tempdir().unwrap();
    let mut runner = runner(folder.path());
    for question in ["Tell me a story", "Tell me a joke", "What is a river?"] {
        runner.forget();
        ask(&mut runner, question).unwrap();
    }
    let offered = runner.load("tell");
    assert!(matches!(&offered, ScreenEvent::Sessions(list) if list.len() == 2), "{offered:?}");
    let story = loaded(runner.load("tell me a S")).unwrap();
    assert_eq!(story, [said(Role::User, "Tell me a story")]);
}

#[test]
fn a_deleted_conversation_comes_back_in_a_later_run_and_a_damaged_one_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = runner(folder.path());
    first.save("t", hello()).unwrap();
    let id = first.list().unwrap()[0].id.clone();
    first.forget();
    first.delete(id.clone()).unwrap();
    let mut second = runner(folder.path());
    assert!(second.list().unwrap().is_empty());
    second.restore(None).unwrap();
    assert_eq!(second.list().unwrap().len(), 1);
    assert!(second.restore(None).unwrap_err().contains("last week"));
    let file = folder.path().join(format!("{id}.json"));
    let whole = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, &whole[..whole.find("Hello").unwrap() + 4]).unwrap();
    let ScreenEvent::Loaded(Ok(chat)) = second.open(Opening::Latest) else { panic!("not read") };
    assert_eq!(chat.turns, [said(Role::User, "Hi"), said(Role::Assistant, "Hell")]);
    assert!(chat.damage.unwrap().contains("is damaged: 2 messages"));
    std::fs::write(&file, "").unwrap();
    let told = loaded(second.open(Opening::Latest)).unwrap_err();
    assert!(told.contains("damaged") && told.contains(&id), "{told}");
}

#[test]
fn a_title_from_another_window_stays() {
    let folder = tempfile::tempdir().unwrap();
    let (mut one, mut two) = (runner(folder.path()), runner(folder.path()));
    one.save("t", hello()).unwrap();
    let id = two.list().unwrap()[0].id.clone();
    two.rename(&id, "Mine").unwrap();
    // An answer that goes on, and one that is changed: neither is a copy for the title alone.
    for answer in ["Hello! How", "Good day!"] {
        let turns = vec![said(Role::User, "Hi"), said(Role::Assistant, answer)];
        assert!(!one.save("t", turns).unwrap().unwrap().copied);
        two.rename(&id, "Mine").unwrap();
    }
    let titles: Vec<String> = two.list().unwrap().into_iter().map(|head| head.title).collect();
    assert_eq!(titles, ["Mine"]);
    one.rename(&id, "Ours").unwrap();
    ask(&mut one, "Other").unwrap();
    assert_eq!(two.list().unwrap()[0].title, "Ours");
}
