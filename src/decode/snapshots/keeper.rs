//! Saves what an engine holds, on a separate thread, and finds it again. It must not depend on the
//! layout of a file.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::folder::discard_snapshots;
use super::snapshot::Snapshot;
use super::store::{LEAST, SnapshotStore};
use crate::decode::Engine;
use crate::files::checksum;

/// What the thread does next.
enum SnapshotTask {
    /// Writes the text of the conversation with this name.
    Write(Snapshot, String),
    /// Removes what was saved of it.
    Discard(String),
}

/// Writes what an engine holds of saved conversations, and finds it again.
pub struct SnapshotKeeper {
    store: Arc<SnapshotStore>,
    /// `None` once nothing more is saved.
    tasks: Option<Sender<SnapshotTask>>,
    thread: JoinHandle<()>,
    /// The checksum of the tokens that were last passed to the thread.
    last: Option<u64>,
    /// The name of the conversation that the engine holds; `None` if it is not saved.
    conversation: Option<String>,
}

impl SnapshotKeeper {
    /// Starts the thread; `None` if the system refuses.
    pub fn start(store: SnapshotStore) -> Option<Self> {
        let store = Arc::new(store);
        let (tasks, waiting) = channel::<SnapshotTask>();
        let theirs = Arc::clone(&store);
        let work = move || {
            let mut next = waiting.recv().ok();
            while let Some(task) = next {
                let newer = waiting.try_recv().ok();
                match (task, &newer) {
                    // Only the latest is worth the time.
                    (SnapshotTask::Write(..), Some(SnapshotTask::Write(..))) => {}
                    (SnapshotTask::Write(text, conversation), _) => {
                        if let Err(error) = theirs.write(&text, &conversation) {
                            tracing::warn!("cannot save a KV cache: {error}");
                        }
                    }
                    (SnapshotTask::Discard(conversation), _) => {
                        discard_snapshots(theirs.folder(), &conversation);
                    }
                }
                next = newer.or_else(|| waiting.recv().ok());
            }
        };
        let thread = std::thread::Builder::new().name("dovetail-kv".into()).spawn(work);
        let thread =
            thread.inspect_err(|error| tracing::warn!("cannot save KV caches: {error}")).ok()?;
        Some(Self { store, tasks: Some(tasks), thread, last: None, conversation: None })
    }

    /// Resumes the saved text with which `prompt` begins, if that is longer than what `engine`
    /// holds of it.
    pub fn recall(&mut self, engine: &mut Engine, prompt: &[u32]) {
        let held = engine.committed().iter().zip(prompt).take_while(|(a, b)| a == b).count();
        let Some(snapshot) = self.store.find(prompt, held) else { return };
        if engine.resume(&snapshot) {
            self.last = Some(sum(&snapshot.tokens));
        } else {
            tracing::warn!("a saved KV cache does not fit its target; reading the prompt again");
        }
    }

    /// Declares that what the engine holds from now on belongs to the saved conversation with this
    /// name, if any.
    pub fn begin(&mut self, conversation: Option<&str>) {
        if self.conversation.as_deref() != conversation {
            self.conversation = conversation.map(str::to_owned);
            self.last = None;
        }
    }

    /// Saves what `engine` holds, unless that has been done or it belongs to no saved conversation.
    pub fn keep(&mut self, engine: &Engine) {
        let tokens = engine.committed();
        let new = self.last != Some(sum(tokens));
        let (Some(conversation), true) = (&self.conversation, tokens.len() >= LEAST && new) else {
            return;
        };
        self.last = Some(sum(tokens));
        if let Some(text) = engine.snapshot(self.store.most_of_one()) {
            self.tell(SnapshotTask::Write(text, conversation.clone()));
        }
    }

    /// Removes what was saved of the conversation with this name, and saves no more of it.
    pub fn discard(&mut self, conversation: &str) {
        if self.conversation.as_deref() == Some(conversation) {
            self.conversation = None;
        }
        // After what is currently being written of it.
        self.tell(SnapshotTask::Discard(conversation.to_owned()));
    }

    fn tell(&self, task: SnapshotTask) {
        if let Some(tasks) = &self.tasks {
            // The thread ends only with this sender.
            let _ = tasks.send(task);
        }
    }

    /// What has not been written by `until` is given up.
    pub fn end_by(&self, until: Instant) {
        self.store.end_by(until);
    }

    /// Waits until everything is written, but not beyond `until`.
    pub fn finish(&mut self, until: Instant) {
        self.tasks = None;
        while !self.thread.is_finished() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn sum(tokens: &[u32]) -> u64 {
    let bytes: Vec<u8> = tokens.iter().flat_map(|token| token.to_le_bytes()).collect();
    checksum(&bytes)
}
