//! The integration tests, one binary so that the crate is linked once. Its modules
//! mirror those of `src`; what several of them need is in `support`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs
)]
// Tests that need what only Unix has are left out elsewhere, and what they use has no user there.
#![cfg_attr(not(unix), allow(dead_code, unused_imports))]

mod bench;
mod chat;
mod cli;
mod decode;
mod draft;
mod floors;
mod kernels;
mod library;
mod model;
mod readme;
mod release;
mod speculate;
mod support;
mod train;
mod tui;
mod worker;
