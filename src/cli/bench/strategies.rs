//! `dovetail bench`: which candidates are run.

use anyhow::Context;

use super::args::BenchArgs;
use super::session::BenchSession;
use crate::bench::strategies::{self as bench, CandidateLine, candidate_file, candidate_lines};
use crate::cli::exit::{CommandResult, Failure};
use crate::files::read_text;

/// The most bytes of a file of candidates.
const LONGEST: u64 = 1 << 20;

/// Runs the strategies against each other.
pub(super) fn strategies(args: &BenchArgs) -> CommandResult {
    let wanted = wanted(args)?;
    let mut session = BenchSession::new(&args.run, "strategies")?;
    let wanted = wanted.map(|lines| session.accepted(lines));
    let results = session.measure(wanted, args.isolated)?;
    session.report(&results, &bench::tables(&results), &bench::charts(&results))
}

/// The candidates that the flags name; `None` if they name none.
fn wanted(args: &BenchArgs) -> Result<Option<Vec<Result<CandidateLine, String>>>, Failure> {
    if args.strategies.is_none() && args.candidates.is_none() {
        return Ok(None);
    }
    let mut lines = Vec::new();
    if let Some(text) = &args.strategies {
        lines.extend(candidate_lines("--strategies", text));
    }
    if let Some(path) = &args.candidates {
        let name = path.display().to_string();
        let text = read_text(path, LONGEST)
            .with_context(|| format!("cannot read the candidates {name}"))
            .map_err(Failure::usage)?;
        lines.extend(candidate_file(&name, &text));
    }
    Ok(Some(lines))
}
