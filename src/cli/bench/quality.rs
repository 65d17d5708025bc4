//! `dovetail bench quality`: from flags to a measurement. Must never measure by itself.

use super::args::QualityArgs;
use super::not_measured;
use crate::bench::quality::{self, QualityOptions};
use crate::cli::exit::CommandResult;
use crate::cli::output::stdout;
use crate::cli::threads::compute_threads;

/// Scores a text with the target.
pub(super) fn measure(args: &QualityArgs) -> CommandResult {
    let spec = args.file.model(&args.target)?;
    let options = QualityOptions {
        text: args.text.clone(),
        window: args.window,
        threads: compute_threads(args.threads),
        against_candle: args.against.is_some(),
        json: args.json,
    };
    quality::run(&spec, &options, &mut stdout()?).map_err(not_measured)
}
