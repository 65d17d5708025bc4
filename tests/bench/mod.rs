//! `bench` measures what it claims to measure.

mod passes;
mod quality;
