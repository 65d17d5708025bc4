//! A round while the target still verifies its tree, for display: the tree, and what has been
//! drafted ahead by then. The drafter's thread reports it, so seldom that drafting is not slowed
//! down, and it is not part of any record. It must not depend on who displays it.

use super::record::{OutcomeRecord, SequencesRecord};
use crate::draft::Ahead;
use crate::speculate::Tree;
use crate::speculate::duo::SequencesAhead;
use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A round that is being verified.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingRound {
    /// Number of the round in its answer, from 0.
    pub index: usize,
    /// The tree that the target verifies.
    pub tree: Tree,
    /// Display text of each node's token, as in a round's labels.
    pub labels: Vec<String>,
    /// γ of what is drafted ahead, and the sequences so far. While there is only one, k may not be
    /// known yet; none are drafted if there are outcomes.
    pub ahead: SequencesRecord,
    /// The outcomes for which trees have been drafted so far.
    pub outcomes: Vec<OutcomeRecord>,
}

/// When a listener is called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TellTimes {
    /// The minimum time after the start of the target's pass: shorter passes report nothing.
    pub after: Duration,
    /// The minimum time between two calls.
    pub every: Duration,
}

/// Receives rounds that are being verified.
#[derive(Clone)]
pub struct PassListener {
    label: Arc<dyn Fn(u32) -> String + Send + Sync>,
    times: TellTimes,
    tell: Arc<dyn Fn(PendingRound) + Send + Sync>,
}

impl PassListener {
    /// Calls `tell` at these times, on the drafter's thread, so it must not block. `label` gives
    /// the display text of a token.
    pub fn new(
        label: impl Fn(u32) -> String + Send + Sync + 'static,
        times: TellTimes,
        tell: impl Fn(PendingRound) + Send + Sync + 'static,
    ) -> Self {
        Self { label: Arc::new(label), times, tell: Arc::new(tell) }
    }

    /// Watches the round `index`, whose tree the target has been verifying since `began`; γ is the
    /// budget of the sequences.
    pub(crate) fn pass(
        &self,
        index: usize,
        tree: &Tree,
        gamma: usize,
        began: Instant,
    ) -> PassWatch {
        PassWatch {
            listener: self.clone(),
            index,
            tree: tree.clone(),
            gamma,
            due: Cell::new(began + self.times.after),
            untold: Cell::default(),
        }
    }
}

/// Watches drafting ahead during one pass of the target.
pub(crate) struct PassWatch {
    listener: PassListener,
    index: usize,
    tree: Tree,
    gamma: usize,
    /// When the listener may be called next.
    due: Cell<Instant>,
    /// What has grown since the last call.
    untold: Cell<Option<Ahead>>,
}

impl PassWatch {
    /// Notes that more has been drafted, and calls the listener if it is due.
    pub(crate) fn grown(&self, grown: Ahead) {
        self.untold.set(Some(grown));
        if self.due.get() <= Instant::now() {
            self.tell();
        }
    }

    /// How long it is until the listener may receive what it has not received yet; `None` if it has
    /// everything.
    pub(crate) fn left(&mut self) -> Option<Duration> {
        let due = self.due.get();
        self.untold.get_mut().as_ref().map(|_| due.saturating_duration_since(Instant::now()))
    }

    /// Gives the listener what it has not received yet.
    pub(crate) fn tell(&self) {
        let Some(Ahead { sequences, outcomes }) = self.untold.take() else { return };
        let PassListener { label, times, tell } = &self.listener;
        let none = || SequencesAhead { tail: Vec::new(), sequences: Vec::new() };
        let sequences = sequences.unwrap_or_else(none);
        tell(PendingRound {
            index: self.index,
            tree: self.tree.clone(),
            labels: self.tree.nodes().iter().map(|node| label(node.token)).collect(),
            ahead: SequencesRecord::new(self.gamma, &sequences, &[], &**label),
            outcomes: outcomes.iter().map(|ahead| OutcomeRecord::new(ahead, &**label)).collect(),
        });
        self.due.set(Instant::now() + times.every);
    }
}
