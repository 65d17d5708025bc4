//! A round while the target still verifies its tree, for display: the tree, and what has been
//! drafted ahead by then. The drafter's thread reports it, so seldom that drafting is not slowed
//! down, and it is not part of any record. It must not depend on who displays it.

use super::ahead::{AheadOutcome, AheadRecord, AheadToken};
use super::text::TokenText;
use crate::draft::{Grown, OutcomeAhead};
use crate::speculate::Tree;
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
    /// γ of what is drafted ahead, and the sequences so far. While there is only one, k may not be
    /// known yet; none are drafted if there are outcomes.
    pub ahead: AheadRecord,
    /// The outcomes for which trees have been drafted so far.
    pub outcomes: Vec<AheadOutcome>,
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
pub struct AheadListener {
    names: Arc<dyn TokenText>,
    times: TellTimes,
    tell: Arc<dyn Fn(PendingRound) + Send + Sync>,
}

impl AheadListener {
    /// Calls `tell` at these times, on the drafter's thread, so it must not block.
    pub fn new(
        names: Arc<dyn TokenText>,
        times: TellTimes,
        tell: impl Fn(PendingRound) + Send + Sync + 'static,
    ) -> Self {
        Self { names, times, tell: Arc::new(tell) }
    }

    /// Watches the round `index`, whose tree the target has been verifying since `began`; γ is the
    /// budget of the sequences.
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

/// What is still to be reported.
#[derive(Clone)]
enum Untold {
    Sequences(Vec<Drafted>),
    Outcomes(Vec<OutcomeAhead>),
}

/// Watches drafting ahead during one pass of the target.
pub(super) struct PassWatch {
    listener: AheadListener,
    index: usize,
    tree: Tree,
    gamma: usize,
    /// When the listener may be called next.
    due: Cell<Instant>,
    /// What has grown since the last call.
    untold: Cell<Option<Untold>>,
}

impl PassWatch {
    /// Notes that more has been drafted, and calls the listener if it is due.
    pub(super) fn grown(&self, grown: Grown<'_>) {
        self.untold.set(Some(match grown {
            Grown::Sequences(sequences) => {
                Untold::Sequences(sequences.so_far().map(<[_]>::to_vec).collect())
            }
            Grown::Outcomes(outcomes) => Untold::Outcomes(outcomes.to_vec()),
        }));
        if self.due.get() <= Instant::now() {
            self.tell();
        }
    }

    /// How long it is until the listener may receive what it has not received yet; `None` if it has
    /// everything.
    pub(super) fn left(&mut self) -> Option<Duration> {
        let due = self.due.get();
        self.untold.get_mut().as_ref().map(|_| due.saturating_duration_since(Instant::now()))
    }

    /// Gives the listener what it has not received yet.
    pub(super) fn tell(&self) {
        let Some(untold) = self.untold.take() else { return };
        let AheadListener { names, times, tell } = &self.listener;
        let label = |token| names.label(token);
        let token = |(token, log_prob)| AheadToken { token, label: label(token), log_prob };
        let (sequences, outcomes) = match untold {
            Untold::Sequences(all) => {
                (all.into_iter().map(|all| all.into_iter().map(token).collect()).collect(), vec![])
            }
            Untold::Outcomes(all) => {
                (vec![], all.iter().map(|ahead| AheadOutcome::new(ahead, &label)).collect())
            }
        };
        tell(PendingRound {
            index: self.index,
            tree: self.tree.clone(),
            labels: self.tree.nodes().iter().map(|node| label(node.token)).collect(),
            ahead: AheadRecord { gamma: self.gamma, sequences, adopted: None },
            outcomes,
        });
        self.due.set(Instant::now() + times.every);
    }
}
