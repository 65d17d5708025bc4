//! The program from outside.

mod candidates;
mod candle;
mod drafts;
mod fetch;
mod gpu;
mod guards;
mod help;
mod models;
mod page;
mod pass;
mod plain_screen;
mod program;
mod race;
mod record;
