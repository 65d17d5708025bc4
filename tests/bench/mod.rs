//! `bench` measures what it claims to measure.

mod quality;
mod verify;
