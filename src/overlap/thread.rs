//! The thread on which a drafter drafts ahead while the target verifies (overlap). It owns the
//! drafter only for that time and always returns it; nothing here decides a token.

use super::watch::PassWatch;
use crate::caught::survived;
use crate::draft::{Ahead, AheadRequest, DraftRequest, Drafter};
use crate::speculate::Tree;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Name of the thread.
const THREAD: &str = "dovetail-draft";

/// What a drafter does while the target works.
pub(crate) enum DraftWork {
    /// Drafts ahead of a tree that answers a request.
    Ahead(Tree, DraftRequest),
    /// Reads a prompt for trees of so many blocks.
    Read(Vec<u32>, usize),
}

struct DraftJob {
    drafter: Box<dyn Drafter>,
    work: DraftWork,
    stop: Arc<AtomicBool>,
    /// Set if the user watches the round.
    watch: Option<PassWatch>,
    sent: Instant,
}

struct Done {
    drafter: Box<dyn Drafter>,
    /// What it drafted, or why it cannot be used before it has fallen back to another device.
    drafted: Result<Ahead, String>,
    sent: Instant,
    began: Instant,
    ended: Instant,
}

/// A thread that waits for drafters to run. It ends when it is dropped.
pub(crate) struct DraftThread {
    /// `None` only while it is dropped.
    jobs: Option<Sender<DraftJob>>,
    done: Receiver<Done>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What drafting ahead returns.
pub(crate) struct Returned {
    /// `None` if the thread has ended and the drafter is lost with it.
    pub(crate) drafter: Option<Box<dyn Drafter>>,
    pub(crate) drafted: Result<Ahead, String>,
    pub(crate) spent: OverlapTimes,
}

/// How long a drafter worked while the target verified.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OverlapTimes {
    /// Its work during the target's pass.
    pub(crate) ahead: Duration,
    /// Its work after the pass, while the target waited for it.
    pub(crate) wait: Duration,
    /// The way to the other thread and back, which is part of the pass and of `wait`.
    pub(crate) transfer: Duration,
}

impl DraftThread {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system refuses to start a thread.
    pub(crate) fn start() -> std::io::Result<Self> {
        let (jobs, inbox) = channel::<DraftJob>();
        let (outbox, done) = channel();
        let thread = std::thread::Builder::new()
            .name(THREAD.to_owned())
            .spawn(move || serve(&inbox, &outbox))?;
        let stop = Arc::new(AtomicBool::new(false));
        Ok(Self { jobs: Some(jobs), done, stop, thread: Some(thread) })
    }

    /// Lets `drafter` work. Every success must be followed by one
    /// [`Self::recall`].
    ///
    /// # Errors
    /// Returns the drafter if the thread has ended.
    pub(crate) fn send(
        &self,
        drafter: Box<dyn Drafter>,
        work: DraftWork,
        watch: Option<PassWatch>,
    ) -> Result<(), Box<dyn Drafter>> {
        self.stop.store(false, Ordering::Release);
        let sent = Instant::now();
        let job = DraftJob { drafter, work, stop: Arc::clone(&self.stop), watch, sent };
        match &self.jobs {
            Some(jobs) => jobs.send(job).map_err(|unsent| unsent.0.drafter),
            None => Err(job.drafter),
        }
    }

    /// Tells the drafter to stop and waits until it does.
    pub(crate) fn recall(&self) -> Returned {
        let recalled = Instant::now();
        self.stop.store(true, Ordering::Release);
        match self.done.recv() {
            Ok(Done { drafter, drafted, sent, began, ended }) => {
                let ahead = ended.min(recalled).saturating_duration_since(began);
                let transfer = began.duration_since(sent) + ended.max(recalled).elapsed();
                let spent = OverlapTimes { ahead, wait: recalled.elapsed(), transfer };
                Returned { drafter: Some(drafter), drafted, spent }
            }
            Err(_) => {
                let drafted = Err("the thread that drafts ahead has ended".to_owned());
                Returned { drafter: None, drafted, spent: OverlapTimes::default() }
            }
        }
    }
}

impl Drop for DraftThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // The thread catches a drafter's panic, so there is nothing to report when it ends.
            let _ = thread.join();
        }
    }
}

/// Works on jobs until there are no more.
fn serve(jobs: &Receiver<DraftJob>, done: &Sender<Done>) {
    let mut next = jobs.recv().ok();
    while let Some(mut job) = next {
        let watch = job.watch.take();
        let stop = Arc::clone(&job.stop);
        if done.send(work(job, watch.as_ref())).is_err() {
            return;
        }
        let untold = watch.and_then(|mut watch| Some((watch.left()?, watch)));
        let Some((left, watch)) = untold else {
            next = jobs.recv().ok();
            continue;
        };
        // Drafted before the listener was due: report it when it is, if the pass is still running.
        next = match jobs.recv_timeout(left) {
            Err(RecvTimeoutError::Timeout) => {
                if !stop.load(Ordering::Acquire) {
                    watch.tell();
                }
                jobs.recv().ok()
            }
            received => received.ok(),
        };
    }
}

fn work(job: DraftJob, watch: Option<&PassWatch>) -> Done {
    let DraftJob { mut drafter, work, stop, sent, .. } = job;
    let began = Instant::now();
    let tell = |grown: Ahead| {
        if let Some(watch) = watch {
            watch.grown(grown);
        }
    };
    let grown = watch.is_some().then_some(&tell as &dyn Fn(Ahead));
    let worked = survived(|| match &work {
        DraftWork::Ahead(tree, request) => {
            drafter.draft_ahead(&AheadRequest { tree, request, stop: &stop, grown })
        }
        DraftWork::Read(prompt, blocks) => {
            drafter.read(prompt, *blocks, &stop).map(|()| Ahead::default())
        }
    });
    let drafted = match worked {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(why) => Err(format!("the draft failed while drafting ahead: {why}")),
    };
    Done { drafter, drafted, sent, began, ended: Instant::now() }
}
