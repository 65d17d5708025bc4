//! What the tests share. No test imports from another test's file.

pub mod bundled;
pub mod candle;
pub mod chat;
pub mod drafters;
pub mod duo;
pub mod eagle3;
pub mod events;
pub mod exact;
pub mod generate;
pub mod gguf;
pub mod golden;
pub mod gpu;
pub mod heads;
pub mod hub;
pub mod journey;
pub mod kernels;
pub mod library;
pub mod models;
pub mod pickled;
pub mod picture;
pub mod program;
pub mod pty;
pub mod recorded;
pub mod toy;
pub mod toy_worker;
pub mod watched;
