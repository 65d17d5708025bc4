//! The program's tests of the kernels, but those against candle's.

mod kernels;
mod support;
