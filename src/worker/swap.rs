//! Other models, loaded on a thread of their own while those in use go on answering. Must never
//! know what a model consists of.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::backend::Backend;
use super::load::{LoadedDrafts, SharedTarget};
use super::protocol::{Event, LoadJob, ModelChoice};
use super::{SharedControls, Sink};
use crate::decode::panic_message;

/// Told of the stage of loading and how far it is, 0 to 1, where that is known.
pub type Loading<'a> = &'a mut dyn FnMut(&str, Option<f32>);

/// Where other models go.
#[derive(Clone, Copy)]
pub enum Room<'a> {
    /// Beside those in use: refused where both do not fit. The target in use, if any, is kept where
    /// it is among those wanted.
    Beside(Option<&'a SharedTarget>),
    /// In the place of those that were in use.
    Alone,
}

/// What was loaded.
pub enum NewModels {
    /// A target with its drafters.
    All(Box<Backend>),
    /// Other drafters for the target in use.
    Drafts(Box<LoadedDrafts>),
}

/// Why other models were not loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadFailure {
    /// They do not fit beside those in use: a sentence with both sizes.
    NoRoom(String),
    /// For the user, with the remedy.
    Failed(String),
    /// They are not wanted any more.
    Stopped,
}

/// Loads models for the decode thread.
pub trait Loader: Send + Sync + 'static {
    /// The models to begin with; the error is for the user.
    fn first(&self, progress: Loading<'_>) -> Result<Backend, String>;

    /// Other models.
    fn load(
        &self,
        models: &ModelChoice,
        room: Room<'_>,
        progress: Loading<'_>,
    ) -> Result<NewModels, LoadFailure>;
}

/// The sink of events, for several threads.
#[derive(Clone)]
pub(super) struct SharedSink(Arc<Mutex<Sink>>);

impl SharedSink {
    pub(super) fn new(sink: Sink) -> Self {
        Self(Arc::new(Mutex::new(sink)))
    }

    /// Sends an event; `false` if the receiver is gone.
    pub(super) fn send(&self, event: Event) -> bool {
        // A sink that panicked before is as good as any: it has no state of ours.
        let mut sink = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (*sink)(event)
    }
}

/// The same for a thread that must not keep the sink: its end tells the receiver that decoding has
/// ended.
#[derive(Clone)]
pub(super) struct WeakSink(Weak<Mutex<Sink>>);

impl WeakSink {
    pub(super) fn of(sink: &SharedSink) -> Self {
        Self(Arc::downgrade(&sink.0))
    }

    /// Sends an event; `false` if decoding or the receiver has ended.
    pub(super) fn send(&self, event: Event) -> bool {
        self.0.upgrade().is_some_and(|sink| SharedSink(sink).send(event))
    }
}

/// Unwinds a load that is not wanted any more.
struct NotWanted;

/// Runs `load` until it ends or `Controls::load` becomes another number than the job's: its
/// progress is reported, and where it is reported it can be stopped.
pub(super) fn stoppable<T>(
    job: u64,
    controls: &SharedControls,
    send: &dyn Fn(Event) -> bool,
    load: impl FnOnce(Loading<'_>) -> Result<T, LoadFailure>,
) -> Result<T, LoadFailure> {
    let wanted = || controls.get().load == job;
    let mut progress = |stage: &str, fraction| {
        let event = Event::LoadProgress { load: job, stage: stage.to_owned(), fraction };
        if !wanted() || !send(event) {
            // Neither a panic nor reported as one: loading has no way of its own to stop.
            resume_unwind(Box::new(NotWanted));
        }
    };
    let loaded = catch_unwind(AssertUnwindSafe(|| {
        progress("waiting", None);
        load(&mut progress)
    }));
    match loaded {
        Ok(_) if !wanted() => Err(LoadFailure::Stopped),
        Ok(loaded) => loaded,
        Err(panic) if panic.is::<NotWanted>() => Err(LoadFailure::Stopped),
        Err(panic) => {
            let reason = panic_message(panic.as_ref());
            tracing::error!("loading panicked: {reason}");
            Err(LoadFailure::Failed(format!(
                "internal error: {reason} (a bug in dovetail; see the log)"
            )))
        }
    }
}

/// What came of a load.
pub(super) type LoadOutcome = (LoadJob, Result<NewModels, LoadFailure>);

/// The target in use, as the load thread sees it.
pub(super) type TargetInUse = Arc<Mutex<Option<SharedTarget>>>;

/// Loads other models, one after the other, while those in use answer. Each begins when `jobs` has
/// it and hands what came of it to `done`; the thread ends with `jobs`.
///
/// # Errors
/// If the system gives no thread.
pub(super) fn start_load_thread(
    loader: Arc<dyn Loader>,
    controls: SharedControls,
    sink: WeakSink,
    target: TargetInUse,
    jobs: Receiver<LoadJob>,
    done: impl Fn(LoadOutcome) -> bool + Send + 'static,
) -> std::io::Result<()> {
    let work = move || {
        for job in jobs {
            let target = target.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let loaded = stoppable(job.load, &controls, &|event| sink.send(event), |progress| {
                loader.load(&job.models, Room::Beside(target.as_ref()), progress)
            });
            if !done((job, loaded)) {
                return;
            }
        }
    };
    std::thread::Builder::new().name("dovetail-load".into()).spawn(work).map(drop)
}
