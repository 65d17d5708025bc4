//! A round while the target still verifies its tree, for whoever looks: the tree, and the sequences
//! that were drafted ahead by then. It is told on the drafter's thread, so seldom that drafting
//! does not notice, and is no part of any record. Must never know who looks.

use super::ahead::{AheadRecord, AheadToken};
use super::text::TokenText;
use crate::speculate::Tree;
use crate::speculate::duo::Sequences;
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
    /// Display text of each node's token, as in [`super::Round::labels`].
    pub labels: Vec<String>,
    /// The sequences so far. While there is one, k may not be known yet.
    pub ahead: AheadRecord,
}

/// When a listener is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TellTimes {
    /// Least time from the beginning of the target's pass: of shorter ones nothing is told.
    pub after: Duration,
    /// Least time from one to the next.
    pub every: Duration,
}

/// Is told of rounds that are being verified.
#[derive(Clone)]
pub struct AheadListener {
    names: Arc<dyn TokenText>,
    times: TellTimes,
    tell: Arc<dyn Fn(PendingRound) + Send + Sync>,
}

impl AheadListener {
    /// Calls `tell` at these times, on the drafter's thread: it must not block.
    pub fn new(
        names: Arc<dyn TokenText>,
        times: TellTimes,
        tell: impl Fn(PendingRound) + Send + Sync + 'static,
    ) -> Self {
        Self { names, times, tell: Arc::new(tell) }
    }

    /// Watches the round `index`, whose tree the target verifies since `began`; γ is the budget of
    /// the sequences.
    pub(super) fn pass(
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

/// Tokens of a sequence with the draft's log-probabilities.
type Drafted = Vec<(u32, f32)>;

/// Watches drafting ahead during one pass of the target.
pub(super) struct PassWatch {
    listener: AheadListener,
    index: usize,
    tree: Tree,
    gamma: usize,
    /// When the listener may be told next.
    due: Cell<Instant>,
    /// The sequences, if they have grown since it was told.
    untold: Cell<Option<Vec<Drafted>>>,
}

impl PassWatch {
    /// The sequences have grown: the listener is told now if it is time.
    pub(super) fn grown(&self, sequences: &Sequences) {
        self.untold.set(Some(sequences.so_far().map(<[_]>::to_vec).collect()));
        if self.due.get() <= Instant::now() {
            self.tell();
        }
    }

    /// How long it is until the listener may be told of what it was not; `None` if it knows all.
    pub(super) fn left(&mut self) -> Option<Duration> {
        let due = self.due.get();
        self.untold.get_mut().as_ref().map(|_| due.saturating_duration_since(Instant::now()))
    }

    /// Tells the listener of what it was not.
    pub(super) fn tell(&self) {
        let Some(sequences) = self.untold.take() else { return };
        let AheadListener { names, times, tell } = &self.listener;
        let label = |token| names.label(token);
        let token = |(token, log_prob)| AheadToken { token, label: label(token), log_prob };
        let sequences =
            sequences.into_iter().map(|tokens| tokens.into_iter().map(token).collect()).collect();
        tell(PendingRound {
            index: self.index,
            tree: self.tree.clone(),
            labels: self.tree.nodes().iter().map(|node| label(node.token)).collect(),
            ahead: AheadRecord { gamma: self.gamma, sequences, adopted: None },
        });
        self.due.set(Instant::now() + times.every);
    }
}
