//! `dovetail bench sweep`: one setting varied at a time, on real prompts.

use anyhow::anyhow;

use super::args::SweepArgs;
use super::head_blocks;
use super::session::{BenchSession, own_budget};
use crate::bench::strategies::{self as bench, BenchCandidate, Models, Sweep};
use crate::bench::sweep::{SweepAxis, Variants, all_blocks, alone, placements_in_order};
use crate::cli::backend::{self, with_progress};
use crate::cli::exit::{Code, CommandResult, Failure};
use crate::draft::Depths;
use crate::kernels::KvFormat;
use crate::load::{Purpose, load_placed, placements as expected_placements};
use crate::messages;
use crate::plan::{DrafterId, Strategy};
use crate::settings::{HeadChoice, Settings};
use crate::worker::{Backend, Controls, Ready, StrategyStatus};

/// With `--quick`: prompts, tokens of an answer and placements.
const QUICK_PROMPTS: usize = 2;
const QUICK_TOKENS: &str = "32";
const QUICK_PLACEMENTS: usize = 2;

/// Varies one setting at a time.
pub(super) fn sweep(args: &SweepArgs) -> CommandResult {
    over(args, if args.over.is_empty() { &SweepAxis::DEFAULT } else { &args.over })
}

/// Varies the placement alone.
pub(super) fn placement(args: &SweepArgs) -> CommandResult {
    over(args, &[SweepAxis::Placement])
}

fn over(args: &SweepArgs, axes: &[SweepAxis]) -> CommandResult {
    if args.gammas.contains(&0) {
        let error = anyhow!("--gammas: γ counts the root, so it is at least 1, not 0");
        return Err(Failure::usage(error));
    }
    let mut run = args.run.clone();
    if args.quick {
        run.limit.get_or_insert(QUICK_PROMPTS);
        run.shared.settings.set_otherwise("max_tokens", QUICK_TOKENS);
        if run.prompts.is_empty() {
            run.prompts.push("everyday".to_owned());
        }
    }
    let mut session = BenchSession::new(&run, "sweep")?;
    if axes.iter().any(|axis| SweepAxis::DEFAULT.contains(axis)) {
        trees(args, axes, &mut session)?;
    }
    if axes.contains(&SweepAxis::Precision) {
        precisions(&mut session)?;
    }
    if axes.contains(&SweepAxis::Placement) {
        placements(args, &mut session)?;
    }
    let results = session.finish()?;
    session.report(&results, &bench::tables(&results), &bench::charts(&results))
}

/// The settings of trees, on one head or several.
fn trees(args: &SweepArgs, axes: &[SweepAxis], session: &mut BenchSession<'_>) -> CommandResult {
    let heads = std::iter::once(None).chain(args.also.iter().map(Some));
    let own = session.settings.draft.clone();
    for (number, head) in heads.enumerate() {
        if let Some(head) = head {
            session.settings.draft = HeadChoice::named(Some(head));
        }
        let mut backend = session.load()?;
        let ready = backend.ready.clone();
        backend::needs_drafts(&ready)?;
        let (strategy, depths) = drafting(&ready);
        let base = Controls { strategy, ..session.base() };
        let mut variants = Variants::new(&base);
        let head = label(&ready, number);
        for &axis in axes {
            let values = match axis {
                SweepAxis::M => {
                    let all = all_blocks(depths);
                    Some(head_blocks(args.head_blocks.as_deref(), all)?)
                }
                // The other settings are those of the first head.
                _ if number > 0 => continue,
                SweepAxis::Duo => {
                    if let Some(duo) = can_run(&ready, "duo").and_then(|_| Strategy::named("duo")) {
                        let budget = own_budget(&mut backend, &session.base(), duo);
                        variants.duo(&session.base(), duo, budget);
                    }
                    continue;
                }
                SweepAxis::Gamma if !args.gammas.is_empty() => Some(args.gammas.clone()),
                _ => None,
            };
            variants.tree(&base, axis, &head, ready.blocks.max(1), values.as_deref());
        }
        session.run(&mut backend, &variants.candidates, Models::from(&ready));
        session.results.sweeps.extend(variants.sweeps);
        if session.stop.is_set() {
            break;
        }
    }
    session.settings.draft = own;
    Ok(())
}

/// The initial strategy with the KV cache in each precision.
fn precisions(session: &mut BenchSession<'_>) -> CommandResult {
    let mut sweep = Sweep::new("Precision of the KV cache", "precision");
    for kv in KvFormat::ALL.into_iter().rev() {
        let settings = Settings { kv, ..session.settings.clone() };
        let loaded = backend::load(&settings, &session.machine, Purpose::Text)?;
        let name = format!("KV cache in {}", kv.name());
        run_one(session, &mut Backend::from(loaded), &name, session.base());
        sweep.points.push((name, None));
    }
    session.results.sweeps.push(sweep);
    Ok(())
}

/// Target and draft on each device, as expected and as measured.
fn placements(args: &SweepArgs, session: &mut BenchSession<'_>) -> CommandResult {
    let found = with_progress(|progress| {
        expected_placements(&session.settings, &session.machine, progress)
    });
    let found = found?.map_err(|why| anyhow!(messages::obstacle(&why)))?;
    let mut sweep = Sweep::new("Placement of target and draft", "placement");
    let most = if args.quick { QUICK_PLACEMENTS } else { usize::MAX };
    for placement in placements_in_order(&found).iter().take(most) {
        if session.stop.is_set() {
            break;
        }
        let name = messages::placement(placement);
        let loaded = with_progress(|progress| {
            load_placed(&session.settings, &session.machine, placement, progress)
        });
        let loaded = match loaded {
            Ok(loaded) => match &loaded.misplaced {
                Some(notice) => Err(messages::notice(notice)),
                None => Ok(loaded),
            },
            Err(error) => Err(messages::start_error(&error)),
        };
        match loaded {
            Ok(loaded) => {
                let speculate = placement.draft != DrafterId::None;
                let controls = Controls { speculate, strategy: None, ..session.base() };
                run_one(session, &mut Backend::from(loaded), &name, controls);
                sweep.expected.push((name.clone(), placement.rate));
                sweep.points.push((name, None));
            }
            Err(reason) => session.leave_out(Code::Model, format!("{name}: {reason}")),
        }
    }
    session.results.sweeps.push(sweep);
    Ok(())
}

/// Runs one candidate next to the target alone on the same models.
fn run_one(session: &mut BenchSession<'_>, backend: &mut Backend, name: &str, controls: Controls) {
    let candidate = BenchCandidate { name: name.to_owned(), controls };
    let models = Models::from(&backend.ready);
    session.run(backend, &[alone(&session.base()), candidate], models);
}

/// The status of this strategy if it can run.
fn can_run<'a>(ready: &'a Ready, name: &str) -> Option<&'a StrategyStatus> {
    ready.strategies.iter().find(|status| status.name == name && status.missing.is_none())
}

/// The strategy whose draft is varied, with the blocks that can be chosen for it: the head's if
/// there is a head, otherwise the initial strategy.
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
