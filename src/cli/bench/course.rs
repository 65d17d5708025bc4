//! `dovetail bench` and `bench ablation`: which contenders are run, and what becomes of the
//! results. Must never compute figures.

use super::args::{AblationArgs, BenchArgs};
use super::files::deliver;
use super::session::{BenchSession, own_budget};
use crate::bench::ablation::Variants;
use crate::bench::strategies::{
    self as bench, ContenderLine, LineError, Results, contender_file, contender_lines,
};
use crate::cli::exit::{Code, CommandResult, Failure};
use crate::draft::Depths;
use crate::files::read_text;
use crate::plan::{DrafterId, Strategy};
use crate::worker::{Controls, Ready, StrategyStatus};
use anyhow::Context;

/// Most bytes of a file of contenders.
const LONGEST: u64 = 1 << 20;

/// Runs the strategies against each other.
pub(super) fn strategies(args: &BenchArgs) -> CommandResult {
    let wanted = wanted(args)?;
    let mut session = BenchSession::new(&args.course)?;
    let wanted = wanted.map(|lines| accepted(&mut session, lines));
    let results = session.measure("strategies", wanted, args.isolated)?;
    let tables = bench::tables(&results);
    deliver(&args.course, &results, &tables, || bench::charts(&results))?;
    session.conclude(&results)
}

/// What the flags name; `None` if nothing is named.
fn wanted(args: &BenchArgs) -> Result<Option<Vec<Result<ContenderLine, LineError>>>, Failure> {
    if args.strategies.is_none() && args.contenders.is_none() {
        return Ok(None);
    }
    let mut lines = Vec::new();
    if let Some(text) = &args.strategies {
        lines.extend(contender_lines("--strategies", text));
    }
    if let Some(path) = &args.contenders {
        let name = path.display().to_string();
        let text = read_text(path, LONGEST)
            .with_context(|| format!("cannot read the contenders {name}"))
            .map_err(|error| Failure::new(Code::Usage, error))?;
        lines.extend(contender_file(&name, &text));
    }
    Ok(Some(lines))
}

/// Those that are contenders; the others are left out.
fn accepted(
    session: &mut BenchSession<'_>,
    lines: Vec<Result<ContenderLine, LineError>>,
) -> Vec<ContenderLine> {
    let mut accepted = Vec::new();
    for line in lines {
        match line {
            Ok(line) => accepted.push(line),
            Err(error) => session.leave_out(Code::Usage, error.to_string()),
        }
    }
    accepted
}

/// Varies one setting at a time, on one head or several.
pub(super) fn ablation(args: &AblationArgs) -> CommandResult {
    let mut session = BenchSession::new(&args.course)?;
    let mut results: Option<Results> = None;
    let heads = std::iter::once(None).chain(args.also.iter().map(Some));
    for (number, head) in heads.enumerate() {
        let mut backend = session.load(head.map(String::as_str))?;
        let ready = backend.ready.clone();
        let (own, depths) = drafting(&ready);
        let base = Controls { strategy: own, ..session.base() };
        let mut variants = Variants::new(&base);
        variants.blocks(&label(&ready, number), &base, depths);
        if number == 0 {
            variants.tree(&base, ready.blocks.max(1));
            if let Some(duo) = can_run(&ready, "duo").and_then(|_| Strategy::named("duo")) {
                let own = own_budget(&mut backend, &session.base(), duo);
                variants.duo(&session.base(), duo, own);
            }
        }
        let batch = results.as_ref().map_or(0, Results::next_batch);
        let taken = session.run(&mut backend, variants.contenders, batch)?;
        let results = results.get_or_insert_with(|| session.results("ablation", &ready));
        results.take(taken);
        results.sweeps.extend(variants.sweeps);
        if session.stop.is_set() {
            break;
        }
    }
    let Some(results) = results else { return Ok(()) };
    let tables = bench::sweep_tables(&results);
    deliver(&args.course, &results, &tables, || bench::sweep_charts(&results))?;
    session.conclude(&results)
}

/// The status of this name if it can run.
fn can_run<'a>(ready: &'a Ready, name: &str) -> Option<&'a StrategyStatus> {
    ready.strategies.iter().find(|status| status.name == name && status.missing.is_none())
}

/// The strategy whose draft is varied, with the blocks that can be chosen under it: the head's
/// where there is one, else the initial strategy.
fn drafting(ready: &Ready) -> (Option<&'static Strategy>, Depths) {
    let head = Strategy::first_with(DrafterId::Head);
    let name = can_run(ready, head.name).map_or(ready.strategy.as_str(), |_| head.name);
    let depths = can_run(ready, name).map_or(ready.depths, |status| status.depths);
    (Strategy::named(name), depths)
}

/// A short name for a head: its kind, numbered if there are several.
fn label(ready: &Ready, number: usize) -> String {
    let kind = ready.draft.as_deref().unwrap_or("draft").split(' ').next().unwrap_or("draft");
    if number == 0 { kind.to_owned() } else { format!("{kind} #{}", number + 1) }
}
