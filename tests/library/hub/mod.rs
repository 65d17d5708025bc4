//! Downloads from a hub that behaves like the real one, and from one that does not.

#[cfg(unix)]
mod cache;
mod downloads;
mod lies;
mod pinned;
