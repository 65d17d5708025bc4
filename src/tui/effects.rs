//! Carries out effects: worker, files, clipboard. Must never know widgets.

use std::io;
use std::path::PathBuf;

use tokio::sync::mpsc::UnboundedSender;

use super::model_finder::ModelFinder;
use super::presets::{Preset, Presets};
use super::run::Opening;
use super::state::ModelPart;
use super::update::ScreenEvent;
use crate::chat::{
    BranchOf, OpenSession, Saved, SavedChat, SessionHead, SessionMatch, SessionStore,
};
use crate::worker::{Command, ModelChoice, SharedControls, Worker, discard_kept, discard_others};

/// What was left when the program was, and where it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Title of the conversation that was open, if it is saved.
    pub title: Option<String>,
    /// Whether a message that was not sent is kept with it.
    pub unsent: bool,
    /// Whether one is kept for the next conversation.
    pub unsent_alone: bool,
    /// What could not be kept: why, and the message that was not sent, if there was one.
    pub lost: Option<(String, Option<String>)>,
}

/// Everything outside the screen that effects act on.
pub struct EffectRunner {
    /// The decode thread.
    pub worker: Worker,
    /// Its controls.
    pub controls: SharedControls,
    store: Option<SessionStore>,
    session: Option<OpenSession>,
    /// Where what is open branched off.
    branch_of: Option<BranchOf>,
    /// Where KV caches of conversations are kept.
    kept_kv: Option<PathBuf>,
    /// The message that was left before anything was asked, as it was found.
    unsent: Option<String>,
    /// What is told of the run when it has ended.
    left: Left,
    clipboard: Option<arboard::Clipboard>,
    /// Looks for models, and where what it finds goes.
    models: Option<(ModelFinder, UnboundedSender<ScreenEvent>)>,
}

impl EffectRunner {
    /// With no conversation open. Conversations are saved in `store`, if there is one.
    pub fn new(worker: Worker, controls: SharedControls, store: Option<SessionStore>) -> Self {
        if let Some(store) = &store {
            store.clean();
        }
        Self {
            worker,
            controls,
            store,
            session: None,
            branch_of: None,
            kept_kv: None,
            unsent: None,
            left: Left::default(),
            clipboard: None,
            models: None,
        }
    }

    /// The same with the folder where KV caches of conversations are kept. Those of conversations
    /// that are not there any more go.
    pub fn with_kept_kv(self, folder: PathBuf) -> Self {
        match self.store.as_ref().map(SessionStore::names) {
            Some(Ok(names)) => discard_others(&folder, &names),
            Some(Err(error)) => tracing::warn!("KV caches are not cleaned up: {error}"),
            None => {}
        }
        Self { kept_kv: Some(folder), ..self }
    }

    /// The same with a finder of models, whose results go to `results`.
    pub fn with_models(self, finder: ModelFinder, results: UnboundedSender<ScreenEvent>) -> Self {
        Self { models: Some((finder, results)), ..self }
    }

    /// Looks for models on a thread of its own: a disk may be slow. What is found comes as an
    /// event; if nothing can be looked for, that is the answer. `busy`: an answer is being made.
    pub fn find_models(
        &self,
        part: ModelPart,
        current: ModelChoice,
        busy: bool,
    ) -> Option<ScreenEvent> {
        let nothing = Some(ScreenEvent::Models { part, rows: Vec::new() });
        let Some((finder, results)) = self.models.clone() else { return nothing };
        let find = move || {
            let rows = finder.find(part, &current, busy);
            // There is no receiver once the screen has ended.
            let _ = results.send(ScreenEvent::Models { part, rows });
        };
        let thread = std::thread::Builder::new().name("dovetail-finder".into());
        match thread.spawn(find) {
            Ok(_) => None,
            Err(error) => {
                tracing::warn!("no thread to look for models: {error}");
                nothing
            }
        }
    }

    /// Sends a command to the worker; `false` if it has ended. An answer is told which conversation
    /// it belongs to; `target` answers in a new one.
    pub fn send(&mut self, target: &str, command: Command) -> bool {
        match command {
            Command::Generate(mut job) => {
                // It has its name from the first question on.
                let open = || OpenSession::new(target);
                let saved = self.store.is_some();
                let session = saved.then(|| self.session.get_or_insert_with(open));
                job.conversation = session.map(|session| session.name().to_string());
                self.worker.generate(job)
            }
            Command::Load(job) => self.worker.load(job),
            Command::Discard(conversation) => self.worker.discard(conversation),
        }
    }

    /// Saves the conversation and says where; `None` if there is nothing to save or nowhere.
    ///
    /// # Errors
    /// Why not, with the remedy.
    pub fn save(
        &mut self,
        target: &str,
        chat: impl Into<SavedChat>,
    ) -> Result<Option<Saved>, String> {
        let mut chat = chat.into();
        let Some(store) = &self.store else { return Ok(None) };
        if !chat.asks() {
            return Ok(None);
        }
        chat.extras.branch_of = self.branch_of.clone();
        let unsent = chat.extras.unsent.clone();
        let session = self.session.get_or_insert_with(|| OpenSession::new(target));
        session.update(chat);
        let saved = store.save(session).map(Some).map_err(|error| error.to_string());
        self.left.unsent = unsent.is_some() && saved.is_ok();
        self.left.lost = saved.as_ref().err().map(|why| (why.clone(), unsent));
        saved
    }

    /// The message that was left before anything was asked.
    pub fn unsent(&mut self) -> Option<ScreenEvent> {
        self.unsent = self.store.as_ref().and_then(SessionStore::unsent);
        self.unsent.clone().map(ScreenEvent::Unsent)
    }

    /// Keeps such a message for the next start, in the place of the one that was found.
    pub fn keep_unsent(&mut self, text: Option<String>) {
        let Some(store) = &self.store else { return };
        match store.keep_unsent(self.unsent.as_deref(), text.as_deref()) {
            Ok(()) => {
                self.left.unsent_alone = text.is_some();
                self.unsent = text;
            }
            Err(error) => {
                let why = format!("{} takes no file: {error}", store.folder().display());
                self.left.lost = Some((why, text));
            }
        }
    }

    /// What is told of the run, now that it has ended.
    pub fn left(&self) -> Left {
        Left { title: self.title(), ..self.left.clone() }
    }

    /// Remembers that the program has answered here.
    pub fn answered(&self) {
        let Some(store) = &self.store else { return };
        if let Err(error) = store.remember_answer() {
            tracing::warn!("the next first answer is played slowly again: {error}");
        }
    }

    /// From now on another conversation is saved.
    pub fn forget(&mut self) {
        self.session = None;
        self.branch_of = None;
    }

    /// From now on a branch is saved, which has `messages` messages in common with what was open.
    pub fn branch(&mut self, messages: usize) {
        let title = self.session.take().map(|open| open.session().title.clone());
        self.branch_of = title.map(|title| BranchOf { title, messages });
    }

    /// Title of the conversation that is open, if it is saved.
    fn title(&self) -> Option<String> {
        // Without a title nothing was saved yet.
        let title = self.session.as_ref().map(|open| open.session().title.clone());
        title.filter(|title| !title.is_empty())
    }

    /// Opens the conversation to begin with, or lists those there are.
    pub fn open(&mut self, opening: Opening) -> ScreenEvent {
        match opening {
            Opening::Listed => ScreenEvent::Sessions(self.list()),
            Opening::Titled(words) => self.load(&words),
            Opening::Latest => match self.list().map(|list| list.into_iter().next()) {
                Ok(Some(head)) => self.load(&head.id),
                Ok(None) => ScreenEvent::Told(Ok("no saved conversation yet".to_string())),
                Err(why) => ScreenEvent::Told(Err(why)),
            },
        }
    }

    fn saved(&self) -> Result<&SessionStore, String> {
        let none = || "conversations are not saved in this run".to_string();
        self.store.as_ref().ok_or_else(none)
    }

    /// Gives a saved conversation another title.
    ///
    /// # Errors
    /// Why not.
    pub fn rename(&mut self, id: &str, title: &str) -> Result<(), String> {
        let store = self.saved()?.clone();
        if let Some(open) = self.session.as_mut().filter(|open| open.name() == id) {
            open.rename(title);
            return store.save(open).map(drop).map_err(|error| error.to_string());
        }
        let renamed = store.load(id).and_then(|mut open| {
            open.rename(title);
            store.save(&mut open)
        });
        renamed.map(drop).map_err(|error| error.to_string())
    }

    /// Deletes a saved conversation, with its KV cache, and returns its name.
    ///
    /// # Errors
    /// Why not.
    pub fn delete(&self, id: String) -> Result<String, String> {
        if self.session.as_ref().is_some_and(|open| open.name() == id) {
            return Err("this is the conversation on the screen: /new leaves it".to_string());
        }
        self.saved()?.delete(&id).map_err(|error| error.to_string())?;
        // What was computed for it goes at once, whatever target it was for; what this target still
        // holds of it is not written any more.
        if let Some(folder) = &self.kept_kv {
            discard_kept(folder, &id);
        }
        self.worker.discard(id.clone());
        Ok(id)
    }

    /// Brings a deleted conversation back.
    ///
    /// # Errors
    /// Why not.
    pub fn restore(&self, id: &str) -> Result<String, String> {
        self.saved()?.restore(id).map_err(|error| error.to_string())?;
        Ok("it is back".to_string())
    }

    fn preset_file(&self) -> Result<Presets, String> {
        let folder = self.saved()?.folder();
        Ok(Presets::at(folder.parent().unwrap_or(folder).join("presets.json")))
    }

    /// The preset of this name.
    ///
    /// # Errors
    /// There is none.
    pub fn preset(&self, name: &str) -> Result<Preset, String> {
        self.preset_file()?.named(name)
    }

    /// Keeps a preset, and says so.
    ///
    /// # Errors
    /// Why not.
    pub fn save_preset(&self, name: &str, preset: Preset) -> Result<String, String> {
        self.preset_file()?.save(name, preset)?;
        Ok(format!("preset {name} is kept: /preset {name} takes it"))
    }

    /// Which presets there are.
    ///
    /// # Errors
    /// Why they cannot be read.
    pub fn presets(&self) -> Result<String, String> {
        let all = self.preset_file()?.all()?;
        let names: Vec<&str> = all.keys().map(String::as_str).collect();
        Ok(match names.as_slice() {
            [] => "no presets yet: /preset save NAME keeps system prompt and sampler".to_string(),
            _ => format!("presets: {}; /preset NAME takes one", names.join(", ")),
        })
    }

    /// Saved conversations, the latest first.
    ///
    /// # Errors
    /// Why they cannot be listed.
    pub fn list(&self) -> Result<Vec<SessionHead>, String> {
        let Some(store) = &self.store else { return Ok(Vec::new()) };
        let listing = store.list().map_err(|error| error.to_string())?;
        for broken in &listing.broken {
            tracing::warn!("{broken}");
        }
        Ok(listing.sessions)
    }

    /// Opens the conversation of this name, or whose title begins like this, and saves to it from
    /// now on. If several do, they are the answer.
    pub fn load(&mut self, words: &str) -> ScreenEvent {
        let Some(store) = &self.store else {
            return ScreenEvent::Loaded(Err("conversations are not saved in this run".to_string()));
        };
        match store.find(words) {
            Ok(SessionMatch::One(session)) => {
                let chat = session.session().chat();
                self.branch_of = chat.extras.branch_of.clone();
                self.session = Some(*session);
                ScreenEvent::Loaded(Ok(chat))
            }
            Ok(SessionMatch::Several(sessions)) => ScreenEvent::Sessions(Ok(sessions)),
            Err(error) => ScreenEvent::Loaded(Err(error.to_string())),
        }
    }

    /// Puts `text` on the clipboard: the desktop's, or through `terminal` where there is none or
    /// where the desktop is another machine's.
    ///
    /// # Errors
    /// Neither works.
    pub fn copy(
        &mut self,
        text: &str,
        terminal: impl FnOnce(&str) -> io::Result<()>,
    ) -> Result<(), String> {
        let remote = std::env::var_os("SSH_CONNECTION").is_some();
        if !remote {
            // Kept open: on X11 the clipboard is served by the program that filled it.
            if self.clipboard.is_none() {
                self.clipboard = arboard::Clipboard::new().ok();
            }
            if let Some(clipboard) = &mut self.clipboard
                && clipboard.set_text(text).is_ok()
            {
                return Ok(());
            }
        }
        terminal(text).map_err(|error| format!("cannot reach a clipboard: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::{Message, Role, SavedTurn};
    use crate::tui::testing::controls;
    use crate::worker::scripted::Script;

    fn said(role: Role, content: &str) -> SavedTurn {
        let message = Message::new(role, content);
        SavedTurn { message, interrupted: false }
    }

    fn runner(folder: &std::path::Path) -> EffectRunner {
        let shared = SharedControls::new(controls());
        let worker = Script::default().play(shared.clone(), Box::new(|_| true)).unwrap();
        EffectRunner::new(worker, shared, Some(SessionStore::at(folder)))
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
        let mut runner = runner(folder.path());
        assert_eq!(runner.save("t", vec![said(Role::System, "Be brief.")]), Ok(None));
        let mut talk = vec![said(Role::User, "Hi"), said(Role::Assistant, "Hello!")];
        assert!(runner.save("t", talk.clone()).unwrap().is_some());
        talk[1].message.content = "Hello again!".to_string();
        runner.save("t", talk.clone()).unwrap();
        let list = runner.list().unwrap();
        assert_eq!((list.len(), list[0].title.as_str(), list[0].messages), (1, "Hi", 2));
        runner.forget();
        runner.save("t", vec![said(Role::User, "Other")]).unwrap();
        assert_eq!(runner.list().unwrap().len(), 2);
        assert_eq!(loaded(runner.load(&list[0].id)).unwrap(), talk);
        assert!(loaded(runner.load("nothing")).unwrap_err().contains("nothing"));
    }

    #[test]
    fn a_branch_is_a_file_of_its_own_that_says_what_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let mut runner = runner(folder.path());
        let talk = vec![said(Role::User, "Hi"), said(Role::Assistant, "Hello!")];
        runner.save("t", talk.clone()).unwrap();
        runner.branch(0);
        runner.save("t", vec![said(Role::User, "Good day")]).unwrap();
        let list = runner.list().unwrap();
        let branch = list.iter().find(|head| head.title == "Good day").unwrap();
        let origin = BranchOf { title: "Hi".to_string(), messages: 0 };
        assert_eq!(branch.branch_of.as_ref(), Some(&origin));
        assert_eq!(loaded(runner.load("Hi")).unwrap(), talk, "the other one is as it was");
        runner.save("t", talk.clone()).unwrap();
        assert_eq!(
            runner.list().unwrap().iter().filter(|head| head.branch_of.is_some()).count(),
            1
        );
        runner.load(&branch.id);
        runner.save("t", vec![said(Role::User, "Good day"), talk[1].clone()]).unwrap();
        let list = runner.list().unwrap();
        assert_eq!(
            list.iter()
                .find(|head| head.messages == 2 && head.title == "Good day")
                .unwrap()
                .branch_of,
            Some(origin)
        );
    }

    #[test]
    fn an_answer_is_told_its_conversation_and_what_is_kept_goes_with_that() {
        let folder = tempfile::tempdir().unwrap();
        let (sessions, kept) = (folder.path().join("sessions"), folder.path().join("kv"));
        std::fs::create_dir(&kept).unwrap();
        let asked = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let (heard, shared) = (asked.clone(), SharedControls::new(controls()));
        let worker = Script::default().play(shared.clone(), Box::new(|_| true)).unwrap();
        let worker = worker.tapped(Box::new(move |command| {
            heard.lock().unwrap().push(command.clone());
        }));
        let store = SessionStore::at(sessions);
        let mut runner = EffectRunner::new(worker, shared, Some(store.clone()));
        runner.kept_kv = Some(kept.clone());
        let job = crate::worker::Job {
            generation: 1,
            messages: Vec::new(),
            max_tokens: 1,
            thinking: None,
            afresh: false,
            conversation: None,
        };
        // The first question is on its way before it is saved.
        assert!(runner.send("t", Command::Generate(job)));
        assert_eq!(runner.left(), Left::default(), "nothing is saved yet");
        runner.save("t", vec![said(Role::User, "Hi")]).unwrap();
        let id = runner.list().unwrap()[0].id.clone();
        let told = |asked: &[Command]| match asked.last() {
            Some(Command::Generate(job)) => job.conversation.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(told(&asked.lock().unwrap()), Some(id.clone()));
        let file = |id: &str| kept.join(crate::worker::kept_kv_name("target", id));
        std::fs::write(file(&id), "x").unwrap();
        std::fs::write(file("another"), "x").unwrap();
        runner.forget();
        runner.delete(id.clone()).unwrap();
        assert!(!file(&id).exists() && file("another").exists());
        assert_eq!(asked.lock().unwrap().last(), Some(&Command::Discard(id.clone())));
        // At the next start what belongs to no conversation goes too.
        runner.restore(&id).unwrap();
        std::fs::write(file(&id), "x").unwrap();
        let runner = runner.with_kept_kv(kept.clone());
        assert!(file(&id).exists() && !file("another").exists());
        drop(runner);
    }

    #[test]
    fn what_was_not_sent_is_kept_and_what_cannot_be_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = runner(folder.path());
        assert!(first.unsent().is_none());
        first.keep_unsent(Some("half".to_string()));
        assert_eq!(first.left(), Left { unsent_alone: true, ..Left::default() });
        let mut second = runner(folder.path());
        assert!(matches!(second.unsent(), Some(ScreenEvent::Unsent(text)) if text == "half"));
        let mut chat = SavedChat::from(vec![said(Role::User, "half and all of it")]);
        chat.extras.unsent = Some("more".to_string());
        second.save("t", chat.clone()).unwrap();
        second.keep_unsent(None);
        let title = Some("half and all of it".to_string());
        assert_eq!(second.left(), Left { title, unsent: true, ..Left::default() });
        assert!(runner(folder.path()).unsent().is_none(), "it was sent");
        let ScreenEvent::Loaded(Ok(again)) = second.load("half") else { panic!("not loaded") };
        assert_eq!(again.extras.unsent.as_deref(), Some("more"));
        // A folder that is a file.
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let mut third = runner(&file.join("below"));
        assert!(third.save("t", chat).is_err());
        let (why, unsent) = third.left().lost.unwrap();
        assert!(why.contains("below") && unsent.as_deref() == Some("more"), "{why}");
        third.keep_unsent(Some("lost".to_string()));
        assert_eq!(third.left().lost.unwrap().1.as_deref(), Some("lost"));
    }

    #[test]
    fn several_titles_that_begin_alike_are_offered() {
        let folder = tempfile::tempdir().unwrap();
        let mut runner = runner(folder.path());
        for question in ["Tell me a story", "Tell me a joke", "What is a river?"] {
            runner.forget();
            runner.save("t", vec![said(Role::User, question)]).unwrap();
        }
        let offered = runner.load("tell");
        assert!(
            matches!(&offered, ScreenEvent::Sessions(Ok(list)) if list.len() == 2),
            "{offered:?}"
        );
        let story = loaded(runner.load("tell me a S")).unwrap();
        assert_eq!(story, [said(Role::User, "Tell me a story")]);
    }

    #[test]
    fn temporary_files_of_a_killed_program_are_removed_at_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let leftover = folder.path().join(".dovetail-abc123.tmp");
        std::fs::write(&leftover, "{").unwrap();
        let _runner = runner(folder.path());
        assert!(!leftover.exists());
    }
}
