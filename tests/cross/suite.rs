//! The program's tests of the kernels, but those against candle's, and of the targets: the golden
//! vectors, and that a token has the same bits in a tree as alone.

mod kernels;
mod model;
mod speculate;
mod support;
