//! The flags of `bench` and its subcommands. They must not depend on how anything is measured.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::fetch::FetchArgs;
use super::paper::PaperArgs;
use super::pass::PassArgs;
use crate::bench::prompts;
use crate::bench::quality::QualityOptions;
use crate::bench::sweep::SweepAxis;
use crate::cli::settings_file::SettingsFile;
use crate::cli::shared_args::SharedArgs;

/// `bench` alone runs the strategies.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "`--temperature` takes a list here (0,1), and `--max-tokens` is 128 by default. \
                  Ctrl-C ends the run and keeps the results so far.\nExit codes: 0 done, 1 an \
                  answer was not the target's own or a strategy failed or was left out, 2 wrong \
                  flags, 3 a model could not be loaded, 130 interrupted."
)]
#[command(next_help_heading = "Bench")]
pub struct BenchArgs {
    /// A different measurement.
    #[command(subcommand)]
    pub command: Option<BenchCommand>,
    /// Strategies to compare, separated by `;` [default: all that can run here]. The target alone
    /// (`plain`) is always included. Each may have its own settings:
    /// `dovetail:gamma=16,k=10,d=7,m=5,head=PATH;sps:draft-model=PATH`. The settings are gamma, k,
    /// d, m, head, draft-model, draft-vocab, draft-precision, draft-threads, rest-text, ngrams,
    /// gpu-layers, device, vram and label; `m=all` uses every block, `gamma=c+1` one node more than
    /// the strategy chooses itself.
    #[arg(long, value_name = "NAME[:SETTING=VALUE,…];…")]
    pub strategies: Option<String>,
    /// File with one such strategy per line; `#` starts a comment.
    #[arg(long, alias = "contenders", value_name = "FILE")]
    pub candidates: Option<PathBuf>,
    /// Run each strategy in its own process, so that its memory is measured separately.
    #[arg(long)]
    pub isolated: bool,
    /// Flags shared by these runs.
    #[command(flatten)]
    pub run: BenchRunArgs,
}

/// The other measurements.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Time passes of the target, drafts and rounds over γ × M, on models or on random weights of a
    /// known shape, and predict tokens per second from recorded acceptance.
    #[command(aliases = ["verify", "round"])]
    Pass(Box<PassArgs>),
    /// Vary one setting at a time: blocks of the draft head, nodes γ, width and depth of the tree,
    /// precision, placement of target and draft.
    #[command(alias = "ablation")]
    Sweep(Box<SweepArgs>),
    /// The former name of `bench sweep --over placement`.
    #[command(hide = true)]
    Gpu(Box<SweepArgs>),
    /// Score a text with the target: its perplexity, and its distance from another implementation.
    Quality(Box<QualityArgs>),
    /// Repeat a table or a figure of the papers on this machine and show the published values and
    /// the ratio.
    Paper(Box<PaperArgs>),
    /// Download prompt sets that are not part of the program: Spec-Bench, the complete HumanEval
    /// and GSM8K.
    Fetch(FetchArgs),
    /// Compare two files written by `--save`.
    Compare(CompareArgs),
    /// Show files written by `--save` again; several files count as one run, so a long table can be
    /// measured in parts.
    Show(ShowArgs),
}

/// How a result is printed.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Bench")]
pub struct StyleArgs {
    /// Print the tables as Markdown.
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// Print one JSON object with a record of everything, instead of the tables.
    #[arg(long)]
    pub json: bool,
}

/// Flags shared by the runs over prompts.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Bench")]
pub struct BenchRunArgs {
    /// Prompt sets: bundled sets, downloaded sets (see `bench fetch`: spec-bench, or one of its
    /// sets such as spec-bench/qa), files or folders of `{"id","category","turns"}` lines [default:
    /// every bundled set: everyday, mt_bench, humaneval, gsm8k, instructions, summarization].
    #[arg(long, value_name = "SET|FILE,…", value_delimiter = ',')]
    pub prompts: Vec<String>,
    /// Maximum number of prompts per set, spread evenly over the set [default: all].
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// How the result is printed.
    #[command(flatten)]
    pub style: StyleArgs,
    /// Draw the charts into this folder.
    #[arg(long, value_name = "FOLDER")]
    pub svg: Option<PathBuf>,
    /// Also write the JSON object to this file, for `bench compare`.
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Flags shared with the chat.
    #[command(flatten)]
    pub shared: SharedArgs,
}

impl BenchRunArgs {
    /// The sets asked for.
    pub fn sets(&self) -> Vec<String> {
        if self.prompts.is_empty() {
            return prompts::default_names().into_iter().map(str::to_owned).collect();
        }
        self.prompts.clone()
    }
}

/// Flags of `bench sweep`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Sweep")]
pub struct SweepArgs {
    /// The settings to vary, one after the other [default: m,gamma,k,d,duo].
    #[arg(long, value_name = "SETTING,…", value_delimiter = ',')]
    pub over: Vec<SweepAxis>,
    /// The values of γ [default: 1 to 64].
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pub gammas: Vec<usize>,
    /// The numbers of blocks M: a list, or a range such as 1..5 [default: all that the head has].
    #[arg(long = "head-blocks", value_name = "M,…|A..B")]
    pub head_blocks: Option<String>,
    /// Another draft head to compare with the first; repeat the flag for several.
    #[arg(long, value_name = "MODEL")]
    pub also: Vec<String>,
    /// Only two short answers per candidate, and only the two most promising placements.
    #[arg(long)]
    pub quick: bool,
    /// Flags shared by these runs.
    #[command(flatten)]
    pub run: BenchRunArgs,
}

/// Flags of `bench compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The first file.
    #[arg(value_name = "A.json")]
    pub a: PathBuf,
    /// The second file; ratios are B over A.
    #[arg(value_name = "B.json")]
    pub b: PathBuf,
    /// Print the tables as Markdown.
    #[arg(long)]
    pub markdown: bool,
}

/// Flags of `bench show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The files.
    #[arg(value_name = "FILE.json", required = true)]
    pub files: Vec<PathBuf>,
    /// Print the tables as Markdown.
    #[arg(long)]
    pub markdown: bool,
    /// Draw the charts into this folder.
    #[arg(long, value_name = "FOLDER")]
    pub svg: Option<PathBuf>,
    /// Write all results to one file.
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
}

/// Flags of `bench quality`.
#[derive(Debug, Args)]
pub struct QualityArgs {
    /// The model: a GGUF file, a folder, a hub id, the name of a model on this machine or
    /// `bundled`.
    #[arg(long, value_name = "MODEL", env = "DOVETAIL_TARGET", default_value = "bundled")]
    pub target: String,
    /// What is measured.
    #[command(flatten)]
    pub options: QualityOptions,
    /// Compute threads [default: one per fast core].
    #[arg(long, value_name = "N", env = "DOVETAIL_THREADS")]
    pub threads: Option<usize>,
    /// How the result is printed.
    #[command(flatten)]
    pub style: StyleArgs,
    /// The settings file, which may name folders of models.
    #[command(flatten)]
    pub file: SettingsFile,
}
