//! `dovetail bench quality`: from flags to a measurement.

use super::args::QualityArgs;
use super::files::{BenchReport, emit};
use super::not_measured;
use crate::bench::quality::{self, QualityOptions};
use crate::cli::exit::CommandResult;
use crate::cli::threads::compute_threads;

/// Scores a text with the target.
pub(super) fn measure(args: &QualityArgs) -> CommandResult {
    let spec = args.file.model(&args.target)?;
    let options = QualityOptions {
        text: args.text.clone(),
        window: args.window,
        threads: compute_threads(args.threads),
        against_candle: args.against.is_some(),
    };
    let found = quality::run(&spec, &options).map_err(not_measured)?;
    Ok(emit(&args.style, &found, &BenchReport { head: "", tables: &[found.table()], foot: &[] })?)
}
