//! The models, the machine and the settings of a run of the bench: loads what each batch of
//! contenders needs, runs it with progress and time left, and leaves out what cannot take part.
//! Must never compute figures.

use std::sync::Arc;

use anyhow::anyhow;
use indicatif::{ProgressBar, ProgressStyle};

use super::args::CourseArgs;
use super::isolated;
use crate::bench::prompts;
use crate::bench::strategies::{
    self as bench, Batch, BenchRun, Contender, ContenderLine, Environment, Models, PLAIN, Results,
    Stop, Taken,
};
use crate::cli::backend;
use crate::cli::exit::{Code, CommandResult, Failure, report};
use crate::cli::interrupt;
use crate::hardware::Machine;
use crate::load::{Purpose, StartError, load};
use crate::messages;
use crate::plan::{Setting, Strategy, TreeOverrides};
use crate::printable::printable_line;
use crate::settings::{HeadChoice, SettingValue, Settings};
use crate::worker::{Backend, Controls, Ready, SharedControls};

/// Tokens of an answer unless the user says otherwise: as DuoDecoding measures.
const MAX_TOKENS: usize = 128;

/// Why a contender took no part.
#[derive(Clone, Debug)]
struct LeftOut {
    reason: String,
    /// What the program ends with if nobody took part.
    code: Code,
}

/// Models, machine and settings of a run.
pub(super) struct BenchSession<'a> {
    pub(super) args: &'a CourseArgs,
    settings: Settings,
    machine: Machine,
    sets: Vec<prompts::PromptSet>,
    temperatures: Vec<f32>,
    controls: SharedControls,
    pub(super) stop: Arc<Stop>,
    /// Whether a strategy failed where the target alone did not.
    failed: bool,
    left_out: Vec<LeftOut>,
}

impl<'a> BenchSession<'a> {
    pub(super) fn new(args: &'a CourseArgs) -> Result<Self, Failure> {
        Self::with(args, load_sets(args)?, None)
    }

    /// With these prompt sets, and these temperatures unless flags give others.
    pub(super) fn with(
        args: &'a CourseArgs,
        sets: Vec<prompts::PromptSet>,
        temperatures: Option<&[f32]>,
    ) -> Result<Self, Failure> {
        let usage = |error: anyhow::Error| Failure::new(Code::Usage, error);
        let mut overrides = args.shared.settings.0.clone();
        overrides.retain(|over| over.key != "sampler.temperature");
        let mut settings = backend::settings(&args.shared, &overrides)?;
        // The settings file speaks of chats; here only a flag counts.
        if !args.shared.settings.set("max_tokens") || settings.max_tokens == Setting::Auto {
            settings.max_tokens = Setting::Fixed(MAX_TOKENS);
        }
        let temperatures = match (args.shared.settings.text("sampler.temperature"), temperatures) {
            (None, Some(own)) => own.to_vec(),
            (given, _) => self::temperatures(&settings, given).map_err(usage)?,
        };
        let controls = backend::controls(&settings);
        let stop = Arc::new(Stop::default());
        let (stopped, shared) = (Arc::clone(&stop), controls.clone());
        interrupt::watch(move || {
            stopped.stop(&shared);
            true
        });
        let machine = Machine::probe();
        Ok(Self {
            args,
            settings,
            machine,
            sets,
            temperatures,
            controls,
            stop,
            failed: false,
            left_out: Vec::new(),
        })
    }

    /// The controls that all contenders start from.
    pub(super) fn base(&self) -> Controls {
        backend::controls(&self.settings).get()
    }

    /// Loads the models, with another draft head than the settings' if one is named.
    pub(super) fn load(&self, head: Option<&str>) -> Result<Backend, Failure> {
        let mut settings = self.settings.clone();
        if let Some(head) = head {
            settings.draft = HeadChoice::named(Some(head));
        }
        Ok(self.load_with(&settings)?)
    }

    fn load_with(&self, settings: &Settings) -> Result<Backend, StartError> {
        let bar = ProgressBar::new_spinner();
        let loaded = load(settings, &self.machine, Purpose::Text, &mut |stage, fraction| {
            let percent =
                fraction.map(|fraction| format!(" {:.0} %", fraction * 100.0)).unwrap_or_default();
            bar.set_message(printable_line(&format!("{stage}{percent}")).into_owned());
            bar.tick();
        });
        bar.finish_and_clear();
        loaded.map(Backend::from)
    }

    /// Runs these contenders, or all that can run with the settings' models; those that share
    /// models in turn. Every contender gets a process of its own if `isolated`.
    ///
    /// # Errors
    /// [`Failure`] if nothing could be run.
    pub(super) fn measure(
        &mut self,
        kind: &str,
        wanted: Option<Vec<ContenderLine>>,
        isolated: bool,
    ) -> Result<Results, Failure> {
        let mut results = None;
        let alone = |lines: &Vec<ContenderLine>| lines.iter().all(|line| line.row.name == PLAIN);
        if !self.left_out.is_empty() && wanted.as_ref().is_some_and(alone) {
            // The target alone is no answer to a question about others.
            return Err(self.nothing_ran());
        }
        match (wanted, isolated) {
            (None, false) => {
                let mut backend = self.load(None)?;
                let lines = bench::runnable(&backend.ready.strategies);
                let batch = Batch { loads: Vec::new(), lines };
                self.run_batch(kind, &mut backend, &batch, &mut results)?;
            }
            (None, true) => {
                // What can run is known once the models are loaded; then they are let go.
                let lines = bench::runnable(&self.load(None)?.ready.strategies);
                self.run_isolated(lines, &mut results)?;
            }
            (Some(lines), true) => self.run_isolated(lines, &mut results)?,
            (Some(lines), false) => self.run_batches(kind, lines, &mut results)?,
        }
        let Some(mut results) = results else { return Err(self.nothing_ran()) };
        let left_out = self.left_out.iter().map(|left| format!("left out: {}", left.reason));
        results.notes.extend(left_out);
        Ok(results)
    }

    /// Why there is no result at all.
    fn nothing_ran(&self) -> Failure {
        let Some(first) = self.left_out.first() else {
            return Failure::quiet(Code::Interrupted);
        };
        // Each reason was said already.
        Failure::new(first.code, anyhow!("no strategy is left to measure"))
    }

    fn run_batches(
        &mut self,
        kind: &str,
        lines: Vec<ContenderLine>,
        results: &mut Option<Results>,
    ) -> Result<(), Failure> {
        for batch in bench::batches(lines) {
            if self.stop.is_set() {
                break;
            }
            match self.load_with(&batch.settings(&self.settings)) {
                Ok(mut backend) => self.run_batch(kind, &mut backend, &batch, results)?,
                Err(error) => {
                    let why = messages::start_error(&error);
                    for line in &batch.lines {
                        self.leave_out(Code::Model, format!("`{}`: {why}", line.name));
                    }
                }
            }
        }
        Ok(())
    }

    /// Runs the contenders of one batch against the target alone.
    fn run_batch(
        &mut self,
        kind: &str,
        backend: &mut Backend,
        batch: &Batch,
        results: &mut Option<Results>,
    ) -> Result<(), Failure> {
        let base = self.base();
        let ready = backend.ready.clone();
        let mut own_budget = |row: &'static Strategy| own_budget(backend, &base, row);
        let (contenders, left_out) =
            bench::contenders(&base, &ready.strategies, &batch.lines, &mut own_budget);
        for error in &left_out {
            self.leave_out(Code::Usage, error.to_string());
        }
        let only_plain = batch.lines.iter().all(|line| line.row.name == PLAIN);
        if contenders.is_empty() || (contenders.len() < 2 && !only_plain) {
            return Ok(());
        }
        let number = results.as_ref().map_or(0, Results::next_batch);
        let models = bench::models_of(&ready, batch, &contenders);
        let taken = self.run(backend, contenders, number)?;
        match results {
            Some(results) => {
                results.models.drafts.extend(models.drafts);
                results.models.parameters.extend(models.parameters);
                results.take(taken);
            }
            None => {
                let mut first = self.results(kind, &ready);
                first.models = models;
                first.take(taken);
                *results = Some(first);
            }
        }
        Ok(())
    }

    /// Runs every contender in a process of its own, one after the other.
    fn run_isolated(
        &mut self,
        lines: Vec<ContenderLine>,
        results: &mut Option<Results>,
    ) -> Result<(), Failure> {
        let plain = lines.first().map(ContenderLine::plain);
        let others = lines.into_iter().filter(|line| line.row.name != PLAIN || line.has_own());
        let lines: Vec<ContenderLine> = plain.into_iter().chain(others).collect();
        let bar = ProgressBar::new(lines.len() as u64);
        for line in &lines {
            if self.stop.is_set() {
                break;
            }
            bar.set_message(printable_line(&line.name).into_owned());
            match isolated::run(self.args, &self.sets, &self.temperatures, line) {
                Ok(ran) => {
                    self.failed |= ran.failed;
                    match results {
                        Some(results) => results.add_batch(ran.results),
                        None => *results = Some(ran.results),
                    }
                }
                Err(isolated::NotRun { code, reason }) => {
                    if !self.stop.is_set() {
                        self.leave_out(code, format!("`{}`: {reason}", line.name));
                    }
                }
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// Video memory that may be taken: what the user says, else what the card has.
    pub(super) fn vram_limit(&self) -> Option<u64> {
        self.settings.vram.or_else(|| self.machine.gpu.get().map(|gpu| gpu.vram_total))
    }

    /// Goes on without a contender: said at once, in the results, and by the exit code.
    pub(super) fn leave_out(&mut self, code: Code, reason: String) {
        report(&format!("left out: {reason}"));
        self.left_out.push(LeftOut { reason, code });
    }

    pub(super) fn run(
        &mut self,
        backend: &mut Backend,
        contenders: Vec<Contender>,
        batch: usize,
    ) -> Result<Taken, Failure> {
        let plan = BenchRun {
            contenders,
            sets: self.sets.clone(),
            temperatures: self.temperatures.clone(),
            max_tokens: self.settings.max_tokens.or(MAX_TOKENS),
            system: self.settings.system.clone(),
            batch,
        };
        let bar = ProgressBar::new(plan.answers() as u64).with_style(
            ProgressStyle::with_template(
                "{bar:24} {pos}/{len} answers, {elapsed} elapsed, {eta} left  {msg}",
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

    pub(super) fn results(&self, kind: &str, ready: &Ready) -> Results {
        let threads = self.machine.cpu.threads(self.settings.threads);
        let given = self.args.shared.settings.0.iter();
        // These have fields of their own.
        let named = ["target", "draft", "threads", "max_tokens", "strategy"];
        let settings = given
            .filter(|over| !named.contains(&over.key))
            .map(|over| format!("{} {}", over.flag, as_given(&over.value)))
            .collect();
        Results {
            kind: kind.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            environment: Environment::new(&self.machine, threads),
            models: Models::from(ready),
            max_tokens: self.settings.max_tokens.or(MAX_TOKENS),
            seed: self.settings.sampler.seed,
            settings,
            notes: Vec::new(),
            complete: true,
            sweeps: Vec::new(),
            answers: Vec::new(),
        }
    }

    /// The exit code: a text that differs goes before a failure, a failure before an interruption.
    pub(super) fn conclude(&self, results: &Results) -> CommandResult {
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
            return Err(Failure::new(
                Code::Failed,
                anyhow!(
                    "no prompt could be answered; see the \
                                                           notes"
                ),
            ));
        }
        if !self.left_out.is_empty() {
            // Each was said already.
            return Err(Failure::quiet(Code::Failed));
        }
        Ok(())
    }
}

/// The prompt sets that the flags name, or the bundled ones.
pub(super) fn load_sets(args: &CourseArgs) -> Result<Vec<prompts::PromptSet>, Failure> {
    let usage = |error: anyhow::Error| Failure::new(Code::Usage, error);
    if args.limit == Some(0) {
        return Err(usage(anyhow!("--limit must be 1 or more, not 0")));
    }
    prompts::load(&args.sets(), args.limit).map_err(|error| usage(error.into()))
}

/// γ as a strategy chooses it for itself.
pub(super) fn own_budget(backend: &mut Backend, base: &Controls, row: &'static Strategy) -> usize {
    let tree = TreeOverrides::default();
    let controls = Controls { speculate: true, strategy: Some(row), tree, ..base.clone() };
    backend.planner.choose(&controls).budget.shape.gamma
}

/// A flag's value as it can be typed again.
fn as_given(value: &SettingValue) -> String {
    match value {
        SettingValue::Text(text) if !text.contains(char::is_whitespace) => text.clone(),
        value => value.to_string(),
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
    fn a_value_stands_as_it_was_typed() {
        assert_eq!(as_given(&SettingValue::text("0,1")), "0,1");
        assert_eq!(as_given(&SettingValue::text("Be brief.")), "\"Be brief.\"");
    }

    #[test]
    fn temperatures_are_a_list_and_checked() {
        let settings = Settings::default();
        assert_eq!(temperatures(&settings, None).unwrap(), [0.0]);
        assert_eq!(temperatures(&settings, Some("0, 1")).unwrap(), [0.0, 1.0]);
        let error = temperatures(&settings, Some("0,9")).unwrap_err().to_string();
        assert!(error.contains("--temperature") && error.contains('9'), "{error}");
    }
}
