//! `dovetail bench quality`: from flags to a measurement.

use super::args::QualityArgs;
use super::files::emit;
use crate::bench::quality;
use crate::cli::exit::CommandResult;
use crate::cli::threads::compute_threads;

/// Scores a text with the target.
pub(super) fn measure(args: &QualityArgs) -> CommandResult {
    let spec = args.file.model(&args.target)?;
    let found = quality::run(&spec, &args.options, compute_threads(args.threads))?;
    Ok(emit(&args.style, &found, "", &[found.table()], &[])?)
}
