//! The program's tests of the kernels, except those against candle's; of the targets and draft
//! heads against the golden vectors; that a token has the same bits in a tree as alone; and that
//! the text is the plain one no matter what is drafted.

mod decode;
mod draft;
mod kernels;
mod model;
mod speculate;
