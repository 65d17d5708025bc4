//! The flags of `train`. Each one that is given replaces the value of the preset, or of the
//! training that is resumed. Must never train.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::cli::settings_file::SettingsFile;
use crate::model::head::FusionKind;
use crate::plan::DeviceChoice;
use crate::train::run::Recipe;
use crate::train::{DraftVocabSize, Elastic, Length, MaskRule};

/// Flags of `train`.
#[derive(Debug, Args)]
#[command(
    after_help = "Presets: `quick` is for a small target, two cores and a quarter of an hour; \
    `paper` has the published figures (AdamW at 3e-5 for 200,000 steps, full windows) with a depth \
    drawn each step and a last phase on the head's own outputs; `published` is the paper's recipe \
    without these: five blocks, the last exit alone, 50 epochs in batches of 16 windows.\n\
    Chats, one JSON object a line: {\"messages\": [{\"role\": …, \"content\": …}, …]}, ShareGPT's \
    {\"conversations\": [{\"from\": …, \"value\": …}, …]}, or with --self-answers also {\"turns\": \
    [question, …]}."
)]
pub struct TrainArgs {
    /// Target model: a GGUF file, a folder or a hub id [default: the bundled one].
    #[arg(long, value_name = "MODEL", env = "DOVETAIL_TARGET", help_heading = "What")]
    pub target: Option<String>,
    /// Chats to learn from, a JSONL file.
    #[arg(long, value_name = "FILE", required_unless_present = "resume", help_heading = "What")]
    pub data: Option<PathBuf>,
    /// Folder for the head: a new or empty one.
    #[arg(long, value_name = "FOLDER", help_heading = "What")]
    pub out: PathBuf,
    /// Go on with the training in --out; other flags need not be repeated.
    #[arg(long, help_heading = "What")]
    pub resume: bool,
    /// Say what the training will take, by a sample of it, and make nothing.
    #[arg(long, conflicts_with = "resume", help_heading = "What")]
    pub dry_run: bool,
    /// Keep features and checkpoint of the finished training in OUT/work.
    #[arg(long, help_heading = "What")]
    pub keep_work: bool,

    /// Use at most N chats, drawn by the seed [default: all].
    #[arg(long, value_name = "N", help_heading = "Chats")]
    pub limit: Option<usize>,
    /// System message for chats that have none.
    #[arg(long, value_name = "TEXT", help_heading = "Chats")]
    pub system: Option<String>,
    /// Let the target answer the questions itself: the head then learns from its own texts.
    #[arg(long, help_heading = "Chats")]
    pub self_answers: bool,
    /// Most tokens of an answer of its own [default: 256].
    #[arg(long, value_name = "N", help_heading = "Chats")]
    pub answer_tokens: Option<usize>,
    /// Share of the chats to measure with [default: 0.05].
    #[arg(long, value_name = "X", help_heading = "Chats")]
    pub held_out: Option<f64>,
    /// Tokens of a chat to use; the rest is cut off [quick: 512, paper: 2048].
    #[arg(long, value_name = "N", help_heading = "Chats")]
    pub window: Option<usize>,

    /// M: blocks of the head [quick: 2, paper: 4].
    #[arg(long, value_name = "N", help_heading = "Head")]
    pub blocks: Option<usize>,
    /// Fusion: the paper's dgf, or eagle's linear layer; eagle3 (one block) and dgf3 read three
    /// layers of the target and have an LM head of their own [default: dgf].
    #[arg(long, value_name = "NAME", help_heading = "Head")]
    pub kind: Option<KindArg>,
    /// Which blocks' outputs are trained: all, one drawn each step, or off for the last alone, as
    /// in the paper [default: drawn].
    #[arg(long, value_name = "WHICH", help_heading = "Head")]
    pub elastic: Option<ElasticArg>,

    /// Tokens that the head scores: auto for those that cover what the target says, all, or the N
    /// it says most often [default: auto].
    #[arg(long, value_name = "N|auto|all", help_heading = "Head")]
    pub draft_vocab: Option<DraftVocabSize>,

    /// Where the other figures come from.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "quick",
        conflicts_with = "resume",
        help_heading = "Training"
    )]
    pub preset: Preset,
    /// Train for so many minutes [quick: 8].
    #[arg(
        long,
        value_name = "X",
        conflicts_with_all = ["steps", "epochs"],
        help_heading = "Training"
    )]
    pub minutes: Option<f64>,
    /// Train for so many steps [paper: 200000].
    #[arg(long, value_name = "N", conflicts_with = "epochs", help_heading = "Training")]
    pub steps: Option<u64>,
    /// Train for so many passes over the chats.
    #[arg(long, value_name = "X", help_heading = "Training")]
    pub epochs: Option<f64>,
    /// Tokens of a batch [quick: 512, paper: 8192].
    #[arg(long, value_name = "N", help_heading = "Training")]
    pub batch_tokens: Option<usize>,
    /// Batches whose gradients make one step [default: 1].
    #[arg(long, value_name = "N", help_heading = "Training")]
    pub accumulate: Option<usize>,
    /// Peak learning rate [quick: 2e-3, less for a target wider than 256; paper: 3e-5].
    #[arg(long, value_name = "X", help_heading = "Training")]
    pub lr: Option<f64>,
    /// Steps of warm-up [quick: 20, paper: 500].
    #[arg(long, value_name = "N", help_heading = "Training")]
    pub warmup: Option<u64>,
    /// AdamW's first decay [default: 0.9].
    #[arg(long, value_name = "X", help_heading = "Training")]
    pub beta1: Option<f64>,
    /// AdamW's second decay [default: 0.95].
    #[arg(long, value_name = "X", help_heading = "Training")]
    pub beta2: Option<f64>,
    /// AdamW's ε [default: 1e-8].
    #[arg(long, value_name = "X", help_heading = "Training")]
    pub epsilon: Option<f64>,
    /// Weight decay [default: 0.01].
    #[arg(long, value_name = "X", help_heading = "Training")]
    pub weight_decay: Option<f64>,
    /// Cut gradients to ± this, element by element [default: 0.5].
    #[arg(long, value_name = "X", help_heading = "Training")]
    pub clip: Option<f64>,
    /// Width of the noise on features [default: 0.2].
    #[arg(long, value_name = "X", help_heading = "Training")]
    pub noise: Option<f64>,
    /// Weight of SmoothL1; 0 for eagle3 and dgf3, which estimate no features [default: 1].
    #[arg(long, value_name = "X", help_heading = "Training")]
    pub vloss: Option<f64>,
    /// Weight of the cross-entropy [quick: 1, paper: 0.1].
    #[arg(long, value_name = "X", help_heading = "Training")]
    pub ploss: Option<f64>,
    /// Share of the training, at its end, in which the head reads its own outputs; 0 for none, as
    /// in the paper [default: 0.5].
    #[arg(long, value_name = "X", help_heading = "Training")]
    pub used_share: Option<f64>,
    /// Steps on its own outputs then [default: 2].
    #[arg(long, value_name = "N", help_heading = "Training")]
    pub used_steps: Option<usize>,
    /// Weight of each such step against the one before [default: 0.8].
    #[arg(long, value_name = "X", help_heading = "Training")]
    pub used_decay: Option<f64>,
    /// Which tokens have a loss: aligned with what is predicted, or as published, two late
    /// [default: aligned].
    #[arg(long, value_name = "RULE", help_heading = "Training")]
    pub mask: Option<MaskArg>,
    /// Seed of the weights, the order and the noise [default: 42].
    #[arg(long, value_name = "N", help_heading = "Training")]
    pub seed: Option<u64>,
    /// Held-out prompts to decode with the finished head; 0 for none [default: 16].
    #[arg(long, value_name = "N", help_heading = "Training")]
    pub decode: Option<usize>,

    /// Compute threads of the target [default: one a fast core].
    #[arg(long, value_name = "N", env = "DOVETAIL_THREADS", help_heading = "Machine")]
    pub threads: Option<usize>,
    /// Where the head learns.
    #[arg(
        long,
        value_name = "DEVICE",
        default_value = "auto",
        env = "DOVETAIL_DEVICE",
        help_heading = "Machine"
    )]
    pub device: DeviceArg,
    /// Where the settings are, which may name folders of models.
    #[command(flatten)]
    pub file: SettingsFile,
}

/// A set of figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Preset {
    /// A small target, two cores, a quarter of an hour.
    Quick,
    /// The published figures with our changes.
    Paper,
    /// The paper's recipe without our changes.
    Published,
}

/// A fusion by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KindArg {
    /// Dynamic gated fusion.
    Dgf,
    /// EAGLE's.
    Eagle,
    /// EAGLE-3's: three tapped states of the target, one block, an LM head of its own.
    Eagle3,
    /// Dynamic gated fusion over three tapped states, with an LM head of its own.
    Dgf3,
}

/// Which outputs are trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ElasticArg {
    /// Every block's in every step.
    All,
    /// One drawn each step.
    Drawn,
    /// The last block's alone.
    Off,
}

/// Which tokens have a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MaskArg {
    /// What a draft will have to predict.
    Aligned,
    /// The published trainer's.
    Published,
}

/// A device by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DeviceArg {
    /// A GPU that this build can use, else the CPU.
    Auto,
    /// The CPU.
    Cpu,
    /// An NVIDIA GPU.
    Cuda,
    /// An Apple GPU.
    Metal,
}

impl From<DeviceArg> for DeviceChoice {
    fn from(device: DeviceArg) -> Self {
        match device {
            DeviceArg::Auto => Self::Auto,
            DeviceArg::Cpu => Self::Cpu,
            DeviceArg::Cuda => Self::Cuda,
            DeviceArg::Metal => Self::Metal,
        }
    }
}

impl TrainArgs {
    /// The preset's recipe.
    pub fn preset(&self) -> Recipe {
        match self.preset {
            Preset::Quick => Recipe::quick(),
            Preset::Paper => Recipe::paper(),
            Preset::Published => Recipe::published(),
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
            recipe = recipe.of_kind(match kind {
                KindArg::Dgf => FusionKind::Dgf,
                KindArg::Eagle => FusionKind::Eagle,
                KindArg::Eagle3 => FusionKind::Eagle3,
                KindArg::Dgf3 => FusionKind::Dgf3,
            });
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
        if let Some(elastic) = self.elastic {
            options.elastic = match elastic {
                ElasticArg::All => Elastic::AllExits,
                ElasticArg::Drawn => Elastic::Drawn,
                ElasticArg::Off => Elastic::Off,
            };
        }
        if let Some(mask) = self.mask {
            options.mask = match mask {
                MaskArg::Aligned => MaskRule::Aligned,
                MaskArg::Published => MaskRule::Published,
            };
        }
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
