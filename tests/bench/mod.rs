//! `bench` measures what it says.

mod quality;
mod verify;
