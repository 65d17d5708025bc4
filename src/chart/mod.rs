//! Curves, bars and heat maps as SVG text that reads well on light and on dark paper. It must not
//! depend on what is measured.

mod bars;
mod heat;
mod lines;
mod page;
mod scale;

pub use bars::{Bar, Bars};
pub use heat::Heat;
pub use lines::{Lines, Series};
