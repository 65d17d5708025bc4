//! The decode thread: it loads models, then generates one answer after the other, and switches to
//! other models between two answers. It never waits for the screen, and a panic in it becomes an
//! event. It must not depend on where models come from.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvError, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::answer::Watcher;
use super::protocol::LoadJob;
use super::swap::{
    LoadFailure, LoadOutcome, Loader, NewModels, SharedSink, TargetInUse, internal, send,
    send_if_alive, start_load_thread, stoppable,
};
use super::{Backend, Command, Event, Job, Loading, ModelChoice, SharedControls, Sink, Worker};

/// How long the thread is idle before the KV cache of the last answer is saved.
const IDLE: Duration = Duration::from_millis(700);

/// The name of the thread, which identifies its panics.
pub const THREAD: &str = "dovetail-decode";

/// Starts the decode thread with models that `loader` makes and can replace. Events: `Loading` as
/// reported by the loader, then `Ready` or `Failed { generation: None }`, then those of the
/// answers; after [`Command::Load`], `LoadProgress`, possibly `Unloaded`, then `Swapped` or
/// `NotSwapped`.
///
/// # Errors
/// If the system refuses to start a thread.
pub fn spawn(controls: SharedControls, sink: Sink, loader: impl Loader) -> std::io::Result<Worker> {
    let loader: Arc<dyn Loader> = Arc::new(loader);
    let (tasks, waiting) = channel();
    let (loads, jobs) = channel();
    let answers = tasks.clone();
    // An answer in progress keeps this thread from its tasks, so another thread takes loads.
    let post = Box::new(move |command| match command {
        Command::Load(job) => loads.send(job).is_ok(),
        other => answers.send(WorkerTask::Command(other)).is_ok(),
    });
    Worker::start(THREAD, controls, post, move |controls| {
        let sink: SharedSink = Arc::new(Mutex::new(sink));
        // Dropped before the sink, so that a receiver that learns of the thread's end can send it
        // nothing more.
        let waiting = waiting;
        let jobs = jobs;
        let progress = |stage: &str, fraction: Option<f32>| {
            send(&sink, Event::Loading { stage: stage.to_owned(), fraction });
        };
        let Some(backend) = load_or_report(&*loader, None, &sink, &progress) else { return };
        let target = TargetInUse::default();
        let done = move |loaded| tasks.send(WorkerTask::Loaded(Box::new(loaded))).is_ok();
        let theirs = Arc::clone(&target);
        let copy = Arc::downgrade(&sink);
        let started =
            start_load_thread(Arc::clone(&loader), controls.clone(), copy, theirs, jobs, done);
        if let Err(error) = started {
            let error = format!("cannot start a thread: {error}");
            send(&sink, Event::Failed { generation: None, error });
            return;
        }
        DecodeThread { loader, controls, sink, target, backend }.run(waiting);
    })
}

/// What the decode thread does next.
enum WorkerTask {
    /// Anything but a load.
    Command(Command),
    /// A load has ended.
    Loaded(Box<LoadOutcome>),
}

/// The decode thread with its loaded models. If a method returns a flag, it says whether the thread
/// continues.
struct DecodeThread {
    loader: Arc<dyn Loader>,
    controls: SharedControls,
    sink: SharedSink,
    /// For the load thread.
    target: TargetInUse,
    backend: Backend,
}

impl DecodeThread {
    fn run(mut self, waiting: Receiver<WorkerTask>) {
        self.publish_target();
        let ready = Event::Ready(Box::new(self.backend.ready.clone()));
        let mut go_on = self.send(ready) && self.send_notices();
        while go_on {
            let task = match waiting.recv_timeout(IDLE) {
                Err(RecvTimeoutError::Timeout) => {
                    // There is no other task, so the time is used for saving.
                    self.guarded(Backend::keep);
                    waiting.recv()
                }
                Err(RecvTimeoutError::Disconnected) => Err(RecvError),
                Ok(task) => Ok(task),
            };
            go_on = match task {
                Ok(WorkerTask::Command(Command::Generate(job))) => self.answer(&job),
                Ok(WorkerTask::Command(Command::Discard(conversation))) => {
                    self.backend.discard(&conversation);
                    true
                }
                // The other thread takes loads.
                Ok(WorkerTask::Command(Command::Load(_))) => true,
                Ok(WorkerTask::Loaded(loaded)) => {
                    let (job, result) = *loaded;
                    let Some(thread) = self.finish_load(&job, result) else { return };
                    self = thread;
                    true
                }
                Err(_) => false,
            };
        }
        if let Some(until) = self.controls.get().leave_by {
            self.guarded(|backend| backend.finish(until));
        }
    }

    /// Sends an event; `false` if the receiver is gone.
    fn send(&self, event: Event) -> bool {
        send(&self.sink, event)
    }

    /// From now on, other drafters are loaded for this target.
    fn publish_target(&self) {
        let target = self.backend.shared.clone();
        *self.target.lock().unwrap_or_else(PoisonError::into_inner) = target;
    }

    fn send_notices(&mut self) -> bool {
        let notices = std::mem::take(&mut self.backend.notices);
        notices.into_iter().all(|notice| self.send(Event::Notice(notice)))
    }

    /// Saves the conversation's KV cache; a panic there does not end the thread.
    fn guarded(&mut self, keep: impl FnOnce(&mut Backend)) {
        let kept = catch_unwind(AssertUnwindSafe(|| keep(&mut self.backend)));
        if let Err(panic) = kept {
            internal(panic.as_ref());
        }
    }

    fn answer(&mut self, job: &Job) -> bool {
        let Self { backend, controls, sink, .. } = self;
        let told = Arc::downgrade(sink);
        let watcher: Watcher = Arc::new(move |event| {
            // Whether the receiver still exists is checked when the round has ended.
            send_if_alive(&told, event);
        });
        let answered = catch_unwind(AssertUnwindSafe(|| {
            backend.answer_watched(job, controls, &mut |event| send(sink, event), Some(watcher))
        }));
        answered.unwrap_or_else(|panic| {
            let error = internal(panic.as_ref());
            // The caches may now contain anything, so they are not used any more.
            let usable = catch_unwind(AssertUnwindSafe(|| self.backend.engine.forget())).is_ok();
            self.send(Event::Failed { generation: Some(job.generation), error }) && usable
        })
    }

    /// Starts using what was loaded, or continues with the current models. `None` ends the thread.
    fn finish_load(self, job: &LoadJob, result: Result<NewModels, LoadFailure>) -> Option<Self> {
        let load = job.load;
        match result {
            Ok(_) if self.controls.get().load != load => self.not_swapped(load, None),
            Ok(models) => self.swapped(load, models),
            Err(LoadFailure::NoRoom(reason)) => self.load_alone(job, reason),
            Err(LoadFailure::Failed(error)) => self.not_swapped(load, Some(error)),
            Err(LoadFailure::Stopped) => self.not_swapped(load, None),
        }
    }

    fn swapped(mut self, load: u64, models: NewModels) -> Option<Self> {
        match models {
            NewModels::All(backend) => self.backend = *backend,
            NewModels::Drafts(drafts) => {
                let target = self.backend.shared.as_ref();
                if !target.is_some_and(|target| target.is_same(&drafts.shared)) {
                    let error = "the target has changed meanwhile; choose the draft again";
                    return self.not_swapped(load, Some(error.to_owned()));
                }
                self.backend.replace_drafts(*drafts);
            }
        }
        self.announce(load)
    }

    fn announce(mut self, load: u64) -> Option<Self> {
        self.publish_target();
        let ready = Box::new(self.backend.ready.clone());
        (self.send(Event::Swapped { load, ready }) && self.send_notices()).then_some(self)
    }

    fn not_swapped(self, load: u64, error: Option<String>) -> Option<Self> {
        self.send(Event::NotSwapped { load, error }).then_some(self)
    }

    /// Unloads the current models before it loads others, because both do not fit. If those cannot
    /// be loaded, or are no longer wanted, it loads the previous models again.
    fn load_alone(self, job: &LoadJob, reason: String) -> Option<Self> {
        let Self { loader, controls, sink, target, backend } = self;
        let load = job.load;
        if !send(&sink, Event::Unloaded { load, reason }) {
            return None;
        }
        let former = backend.ready.models.clone();
        drop(backend);
        // It shares the models' matrices.
        *target.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let loaded = stoppable(load, &controls, &|event| send(&sink, event), |progress| {
            loader.alone(Some(&job.models), progress)
        });
        let error = match loaded {
            Ok(backend) => return Self { loader, controls, sink, target, backend }.announce(load),
            Err(LoadFailure::NoRoom(error) | LoadFailure::Failed(error)) => Some(error),
            Err(LoadFailure::Stopped) => None,
        };
        let progress = |stage: &str, fraction: Option<f32>| {
            send(&sink, Event::LoadProgress { load, stage: stage.to_owned(), fraction });
        };
        // Without any model, the thread ends.
        let backend = load_or_report(&*loader, Some(&former), &sink, &progress)?;
        let thread = Self { loader, controls, sink, target, backend };
        thread.publish_target();
        thread.not_swapped(load, error)
    }
}

/// Loads models while no others are in use; if that fails, the receiver learns why.
fn load_or_report(
    loader: &dyn Loader,
    models: Option<&ModelChoice>,
    sink: &SharedSink,
    progress: Loading<'_>,
) -> Option<Backend> {
    let error = match catch_unwind(AssertUnwindSafe(|| loader.alone(models, progress))) {
        Ok(Ok(backend)) => return Some(backend),
        Ok(Err(LoadFailure::Failed(why) | LoadFailure::NoRoom(why))) => why,
        Ok(Err(LoadFailure::Stopped)) => "loading was stopped".to_owned(),
        Err(panic) => internal(panic.as_ref()),
    };
    send(sink, Event::Failed { generation: None, error });
    None
}
