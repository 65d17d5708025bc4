//! Downloads from a hub that behaves as the real one does, and from one that does not.

mod downloads;
mod lies;
mod pinned;
