//! The commands and flags as clap parses them. Must never check a value that the settings hold:
//! their own table does, so that a flag and the file accept the same and give the same errors.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use super::bench::BenchArgs;
use super::ngrams::NgramsArgs;
use super::replay::ReplayArgs;
use super::settings_file::SettingsFile;
use super::shared_args::{SettingFlags, SharedArgs};
use super::train::TrainArgs;
use super::verify::VerifyArgs;
use crate::settings::{KEYS, Override};
use crate::tui::Opening;

/// Chat with a local model and watch speculative decoding: a small model drafts a tree of tokens
/// and the large model verifies it in one pass.
#[derive(Debug, Parser)]
#[command(
    name = "dovetail",
    version,
    disable_help_subcommand = true,
    args_conflicts_with_subcommands = true,
    after_help = after_help()
)]
pub struct Cli {
    /// The command; without one, the chat starts.
    #[command(subcommand)]
    pub command: Option<CliCommand>,
    /// Flags of the chat if no command is given.
    #[command(flatten)]
    pub chat: ChatArgs,
}

fn after_help() -> String {
    let flags = KEYS.iter().filter_map(|key| key.flag);
    let variables: Vec<&str> = flags.map(|flag| flag.env).filter(|env| !env.is_empty()).collect();
    format!(
        "`dovetail help` lists the topics of the guide.\nExit codes: 0 done, 1 failed, 2 wrong \
         flags or settings, 3 a model could not be loaded, 130 interrupted.\nEnvironment: {}, \
         DOVETAIL_CONFIG, DOVETAIL_LOG (log filter), NO_COLOR, HF_HOME, HF_ENDPOINT, HF_TOKEN.",
        variables.join(", ")
    )
}

#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Chat with the model on a full screen (the default).
    Chat(Box<ChatArgs>),
    /// Answer one prompt and print the answer.
    Run(Box<RunArgs>),
    /// Answer a prompt twice, plainly and with speculation, then play both answers side by side at
    /// their measured speeds.
    Race(Box<RaceArgs>),
    /// Describe this machine, the models and settings chosen for it, and the reason for each
    /// choice.
    Doctor(Box<DoctorArgs>),
    /// List the models on this machine: their size, whether they fit in memory, how fast they
    /// should run and which drafts suit them.
    Models(ModelsArgs),
    /// Download a model, or a target with its draft, from the Hugging Face hub and print the path.
    Pull(PullArgs),
    /// Train a draft head for a model on a file of chats.
    Train(Box<TrainArgs>),
    /// Count an n-gram table for a model in a file of chats. It drafts likely next tokens without a
    /// draft model.
    Ngrams(NgramsArgs),
    /// Compare the speed of the strategies on this machine, each on the same prompts in turn.
    Bench(Box<BenchArgs>),
    /// Decode a record or a saved conversation again without speculation and check that every token
    /// is the target's own.
    Verify(Box<VerifyArgs>),
    /// Play a record in the chat's panels, at any pace and without models.
    Replay(ReplayArgs),
    /// Read the guide: its topics, a topic, or a command's help.
    Help {
        /// A topic or a command; without one, the topics are listed.
        #[arg(value_name = "TOPIC|COMMAND")]
        words: Vec<String>,
    },
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page (roff).
    Man,
}

#[derive(Debug, Default, Args)]
pub struct ChatArgs {
    /// Flags shared with `run`.
    #[command(flatten)]
    pub shared: SharedArgs,
    /// Continue the latest conversation.
    #[arg(long = "continue", conflicts_with = "resume", help_heading = "Conversation")]
    pub latest: bool,
    /// Continue the conversation whose title begins with TITLE; without TITLE, choose from a list.
    #[arg(
        long,
        value_name = "TITLE",
        num_args = 0..=1,
        default_missing_value = "",
        help_heading = "Conversation"
    )]
    pub resume: Option<String>,
    /// What the screen looks like.
    #[command(flatten)]
    pub screen: SettingFlags<true>,
    /// Chat in lines that are written once, for screen readers.
    #[arg(long, help_heading = "Screen")]
    pub plain_screen: bool,
    /// Record the session in a new file, for `dovetail replay` and `dovetail verify`.
    #[arg(long, value_name = "FILE", help_heading = "Program")]
    pub record: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct RunArgs {
    /// The prompt. Standard input takes the place of `-`, or is the prompt if none is given; it is
    /// not read otherwise. An empty line separates the parts.
    #[arg(value_name = "PROMPT")]
    pub prompt: Vec<String>,
    /// Print one JSON object per round and a summary, each on its own line, instead of the text.
    #[arg(long)]
    pub json: bool,
    /// Hide a reasoning model's thoughts, which otherwise go to stderr.
    #[arg(long)]
    pub hide_thinking: bool,
    /// Record the answer in a new file, for `dovetail replay` and `dovetail verify`.
    #[arg(long, value_name = "FILE", help_heading = "Program")]
    pub record: Option<PathBuf>,
    /// Flags shared with the chat.
    #[command(flatten)]
    pub shared: SharedArgs,
}

#[derive(Debug, Args)]
pub struct RaceArgs {
    /// The prompt.
    #[arg(value_name = "PROMPT", required = true)]
    pub prompt: Vec<String>,
    /// Also write the race as an asciicast, which asciinema can play.
    #[arg(long, value_name = "FILE")]
    pub cast: Option<PathBuf>,
    /// Flags shared with the chat.
    #[command(flatten)]
    pub shared: SharedArgs,
}

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Show only what to expect from each placement of target and draft on the GPU, measured with
    /// some of the target's blocks.
    #[arg(long)]
    pub placements: bool,
    /// Show only whether Dovetail's engine and candle-transformers predict alike with this model:
    /// a name from the list of models, a file or a folder.
    #[arg(long, value_name = "MODEL", conflicts_with = "placements")]
    pub check: Option<String>,
    /// Flags shared with the chat.
    #[command(flatten)]
    pub shared: SharedArgs,
}

#[derive(Debug, Args)]
pub struct ModelsArgs {
    /// Show everything known about one model: a name from the list, a file or a folder.
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Print JSON instead of a table.
    #[arg(long)]
    pub json: bool,
    /// The settings file.
    #[command(flatten)]
    pub file: SettingsFile,
}

#[derive(Debug, Args)]
pub struct PullArgs {
    /// `owner/name`, if needed followed by `@revision`, `:file.gguf` or `:Q4_K_M`; or the name of a
    /// pair that `dovetail models` lists.
    #[arg(value_name = "HUB-ID|PAIR")]
    pub model: String,
    /// The model is a draft head.
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
        [&self.shared.settings.0[..], &self.screen.0].concat()
    }
}
