//! One round (draft → verify → accept → commit) and the loop over rounds. Owns the [`Round`]
//! record. Must never know terminals or files.
//!
//! Plain decoding is the same loop with trees of one node, so that nothing but the drafter can make
//! a difference, and the drafter decides no token.

mod draft_thread;
mod drafter_set;
mod engine;
mod generation;
mod round;
mod text;

pub use engine::{DecodeError, Engine, Request};
pub use generation::{Generation, Progress, RoundOptions};
pub use round::{Committed, Finish, Origin, Round, Summary, Timing};
pub use text::{Piece, TextStream, TokenText};
