//! One round (draft → verify → accept → commit) and the loop over rounds. Owns the [`Round`]
//! record. Must never know terminals or files.

mod round;
mod text;

pub use round::{Committed, Finish, Origin, Round, Summary, Timing};
pub use text::{Piece, TextStream, TokenText};
