//! The tests under `tests/draft` on recorded heads, and of drafters without a model.

#[path = "../draft/head.rs"]
mod head;
#[path = "../draft/head_ahead.rs"]
mod head_ahead;
#[path = "../draft/without_model.rs"]
mod without_model;
