//! Carries out effects: worker, files, clipboard. Must never know widgets.

pub(crate) mod exchange;
pub(crate) mod model_finder;
pub(crate) mod presets;

use std::io;
use std::process::Stdio;
use std::time::{Duration, Instant};

use self::model_finder::ModelFinder;
use crate::chat::{OpenSession, SessionStore};
use crate::printable::printable;
use crate::worker::{Command, ModelChoice, SharedControls, Worker};

mod keeper;
mod storage;
mod unsaved;

pub(crate) use self::keeper::Keeper;
pub(crate) use self::storage::StorageThread;
pub use self::unsaved::Lost;

/// What was left when the program was, and where it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Title of the conversation that was open, if it is saved.
    pub title: Option<String>,
    /// The models that answered in it.
    pub models: Option<ModelChoice>,
    /// Whether a message that was not sent is kept with it.
    pub unsent: bool,
    /// Whether one is kept for the next conversation.
    pub unsent_alone: bool,
    /// What could not be saved.
    pub lost: Option<Lost>,
}

/// A saved conversation to begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opening {
    Latest,
    /// The one with this name or this beginning of a title.
    Titled(String),
    /// The one that is chosen from the list.
    Listed,
}

/// Everything outside the screen that effects act on.
pub struct EffectRunner {
    /// The decode thread.
    pub worker: Worker,
    pub controls: SharedControls,
    /// The thread that owns the saved conversations.
    pub storage: StorageThread,
    /// Whether conversations are saved.
    saves: bool,
    /// The name of the open conversation's file, once there is a question.
    name: Option<String>,
    /// Counts lists and conversations that were asked for: one that comes after the next was asked
    /// for is dropped.
    pub asked: u64,
    clipboard: Option<arboard::Clipboard>,
    /// Finds the models that can be chosen.
    pub models: ModelFinder,
}

impl EffectRunner {
    /// With no conversation open. Conversations are saved in `store`, if there is one.
    ///
    /// # Errors
    /// The system refuses to start a thread.
    pub fn new(
        worker: Worker,
        controls: SharedControls,
        store: Option<SessionStore>,
        models: ModelFinder,
    ) -> io::Result<Self> {
        let saves = store.is_some();
        let keeper = Keeper::new(store, models.clone());
        let storage = StorageThread::start(keeper)?;
        let (name, clipboard) = (None, None);
        Ok(Self { worker, controls, storage, saves, name, asked: 0, clipboard, models })
    }

    /// The name under which the open conversation is saved; it has one from its first question on.
    pub fn name(&mut self) -> Option<&str> {
        self.saves.then(|| &**self.name.get_or_insert_with(OpenSession::new_name))
    }

    /// What is saved from now on is another conversation: that of this name, or a new one.
    pub fn rename(&mut self, name: Option<String>) {
        self.name = name;
        self.asked += 1;
    }

    /// Sends a command to the worker; `false` if it has ended. An answer gets the name of the
    /// conversation it belongs to.
    pub fn send(&mut self, mut command: Command) -> bool {
        if let Command::Generate(job) = &mut command {
            job.conversation = self.name().map(str::to_string);
        }
        self.worker.send(command)
    }

    /// Puts `text` on the clipboard: the desktop's, or through `terminal` where there is none or
    /// where the desktop is another machine's. Control characters are copied as they are shown.
    /// Returns what came of it, for the user.
    ///
    /// # Errors
    /// Neither works.
    pub fn copy(
        &mut self,
        text: &str,
        terminal: impl FnOnce(&str) -> io::Result<()>,
    ) -> Result<String, String> {
        let text = text.replace("\r\n", "\n");
        let text = printable(&text);
        let remote = std::env::var_os("SSH_CONNECTION").is_some();
        if !remote {
            // Kept open: on X11 the clipboard is served by the program that filled it.
            if self.clipboard.is_none() {
                self.clipboard = arboard::Clipboard::new().ok();
            }
            if let Some(clipboard) = &mut self.clipboard
                && clipboard.set_text(&*text).is_ok()
            {
                return Ok("Copied".to_string());
            }
        }
        if std::env::var_os("TMUX").is_some() && !tmux_passes_copies() {
            let remedy = "allow it with: tmux set -s set-clipboard on";
            return Err(format!("Not copied: tmux keeps it from the clipboard · {remedy}"));
        }
        terminal(&text).map_err(|error| format!("Cannot reach a clipboard: {error}"))?;
        Ok("Handed to the terminal, which copies it if it allows OSC 52".to_string())
    }
}

/// Whether tmux takes copies of the programs in it (`set-clipboard on`), as far as it says so soon.
fn tmux_passes_copies() -> bool {
    const LIMIT: Duration = Duration::from_millis(200);
    let asked = std::process::Command::new("tmux")
        .args(["show-options", "-sv", "set-clipboard"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut tmux) = asked else { return false };
    let began = Instant::now();
    while began.elapsed() < LIMIT {
        if let Ok(Some(_)) = tmux.try_wait() {
            return tmux.wait_with_output().is_ok_and(|said| said.stdout.trim_ascii() == b"on");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    // It may have ended by itself.
    let _ = tmux.kill();
    false
}

#[cfg(test)]
mod tests;
