//! The owner's side of a worker thread.

use super::{Command, Event, Job, SharedControls};
use std::sync::mpsc;
use std::thread::JoinHandle;

/// Where events go. It must not block; `false` says that the receiver is gone.
pub type Sink = Box<dyn FnMut(Event) -> bool + Send>;

/// A worker thread. Dropping it stops the answer in progress and ends the thread.
#[derive(Debug)]
pub struct Worker {
    commands: Option<mpsc::Sender<Command>>,
    controls: SharedControls,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Runs `body` on a thread of its own. It ends when the receiver is disconnected.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub(super) fn start(
        name: &str,
        controls: SharedControls,
        body: impl FnOnce(mpsc::Receiver<Command>, SharedControls) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (commands, receiver) = mpsc::channel();
        let shared = controls.clone();
        let thread =
            std::thread::Builder::new().name(name.to_owned()).spawn(|| body(receiver, shared))?;
        Ok(Self { commands: Some(commands), controls, thread: Some(thread) })
    }

    /// Asks for an answer and makes it the wanted one, which stops any other. `false` if the
    /// worker has ended (its last event said why).
    pub fn generate(&self, job: Job) -> bool {
        self.controls.update(|controls| controls.generation = job.generation);
        self.commands.as_ref().is_some_and(|c| c.send(Command::Generate(job)).is_ok())
    }

    /// What can be turned while it works.
    pub fn controls(&self) -> &SharedControls {
        &self.controls
    }

    /// Whether the thread has ended.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Stops the answer in progress and waits until the thread has ended: for the rest of the
    /// current round or prefill slice.
    pub fn join(mut self) {
        self.disconnect();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported as an event already.
            let _ = thread.join();
        }
    }

    fn disconnect(&mut self) {
        self.commands = None;
        // Wakes a paused worker too; 0 is no answer's generation.
        self.controls.update(|controls| controls.generation = 0);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.disconnect();
    }
}
