//! One run of the bench: its models, machine, settings and results. It loads what each batch of
//! candidates needs, runs it with progress, and leaves out what cannot take part. It must not
//! compute figures.

use std::io::{self, IsTerminal};
use std::sync::Arc;

use anyhow::anyhow;
use indicatif::{ProgressBar, ProgressStyle};

use super::args::BenchRunArgs;
use super::files::{draw, print, save};
use super::isolated;
use crate::bench::strategies::{
    self as bench, BenchCandidate, BenchRun, CandidateBatch, CandidateLine, Environment, Models,
    PLAIN, Results, Stop,
};
use crate::bench::{Chart, Table, prompts};
use crate::cli::backend;
use crate::cli::exit::{Code, CommandResult, Failure, report};
use crate::cli::interrupt;
use crate::hardware::Machine;
use crate::load::Purpose;
use crate::messages;
use crate::plan::{Setting, Strategy, TreeOverrides, chosen_adapter};
use crate::printable::printable_line;
use crate::settings::{SettingValue, Settings};
use crate::worker::{Backend, Controls};

/// The kind of run that repeats a table or a figure.
pub(super) const PAPER: &str = "paper";
/// Tokens of an answer unless the user chooses another number: as DuoDecoding measures.
const MAX_TOKENS: usize = 128;

/// Models, machine, settings and results of a run.
pub(super) struct BenchSession<'a> {
    args: &'a BenchRunArgs,
    pub(super) settings: Settings,
    pub(super) machine: Machine,
    run: BenchRun,
    pub(super) stop: Arc<Stop>,
    pub(super) results: Results,
    /// Whether a strategy failed where the target alone did not.
    failed: bool,
    /// Why candidates took no part, each with the exit code if none did.
    left_out: Vec<(Code, String)>,
}

impl<'a> BenchSession<'a> {
    pub(super) fn new(args: &'a BenchRunArgs, kind: &'static str) -> Result<Self, Failure> {
        Self::with(args, kind, load_sets(args)?, None)
    }

    /// With these prompt sets, and these temperatures unless the flags have others. `kind` is the
    /// kind of run, for the record.
    pub(super) fn with(
        args: &'a BenchRunArgs,
        kind: &'static str,
        sets: Vec<prompts::PromptSet>,
        temperatures: Option<&[f32]>,
    ) -> Result<Self, Failure> {
        let mut overrides = args.shared.settings.0.clone();
        overrides.retain(|over| over.key != "sampler.temperature");
        let mut settings = backend::settings(&args.shared, &overrides)?;
        // The settings file is meant for chats; here only a flag counts.
        if !args.shared.settings.set("max_tokens") || settings.max_tokens == Setting::Auto {
            settings.max_tokens = Setting::Fixed(MAX_TOKENS);
        }
        let max_tokens = settings.max_tokens.or(MAX_TOKENS);
        let temperatures = match (args.shared.settings.text("sampler.temperature"), temperatures) {
            (None, Some(own)) => own.to_vec(),
            (given, _) => self::temperatures(&settings, given).map_err(Failure::usage)?,
        };
        let stop = interrupt::stop_answers(&backend::controls(&settings));
        let machine = Machine::probe();
        let threads = machine.cpu.threads(settings.threads);
        let adapter = chosen_adapter(settings.device, &machine).ok();
        // These have fields of their own.
        let named = ["target", "draft", "threads", "max_tokens", "strategy"];
        let given = args.shared.settings.0.iter().filter(|over| !named.contains(&over.key));
        let results = Results {
            kind: kind.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            environment: Environment::new(&machine, threads, adapter),
            models: Models::default(),
            max_tokens,
            seed: settings.sampler.seed,
            settings: given
                .map(|over| format!("{} {}", over.flag, as_given(&over.value)))
                .collect(),
            notes: Vec::new(),
            complete: true,
            sweeps: Vec::new(),
            answers: Vec::new(),
        };
        let system = settings.system.clone();
        let adapter = adapter.map(|adapter| adapter.number);
        let run = BenchRun { sets, temperatures, max_tokens, system, adapter };
        let left_out = Vec::new();
        Ok(Self { args, settings, machine, run, stop, results, failed: false, left_out })
    }

    /// The controls that all candidates start from.
    pub(super) fn base(&self) -> Controls {
        backend::controls(&self.settings).get()
    }

    /// Loads the models of the settings.
    pub(super) fn load(&self) -> Result<Backend, Failure> {
        Ok(Backend::from(backend::load(&self.settings, &self.machine, Purpose::Text)?))
    }

    /// Runs these candidates, or all that can run with the models of the settings. Those that share
    /// models take turns. If `isolated`, every candidate gets its own process.
    ///
    /// # Errors
    /// [`Failure`] if nothing could be run.
    pub(super) fn measure(
        &mut self,
        wanted: Option<Vec<CandidateLine>>,
        isolated: bool,
    ) -> Result<Results, Failure> {
        let alone = |lines: &Vec<CandidateLine>| lines.iter().all(|line| line.row.name == PLAIN);
        if self.has_failures() && wanted.as_ref().is_some_and(alone) {
            // The target alone does not answer a question about others.
            return Err(self.nothing_ran());
        }
        let mut loaded = None;
        let lines = match wanted {
            Some(lines) => lines,
            // Which strategies can run is known once the models are loaded.
            None => bench::runnable(&loaded.insert(self.load()?).ready.strategies),
        };
        match loaded {
            _ if isolated => {
                drop(loaded);
                self.run_isolated(lines);
            }
            Some(mut backend) => {
                self.run_batch(&mut backend, &CandidateBatch { loads: Vec::new(), lines });
            }
            None => self.run_batches(lines),
        }
        if self.results.models.target.is_empty() && !self.has_failures() {
            // The target alone stands next to what is absent.
            self.run_batches(Strategy::named(PLAIN).map(CandidateLine::of).into_iter().collect());
        }
        self.finish()
    }

    /// The results so far.
    ///
    /// # Errors
    /// [`Failure`] if nothing could be run.
    pub(super) fn finish(&mut self) -> Result<Results, Failure> {
        if self.results.models.target.is_empty() {
            return Err(self.nothing_ran());
        }
        let left_out = self.left_out_lines();
        self.results.notes.extend(left_out);
        Ok(self.results.clone())
    }

    fn left_out_lines(&self) -> Vec<String> {
        self.left_out.iter().map(|(_, reason)| format!("left out: {reason}")).collect()
    }

    /// Why there is no result at all.
    fn nothing_ran(&self) -> Failure {
        let Some((code, _)) = self.left_out.first() else {
            return Failure::quiet(Code::Interrupted);
        };
        // Each reason was reported already.
        Failure::new(*code, anyhow!("no strategy is left to measure"))
    }

    fn run_batches(&mut self, lines: Vec<CandidateLine>) {
        for batch in bench::batches(lines) {
            if self.stop.is_set() {
                break;
            }
            let settings = batch.settings(&self.settings);
            match backend::load(&settings, &self.machine, Purpose::Text) {
                Ok(loaded) => self.run_batch(&mut Backend::from(loaded), &batch),
                Err(error) => {
                    let why = messages::start_error(&error);
                    for line in &batch.lines {
                        self.leave_out(Code::Model, format!("`{}`: {why}", line.name));
                    }
                }
            }
        }
    }

    /// Runs the candidates of one batch against the target alone.
    fn run_batch(&mut self, backend: &mut Backend, batch: &CandidateBatch) {
        let base = self.base();
        let ready = backend.ready.clone();
        let mut own_budget = |row: &'static Strategy| own_budget(backend, &base, row);
        let (candidates, left_out) =
            bench::candidates(&base, &ready.strategies, &batch.lines, &mut own_budget);
        for error in left_out {
            self.leave_out(Code::Usage, error);
        }
        let only_plain = batch.lines.iter().all(|line| line.row.name == PLAIN);
        if candidates.is_empty() || (candidates.len() < 2 && !only_plain) {
            return;
        }
        let models = bench::models_of(&ready, batch, &candidates);
        self.run(backend, &candidates, models);
    }

    /// Runs every candidate in its own process, one after the other.
    fn run_isolated(&mut self, lines: Vec<CandidateLine>) {
        let plain = lines.first().map(CandidateLine::plain);
        let others =
            lines.into_iter().filter(|line| line.row.name != PLAIN || !line.own.is_empty());
        let lines: Vec<CandidateLine> = plain.into_iter().chain(others).collect();
        let bar = ProgressBar::new(lines.len() as u64);
        for line in &lines {
            if self.stop.is_set() {
                break;
            }
            bar.set_message(printable_line(&line.name).into_owned());
            match isolated::run(self.args, &self.run, line) {
                Ok((results, failed)) => {
                    self.failed |= failed;
                    self.results.add_batch(results);
                }
                Err((code, reason)) => {
                    if !self.stop.is_set() {
                        self.leave_out(code, format!("`{}`: {reason}", line.name));
                    }
                }
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
    }

    /// How much video memory may be used: the user's limit, or all that the card has.
    pub(super) fn vram_limit(&self) -> Option<u64> {
        let adapter = chosen_adapter(self.settings.device, &self.machine).ok();
        self.settings.vram.or_else(|| Some(adapter?.memory?.total))
    }

    /// Continues without a candidate, which is reported at once, in the results, and by the exit
    /// code.
    pub(super) fn leave_out(&mut self, code: Code, reason: String) {
        report(&format!("left out: {reason}"));
        self.left_out.push((code, reason));
    }

    /// The lines that are candidates; the others are left out.
    pub(super) fn accepted(
        &mut self,
        lines: Vec<Result<CandidateLine, String>>,
    ) -> Vec<CandidateLine> {
        let accept = |line: Result<CandidateLine, String>| {
            line.map_err(|why| self.leave_out(Code::Usage, why)).ok()
        };
        lines.into_iter().filter_map(accept).collect()
    }

    /// Whether a candidate took no part that should have. A row of a paper may need a model or a
    /// card that is not here: then it is absent, which the notes say.
    fn has_failures(&self) -> bool {
        let absent = |code| self.results.kind == PAPER && code == Code::Usage;
        self.left_out.iter().any(|&(code, _)| !absent(code))
    }

    /// Runs candidates in turn on one set of loaded models, and adds what they did to the results.
    pub(super) fn run(
        &mut self,
        backend: &mut Backend,
        candidates: &[BenchCandidate],
        models: Models,
    ) {
        self.results.models.add(models);
        let bar = ProgressBar::new(self.run.answers(candidates.len()) as u64);
        // The template is valid; a mistake in it shows the default bar.
        bar.set_style(
            ProgressStyle::with_template(
                "{bar:24} {pos}/{len} answers, {elapsed} elapsed, {eta} left  {msg}",
            )
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
        );
        let mut started = 0;
        let report = &mut |candidate: &str, set: &str| {
            bar.set_position(started);
            bar.set_message(printable_line(&format!("{candidate}, {set}")).into_owned());
            started += 1;
        };
        self.failed |= self.run.run(backend, candidates, &self.stop, &mut self.results, report);
        bar.finish_and_clear();
    }

    /// Prints, saves and draws the results as the flags ask. If saving or drawing fails, the tables
    /// are still printed before the error is returned.
    pub(super) fn report(
        &self,
        results: &Results,
        tables: &[Table],
        charts: &[Chart],
    ) -> CommandResult {
        let saved = save(results, self.args.save.as_deref());
        let drawn = draw(charts, self.args.svg.as_deref());
        let on_terminal = io::stdout().is_terminal() && io::stderr().is_terminal();
        let said = if on_terminal { self.left_out_lines() } else { Vec::new() };
        print(&self.args.style, results, tables, &said)?;
        saved?;
        drawn?;
        self.conclude(results)
    }

    /// The exit code: a text that differs counts more than a failure, and a failure more than an
    /// interruption.
    fn conclude(&self, results: &Results) -> CommandResult {
        let (message, lossless) = bench::lossless_check(&results.answers);
        let failed = |message: &str| Err(anyhow!("{message}").into());
        if !lossless {
            return failed(&message);
        }
        if self.failed {
            return failed("a strategy failed where the target alone did not; see the notes");
        }
        if self.stop.is_set() {
            return Err(Failure::quiet(Code::Interrupted));
        }
        if results.answers.is_empty() {
            return failed("no prompt could be answered; see the notes");
        }
        if self.has_failures() {
            // Each was reported already.
            return Err(Failure::quiet(Code::Failed));
        }
        Ok(())
    }
}

/// The prompt sets that the flags name, or the bundled ones.
pub(super) fn load_sets(args: &BenchRunArgs) -> Result<Vec<prompts::PromptSet>, Failure> {
    if args.limit == Some(0) {
        return Err(Failure::usage(anyhow!("--limit must be 1 or more, not 0")));
    }
    prompts::load(&args.sets(), args.limit).map_err(Failure::usage)
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

/// The list given to `--temperature`, each value checked by the table of settings.
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
