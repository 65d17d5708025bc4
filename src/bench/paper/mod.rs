//! The papers' tables and figures on this machine: which contenders, prompts and columns each of
//! them takes, and ours beside theirs with the ratio. Must never run anything.

mod beside;
mod figures;
mod plan;
mod published;
mod sequences;

pub use beside::{Ours, tables};
pub use figures::{PaperFigure, length_sets};
pub use plan::{PaperModels, PaperRow, PaperTable, matching_sets};
pub use published::{
    Cell, Published, PublishedBlock, PublishedCounts, PublishedRow, PublishedTable, published,
};
