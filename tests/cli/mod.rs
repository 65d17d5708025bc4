//! The program from outside.

mod contenders;
mod drafts;
mod fetch;
mod gpu;
mod guards;
mod help;
mod models;
mod program;
mod race;
mod record;
mod round;
