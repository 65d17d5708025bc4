//! What the tests share.

pub mod pty;
