//! The commands and flags as clap parses them. Must never check a value that the settings hold:
//! their own table does, so that a flag and the file accept the same and give the same errors.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use super::bench::BenchArgs;
use super::ngrams::NgramsArgs;
use super::replay::ReplayArgs;
use super::settings_file::SettingsFile;
use super::shared_args::SharedArgs;
use super::train::TrainArgs;
use super::verify::VerifyArgs;
use crate::settings::{Override, SettingValue};
use crate::tui::Opening;

/// Chat with a local model: a draft tree from a small model, checked by the big one, live.
#[derive(Debug, Parser)]
#[command(
    name = "dovetail",
    version,
    args_conflicts_with_subcommands = true,
    after_help = "Exit codes: 0 done, 1 failed, 2 wrong flags or settings, 3 a model could not be \
                  loaded, 130 interrupted.\nEnvironment: DOVETAIL_TARGET, DOVETAIL_DRAFT, \
                  DOVETAIL_DRAFT_MODEL, DOVETAIL_STRATEGY, DOVETAIL_DEVICE, DOVETAIL_THREADS, \
                  DOVETAIL_CONFIG, DOVETAIL_LOG (log filter), NO_COLOR, HF_HOME, HF_ENDPOINT, \
                  HF_TOKEN."
)]
pub struct Cli {
    /// What to do; a chat if nothing is said.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Flags of the chat, when no command is named.
    #[command(flatten)]
    pub chat: ChatArgs,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Talk to the model on a full screen (the default).
    Chat(Box<ChatArgs>),
    /// Answer one prompt and print the text.
    Run(Box<RunArgs>),
    /// Answer one prompt twice, plain and speculatively, and play both side by side at their own
    /// measured times.
    Race(Box<RaceArgs>),
    /// Show what was found on this machine and what was chosen for it, and why.
    Doctor(Box<DoctorArgs>),
    /// List the models on this machine: size, whether they fit, how fast they should be here, and
    /// what drafts for them.
    Models(ModelsArgs),
    /// Fetch a model from the hub for later, or a pair that belongs together, and print where it
    /// lies.
    Pull(PullArgs),
    /// Make a draft head for a model, from a file of chats.
    Train(Box<TrainArgs>),
    /// Make an n-gram table for a model, from a file of chats: what it held likely after the last
    /// tokens, to draft from without a draft model.
    Ngrams(NgramsArgs),
    /// Measure the strategies against each other on this machine and its models, every one on the
    /// same prompts in turn.
    Bench(Box<BenchArgs>),
    /// Decode a record or a saved conversation plainly again, and say whether every token of it is
    /// the target's own.
    Verify(Box<VerifyArgs>),
    /// Show a record in the panels of the chat, at any pace, without models.
    Replay(ReplayArgs),
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page (roff).
    Man,
}

/// Flags of the chat.
#[derive(Debug, Default, Args)]
pub struct ChatArgs {
    /// Flags shared with `run`.
    #[command(flatten)]
    pub shared: SharedArgs,
    /// Go on with the latest conversation.
    #[arg(long = "continue", conflicts_with = "resume", help_heading = "Conversation")]
    pub latest: bool,
    /// Go on with the conversation whose title begins like this; without one, choose from the list.
    #[arg(
        long,
        value_name = "TITLE",
        num_args = 0..=1,
        default_missing_value = "",
        help_heading = "Conversation"
    )]
    pub resume: Option<String>,
    /// Colours: dark, light or mono.
    #[arg(long, value_name = "NAME", help_heading = "Screen")]
    pub theme: Option<String>,
    /// Do not mark where each token came from.
    #[arg(long, help_heading = "Screen")]
    pub no_marks: bool,
    /// Least time from round to round, e.g. 0.5s or 500ms, so that a fast model can be watched.
    #[arg(long, value_name = "TIME", help_heading = "Screen")]
    pub pace: Option<String>,
    /// Keep everything that happens in a new file, for `dovetail replay` and `dovetail verify`.
    #[arg(long, value_name = "FILE", help_heading = "Program")]
    pub record: Option<PathBuf>,
}

/// Flags of `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The prompt. What is piped in comes behind it, or in the place of a `-`; parts are joined by
    /// an empty line.
    #[arg(value_name = "PROMPT")]
    pub prompt: Vec<String>,
    /// One JSON line a round, then a summary line, instead of text.
    #[arg(long)]
    pub json: bool,
    /// Leave out what a reasoning model thinks; otherwise it goes to stderr.
    #[arg(long)]
    pub hide_thinking: bool,
    /// Keep everything that happens in a new file, for `dovetail replay` and `dovetail verify`.
    #[arg(long, value_name = "FILE", help_heading = "Program")]
    pub record: Option<PathBuf>,
    /// Flags shared with the chat.
    #[command(flatten)]
    pub shared: SharedArgs,
}

/// Flags of `race`.
#[derive(Debug, Args)]
pub struct RaceArgs {
    /// The prompt.
    #[arg(value_name = "PROMPT", required = true)]
    pub prompt: Vec<String>,
    /// Write the play as an asciicast too, which asciinema shows.
    #[arg(long, value_name = "FILE")]
    pub cast: Option<PathBuf>,
    /// Flags shared with the chat.
    #[command(flatten)]
    pub shared: SharedArgs,
}

/// Flags of `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Only what to expect of every placement of target and draft on the GPU, measured with some of
    /// the target's blocks.
    #[arg(long)]
    pub placements: bool,
    /// Flags shared with the chat.
    #[command(flatten)]
    pub shared: SharedArgs,
}

/// Flags of `models`.
#[derive(Debug, Args)]
pub struct ModelsArgs {
    /// Show all that is known of one model.
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// JSON instead of a table.
    #[arg(long)]
    pub json: bool,
    /// Where the settings are.
    #[command(flatten)]
    pub file: SettingsFile,
}

/// Flags of `pull`.
#[derive(Debug, Args)]
pub struct PullArgs {
    /// `owner/name`, with `@revision`, `:file.gguf` or `:Q4_K_M` behind it if needed; or the name
    /// of a pair that `dovetail models` lists.
    #[arg(value_name = "HUB-ID|PAIR")]
    pub model: String,
    /// It is a draft head.
    #[arg(long)]
    pub head: bool,
}

impl ChatArgs {
    /// The conversation to begin with.
    pub fn opening(&self) -> Option<Opening> {
        match self.resume.as_deref().map(str::trim) {
            None => self.latest.then_some(Opening::Latest),
            Some("") => Some(Opening::Listed),
            Some(title) => Some(Opening::Titled(title.to_owned())),
        }
    }

    /// What the flags set, in the settings' own keys.
    pub fn overrides(&self) -> Vec<Override> {
        let mut all = self.shared.overrides();
        if let Some(pace) = &self.pace {
            let value = SettingValue::text(pace);
            all.push(Override { flag: "--pace", key: "controls.pace", value });
        }
        if let Some(theme) = &self.theme {
            let value = SettingValue::text(theme);
            all.push(Override { flag: "--theme", key: "screen.theme", value });
        }
        if self.no_marks {
            let value = SettingValue::Switch(false);
            all.push(Override { flag: "--no-marks", key: "screen.marks", value });
        }
        all
    }
}

impl Cli {
    /// Whether the command in use asked for more in the log.
    pub fn verbose(&self) -> bool {
        match &self.command {
            None => self.chat.shared.verbose,
            Some(Command::Chat(args)) => args.shared.verbose,
            Some(Command::Run(args)) => args.shared.verbose,
            Some(Command::Race(args)) => args.shared.verbose,
            Some(Command::Doctor(args)) => args.shared.verbose,
            Some(Command::Bench(args)) => args.verbose(),
            Some(Command::Verify(args)) => args.shared.verbose,
            Some(
                Command::Models(_)
                | Command::Pull(_)
                | Command::Ngrams(_)
                | Command::Train(_)
                | Command::Replay(_)
                | Command::Completions { .. }
                | Command::Man,
            ) => false,
        }
    }
}
