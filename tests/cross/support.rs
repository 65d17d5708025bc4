//! What these tests need of the support for the program's tests.
#![allow(dead_code, unused_imports)]

#[path = "../support/exact.rs"]
pub mod exact;
#[path = "../support/generate.rs"]
pub mod generate;
#[path = "../support/golden.rs"]
pub mod golden;
#[path = "gpu.rs"]
pub mod gpu;
#[path = "../support/heads.rs"]
pub mod heads;
#[path = "../support/kernels.rs"]
pub mod kernels;
#[path = "../support/models.rs"]
pub mod models;
#[path = "../support/recorded.rs"]
pub mod recorded;
#[path = "../support/toy.rs"]
pub mod toy;
#[path = "../support/watched.rs"]
pub mod watched;
