//! The integration tests, in one binary so that the crate is linked once. Its modules mirror those
//! of `src`; `support` has what several of them need.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs
)]
// Tests that need Unix are left out on other systems, where what they use is then unused.
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
