//! Drafting while the target checks (DuoDecoding), without models or threads.
//!
//! Draft and target work on the same text at the same time. Behind the last committed token, the
//! root, stands a **tail**: drafted tokens that the target has not checked yet. While it checks
//! them, the draft goes on from the tail's end with k **sequences** of γ/k tokens each
//! ([`Sequences`]), whose first tokens are its k likeliest. When the target is done
//! ([`SequencesAhead`]):
//! - the tail held and the target's next token begins sequence j: that token is the new root, the
//!   rest of sequence j the new tail;
//! - anything else: what was drafted ahead is worth nothing and there is no tail, so that the next
//!   pass checks the root alone while the draft goes on behind it.
//!
//! In the terms of the walk through a tree ([`super::accept`]): the tree is the root with the tail
//! as its only chain, and the walk's bonus is the first-token check. The walk draws one token a
//! position whatever was drafted, so no text depends on any of this. The paper returns the tail it
//! has not checked when the text ends; here only what the walk accepted is ever returned.
//!
//! k is chosen anew each time ([`count`]), γ from measured times ([`budget`]).

mod budget;
mod count;
mod sequences;
mod sequences_ahead;

pub use budget::{BUDGETS, DuoTimes, budget};
pub use count::{MOST_SEQUENCES, count, divisor};
pub use sequences::Sequences;
pub use sequences_ahead::{Adopted, SequencesAhead};
