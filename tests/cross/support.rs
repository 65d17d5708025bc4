//! What these tests need of the program's tests' support.

#[path = "../support/kernels.rs"]
pub mod kernels;
#[path = "../support/models.rs"]
pub mod models;
#[path = "../support/recorded.rs"]
pub mod recorded;
