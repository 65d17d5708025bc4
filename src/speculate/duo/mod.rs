//! Drafting while the target checks (DuoDecoding), without models or threads.
//!
//! Draft and target work on the same text at the same time. After the last committed token, the
//! root, comes a **tail**: drafted tokens that the target has not checked yet. While it checks
//! them, the draft continues from the end of the tail with k **sequences** of γ/k tokens each
//! ([`Sequences`]), whose first tokens are its k likeliest. When the target is done
//! ([`SequencesAhead`]):
//! - If the whole tail was accepted and the target's next token begins sequence j, that token is
//!   the new root and the rest of sequence j the new tail.
//! - Otherwise the sequences are discarded and there is no tail, so the next pass checks only the
//!   root while the draft continues after it.
//!
//! In terms of the walk through a tree ([`super::accept`]): the tree is the root with the tail as
//! its only chain, and the walk's bonus token is the first-token check. The walk draws one token
//! per position, independent of what was drafted, so the text does not depend on any of this. When
//! the text ends, the paper returns the tail that it has not checked; here only what the walk
//! accepted is ever returned.
//!
//! k is chosen again each time ([`count`]), γ from measured times ([`paper_budget`], [`budget`]).

mod budget;
mod count;
mod sequences;
mod sequences_ahead;

pub use budget::{budget, expected, paper_budget};
pub use count::{MOST_SEQUENCES, count, divisor};
pub use sequences::Sequences;
pub use sequences_ahead::{Adopted, SequencesAhead};
