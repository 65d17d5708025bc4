//! The state of a training in progress: stored in `work/run.json`, the source of the card. It must
//! never write itself.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::decode_eval::DecodeEval;
use super::recipe::Recipe;
use crate::library::TargetFingerprint;
use crate::printable::bytes;
use crate::train::Measure;

/// The state of a training.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TrainState {
    /// Its recipe.
    pub recipe: Recipe,
    /// Its target.
    pub target: TargetFingerprint,
    /// The chats, once they are rendered.
    pub chats: Option<Chats>,
    /// What the stages have taken so far, in their order.
    pub stages: Vec<Spent>,
    /// The measures of the head on held-out chats: for every m, by steps on its own outputs.
    pub held: Vec<Measure>,
    /// The best head so far, which is in `work/best`.
    #[serde(default)]
    pub best: Option<Best>,
    /// The results of decoding with the head.
    pub decoded: Option<DecodeEval>,
}

impl TrainState {
    /// The initial state.
    pub fn new(recipe: Recipe, target: TargetFingerprint) -> Self {
        let chats = None;
        let stages = Vec::new();
        let held = Vec::new();
        let best = None;
        let decoded = None;
        Self { recipe, target, chats, stages, held, best, decoded }
    }

    /// Adds what a stage took to what it took before an interruption.
    pub(crate) fn spend(&mut self, stage: Stage, amount: u64, time: Duration, peak: u64) {
        let found = self.stages.iter().position(|spent| spent.stage == stage);
        let at = found.unwrap_or_else(|| {
            self.stages.push(Spent { stage, amount: 0, seconds: 0.0, peak: 0 });
            self.stages.len() - 1
        });
        let spent = &mut self.stages[at];
        spent.amount += amount;
        spent.seconds += time.as_secs_f64();
        spent.peak = spent.peak.max(peak);
    }
}

/// The best head of a training so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// After how many steps of the optimiser.
    pub step: u64,
    /// τ on held-out prompts or, if none are decoded, the share of first choices that were right.
    pub score: f64,
    /// Its measures on held-out chats, as in [`TrainState::held`].
    pub held: Vec<Measure>,
}

/// The stages of a training.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// The target answers the questions; counted in tokens.
    Answers,
    /// Chats become tokens; counted in lines.
    Render,
    /// The target runs once over every chat; counted in tokens.
    Features,
    /// The head learns; counted in tokens.
    Training,
    /// The head drafts; counted in tokens.
    Decoding,
}

impl Stage {
    /// Its display name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Answers => "the target answers",
            Self::Render => "rendering",
            Self::Features => "features",
            Self::Training => "training",
            Self::Decoding => "decoding",
        }
    }

    /// The unit in which it is counted.
    pub fn unit(self) -> &'static str {
        if self == Self::Render { "lines" } else { "tokens" }
    }
}

/// What a stage took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    /// Which stage.
    pub stage: Stage,
    /// How much was done, in the stage's unit.
    pub amount: u64,
    /// Time.
    pub seconds: f64,
    /// The most memory of the process, bytes; 0 if the system does not say.
    pub peak: u64,
}

impl Spent {
    /// Units per second.
    pub fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.amount as f64 / self.seconds } else { 0.0 }
    }

    /// Stage, amount, time, rate and most memory, in words.
    pub fn figures(&self) -> [String; 5] {
        [
            self.stage.name().to_owned(),
            format!("{} {}", self.amount, self.stage.unit()),
            format!("{:.1} s", self.seconds),
            format!("{:.0}/s", self.rate()),
            bytes(self.peak),
        ]
    }
}

/// What the lines of the file turned out to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chats {
    /// How many lines are not blank.
    pub lines: usize,
    /// How many chats will be used, including held-out ones.
    pub used: usize,
    /// How many of these are held out.
    pub held: usize,
    /// How many of these were cut at the window.
    pub cut: usize,
    /// How many tokens all used chats have.
    pub tokens: usize,
    /// How many of these are the assistant's.
    pub answers: usize,
    /// How many lines cannot be used.
    pub refused: usize,
    /// The first of these lines, with the reasons.
    pub faults: Vec<(usize, String)>,
}
