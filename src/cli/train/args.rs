//! The flags of `train`. Each one that is given replaces the value of the preset, or of the
//! training that is resumed.

use std::path::PathBuf;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};

use crate::cli::settings_file::SettingsFile;
use crate::model::head::FusionKind;
use crate::train::run::{Recipe, TrainDevice};
use crate::train::{DraftVocabSize, Elastic, Length, MaskRule};

#[derive(Debug, Args)]
#[command(
    after_help = "Presets: `quick` suits a small target, two cores and a quarter of an hour. \
                  `paper` uses the published values (AdamW at 3e-5 for 200,000 steps, full \
                  windows), draws a depth at random in each step and ends with a phase on the \
                  head's own outputs. `published` is the paper's recipe without these two changes: \
                  five blocks, only the last exit, 50 epochs in batches of 16 windows.\nChats, one \
                  JSON object per line: {\"messages\": [{\"role\": …, \"content\": …}, …]}, \
                  ShareGPT's {\"conversations\": [{\"from\": …, \"value\": …}, …]} or, with \
                  --self-answers, also {\"turns\": [question, …]}."
)]
pub struct TrainArgs {
    /// Target model: a GGUF file, a folder, a hub id or the name of a model on this machine
    /// [default: the bundled model].
    #[arg(long, value_name = "MODEL", env = "DOVETAIL_TARGET", help_heading = "What")]
    pub target: Option<String>,
    /// File of chats to learn from (JSON lines).
    #[arg(long, value_name = "FILE", required_unless_present = "resume", help_heading = "What")]
    pub data: Option<PathBuf>,
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

    /// Use at most N chats, drawn at random by the seed [default: all].
    #[arg(long, value_name = "N", help_heading = "Chats")]
    pub limit: Option<usize>,
    /// System message for chats that have none.
    #[arg(long, value_name = "TEXT", help_heading = "Chats")]
    pub system: Option<String>,
    /// Let the target answer the questions itself, so that the head learns from the target's own
    /// text.
    #[arg(long, help_heading = "Chats")]
    pub self_answers: bool,
    /// Maximum number of tokens in each answer of the target [default: 256].
    #[arg(long, value_name = "N", help_heading = "Chats")]
    pub answer_tokens: Option<usize>,
    /// Share of the chats to measure with, 0 to below 1 [default: 0.05].
    #[arg(long, value_name = "X", help_heading = "Chats")]
    pub held_out: Option<f64>,
    /// Tokens to use of each chat; the rest is cut off [quick: 512, paper: 2048].
    #[arg(long, value_name = "N", help_heading = "Chats")]
    pub window: Option<usize>,

    /// Blocks of the head (M), 1 to 16 [quick: 2, paper: 4].
    #[arg(long, value_name = "N", help_heading = "Head")]
    pub blocks: Option<usize>,
    /// How the head fuses its inputs: the paper's dgf, or eagle's linear layer; eagle3 has one
    /// block, reads three layers of the target and has its own LM head [default: dgf].
    #[arg(long, value_name = "NAME", help_heading = "Head")]
    pub kind: Option<FusionKind>,
    /// Which blocks' outputs are trained: all, one drawn at random in each step, or off for only
    /// the last block, as in the paper [default: drawn].
    #[arg(long, value_name = "WHICH", help_heading = "Head")]
    pub elastic: Option<Elastic>,

    /// Tokens that the head scores: auto for those that cover what the target says, all, or the N
    /// most frequent [default: auto].
    #[arg(long, value_name = "N|auto|all", help_heading = "Head")]
    pub draft_vocab: Option<DraftVocabSize>,

    /// Recipe that the other values come from.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "quick",
        conflicts_with = "resume",
        help_heading = "Training"
    )]
    pub preset: RecipePreset,
    /// Train for this many minutes [quick: 8].
    #[arg(
        long,
        value_name = "X",
        conflicts_with_all = ["steps", "epochs"],
        help_heading = "Training"
    )]
    pub minutes: Option<f64>,
    /// Train for this many steps [paper: 200000].
    #[arg(long, value_name = "N", conflicts_with = "epochs", help_heading = "Training")]
    pub steps: Option<u64>,
    /// Train for this many passes over the chats.
    #[arg(long, value_name = "X", help_heading = "Training")]
    pub epochs: Option<f64>,
    /// Tokens per batch [quick: 512, paper: 8192].
    #[arg(long, value_name = "N", help_heading = "Training")]
    pub batch_tokens: Option<usize>,
    /// Batches whose gradients are added up for one step [default: 1].
    #[arg(long, value_name = "N", help_heading = "Training")]
    pub accumulate: Option<usize>,
    /// Peak learning rate [quick: 2e-3, lower for a target wider than 256; paper: 3e-5].
    #[arg(long, value_name = "X", help_heading = "Training")]
    pub lr: Option<f64>,
    /// Warm-up steps [quick: 20, paper: 500].
    #[arg(long, value_name = "N", help_heading = "Training")]
    pub warmup: Option<u64>,
    /// First decay rate of AdamW, β₁ [default: 0.9].
    #[arg(long, value_name = "X", help_heading = "Training")]
    pub beta1: Option<f64>,
    /// Second decay rate of AdamW, β₂ [default: 0.95].
    #[arg(long, value_name = "X", help_heading = "Training")]
    pub beta2: Option<f64>,
    /// Epsilon of AdamW [default: 1e-8].
    #[arg(long, value_name = "X", help_heading = "Training")]
    pub epsilon: Option<f64>,
    /// Weight decay [default: 0.01].
    #[arg(long, value_name = "X", help_heading = "Training")]
    pub weight_decay: Option<f64>,
    /// Clip each gradient element to ± this value [default: 0.5].
    #[arg(long, value_name = "X", help_heading = "Training")]
    pub clip: Option<f64>,
    /// Width of the noise added to features [default: 0.2].
    #[arg(long, value_name = "X", help_heading = "Training")]
    pub noise: Option<f64>,
    /// Weight of the SmoothL1 loss; 0 for eagle3, which does not predict features [default: 1].
    #[arg(long, value_name = "X", help_heading = "Training")]
    pub vloss: Option<f64>,
    /// Weight of the cross-entropy loss [quick: 1, paper: 0.1].
    #[arg(long, value_name = "X", help_heading = "Training")]
    pub ploss: Option<f64>,
    /// Share of the training, at its end, in which the head reads its own outputs; 0 for none, as
    /// in the paper [default: 0.5].
    #[arg(long, value_name = "X", help_heading = "Training")]
    pub used_share: Option<f64>,
    /// Steps on its own outputs in that part [default: 2].
    #[arg(long, value_name = "N", help_heading = "Training")]
    pub used_steps: Option<usize>,
    /// Weight of each such step relative to the previous one [default: 0.8].
    #[arg(long, value_name = "X", help_heading = "Training")]
    pub used_decay: Option<f64>,
    /// Which tokens count in the loss: aligned with what a draft predicts, or as published, two
    /// tokens late [default: aligned].
    #[arg(long, value_name = "RULE", help_heading = "Training")]
    pub mask: Option<MaskRule>,
    /// Random seed for weights, order and noise [default: 42].
    #[arg(long, value_name = "N", help_heading = "Training")]
    pub seed: Option<u64>,
    /// Number of held-out prompts to decode with the finished head; 0 for none [default: 16].
    #[arg(long, value_name = "N", help_heading = "Training")]
    pub decode: Option<usize>,

    /// Compute threads of the target [default: one per fast core].
    #[arg(long, value_name = "N", env = "DOVETAIL_THREADS", help_heading = "Machine")]
    pub threads: Option<usize>,
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
    pub fn over(&self, base: Recipe) -> Recipe {
        fn set<T: Clone>(place: &mut T, given: Option<&T>) {
            if let Some(value) = given {
                place.clone_from(value);
            }
        }
        let mut recipe = base;
        // First: a kind has figures of its own.
        if let Some(kind) = self.kind {
            recipe = recipe.of_kind(kind);
        }
        set(&mut recipe.target, self.target.as_ref());
        set(&mut recipe.data, self.data.as_ref());
        set(&mut recipe.held_out, self.held_out.as_ref());
        set(&mut recipe.answer_tokens, self.answer_tokens.as_ref());
        set(&mut recipe.blocks, self.blocks.as_ref());
        set(&mut recipe.decode, self.decode.as_ref());
        set(&mut recipe.draft_vocab, self.draft_vocab.as_ref());
        recipe.limit = self.limit.or(recipe.limit);
        recipe.system = self.system.clone().or(recipe.system);
        recipe.self_answers |= self.self_answers;
        recipe.epochs = self.epochs.or(recipe.epochs);
        let options = &mut recipe.options;
        if let Some(minutes) = self.minutes {
            (options.length, recipe.epochs) = (Length::Minutes(minutes), None);
        }
        if let Some(steps) = self.steps {
            (options.length, recipe.epochs) = (Length::Steps(steps), None);
        }
        set(&mut options.elastic, self.elastic.as_ref());
        set(&mut options.mask, self.mask.as_ref());
        set(&mut options.window, self.window.as_ref());
        set(&mut options.batch_tokens, self.batch_tokens.as_ref());
        set(&mut options.accumulate, self.accumulate.as_ref());
        if let Some(rate) = self.lr {
            (options.learning_rate, recipe.rate_width) = (rate, None);
        }
        set(&mut options.warmup, self.warmup.as_ref());
        set(&mut options.betas.0, self.beta1.as_ref());
        set(&mut options.betas.1, self.beta2.as_ref());
        set(&mut options.epsilon, self.epsilon.as_ref());
        set(&mut options.weight_decay, self.weight_decay.as_ref());
        set(&mut options.clip, self.clip.as_ref());
        set(&mut options.noise, self.noise.as_ref());
        set(&mut options.vloss, self.vloss.as_ref());
        set(&mut options.ploss, self.ploss.as_ref());
        set(&mut options.used.share, self.used_share.as_ref());
        set(&mut options.used.steps, self.used_steps.as_ref());
        set(&mut options.used.decay, self.used_decay.as_ref());
        set(&mut options.seed, self.seed.as_ref());
        recipe
    }
}
