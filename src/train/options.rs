//! The hyper-parameters, by default the paper's (method.md, Training a head). It must not depend on
//! flags.

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use super::{Result, TrainError};

/// When training ends. The learning rate has then fallen to zero.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Length {
    /// After this many steps of the optimiser.
    Steps(u64),
    /// After this many minutes of training, without interruptions.
    Minutes(f64),
}

/// Which outputs of the head are trained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
pub enum Elastic {
    /// Every block's in every step: the loss is the mean over the exits.
    #[value(name = "all", help = "The outputs of every block in each step")]
    AllExits,
    /// The output of a randomly chosen block in each step; later blocks are not run. A step costs
    /// less than with every exit, and in the same time the head became better at every depth
    /// (measured on the bundled target, see its card).
    #[default]
    #[value(help = "The output of one block, drawn at random in each step")]
    Drawn,
    /// Only the last block's, as in the paper: the head is good only at m = M.
    #[value(help = "The output of the last block only")]
    Off,
}

/// Which pairs have a loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
pub enum MaskRule {
    /// Pair i, which predicts x_{i+2}, counts if both x_{i+1} and x_{i+2} are the assistant's: a
    /// draft's root is always a token of the answer, and so is what it predicts.
    #[default]
    #[value(help = "The tokens that a draft predicts")]
    Aligned,
    /// Pair i counts if x_i is the assistant's. This is the published trainer's mask, two tokens
    /// late at the start of a turn and two too long at its end.
    #[value(help = "The tokens that the published trainer uses")]
    Published,
}

/// The weights of a new head. The fusion's W_1, W_2 and W_z are uniform after Xavier and Glorot,
/// linear layers are uniform in ±1/√inputs and norms are 1, as in the published trainer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum FirstWeights {
    /// The two matrices of each block that write to the residual stream start at 0, so that every
    /// exit begins as the fusion's output and deeper blocks do no harm at first.
    #[default]
    ZeroOutputs,
    /// These matrices too as in the published trainer.
    Published,
}

/// In which precision the head's matrix products are computed, forward and backward. The weights,
/// their gradients and everything between the products stay in f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
pub enum TrainPrecision {
    /// bf16 on a device that computes it faster, as in the published trainer.
    #[value(help = "bf16 where the device computes it faster, otherwise f32")]
    Auto,
    /// f32.
    #[default]
    #[value(help = "f32")]
    F32,
    /// bf16.
    #[value(help = "bf16, even where it is slower")]
    Bf16,
}

/// The phase in which the head is trained on its own outputs, as in decoding (HASS, EAGLE-3), after
/// the phase on the target's features.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, Args)]
pub struct Used {
    /// Share of the training, at its end, in which the head reads its own outputs; 0 for none, as
    /// in the paper [default: 0.5].
    #[arg(id = "used_share", long = "used-share", value_name = "X")]
    pub share: f64,
    /// Steps on its own outputs in that part [default: 2].
    #[arg(id = "used_steps", long = "used-steps", value_name = "N")]
    pub steps: usize,
    /// Weight of each such step relative to the previous one [default: 0.8].
    #[arg(id = "used_decay", long = "used-decay", value_name = "X")]
    pub decay: f64,
}

impl Default for Used {
    fn default() -> Self {
        Self { share: 0.5, steps: 2, decay: 0.8 }
    }
}

/// AdamW's decay rates of the two moments.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, Args)]
#[serde(from = "(f64, f64)", into = "(f64, f64)")]
pub struct Betas {
    /// First decay rate of AdamW, β₁ [default: 0.9].
    #[arg(long, value_name = "X")]
    pub beta1: f64,
    /// Second decay rate of AdamW, β₂ [default: 0.95].
    #[arg(long, value_name = "X")]
    pub beta2: f64,
}

impl From<(f64, f64)> for Betas {
    fn from((beta1, beta2): (f64, f64)) -> Self {
        Self { beta1, beta2 }
    }
}

impl From<Betas> for (f64, f64) {
    fn from(Betas { beta1, beta2 }: Betas) -> Self {
        (beta1, beta2)
    }
}

/// How a head is trained. The fields are flags of `train`, whose help the comments are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Args)]
#[command(next_help_heading = "Training")]
pub struct Options {
    /// When to stop.
    #[arg(skip = Length::Steps(1))]
    pub length: Length,
    /// Tokens per batch [quick: 512, paper: 8192].
    // Padding included; a longer example is a batch by itself.
    #[arg(long, value_name = "N")]
    pub batch_tokens: usize,
    /// Batches whose gradients are added up for one step [default: 1].
    #[arg(long, value_name = "N")]
    pub accumulate: usize,
    /// Chats per step, each of which is a batch by itself whose loss is the mean over its own
    /// tokens; --batch-tokens and --accumulate turn this off [published: 16].
    #[serde(default)]
    #[arg(long, value_name = "N")]
    pub batch_texts: Option<usize>,
    /// Precision of the head's matrix products; the weights are always f32 [default: auto].
    #[serde(default)]
    #[arg(long, value_name = "NAME")]
    pub precision: TrainPrecision,
    /// Tokens to use of each chat; the rest is cut off [quick: 512, paper: 2048].
    #[arg(long, value_name = "N", help_heading = "Chats")]
    pub window: usize,
    /// Peak learning rate [quick: 2e-3, lower for a target wider than 256; paper: 3e-5].
    #[arg(long = "lr", value_name = "X")]
    pub learning_rate: f64,
    /// Warm-up steps [quick: 20, paper: 500].
    #[arg(long, value_name = "N")]
    pub warmup: u64,
    /// AdamW's decay rates.
    #[command(flatten)]
    pub betas: Betas,
    /// Epsilon of AdamW [default: 1e-8].
    #[arg(long, value_name = "X")]
    pub epsilon: f64,
    /// Weight decay [default: 0.01].
    // Decoupled from the gradient.
    #[arg(long, value_name = "X")]
    pub weight_decay: f64,
    /// Clip each gradient element to ± this value [default: 0.5].
    #[arg(long, value_name = "X")]
    pub clip: f64,
    /// Width of the noise added to features [default: 0.2].
    // Uniform, at 512 tokens; longer texts get less per token (n · 512 / L).
    #[arg(long, value_name = "X")]
    pub noise: f64,
    /// Whether that formula also gives shorter texts more noise, as in the published trainer.
    #[serde(default)]
    #[arg(skip)]
    pub noise_uncapped: bool,
    /// Weight of the SmoothL1 loss; 0 for eagle3, which does not predict features [default: 1].
    #[arg(long, value_name = "X")]
    pub vloss: f64,
    /// Weight of the cross-entropy loss [quick: 1, paper: 0.1].
    #[arg(long, value_name = "X")]
    pub ploss: f64,
    /// Which blocks' outputs are trained: all, one drawn at random in each step, or off for only
    /// the last block, as in the paper [default: drawn].
    #[arg(long, value_name = "WHICH", help_heading = "Head")]
    pub elastic: Elastic,
    /// Training on its own outputs.
    #[command(flatten)]
    pub used: Used,
    /// Which tokens count in the loss: aligned with what a draft predicts, or as published, two
    /// tokens late [default: aligned].
    #[arg(long, value_name = "RULE")]
    pub mask: MaskRule,
    /// How the weights are initialised.
    #[serde(default)]
    #[arg(skip)]
    pub first_weights: FirstWeights,
    /// Random seed for weights, order and noise [default: 42].
    // Also of the drawn depths.
    #[arg(long, value_name = "N")]
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            length: Length::Steps(200_000),
            // Four chats of 2048 tokens.
            batch_tokens: 8192,
            accumulate: 1,
            batch_texts: None,
            precision: TrainPrecision::default(),
            window: 2048,
            learning_rate: 3e-5,
            warmup: 500,
            betas: Betas { beta1: 0.9, beta2: 0.95 },
            epsilon: 1e-8,
            weight_decay: 0.01,
            clip: 0.5,
            noise: 0.2,
            noise_uncapped: false,
            vloss: 1.0,
            ploss: 0.1,
            elastic: Elastic::default(),
            used: Used::default(),
            mask: MaskRule::default(),
            first_weights: FirstWeights::default(),
            seed: 42,
        }
    }
}

impl Options {
    /// How many batches a step has.
    pub fn batches(&self) -> usize {
        self.batch_texts.unwrap_or(self.accumulate)
    }

    /// The most tokens of a batch with several texts.
    pub fn joined_tokens(&self) -> usize {
        if self.batch_texts.is_some() { 1 } else { self.batch_tokens }
    }

    /// The tokens per step if each text has `mean` tokens.
    pub fn step_tokens(&self, mean: f64) -> f64 {
        match self.batch_texts {
            Some(texts) => texts as f64 * mean,
            None => (self.batch_tokens * self.accumulate) as f64,
        }
    }

    /// Checks every figure.
    ///
    /// # Errors
    /// [`TrainError::Option`] for the first figure that makes no sense.
    pub fn check(&self) -> Result<()> {
        let share = |x: f64| (0.0..=1.0).contains(&x);
        let positive = |x: f64| x.is_finite() && x > 0.0;
        let not_negative = |x: f64| x.is_finite() && x >= 0.0;
        let (unit, length, has_length) = match self.length {
            Length::Steps(steps) => ("steps", steps.to_string(), steps > 0),
            Length::Minutes(minutes) => ("minutes", minutes.to_string(), positive(minutes)),
        };
        let texts = self.batch_texts.unwrap_or(1);
        let &Self { betas: Betas { beta1, beta2 }, used, .. } = self;
        check([
            (unit, length, has_length, "above 0"),
            ("batch-tokens", self.batch_tokens.to_string(), self.batch_tokens > 0, "at least 1"),
            ("accumulate", self.accumulate.to_string(), self.accumulate > 0, "at least 1"),
            ("batch-texts", texts.to_string(), texts > 0, "at least 1"),
            ("window", self.window.to_string(), self.window >= 3, "at least 3"),
            ("lr", self.learning_rate.to_string(), positive(self.learning_rate), "above 0"),
            ("beta1", beta1.to_string(), (0.0..1.0).contains(&beta1), "0 to below 1"),
            ("beta2", beta2.to_string(), (0.0..1.0).contains(&beta2), "0 to below 1"),
            ("epsilon", self.epsilon.to_string(), positive(self.epsilon), "above 0"),
            ("weight-decay", self.weight_decay.to_string(), share(self.weight_decay), "0 to 1"),
            ("clip", self.clip.to_string(), positive(self.clip), "above 0"),
            ("noise", self.noise.to_string(), not_negative(self.noise), "0 or more"),
            ("vloss", self.vloss.to_string(), not_negative(self.vloss), "0 or more"),
            ("ploss", self.ploss.to_string(), not_negative(self.ploss), "0 or more"),
            ("used-share", used.share.to_string(), share(used.share), "0 to 1"),
            ("used-steps", used.steps.to_string(), used.steps <= 16, "at most 16"),
            ("used-decay", used.decay.to_string(), positive(used.decay), "above 0"),
        ])
    }
}

/// Refuses the first figure that makes no sense, by its name as on the command line, its value,
/// whether it makes sense, and what it must be.
pub(super) fn check(
    figures: impl IntoIterator<Item = (&'static str, String, bool, &'static str)>,
) -> Result<()> {
    match figures.into_iter().find(|(_, _, sound, _)| !sound) {
        Some((name, value, _, range)) => Err(TrainError::Option(name, value, range)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unsound_figure_is_named() {
        let error = Options { clip: f64::NAN, ..Options::default() }.check().unwrap_err();
        insta::assert_snapshot!(error, @"`--clip` is NaN, but must be above 0");
        let short = Options { length: Length::Minutes(0.0), ..Options::default() };
        insta::assert_snapshot!(
            short.check().unwrap_err(),
            @"`--minutes` is 0, but must be above 0"
        );
    }
}
