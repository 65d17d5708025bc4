//! Decoding: no matter what is drafted or how, the text is that of plain decoding.

mod architectures;
mod arms;
mod batch;
mod coupled;
mod duo;
mod engine;
mod gpu;
mod gpu_prefill;
mod lossless;
mod lossless_opened;
mod merged;
mod overlap;
mod pending;
mod platforms;
