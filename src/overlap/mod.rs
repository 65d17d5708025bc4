//! Drafting ahead while the target verifies: the thread on which a drafter works meanwhile, what a
//! listener may see of it, and what the record of the round says about it. What is drafted is the
//! drafter's own affair ([`crate::draft::Drafter::draft_ahead`]), and nothing here decides a token.

mod record;
mod thread;
mod watch;

#[cfg(test)]
pub(crate) use record::tests::sequences as sequences_for_tests;
pub use record::{OutcomeRecord, SequenceToken, SequencesRecord};
pub(crate) use thread::{DraftThread, DraftWork, OverlapTimes, Returned};
pub(crate) use watch::PassWatch;
pub use watch::{PassListener, PendingRound, TellTimes};
