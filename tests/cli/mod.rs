//! The program from outside.

mod drafts;
mod gpu;
mod guards;
mod models;
mod program;
