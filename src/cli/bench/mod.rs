//! `dovetail bench`: measurements, one subcommand each; without one, the strategies against each
//! other. Must never measure by itself.

mod args;
mod course;
mod fetch;
mod files;
mod gpu;
mod isolated;
mod paper;
mod quality;
mod round;
mod session;
mod verify;

use crate::bench::MeasureError;
use crate::cli::exit::{Code, CommandResult, Failure};

pub use args::BenchArgs;
use args::BenchCommand;

/// Measures what was asked for.
pub fn bench(args: &BenchArgs) -> CommandResult {
    match &args.command {
        None => course::strategies(args),
        Some(BenchCommand::Ablation(args)) => course::ablation(args),
        Some(BenchCommand::Paper(args)) => paper::paper(args),
        Some(BenchCommand::Round(args)) => round::round(args),
        Some(BenchCommand::Fetch(args)) => fetch::fetch(args),
        Some(BenchCommand::Compare(args)) => files::compare(args),
        Some(BenchCommand::Show(args)) => files::show(args),
        Some(BenchCommand::Verify(args)) => verify::measure(args),
        Some(BenchCommand::Quality(args)) => quality::measure(args),
        Some(BenchCommand::Gpu(args)) => gpu::measure(args),
    }
}

/// The exit code of a measurement that could not be made.
fn not_measured(error: MeasureError) -> Failure {
    let code = match &error {
        MeasureError::Options(_) | MeasureError::Read { .. } => Code::Usage,
        MeasureError::Open(_) | MeasureError::Load(_) => Code::Model,
        _ => Code::Failed,
    };
    Failure::new(code, error)
}

impl BenchArgs {
    /// Whether the measurement in use asked for more in the log.
    pub fn verbose(&self) -> bool {
        match &self.command {
            None => self.course.shared.verbose,
            Some(BenchCommand::Ablation(args)) => args.course.shared.verbose,
            Some(BenchCommand::Gpu(args)) => args.shared.verbose,
            Some(BenchCommand::Paper(args)) => args.course.shared.verbose,
            Some(BenchCommand::Round(args)) => args.shared.verbose,
            Some(
                BenchCommand::Compare(_)
                | BenchCommand::Fetch(_)
                | BenchCommand::Show(_)
                | BenchCommand::Verify(_)
                | BenchCommand::Quality(_),
            ) => false,
        }
    }
}
