//! The program from outside.

mod guards;
mod models;
mod program;
