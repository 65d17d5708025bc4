//! `dovetail bench` and `bench ablation`: loads the models, runs with progress and time left, and
//! writes the results. Must never compute figures.

use std::sync::Arc;

use anyhow::anyhow;
use indicatif::{ProgressBar, ProgressStyle};

use super::args::{AblationArgs, BenchArgs, CourseArgs};
use super::files::deliver;
use crate::bench::ablation::Variants;
use crate::bench::prompts;
use crate::bench::strategies::{
    self as bench, BenchRun, Contender, Environment, Models, Results, Stop, Taken,
};
use crate::cli::backend;
use crate::cli::exit::{Code, CommandResult, Failure};
use crate::cli::interrupt;
use crate::draft::Depths;
use crate::hardware::Machine;
use crate::plan::{DraftKind, Strategy};
use crate::printable::printable_line;
use crate::settings::{SettingValue, Settings};
use crate::worker::{self, Backend, Controls, Purpose, Ready, SharedControls, StrategyStatus};

/// Tokens of an answer unless the user says otherwise: as DuoDecoding measures.
const MAX_TOKENS: usize = 128;

/// Runs the strategies against each other.
pub(super) fn strategies(args: &BenchArgs) -> CommandResult {
    let mut session = BenchSession::new(&args.course)?;
    let mut backend = session.load(None)?;
    let statuses = &backend.ready.strategies;
    let contenders = bench::contenders(&session.base(), statuses, &args.strategies)
        .map_err(|error| Failure::new(Code::Usage, error))?;
    let taken = session.run(&mut backend, contenders)?;
    let mut results = session.results("strategies", &backend.ready);
    results.take(taken);
    let tables = bench::tables(&results);
    deliver(&args.course, &results, &tables, || bench::charts(&results))?;
    session.conclude(&results)
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
                variants.duo(&session.base(), duo);
            }
        }
        let taken = session.run(&mut backend, variants.contenders)?;
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
    let head = Strategy::first_with(DraftKind::Head);
    let name = can_run(ready, head.name).map_or(ready.strategy.as_str(), |_| head.name);
    let depths = can_run(ready, name).map_or(ready.depths, |status| status.depths);
    (Strategy::named(name), depths)
}

/// A short name for a head: its kind, numbered if there are several.
fn label(ready: &Ready, number: usize) -> String {
    let kind = ready.draft.as_deref().unwrap_or("draft").split(' ').next().unwrap_or("draft");
    if number == 0 { kind.to_owned() } else { format!("{kind} #{}", number + 1) }
}

/// Models, machine and settings of a run.
struct BenchSession<'a> {
    args: &'a CourseArgs,
    settings: Settings,
    machine: Machine,
    sets: Vec<prompts::PromptSet>,
    temperatures: Vec<f32>,
    controls: SharedControls,
    stop: Arc<Stop>,
    /// Whether a strategy failed where the target alone did not.
    failed: bool,
}

impl<'a> BenchSession<'a> {
    fn new(args: &'a CourseArgs) -> Result<Self, Failure> {
        let usage = |error: anyhow::Error| Failure::new(Code::Usage, error);
        let mut overrides = args.shared.overrides();
        overrides.retain(|over| over.key != "sampler.temperature");
        let mut settings = backend::settings(&args.shared, &overrides)?;
        if args.shared.max_tokens.is_none() {
            settings.max_tokens = MAX_TOKENS;
        }
        let temperatures =
            temperatures(&settings, args.shared.temperature.as_deref()).map_err(usage)?;
        if args.limit == Some(0) {
            return Err(usage(anyhow!("--limit must be 1 or more, not 0")));
        }
        let sets = prompts::load(&args.sets(), args.limit).map_err(|error| usage(error.into()))?;
        let controls = backend::controls(&settings);
        let stop = Arc::new(Stop::default());
        let (stopped, shared) = (Arc::clone(&stop), controls.clone());
        interrupt::watch(move || {
            stopped.stop(&shared);
            true
        });
        let machine = Machine::probe();
        Ok(Self { args, settings, machine, sets, temperatures, controls, stop, failed: false })
    }

    /// The controls that all contenders start from.
    fn base(&self) -> Controls {
        backend::controls(&self.settings).get()
    }

    /// Loads the models, with another draft head than the settings' if one is named.
    fn load(&self, head: Option<&str>) -> Result<Backend, Failure> {
        let mut settings = self.settings.clone();
        if let Some(head) = head {
            settings.draft = Some(head.to_owned());
        }
        let bar = ProgressBar::new_spinner();
        let loaded =
            worker::load(&settings, &self.machine, Purpose::Text, &mut |stage, fraction| {
                let percent = fraction
                    .map(|fraction| format!(" {:.0} %", fraction * 100.0))
                    .unwrap_or_default();
                bar.set_message(printable_line(&format!("{stage}{percent}")).into_owned());
                bar.tick();
            });
        bar.finish_and_clear();
        loaded.map(Backend::from).map_err(|error| Failure::new(Code::Model, error))
    }

    fn run(&mut self, backend: &mut Backend, contenders: Vec<Contender>) -> Result<Taken, Failure> {
        let plan = BenchRun {
            contenders,
            sets: self.sets.clone(),
            temperatures: self.temperatures.clone(),
            max_tokens: self.settings.max_tokens,
            system: self.settings.system.clone(),
        };
        let bar = ProgressBar::new(plan.answers() as u64).with_style(
            ProgressStyle::with_template(
                "{bar:24} {pos}/{len} answers, {elapsed} gone, {eta} left  {msg}",
            )
            .map_err(|error| Failure::from(anyhow::Error::from(error)))?,
        );
        let mut started = 0;
        let taken =
            bench::run(backend, &plan, &self.controls, &self.stop, &mut |contender, set| {
                bar.set_position(started);
                bar.set_message(printable_line(&format!("{contender}, {set}")).into_owned());
                started += 1;
            });
        bar.finish_and_clear();
        self.failed |= taken.failed;
        Ok(taken)
    }

    fn results(&self, kind: &str, ready: &Ready) -> Results {
        let threads = self.machine.cpu.threads(self.settings.threads);
        let given = self.args.shared.overrides().into_iter();
        // These have fields of their own.
        let named = ["target", "draft", "threads", "max_tokens", "strategy"];
        let settings = given
            .filter(|over| !named.contains(&over.key))
            .map(|over| format!("{} {}", over.flag, over.value))
            .collect();
        Results {
            kind: kind.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            environment: Environment::new(&self.machine, threads),
            models: Models::from(ready),
            max_tokens: self.settings.max_tokens,
            seed: self.settings.sampler.seed,
            settings,
            notes: Vec::new(),
            complete: true,
            sweeps: Vec::new(),
            answers: Vec::new(),
        }
    }

    /// The exit code: a text that differs goes before a failure, a failure before an interruption.
    fn conclude(&self, results: &Results) -> CommandResult {
        let (message, lossless) = bench::lossless_check(&results.answers);
        if !lossless {
            return Err(Failure::new(Code::Failed, anyhow!("{message}")));
        }
        if self.failed {
            let error = anyhow!("a strategy failed where the target alone did not; see the notes");
            return Err(Failure::new(Code::Failed, error));
        }
        if self.stop.is_set() {
            return Err(Failure::quiet(Code::Interrupted));
        }
        if results.answers.is_empty() {
            return Err(Failure::new(Code::Failed, anyhow!("no prompt could be answered")));
        }
        Ok(())
    }
}

/// The list behind `--temperature`, each value checked by the settings' own table.
fn temperatures(settings: &Settings, given: Option<&str>) -> anyhow::Result<Vec<f32>> {
    let Some(given) = given else { return Ok(vec![settings.sampler.temperature]) };
    let each = given.split(',').map(|text| {
        let mut settings = settings.clone();
        settings
            .set("sampler.temperature", &SettingValue::text(text.trim()))
            .map_err(|problem| anyhow!("--temperature: {problem}"))?;
        Ok(settings.sampler.temperature)
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temperatures_are_a_list_and_checked() {
        let settings = Settings::default();
        assert_eq!(temperatures(&settings, None).unwrap(), [0.0]);
        assert_eq!(temperatures(&settings, Some("0, 1")).unwrap(), [0.0, 1.0]);
        let error = temperatures(&settings, Some("0,9")).unwrap_err().to_string();
        assert!(error.contains("--temperature") && error.contains('9'), "{error}");
    }
}
