//! `bench` measures what it says.

mod verify;
