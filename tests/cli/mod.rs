//! The program from outside.

mod drafts;
mod guards;
mod models;
mod program;
