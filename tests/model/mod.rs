//! The target on the CPU: golden vectors, other implementations of the same models, exactness.

mod branches;
mod candle;
mod exact;
mod golden;
mod gpu;
mod loading;
mod prefill;
mod reference;
