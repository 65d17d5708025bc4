//! The flags of `bench` and its subcommands. Must never know how anything is measured.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::fetch::FetchArgs;
use super::paper::PaperArgs;
use super::round::RoundArgs;
use crate::bench::prompts;
use crate::cli::settings_file::SettingsFile;
use crate::cli::shared_args::SharedArgs;

/// `bench` alone runs the strategies.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "`--temperature` takes a list here (0,1) and `--max-tokens` is 128 unless given. \
                  Ctrl-C keeps what was measured.\nExit codes: 0 done, 1 an answer was not the \
                  target's own, a strategy failed or was left out, 2 wrong flags, 3 a model could \
                  not be loaded, 130 interrupted."
)]
pub struct BenchArgs {
    /// Another measurement.
    #[command(subcommand)]
    pub command: Option<BenchCommand>,
    /// Strategies to run [default: all that can run here]; plain is always among them. Each may
    /// have settings of its own: `dovetail:gamma=16,k=10,d=7,m=5,head=PATH;sps:draft-model=PATH`.
    /// There are gamma, k, d, m, head, draft-model, draft-vocab, draft-threads, rest-text, ngrams,
    /// gpu-layers, device, vram and label; `m=all` takes all blocks, `gamma=c+1` one more than the
    /// strategy would choose itself.
    #[arg(long, value_name = "NAME[:SETTING=VALUE,…];…", help_heading = "Bench")]
    pub strategies: Option<String>,
    /// A file of such strategies, one a line; `#` begins a comment.
    #[arg(long, value_name = "FILE", help_heading = "Bench")]
    pub contenders: Option<PathBuf>,
    /// Run every strategy in a process of its own, so that its memory is its own.
    #[arg(long, help_heading = "Bench")]
    pub isolated: bool,
    /// Flags shared by these runs.
    #[command(flatten)]
    pub course: CourseArgs,
}

/// The other measurements.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Time one pass of the target over the nodes of a tree, T_V(γ), beside the machine's limits.
    Verify(Box<VerifyArgs>),
    /// Score a text with the target: perplexity, and how near it is to another implementation.
    Quality(Box<QualityArgs>),
    /// Vary one setting at a time: blocks of the draft head, γ, width and depth of the tree.
    Ablation(Box<AblationArgs>),
    /// Measure what a GPU is worth here: a block on both devices, the bus, drafts, and placements
    /// of target and draft with what was expected of them. Takes about a minute.
    Gpu(Box<GpuArgs>),
    /// A table or a figure of the papers on this machine, with theirs and the ratio.
    Paper(Box<PaperArgs>),
    /// Time rounds over γ × M, on models or on random weights of a 7B or 13B shape, and predict
    /// tokens a second from recorded acceptance.
    Round(Box<RoundArgs>),
    /// Fetch prompt sets that are not part of the program: Spec-Bench, whole HumanEval and GSM8K.
    Fetch(FetchArgs),
    /// Set two files of `--save` side by side.
    Compare(CompareArgs),
    /// Show files of `--save` again, several as one run: a long table can be measured in parts.
    Show(ShowArgs),
}

/// Flags shared by the runs over prompts.
#[derive(Clone, Debug, Args)]
pub struct CourseArgs {
    /// Prompt sets: bundled ones, fetched ones (see `bench fetch`: spec-bench, or one of its sets
    /// such as spec-bench/qa), files or folders of `{"id","category","turns"}` lines [default: all
    /// bundled ones: everyday, mt_bench, humaneval, gsm8k, instructions, summarization].
    #[arg(long, value_name = "SET|FILE,…", value_delimiter = ',', help_heading = "Bench")]
    pub prompts: Vec<String>,
    /// At most so many prompts of each set, spread evenly.
    #[arg(long, value_name = "N", help_heading = "Bench")]
    pub limit: Option<usize>,
    /// Write the tables as Markdown.
    #[arg(long, conflicts_with = "json", help_heading = "Bench")]
    pub markdown: bool,
    /// Write one JSON object with a record of every answer instead of the tables.
    #[arg(long, help_heading = "Bench")]
    pub json: bool,
    /// Write the charts into this folder.
    #[arg(long, value_name = "FOLDER", help_heading = "Bench")]
    pub svg: Option<PathBuf>,
    /// Write the JSON object to this file too, for `bench compare`.
    #[arg(long, value_name = "FILE", help_heading = "Bench")]
    pub save: Option<PathBuf>,
    /// Flags shared with the chat.
    #[command(flatten)]
    pub shared: SharedArgs,
}

impl CourseArgs {
    /// The sets asked for.
    pub fn sets(&self) -> Vec<String> {
        if self.prompts.is_empty() {
            return prompts::default_names().into_iter().map(str::to_owned).collect();
        }
        self.prompts.clone()
    }
}

/// Flags of `bench ablation`.
#[derive(Debug, Args)]
pub struct AblationArgs {
    /// Another draft head to set beside the first; may be given several times.
    #[arg(long, value_name = "MODEL", help_heading = "Bench")]
    pub also: Vec<String>,
    /// Flags shared by these runs.
    #[command(flatten)]
    pub course: CourseArgs,
}

/// Flags of `bench compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The first file.
    #[arg(value_name = "A.json")]
    pub a: PathBuf,
    /// The second file: ratios are B over A.
    #[arg(value_name = "B.json")]
    pub b: PathBuf,
    /// Write the tables as Markdown.
    #[arg(long)]
    pub markdown: bool,
}

/// Flags of `bench show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The files.
    #[arg(value_name = "FILE.json", required = true)]
    pub files: Vec<PathBuf>,
    /// Write the tables as Markdown.
    #[arg(long)]
    pub markdown: bool,
    /// Write the charts into this folder.
    #[arg(long, value_name = "FOLDER")]
    pub svg: Option<PathBuf>,
    /// Write all of them as one file.
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
}

/// Flags of `bench verify`.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// A model's own weights: a GGUF file, a folder, a hub id or `bundled`.
    #[arg(long, value_name = "MODEL", conflicts_with_all = ["shape", "format"])]
    pub model: Option<String>,
    /// Random weights in the shape of a known model: 1b, 7b or 13b.
    #[arg(long, value_name = "NAME", default_value = "1b")]
    pub shape: String,
    /// Format of the random weights, e.g. q4_k, q8_0 or bf16.
    #[arg(long, value_name = "NAME", default_value = "q4_k")]
    pub format: String,
    /// Numbers of nodes to time.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,2,4,8,16,24,32")]
    pub gammas: Vec<usize>,
    /// Tokens in front of the tree.
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub context: usize,
    /// Compute threads [default: one a fast core].
    #[arg(long, value_name = "N", env = "DOVETAIL_THREADS")]
    pub threads: Option<usize>,
    /// Run the same products through another library too, in turn.
    #[arg(long, value_name = "LIBRARY")]
    pub against: Option<Rival>,
    /// End within 40 seconds, with fewer repetitions.
    #[arg(long)]
    pub quick: bool,
    /// One JSON object instead of the table.
    #[arg(long)]
    pub json: bool,
    /// Where the settings are, which may name folders of models.
    #[command(flatten)]
    pub file: SettingsFile,
}

/// Flags of `bench gpu`.
#[derive(Debug, Args)]
pub struct GpuArgs {
    /// Begin no further placement after so many seconds.
    #[arg(long, value_name = "N", default_value_t = 60, help_heading = "Bench")]
    pub seconds: u64,
    /// One JSON object instead of the tables.
    #[arg(long, help_heading = "Bench")]
    pub json: bool,
    /// Flags shared with the chat.
    #[command(flatten)]
    pub shared: SharedArgs,
}

/// Flags of `bench quality`.
#[derive(Debug, Args)]
pub struct QualityArgs {
    /// The model: a GGUF file, a folder, a hub id or `bundled`.
    #[arg(long, value_name = "MODEL", env = "DOVETAIL_TARGET", default_value = "bundled")]
    pub target: String,
    /// A UTF-8 text to score [default: a bundled one of 200 tokens].
    #[arg(long, value_name = "FILE")]
    pub text: Option<PathBuf>,
    /// Tokens of a window; each window is scored on its own.
    #[arg(long, value_name = "N", default_value_t = 512)]
    pub window: usize,
    /// Compute threads [default: one a fast core].
    #[arg(long, value_name = "N", env = "DOVETAIL_THREADS")]
    pub threads: Option<usize>,
    /// Compare with another library's own model of the same GGUF file, token by token.
    #[arg(long, value_name = "LIBRARY")]
    pub against: Option<Rival>,
    /// One JSON object instead of the lines of text.
    #[arg(long)]
    pub json: bool,
    /// Where the settings are, which may name folders of models.
    #[command(flatten)]
    pub file: SettingsFile,
}

/// What a measurement can be set beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Rival {
    /// candle: its quantised product, or candle-transformers' models.
    Candle,
}
