//! The program from outside.

mod guards;
mod program;
