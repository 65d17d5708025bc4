//! The integration tests, one binary so that the crate is linked once. One module a subject.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs
)]

mod acceptance;
mod chat_templates;
mod cli;
mod coupled;
mod decoding;
mod draft_golden;
mod drafted_ahead;
mod drafters;
mod duo;
mod floors;
mod growth;
mod guards;
mod kernels;
mod kernels_accuracy;
mod levels;
mod library;
mod lossless;
mod overlap;
mod readme;
mod screen;
mod scripted;
mod sessions;
mod small_model;
mod strategies;
mod support;
mod target;
mod terminal;
mod toy;
mod training;
mod training_run;
mod worker;
