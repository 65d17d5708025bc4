//! The tests under `tests/speculate` against recordings.

#[path = "../speculate/acceptance.rs"]
mod acceptance;
#[path = "../speculate/growth.rs"]
mod growth;
