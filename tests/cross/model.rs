//! The tests under `tests/model` that need no other backend.

#[path = "../model/branches.rs"]
mod branches;
#[path = "../model/exact.rs"]
mod exact;
#[path = "../model/golden.rs"]
mod golden;
