//! `dovetail bench gpu`: from flags to a measurement. Must never measure by itself.

use std::io::{self, IsTerminal};
use std::time::Duration;

use anyhow::anyhow;

use super::args::GpuArgs;
use crate::bench::gpu;
use crate::cli::backend;
use crate::cli::exit::{Code, CommandResult, Failure, report};
use crate::cli::output::stdout;
use crate::hardware::Machine;

/// Measures what a GPU is worth.
pub(super) fn measure(args: &GpuArgs) -> CommandResult {
    let settings = backend::settings(&args.shared, &args.shared.settings.0)?;
    let machine = Machine::probe();
    let talk = io::stderr().is_terminal();
    let mut last = String::new();
    let limit = Duration::from_secs(args.seconds);
    let measured = gpu::run(&settings, &machine, limit, &mut |stage| {
        if talk && stage != last {
            report(&format!("… {stage}"));
            stage.clone_into(&mut last);
        }
    });
    let found = measured?.map_err(|reason| Failure::new(Code::Failed, anyhow!("{reason}")))?;
    let mut out = stdout()?;
    let written = if args.json { found.write_json(&mut out) } else { found.write(&mut out) };
    Ok(written?)
}
