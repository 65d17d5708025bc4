//! The thread that owns the saved conversations: a disk may be slow, and a network's may not answer
//! at all. Requests are carried out in order. Must never know what they do.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::Builder;
use std::time::Duration;

use super::Keeper;

type Request = Box<dyn FnOnce(&mut Keeper) + Send>;

/// The way to that thread.
pub(crate) struct StorageThread {
    requests: Sender<Request>,
    /// Requests that are not carried out yet.
    waiting: Arc<AtomicUsize>,
}

impl StorageThread {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system refuses to.
    pub fn start(mut keeper: Keeper) -> io::Result<Self> {
        let (requests, received) = channel::<Request>();
        let waiting = Arc::new(AtomicUsize::new(0));
        let done = Arc::clone(&waiting);
        Builder::new().name("dovetail-storage".into()).spawn(move || {
            keeper.clean();
            for request in received {
                request(&mut keeper);
                done.fetch_sub(1, Ordering::Relaxed);
            }
        })?;
        Ok(Self { requests, waiting })
    }

    /// Has `work` done after what was requested before.
    pub fn request(&self, work: impl FnOnce(&mut Keeper) + Send + 'static) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // It ends only with the program, or by a panic, which is reported.
        let _ = self.requests.send(Box::new(work));
    }

    /// Whether everything requested so far is done.
    pub fn is_idle(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) == 0
    }

    /// Waits for what `work` gives, after everything that was requested before; `None` if it takes
    /// longer than `limit`.
    pub fn wait<T: Send + 'static>(
        &self,
        limit: Duration,
        work: impl FnOnce(&mut Keeper) -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, done) = channel();
        self.request(move |keeper| {
            let _ = sender.send(work(keeper));
        });
        done.recv_timeout(limit).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_done_in_order_and_a_slow_disk_is_not_waited_for() {
        let storage = StorageThread::start(Keeper::default()).unwrap();
        let (open, gate) = channel::<()>();
        storage.request(move |_| {
            let _ = gate.recv();
        });
        storage.request(|keeper| keeper.next_name = Some("first".to_owned()));
        assert!(!storage.is_idle());
        let short = Duration::from_millis(20);
        assert_eq!(storage.wait(short, |keeper| keeper.next_name.clone()), None);
        open.send(()).unwrap();
        let name = storage.wait(Duration::from_secs(60), |keeper| keeper.next_name.clone());
        assert_eq!(name, Some(Some("first".to_owned())));
    }
}
