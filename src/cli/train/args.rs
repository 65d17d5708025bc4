//! The flags of `train`. Each one that is given replaces the value of the preset, or of the
//! training that is resumed.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::builder::PossibleValue;
use clap::{ArgMatches, Args, Command, FromArgMatches, ValueEnum};

use crate::cli::settings_file::SettingsFile;
use crate::model::head::FusionKind;
use crate::train::Length;
use crate::train::run::{Recipe, TrainDevice};

#[derive(Debug, Args)]
#[command(
    after_help = "Presets: `quick` suits a small target, two cores and a quarter of an hour. \
                  `paper` uses the published values (AdamW at 3e-5 for 200,000 steps, full \
                  windows), draws a depth at random in each step and ends with a phase on the \
                  head's own outputs. `published` is the paper's recipe without these two changes: \
                  five blocks, only the last exit, 50 epochs in batches of 16 chats.\nChats, one \
                  JSON object per line or an array of them: {\"messages\": [{\"role\": …, \
                  \"content\": …}, …]}, ShareGPT's {\"conversations\": [{\"from\": …, \
                  \"value\": …}, …]} or, with --self-answers, also {\"turns\": [question, …]}."
)]
#[command(next_help_heading = "Training")]
pub struct TrainArgs {
    /// Those of the recipe.
    #[command(flatten)]
    pub recipe: RecipeFlags,
    /// Folder for the head; it must be new or empty.
    #[arg(long, value_name = "FOLDER", help_heading = "What")]
    pub out: PathBuf,
    /// Continue the training in --out; other flags need not be repeated.
    #[arg(long, help_heading = "What")]
    pub resume: bool,
    /// Estimate from a sample how long the training will take and how much memory and disk it
    /// needs, then stop.
    #[arg(long, conflicts_with = "resume", help_heading = "What")]
    pub dry_run: bool,
    /// Keep the features and the checkpoint of the finished training in OUT/work.
    #[arg(long, help_heading = "What")]
    pub keep_work: bool,
    /// Recipe that the other values come from.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "quick",
        conflicts_with = "resume",
        display_order = 0
    )]
    pub preset: RecipePreset,
    /// Train for this many minutes [quick: 8].
    #[arg(long, value_name = "X", conflicts_with_all = ["steps", "epochs"], display_order = 1)]
    pub minutes: Option<f64>,
    /// Train for this many steps [paper: 200000].
    #[arg(long, value_name = "N", conflicts_with = "epochs", display_order = 2)]
    pub steps: Option<u64>,
    /// Compute threads of the target [default: one per fast core].
    #[arg(long, value_name = "N", env = "DOVETAIL_THREADS", help_heading = "Machine")]
    pub threads: Option<NonZeroUsize>,
    /// Device that trains the head.
    #[arg(
        long,
        value_name = "DEVICE",
        default_value = "auto",
        env = "DOVETAIL_DEVICE",
        help_heading = "Machine"
    )]
    pub device: TrainDevice,
    /// The settings file, which may name folders of models.
    #[command(flatten)]
    pub file: SettingsFile,
}

/// The flags of a recipe, of which none is required: what is not given is the preset's.
#[derive(Clone, Debug)]
pub struct RecipeFlags(ArgMatches);

impl Args for RecipeFlags {
    fn augment_args(command: Command) -> Command {
        Recipe::augment_args_for_update(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for RecipeFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self(matches.clone()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// A set of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RecipePreset {
    /// For a small target, two cores and a quarter of an hour.
    Quick,
    /// The published values with our changes.
    Paper,
    /// The paper's recipe without our changes.
    Published,
}

impl ValueEnum for FusionKind {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Dgf, Self::Eagle, Self::Eagle3]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self {
            Self::Dgf => PossibleValue::new("dgf").help("Dynamic gated fusion"),
            Self::Eagle => PossibleValue::new("eagle").help("EAGLE's linear layer"),
            Self::Eagle3 => PossibleValue::new("eagle3")
                .help("EAGLE-3's: three layers of the target, one block, its own LM head"),
        })
    }
}

impl TrainArgs {
    /// The preset's recipe.
    pub fn preset(&self) -> Recipe {
        match self.preset {
            RecipePreset::Quick => Recipe::quick(),
            RecipePreset::Paper => Recipe::paper(),
            RecipePreset::Published => Recipe::published(),
        }
    }

    /// The recipe `base` with the flags that were given laid over it.
    pub fn over(&self, base: Recipe) -> Result<Recipe, clap::Error> {
        let mut recipe = base.with_flags(&self.recipe.0)?;
        let minutes = self.minutes.map(Length::Minutes);
        if let Some(length) = minutes.or(self.steps.map(Length::Steps)) {
            recipe.options.length = length;
            recipe.epochs = None;
        }
        Ok(recipe)
    }
}
