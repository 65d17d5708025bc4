//! The owner's side of a worker thread: commands, cancellation, end. It must not depend on what
//! runs on the thread.

use super::{Command, Event, SharedControls};
use std::fmt;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Where events go. It must not block; `false` means that the receiver is gone.
pub type Sink = Box<dyn FnMut(Event) -> bool + Send>;

/// Passes on a command; `false` if the worker has ended.
pub(crate) type Post = Box<dyn Fn(Command) -> bool + Send>;

/// How long a dropped worker waits for its thread. When the process ends, a graphics driver is torn
/// down, and NVIDIA's crashes if a thread still frees what is on the card.
const FREEING: Duration = Duration::from_secs(2);

/// A worker thread. Dropping it stops the answer and the load in progress and ends the thread.
pub struct Worker {
    post: Option<Post>,
    controls: SharedControls,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Runs `body` on a separate thread, to which `post` passes commands. It ends when `post` is
    /// dropped.
    ///
    /// # Errors
    /// If the system refuses to start a thread.
    pub(crate) fn start(
        name: &str,
        controls: SharedControls,
        post: Post,
        body: impl FnOnce(SharedControls) + Send + 'static,
    ) -> std::io::Result<Self> {
        let shared = controls.clone();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(|| body(shared))?;
        Ok(Self { post: Some(post), controls, thread: Some(thread) })
    }

    /// The same worker, but `tap` receives every command before it is passed on.
    pub fn tapped(mut self, tap: Box<dyn Fn(&Command) + Send>) -> Self {
        if let Some(post) = self.post.take() {
            self.post = Some(Box::new(move |command| {
                tap(&command);
                post(command)
            }));
        }
        self
    }

    /// Passes on a command: an answer stops any other, a load any other load. `false` if the worker
    /// has ended (its last event said why).
    pub fn send(&self, command: Command) -> bool {
        self.controls.update(|controls| match &command {
            Command::Generate(job) => controls.generation = job.generation,
            Command::Load(job) => controls.load = job.load,
            Command::Discard(_) => {}
        });
        self.post.as_ref().is_some_and(|post| post(command))
    }

    /// The controls that it reads before every round.
    pub fn controls(&self) -> &SharedControls {
        &self.controls
    }

    /// Whether the thread has ended.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Stops the answer in progress and waits until the thread has ended, at most for the rest of
    /// the current round or prefill slice.
    pub fn join(mut self) {
        self.disconnect();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has already been reported as an event.
            let _ = thread.join();
        }
    }

    /// Stops the answer in progress, lets the thread save what it holds, and waits until it has
    /// ended, at most for `limit`; what has not been written by then is given up.
    pub fn end(self, limit: Duration) {
        self.controls.update(|controls| controls.leave_by = Some(Instant::now() + limit));
    }

    fn disconnect(&mut self) {
        self.post = None;
        // Wakes a paused worker too; 0 is not the generation of any answer.
        self.controls.update(|controls| {
            controls.generation = 0;
            controls.load = 0;
        });
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("thread", &self.thread).finish_non_exhaustive()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.disconnect();
        let until = self.controls.get().leave_by.unwrap_or_else(|| Instant::now() + FREEING);
        while !self.is_finished() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::channel;

    #[test]
    fn a_dropped_worker_has_freed_what_it_held() {
        let (commands, waiting) = channel();
        let post = Box::new(move |command| commands.send(command).is_ok());
        let freed = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&freed);
        let body = move |_| {
            while waiting.recv().is_ok() {}
            std::thread::sleep(Duration::from_millis(100));
            theirs.store(true, Ordering::Release);
        };
        let controls = SharedControls::new(crate::worker::Controls::default());
        drop(Worker::start("slow", controls, post, body).unwrap());
        assert!(freed.load(Ordering::Acquire));
    }
}
