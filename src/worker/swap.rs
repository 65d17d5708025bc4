//! Other models, loaded on a separate thread while the current ones continue to answer. It must not
//! depend on what a model consists of.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::backend::Backend;
use super::protocol::{Event, LoadJob, ModelChoice};
use super::{SharedControls, Sink};
use crate::caught::panic_message;
pub use crate::load::Loading;
use crate::load::{LoadedDrafts, SharedTarget};

/// What was loaded.
pub enum NewModels {
    /// A target with its drafters.
    All(Box<Backend>),
    /// Other drafters for the current target.
    Drafts(Box<LoadedDrafts>),
}

/// Why other models were not loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadFailure {
    /// They do not fit next to the current models: a sentence with both sizes.
    NoRoom(String),
    /// A message for the user, with what to do.
    Failed(String),
    /// They are no longer wanted.
    Stopped,
}

/// Loads models for the decode thread.
pub trait Loader: Send + Sync + 'static {
    /// Other models next to the current ones: refused if both do not fit. The current target, if
    /// any, stays where it is if it is among those wanted.
    fn beside(
        &self,
        models: &ModelChoice,
        target: Option<&SharedTarget>,
        progress: Loading<'_>,
    ) -> Result<NewModels, LoadFailure>;

    /// These models while no others are in use; the initial ones if none are named.
    fn alone(
        &self,
        models: Option<&ModelChoice>,
        progress: Loading<'_>,
    ) -> Result<Backend, LoadFailure>;
}

/// The sink of events, for several threads.
pub(super) type SharedSink = Arc<Mutex<Sink>>;

/// Sends an event; `false` if the receiver is gone.
pub(super) fn send(sink: &Mutex<Sink>, event: Event) -> bool {
    // A sink that panicked earlier can still be used: it has no state of ours.
    let mut sink = sink.lock().unwrap_or_else(PoisonError::into_inner);
    (*sink)(event)
}

/// The same for a thread that must not keep the sink alive, because the end of the sink tells the
/// receiver that decoding has ended.
pub(super) fn send_if_alive(sink: &Weak<Mutex<Sink>>, event: Event) -> bool {
    sink.upgrade().is_some_and(|sink| send(&sink, event))
}

/// Unwinds a load that is no longer wanted.
struct NotWanted;

/// Runs `load` until it ends or `Controls::load` is no longer the job's number. Its progress is
/// reported, and at each report it can be stopped.
pub(super) fn stoppable<T>(
    job: u64,
    controls: &SharedControls,
    send: &dyn Fn(Event) -> bool,
    load: impl FnOnce(Loading<'_>) -> Result<T, LoadFailure>,
) -> Result<T, LoadFailure> {
    let wanted = || controls.get().load == job;
    let progress = |stage: &str, fraction: Option<f32>| {
        let event = Event::LoadProgress { load: job, stage: stage.to_owned(), fraction };
        if !wanted() || !send(event) {
            // Neither a panic nor reported as one: loading has no other way to be stopped.
            resume_unwind(Box::new(NotWanted));
        }
    };
    let loaded = catch_unwind(AssertUnwindSafe(|| {
        progress("waiting", None);
        load(&progress)
    }));
    match loaded {
        Ok(_) if !wanted() => Err(LoadFailure::Stopped),
        Ok(loaded) => loaded,
        Err(panic) if panic.is::<NotWanted>() => Err(LoadFailure::Stopped),
        Err(panic) => Err(LoadFailure::Failed(internal(panic.as_ref()))),
    }
}

/// What the user reads of a panic.
pub(super) fn internal(panic: &(dyn Any + Send)) -> String {
    let reason = panic_message(panic);
    tracing::error!("a thread of the worker panicked: {reason}");
    format!("internal error: {reason} (a bug in dovetail; see the log)")
}

/// The result of a load.
pub(super) type LoadOutcome = (LoadJob, Result<NewModels, LoadFailure>);

/// The current target, as the load thread sees it.
pub(super) type TargetInUse = Arc<Mutex<Option<SharedTarget>>>;

/// Loads other models, one after the other, while the current ones answer. It takes each load from
/// `jobs` and passes the result to `done`; the thread ends with `jobs`.
///
/// # Errors
/// If the system refuses to start a thread.
pub(super) fn start_load_thread(
    loader: Arc<dyn Loader>,
    controls: SharedControls,
    sink: Weak<Mutex<Sink>>,
    target: TargetInUse,
    jobs: Receiver<LoadJob>,
    done: impl Fn(LoadOutcome) -> bool + Send + 'static,
) -> std::io::Result<()> {
    let work = move || {
        for job in jobs {
            let target = target.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let loaded =
                stoppable(job.load, &controls, &|event| send_if_alive(&sink, event), |progress| {
                    loader.beside(&job.models, target.as_ref(), progress)
                });
            if !done((job, loaded)) {
                return;
            }
        }
    };
    std::thread::Builder::new().name("dovetail-load".into()).spawn(work).map(drop)
}
