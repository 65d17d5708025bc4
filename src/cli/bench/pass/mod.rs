//! `dovetail bench pass`: from flags to a report.

mod models;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use clap::Args;

use super::args::StyleArgs;
use super::files::{draw, emit};
use crate::bench::paper::published;
use crate::bench::pass::{AcceptanceProfile, PUBLISHED_PREFIX, PassOptions, TimesRequest};
use crate::cli::backend;
use crate::cli::exit::{CommandResult, Failure};
use crate::cli::shared_args::SharedArgs;
use crate::kernels::Isa;
use crate::record::Question;
use crate::settings::Settings;
use crate::speculate::SamplerSettings;

/// Tokens of context before a pass or a round, if the flags name no number.
const CONTEXT: usize = 256;
/// Positions after the context, for the rounds.
const ROOM: usize = 512;
/// No further turn begins after this time: for passes, for rounds, and for each with `--quick`.
const PASSES: Duration = Duration::from_secs(90);
const ROUNDS: Duration = Duration::from_secs(60);
const QUICK: Duration = Duration::from_secs(12);

/// Flags of `bench pass`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Pass")]
pub struct PassArgs {
    /// Time only passes of this model's own weights on the CPU: a GGUF file, a folder, a hub id,
    /// the name of a model on this machine or `bundled` [default: rounds with the models that the
    /// other flags name].
    #[arg(long, value_name = "MODEL", conflicts_with_all = ["shape", "format", "accept"])]
    pub model: Option<String>,
    /// Use random weights in the shape of a known model, with a DGF head of matching size on the
    /// CPU: 1b, 7b, 13b, qwen3.5-4b, gemma4-e4b, or a mixture of experts, qwen3-moe or mixtral.
    #[arg(long, value_name = "NAME")]
    pub shape: Option<String>,
    /// How many of the shape's layers to use, if all of them take too much memory [default: all].
    #[arg(long, value_name = "N", requires = "shape")]
    pub layers: Option<NonZeroUsize>,
    /// Format of the random weights, for example q4_k, q8_0 or bf16.
    #[arg(long, value_name = "NAME", default_value = "q4_k")]
    pub format: String,
    /// Blocks of the head (M): a list, or a range such as 1..5; with --shape, 0 times passes alone
    /// [default: 1..5 with --shape, otherwise all that the head has].
    #[arg(long = "head-blocks", value_name = "M,…|A..B")]
    pub head_blocks: Option<String>,
    /// Numbers of nodes γ.
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        default_value = "1,2,4,8,12,16,24,32,48,64"
    )]
    pub gammas: Vec<usize>,
    /// Instruction sets to time passes alone with, or `all` that this machine has [default: the
    /// fastest].
    #[arg(long, value_name = "NAME,…|all", value_delimiter = ',')]
    pub isa: Vec<String>,
    /// Acceptance to predict from. Either records of large fixed trees, made with `dovetail run
    /// --record FILE --strategy dovetail --gamma 64 --width 10 --depth 7 --blocks M` (for a small
    /// model with `--strategy small-model`), or the Dovetail paper's figures for heads at γ = 16:
    /// paper:mt_bench or paper:humaneval.
    #[arg(long, value_name = "FILE,…|paper:SET", value_delimiter = ',')]
    pub accept: Vec<PathBuf>,
    /// Finish within 40 seconds once the models are loaded, with fewer repetitions.
    #[arg(long)]
    pub quick: bool,
    /// How the result is written.
    #[command(flatten)]
    pub style: StyleArgs,
    /// Draw the heat map into this folder.
    #[arg(long, value_name = "FOLDER", help_heading = "Bench")]
    pub svg: Option<PathBuf>,
    /// Flags shared with the chat.
    #[command(flatten)]
    pub shared: SharedArgs,
}

/// Times passes and rounds, and predicts tokens per second.
pub(super) fn pass(args: &PassArgs) -> CommandResult {
    let recorded = Recorded::read(args).map_err(Failure::usage)?;
    let report = match (&args.shape, &args.model) {
        (Some(shape), _) => models::random(args, shape, &recorded.profile)?,
        (None, Some(model)) => models::alone(args, model)?,
        (None, None) if !args.isa.is_empty() => {
            return Err(Failure::usage(anyhow!("--isa: name a model with --model or --shape")));
        }
        (None, None) => models::loaded(args, &recorded)?,
    };
    draw(&report.charts(), args.svg.as_deref())?;
    Ok(emit(&args.style, &report, &report.subject, &report.tables(), &[])?)
}

impl PassArgs {
    /// The settings. Here `--context` is not the size of the model's context.
    fn settings(&self) -> Result<Settings, Failure> {
        let mut overrides = self.shared.settings.0.clone();
        overrides.retain(|over| over.key != "context");
        backend::settings(&self.shared, &overrides)
    }

    /// The tokens of context that the flags ask for.
    fn context(&self) -> Result<Option<usize>, Failure> {
        let parsed = self.shared.settings.text("context").map(|text| {
            text.parse().map_err(|_| {
                Failure::usage(anyhow!(
                    "--context: `{text}` is not a number of tokens before the tree"
                ))
            })
        });
        parsed.transpose()
    }

    /// How to time passes alone.
    fn passes(&self, context: usize) -> PassOptions {
        PassOptions {
            gammas: self.gammas.clone(),
            context,
            limit: if self.quick { QUICK } else { PASSES },
            prefill: !self.quick,
        }
    }

    /// The instruction sets, the fastest first. `all` leaves out plain Rust, which is a definition
    /// and not made to be fast.
    fn isas(&self) -> Result<Vec<Isa>, Failure> {
        match &self.isa[..] {
            [] => Ok(vec![Isa::best()]),
            [all] if all == "all" => Ok(Isa::here().filter(|isa| *isa != Isa::Portable).collect()),
            names => {
                let all = Isa::here().map(Isa::name).collect::<Vec<_>>().join(", ");
                let unknown = |name: &String| {
                    Failure::usage(anyhow!(
                        "--isa: `{name}` is not an instruction set of this machine; choose from \
                         {all} or all"
                    ))
                };
                let named = |name: &String| Isa::named(name).ok_or_else(|| unknown(name));
                names.iter().map(named).collect()
            }
        }
    }

    /// Greedy rounds of the first drafter after a prompt.
    fn rounds(
        &self,
        blocks: Vec<usize>,
        profile: &AcceptanceProfile,
        prompt: Vec<u32>,
    ) -> TimesRequest {
        let (width, depth) = profile.shape();
        TimesRequest {
            prompt,
            answer: ROOM,
            sampler: SamplerSettings { temperature: 0.0, ..SamplerSettings::default() },
            gammas: self.gammas.clone(),
            blocks,
            width,
            depth: Some(depth),
            drafter: 0,
            until: Instant::now() + if self.quick { QUICK } else { ROUNDS },
        }
    }
}

/// What is known of the acceptance.
#[derive(Default)]
struct Recorded {
    profile: AcceptanceProfile,
    /// The first recorded question.
    question: Option<Question>,
}

impl Recorded {
    fn read(args: &PassArgs) -> anyhow::Result<Self> {
        let mut names =
            args.accept.iter().filter_map(|path| path.to_str()?.strip_prefix(PUBLISHED_PREFIX));
        let mut recorded = Self::default();
        if let Some(name) = names.next() {
            if args.accept.len() > 1 {
                return Err(anyhow!(
                    "--accept: published figures and records come from different models; give only \
                     one of them"
                ));
            }
            let profile = AcceptanceProfile::published(&published()?, name);
            recorded.profile = profile.context("--accept")?;
            return Ok(recorded);
        }
        for path in &args.accept {
            let record = recorded.profile.add(path)?;
            let first = record.answers.into_iter().next().map(|answer| answer.question);
            recorded.question = recorded.question.or(first);
        }
        Ok(recorded)
    }
}
