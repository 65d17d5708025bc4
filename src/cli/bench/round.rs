//! `dovetail bench round`: from flags to a prediction. Must never measure by itself.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use clap::Args;
use indicatif::ProgressBar;
use serde::Serialize;

use super::not_measured;
use crate::bench::TableStyle;
use crate::bench::paper::published;
use crate::bench::round::{
    AcceptanceProfile, Check, PUBLISHED_PREFIX, Prediction, TimesRequest, chart, check_settings,
    decode, measure, random_models, tables,
};
use crate::chart;
use crate::chat::{Message, Role};
use crate::cli::backend;
use crate::cli::exit::{Code, CommandResult, Failure, report};
use crate::cli::interrupt;
use crate::cli::output::stdout;
use crate::cli::shared_args::SharedArgs;
use crate::draft::Depths;
use crate::hardware::Machine;
use crate::kernels::Format;
use crate::model::KnownShape;
use crate::plan::{DraftKind, Strategy};
use crate::printable::{json_line, printable_line};
use crate::speculate::SamplerSettings;
use crate::worker::record::Question;
use crate::worker::{self, Backend, Controls, Purpose};

/// Time for measuring rounds.
const ALLOWED: Duration = Duration::from_secs(60);
/// Positions behind the prompt, for the rounds.
const ROOM: usize = 512;

/// Flags of `bench round`.
#[derive(Debug, Args)]
pub struct RoundArgs {
    /// Random weights in the shape of a known model, with a DGF head of that size on the CPU: 1b,
    /// 7b or 13b [default: the models that the other flags name].
    #[arg(long, value_name = "NAME", help_heading = "Round")]
    pub shape: Option<String>,
    /// Format of the random target's weights.
    #[arg(long, value_name = "NAME", default_value = "q4_k", help_heading = "Round")]
    pub format: String,
    /// Blocks of the head: a list or a range such as 1..5 [default: 1..5 with --shape, else what
    /// the head has].
    #[arg(long = "head-blocks", value_name = "M,…|A..B", help_heading = "Round")]
    pub head_blocks: Option<String>,
    /// Numbers of nodes.
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        default_value = "1,2,4,8,12,16,24,32,48,64",
        help_heading = "Round"
    )]
    pub gammas: Vec<usize>,
    /// Records that say how much is accepted, of fixed large trees: `dovetail run --record FILE
    /// --strategy dovetail --gamma 64 --width 10 --depth 7 --blocks M`. Or what the Dovetail paper
    /// prints for γ = 16: paper:mt_bench or paper:humaneval.
    #[arg(long, value_name = "FILE,…|paper:SET", value_delimiter = ',', help_heading = "Round")]
    pub accept: Vec<PathBuf>,
    /// Decode the recorded questions at five of the settings and print the error.
    #[arg(long, requires = "accept", conflicts_with = "shape", help_heading = "Round")]
    pub check: bool,
    /// Tokens in front of the random models' rounds.
    #[arg(long, value_name = "N", default_value_t = 256, help_heading = "Round")]
    pub prompt_tokens: usize,
    /// Write the tables as Markdown.
    #[arg(long, conflicts_with = "json", help_heading = "Round")]
    pub markdown: bool,
    /// One JSON object instead of the tables.
    #[arg(long, help_heading = "Round")]
    pub json: bool,
    /// Draw the heat map into this folder.
    #[arg(long, value_name = "FOLDER", help_heading = "Round")]
    pub svg: Option<PathBuf>,
    /// Flags shared with the chat.
    #[command(flatten)]
    pub shared: SharedArgs,
}

/// What is printed with `--json`.
#[derive(Serialize)]
struct Results<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    subject: &'a str,
    acceptance: &'a [String],
    #[serde(flatten)]
    prediction: &'a Prediction,
    checks: &'a [Check],
}

/// What was measured, and of what.
struct Measured {
    subject: String,
    prediction: Prediction,
    checks: Vec<Check>,
}

/// Measures rounds and predicts tokens a second.
pub(super) fn round(args: &RoundArgs) -> CommandResult {
    let usage = |error: anyhow::Error| Failure::new(Code::Usage, error);
    let (profile, questions) = acceptance(args).map_err(usage)?;
    let measured = match &args.shape {
        Some(shape) => random(args, shape, &profile)?,
        None => loaded(args, &profile, &questions)?,
    };
    let Measured { subject, prediction, checks } = &measured;
    let tables = tables(prediction, &profile.sources, checks);
    if let Some(folder) = &args.svg {
        draw(folder, prediction)?;
    }
    let mut out = stdout()?;
    if args.json {
        let acceptance = &profile.sources[..];
        let results = Results { kind: "round", subject, acceptance, prediction, checks };
        out.write_all(json_line(&results).map_err(io::Error::from)?.as_bytes())?;
        return Ok(());
    }
    writeln!(out, "{subject}\n")?;
    let style = if args.markdown { TableStyle::Markdown } else { TableStyle::Plain };
    for table in &tables {
        table.write(style, &mut out)?;
    }
    Ok(())
}

/// The acceptance profile of the flags, and the questions of its records.
fn acceptance(args: &RoundArgs) -> anyhow::Result<(AcceptanceProfile, Vec<Question>)> {
    let names = args.accept.iter().filter_map(|path| path.to_str()?.strip_prefix(PUBLISHED_PREFIX));
    if let Some(name) = names.clone().next() {
        if args.accept.len() > 1 {
            return Err(anyhow!(
                "--accept: what is published is of other models than a record; name one of them"
            ));
        }
        if args.check {
            return Err(anyhow!(
                "--check decodes the questions of a record; name one with --accept"
            ));
        }
        let profile = AcceptanceProfile::published(&published()?, name).context("--accept")?;
        return Ok((profile, Vec::new()));
    }
    let mut profile = AcceptanceProfile::default();
    let mut questions = Vec::new();
    for path in &args.accept {
        let record = profile.add(path)?;
        questions.extend(record.answers.into_iter().map(|answer| answer.question));
    }
    Ok((profile, questions))
}

fn draw(folder: &std::path::Path, prediction: &Prediction) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    if let Some((name, svg)) = chart(prediction)? {
        let path = folder.join(name);
        chart::save(&svg, &path)?;
        report(&format!("wrote {}", path.display()));
    }
    Ok(())
}

/// Random weights of a known shape.
fn random(args: &RoundArgs, shape: &str, profile: &AcceptanceProfile) -> Result<Measured, Failure> {
    let usage = |error: anyhow::Error| Failure::new(Code::Usage, error);
    let known =
        KnownShape::ALL.into_iter().find(|known| known.name() == shape).ok_or_else(|| {
            let names = KnownShape::ALL.map(KnownShape::name).join(", ");
            usage(anyhow!("--shape: `{shape}` is not one of {names}"))
        })?;
    let format = Format::from_name(&args.format)
        .ok_or_else(|| usage(anyhow!("--format: `{}` is no format of weights", args.format)))?;
    let blocks = match &args.head_blocks {
        Some(text) => numbers(text).map_err(usage)?,
        None => (1..=5).collect(),
    };
    let most = blocks.iter().copied().max().unwrap_or(1);
    let settings = backend::settings(&args.shared, &args.shared.overrides())?;
    let threads = settings.threads.unwrap_or_else(|| Machine::probe().cpu.physical).max(1);
    let bar = ProgressBar::new_spinner();
    bar.set_message("making random weights");
    bar.tick();
    let positions = args.prompt_tokens + ROOM;
    let (mut engine, names) =
        random_models(known, format, most, positions, threads).map_err(not_measured)?;
    let vocab = known.config().vocab;
    let (width, depth) = profile.shape();
    let request = TimesRequest {
        prompt: (0..args.prompt_tokens).map(|at| (at * 7 % vocab) as u32).collect(),
        answer: ROOM,
        sampler: greedy(),
        gammas: args.gammas.clone(),
        blocks,
        width,
        depth,
        drafter: 0,
        until: Instant::now() + ALLOWED,
    };
    let times = measure(&mut engine, names.as_ref(), &request, &mut |blocks| {
        bar.set_message(format!("M = {blocks}"));
        bar.tick();
    });
    bar.finish_and_clear();
    let times = times.map_err(not_measured)?;
    let subject = format!(
        "{} shape, {}, with a DGF head on the CPU, all of random weights; {} tokens in front, {} \
         threads, width {width}, depth {depth}.",
        known.name(),
        format.described(),
        args.prompt_tokens,
        threads
    );
    Ok(Measured { subject, prediction: Prediction::new(&times, Some(profile)), checks: Vec::new() })
}

/// The models that the flags name.
fn loaded(
    args: &RoundArgs,
    profile: &AcceptanceProfile,
    questions: &[Question],
) -> Result<Measured, Failure> {
    let usage = |error: anyhow::Error| Failure::new(Code::Usage, error);
    let mut settings = backend::settings(&args.shared, &args.shared.overrides())?;
    let head = Strategy::first_with(DraftKind::Head);
    let strategy = settings.strategy.unwrap_or(head);
    settings.strategy = Some(strategy);
    let bar = ProgressBar::new_spinner();
    let machine = Machine::probe();
    let backend = worker::load(&settings, &machine, Purpose::Text, &mut |stage, _| {
        bar.set_message(printable_line(stage).into_owned());
        bar.tick();
    });
    let mut backend =
        backend.map(Backend::from).map_err(|error| Failure::new(Code::Model, error))?;
    let controls = Controls { strategy: Some(strategy), ..Controls::default() };
    let drafter = backend.planner.choose(&controls).drafter.ok_or_else(|| {
        usage(anyhow!(
            "--strategy: `{}` drafts nothing, so there is no round to time",
            strategy.name
        ))
    })?;
    let status = backend.ready.strategies.iter().find(|status| status.name == strategy.name);
    let depths = status.map_or(Depths::Fixed(0), |status| status.depths);
    let (least, most) = match depths {
        Depths::Elastic(most) => (1, most),
        Depths::Fixed(blocks) => (blocks, blocks),
    };
    let blocks = match &args.head_blocks {
        Some(text) => numbers(text).map_err(usage)?,
        None => (least..=most).collect(),
    };
    if let Some(blocks) = blocks.iter().find(|blocks| !(least..=most).contains(blocks)) {
        let message = format!("--head-blocks: {blocks}, and the draft has {least} to {most}");
        return Err(usage(anyhow!(message)));
    }
    let hello = [Message::new(Role::User, "Tell me about the place where you live.")];
    let question = questions.first();
    let messages = question.map_or(&hello[..], |question| &question.messages);
    let prompt = (backend.prompter)(messages, None).map_err(|error| usage(anyhow!(error)))?;
    let (width, depth) = profile.shape();
    let request = TimesRequest {
        prompt: prompt.tokens,
        answer: question.map_or(ROOM, |question| question.max_tokens),
        sampler: question.map_or_else(greedy, |question| question.sampler),
        gammas: args.gammas.clone(),
        blocks,
        width,
        depth,
        drafter,
        until: Instant::now() + ALLOWED,
    };
    let times = measure(&mut backend.engine, backend.names.as_ref(), &request, &mut |blocks| {
        bar.set_message(format!("M = {blocks}"));
        bar.tick();
    });
    let times = times.map_err(not_measured)?;
    let prediction = Prediction::new(&times, Some(profile));
    let mut checks = Vec::new();
    if args.check {
        let controls = backend::controls(&settings);
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, shared) = (Arc::clone(&stop), controls.clone());
        interrupt::watch(move || {
            stopped.store(true, Ordering::Relaxed);
            shared.update(|controls| controls.generation = 0);
            true
        });
        bar.set_message("decoding for real");
        bar.tick();
        let wanted = || !stop.load(Ordering::Relaxed);
        let settings = check_settings(&prediction, profile);
        let shape = (width, depth);
        let decoded = decode(
            &mut backend,
            &controls,
            questions,
            (strategy, shape),
            (&prediction, &settings),
            &wanted,
        );
        checks = decoded.map_err(|error| Failure::new(Code::Failed, anyhow!(error)))?;
        if !wanted() {
            return Err(Failure::quiet(Code::Interrupted));
        }
    }
    bar.finish_and_clear();
    let ready = &backend.ready;
    let draft = ready.draft.as_deref().unwrap_or("no draft");
    let subject = format!(
        "{} ({}) with {draft}; {} tokens in front, width {width}, depth {depth}.",
        ready.target,
        ready.target_detail,
        request.prompt.len()
    );
    Ok(Measured { subject, prediction, checks })
}

/// How tokens are drawn where no record says.
fn greedy() -> SamplerSettings {
    SamplerSettings { temperature: 0.0, ..SamplerSettings::default() }
}

/// `1,2,4` or `1..5`, both ends included.
fn numbers(text: &str) -> anyhow::Result<Vec<usize>> {
    let wrong = || anyhow!("--head-blocks: `{text}` is neither a list such as 1,2,4 nor 1..5");
    let number = |text: &str| text.trim().parse::<usize>().map_err(|_| wrong());
    let all: Vec<usize> = match text.split_once("..") {
        Some((first, last)) => (number(first)?..=number(last)?).collect(),
        None => text.split(',').map(number).collect::<anyhow::Result<_>>()?,
    };
    let known = crate::plan::BLOCKS;
    if all.is_empty() || all.iter().any(|blocks| *blocks > known.most) {
        return Err(wrong());
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_a_list_or_a_range() {
        assert_eq!(numbers("1..3").unwrap(), [1, 2, 3]);
        assert_eq!(numbers("2, 5").unwrap(), [2, 5]);
        for wrong in ["", "3..1", "x", "1..99", "1.5"] {
            assert!(numbers(wrong).is_err(), "{wrong}");
        }
    }
}
