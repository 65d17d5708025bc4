//! What these tests need of the program's tests' support.

#[path = "../support/kernels.rs"]
pub mod kernels;
