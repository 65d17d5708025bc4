//! The decode thread: loads, then makes one answer after the other. It never waits for the screen,
//! and a panic in it becomes an event.

use super::{Backend, Command, Event, SharedControls, Sink, Worker};
use crate::decode::panic_message;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Name of the thread, by which its panics are told apart.
pub const THREAD: &str = "dovetail-decode";

/// Told of the stage of loading and how far it is, 0 to 1, where that is known.
pub type Loading<'a> = &'a mut dyn FnMut(&str, Option<f32>);

/// Starts the decode thread. `load` runs on it; its error is for the user and ends the thread.
/// Events: `Loading` as `load` reports it, then `Ready` or `Failed { generation: None }`, then
/// those of the answers.
///
/// # Errors
/// If the system gives no thread.
pub fn spawn(
    controls: SharedControls,
    mut sink: Sink,
    load: impl FnOnce(Loading<'_>) -> Result<Backend, String> + Send + 'static,
) -> std::io::Result<Worker> {
    Worker::start(THREAD, controls, move |commands, controls| {
        let loaded = catch_unwind(AssertUnwindSafe(|| {
            load(&mut |stage, fraction| {
                sink(Event::Loading { stage: stage.to_owned(), fraction });
            })
        }));
        let mut backend = match loaded.unwrap_or_else(|panic| Err(internal(panic.as_ref()))) {
            Ok(backend) => backend,
            Err(error) => {
                sink(Event::Failed { generation: None, error });
                return;
            }
        };
        let mut listening = sink(Event::Ready(Box::new(backend.ready.clone())));
        for notice in std::mem::take(&mut backend.notices) {
            listening = listening && sink(Event::Notice(notice));
        }
        while listening {
            let Ok(Command::Generate(job)) = commands.recv() else { return };
            let answered =
                catch_unwind(AssertUnwindSafe(|| backend.answer(&job, &controls, &mut sink)));
            listening = answered.unwrap_or_else(|panic| {
                let error = internal(panic.as_ref());
                // Whatever the caches hold now is not to be built upon.
                let usable = catch_unwind(AssertUnwindSafe(|| backend.engine.forget())).is_ok();
                sink(Event::Failed { generation: Some(job.generation), error }) && usable
            });
        }
    })
}

fn internal(panic: &(dyn Any + Send)) -> String {
    let reason = panic_message(panic);
    tracing::error!("the decode thread panicked: {reason}");
    format!("internal error: {reason} (a fault of dovetail; the log has more)")
}
