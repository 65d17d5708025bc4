//! The papers' tables and figures on this machine. Their candidates, prompts, columns and values
//! are data, and one interpreter sets ours next to theirs with the ratio. It must not run anything.

mod beside;
mod figures;
mod metric;
mod plan;
mod published;
mod sequences;

pub use beside::{Ours, tables};
pub use metric::Metric;
pub use plan::{BlockHead, PaperModels, length_sets, matching_sets};
pub use published::{Published, PublishedFigure, PublishedRow, PublishedTable, published};
