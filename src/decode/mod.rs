//! One round (draft → verify → accept → commit) and the loop over rounds. Owns the [`Round`]
//! record. Must never know terminals or files.
//!
//! Plain decoding is the same loop with trees of one node, so that nothing but the drafter can make
//! a difference, and the drafter decides no token.

mod answer;
mod companion;
mod drafting;
mod engine;
mod round;
mod text;

pub use answer::{Answer, Progress, Turn};
pub use engine::{DecodeError, Engine, Request};
pub use round::{Committed, Finish, Origin, Round, Summary, Timing};
pub use text::{Piece, TextStream, TokenText};
