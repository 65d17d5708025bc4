//! One round of speculative decoding (draft → verify → accept → commit) and the loop over rounds.
//! It owns the [`Round`] record. It must not depend on terminals; of files, only [`SnapshotStore`]
//! knows.
//!
//! A round verifies a draft tree in one target pass, commits the accepted path and the bonus token,
//! and rolls the KV cache back to them: rows of rejected nodes are dropped. Plain decoding is the
//! same loop with trees of one node, so only the drafter differs, and the drafter decides no token.

mod batch;
mod drafter_set;
mod engine;
mod generation;
mod minds;
mod options;
mod propose;
mod round;
mod snapshots;
mod text;

pub use batch::{Answered, BatchEngine};
pub use engine::{DecodeError, Engine, Request};
pub use generation::{Generation, PrefillProgress};
pub use minds::{BothMinds, MindRow, TokenMinds};
pub use options::RoundOptions;
pub use round::{
    Committed, Finish, Guess, JudgedCount, NothingGuessed, Origin, Round, Summary, Timing,
};
#[cfg(test)]
pub(crate) use snapshots::snapshot_path;
pub use snapshots::{
    Snapshot, SnapshotKeeper, SnapshotStore, discard_other_snapshots, discard_snapshots,
    snapshot_folder,
};
pub use text::{TextDelta, TextStream, TokenText};
