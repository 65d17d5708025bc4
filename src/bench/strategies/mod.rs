//! Strategies side by side: every prompt is answered by each of them in turn, the target alone
//! among them, so that a machine that slows down slows all of them down; every text is compared
//! with the target's own, token for token. It must not depend on flags or files.

mod candidates;
mod charts;
mod compare;
mod figures;
mod lines;
mod record;
mod report;
mod run;
mod sequences;

pub use candidates::{CandidateBatch, batches, candidates, runnable};
pub use charts::charts;
pub use compare::{Comparison, compare};
pub use figures::AnswerGrid;
pub use lines::{CandidateLine, candidate_file, candidate_lines};
pub use record::{Environment, Models, PLAIN, Results, Sweep, models_of};
pub use report::{lossless_check, tables};
pub use run::{BenchCandidate, BenchRun, Stop};
pub use sequences::SequenceCounts;

#[cfg(test)]
pub(super) use {
    figures::tests::answer as answer_for_tests, record::AnswerRecord,
    report::tests::results as results_for_tests,
};
