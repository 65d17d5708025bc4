//! The program's tests of the kernels, but those against candle's; of the targets and draft heads:
//! the golden vectors, and that a token has the same bits in a tree as alone; and that the text is
//! the plain one whatever is drafted.

mod decode;
mod draft;
mod kernels;
mod model;
mod speculate;
mod support;
