//! What the tests share.

pub mod program;
pub mod pty;
