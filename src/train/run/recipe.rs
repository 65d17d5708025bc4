//! The recipe of a training: everything that determines the head, stored next to it so that a
//! stopped training continues with the same settings. It must not depend on folders.

use std::path::PathBuf;

use clap::{ArgMatches, Args, FromArgMatches};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::head::FusionKind;
use crate::train::options::check;
use crate::train::{
    DraftVocabSize, Elastic, FirstWeights, Length, MaskRule, Options, Result, TrainPrecision, Used,
};

/// A complete training. The fields are flags of `train`, whose help the comments are; a flag that
/// is given replaces the value of a preset or of a stored recipe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Args)]
#[command(next_help_heading = "Chats")]
pub struct Recipe {
    /// Target model: a GGUF file, a folder, a hub id or the name of a model on this machine
    /// [default: the bundled model].
    #[arg(long, value_name = "MODEL", env = "DOVETAIL_TARGET", help_heading = "What")]
    pub target: String,
    /// File of chats to learn from (JSON lines or one JSON array), or sharegpt for the paper's,
    /// which is downloaded.
    #[arg(long, value_name = "FILE", required_unless_present = "resume", help_heading = "What")]
    pub data: PathBuf,
    /// Use at most N chats, drawn at random by the seed [default: all].
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// System message for chats that have none.
    #[arg(long, value_name = "TEXT")]
    pub system: Option<String>,
    /// Let the target answer the questions itself, so that the head learns from the target's own
    /// text.
    #[arg(long)]
    pub self_answers: bool,
    /// Maximum number of tokens in each answer of the target [default: 256].
    #[arg(long, value_name = "N")]
    pub answer_tokens: usize,
    /// Share of the chats to measure with, 0 to below 1 [default: 0.05].
    #[arg(long, value_name = "X")]
    pub held_out: f64,
    /// Blocks of the head (M), 1 to 16 [quick: 2, paper: 4].
    #[arg(long, value_name = "N", help_heading = "Head")]
    pub blocks: usize,
    /// How the head fuses its inputs: the paper's dgf, or eagle's linear layer; eagle3 has one
    /// block, reads three layers of the target and has its own LM head [default: dgf].
    #[arg(long, value_name = "NAME", help_heading = "Head")]
    pub kind: FusionKind,
    /// Width of the MLP in each block; a narrower one drafts sooner and learns faster [default: the
    /// target's].
    #[serde(default)]
    #[arg(long, value_name = "N", display_order = 100, help_heading = "Head")]
    pub mlp: Option<usize>,
    /// Tokens that the head scores: auto for those that cover what the target says, all, or the N
    /// most frequent [default: auto].
    #[serde(default = "all_tokens")]
    #[arg(long, value_name = "N|auto|all", display_order = 100, help_heading = "Head")]
    pub draft_vocab: DraftVocabSize,
    /// Train for this many passes over the chats.
    // Instead of the length in `options`.
    #[arg(long, value_name = "X", help_heading = "Training")]
    pub epochs: Option<f64>,
    /// Number of held-out prompts to decode with the finished head; 0 for none [default: 16].
    #[arg(long, value_name = "N", display_order = 100, help_heading = "Training")]
    pub decode: usize,
    /// The target's hidden size for which the learning rate is meant: a wider target gets a lower
    /// rate (see [`Self::for_width`]). Without it the rate applies to any target.
    #[serde(default)]
    #[arg(skip)]
    pub rate_width: Option<usize>,
    /// How it learns.
    #[command(flatten)]
    pub options: Options,
}

impl Recipe {
    /// The depths at which the head can be cut.
    pub(super) fn depths(&self) -> std::ops::RangeInclusive<usize> {
        let first = if self.options.elastic == Elastic::Off { self.blocks } else { 1 };
        first..=self.blocks
    }

    /// For a small target, two cores and a quarter of an hour: the paper's losses, noise, decays
    /// and clip, with the rate, the batch and the weight of the cross-entropy that a short training
    /// needs.
    pub fn quick() -> Self {
        let paper = Self::paper();
        let options = Options {
            length: Length::Minutes(8.0),
            batch_tokens: 512,
            window: 512,
            learning_rate: 2e-3,
            warmup: 20,
            ploss: 1.0,
            ..paper.options
        };
        // Every further block takes steps from the first, and the first is what a CPU drafts with.
        Self { blocks: 2, rate_width: Some(256), options, ..paper }
    }

    /// The same recipe for a target of this hidden size. With Adam, a step changes a sum of n terms
    /// in proportion to n, so the rate falls as the width rises (Yang et al. 2022, Tensor Programs
    /// V, Table 3, hidden weights).
    #[must_use]
    pub fn for_width(mut self, hidden: usize) -> Self {
        if let Some(meant) = self.rate_width.take()
            && hidden > meant
        {
            self.options.learning_rate *= meant as f64 / hidden as f64;
        }
        self
    }

    /// The paper's figures (method.md, Training a head), with a depth drawn in each step and a last
    /// phase on the head's own outputs; `used.share = 0` and `Elastic::Off` remove these two.
    pub fn paper() -> Self {
        Self {
            target: "bundled".into(),
            data: PathBuf::new(),
            limit: None,
            system: None,
            self_answers: false,
            answer_tokens: 256,
            held_out: 0.05,
            blocks: 4,
            kind: FusionKind::Dgf,
            mlp: None,
            draft_vocab: DraftVocabSize::default(),
            epochs: None,
            decode: 16,
            rate_width: None,
            options: Options { precision: TrainPrecision::Auto, ..Options::default() },
        }
    }

    /// The paper's recipe without our changes: five blocks of which only the last is an exit, no
    /// training on its own outputs, the published mask, noise and initial weights, every token
    /// scored, 50 passes over 68,000 chats in batches of 16 chats.
    pub fn published() -> Self {
        let paper = Self::paper();
        let options = Options {
            batch_texts: Some(16),
            elastic: Elastic::Off,
            used: Used { share: 0.0, ..Used::default() },
            mask: MaskRule::Published,
            noise_uncapped: true,
            first_weights: FirstWeights::Published,
            ..paper.options
        };
        let draft_vocab = DraftVocabSize::All;
        let epochs = Some(50.0);
        Self { blocks: 5, draft_vocab, epochs, limit: Some(68_000), options, ..paper }
    }

    /// The same recipe for a head of this kind. A head over tapped states is not trained on the
    /// target's features, so it has neither SmoothL1 nor noise, and an EAGLE-3 head has one block.
    #[must_use]
    pub fn of_kind(mut self, kind: FusionKind) -> Self {
        if kind == FusionKind::Eagle3 && self.kind != kind {
            self.options = Options { vloss: 0.0, ploss: 1.0, noise: 0.0, ..self.options };
            self.blocks = 1;
            self.options.elastic = Elastic::Off;
        }
        Self { kind, ..self }
    }

    /// The same recipe with the flags that were given laid over it.
    ///
    /// # Errors
    /// Never: the flags were parsed already.
    pub fn with_flags(mut self, given: &ArgMatches) -> Result<Self, clap::Error> {
        // First: a kind has figures of its own.
        if let Some(kind) = given.get_one("kind") {
            self = self.of_kind(*kind);
        }
        let self_answers = self.self_answers;
        self.update_from_arg_matches(given)?;
        // A switch that is not given does not turn off what the recipe has.
        self.self_answers |= self_answers;
        if ["batch_tokens", "accumulate"].iter().any(|flag| given.contains_id(flag))
            && !given.contains_id("batch_texts")
        {
            self.options.batch_texts = None;
        }
        if given.contains_id("learning_rate") {
            self.rate_width = None;
        }
        Ok(self)
    }

    /// Checks every figure.
    ///
    /// # Errors
    /// [`TrainError::Option`](crate::train::TrainError::Option) for the first figure that makes no
    /// sense.
    pub fn check(&self) -> Result<()> {
        let Self { held_out, blocks, answer_tokens, .. } = *self;
        let limit = self.limit.unwrap_or(usize::MAX);
        let epochs = self.epochs.unwrap_or(1.0);
        let mlp = self.mlp.unwrap_or(1);
        let one = blocks == 1 || self.kind != FusionKind::Eagle3;
        check([
            ("held-out", held_out.to_string(), (0.0..1.0).contains(&held_out), "0 to below 1"),
            ("blocks", blocks.to_string(), (1..=16).contains(&blocks), "1 to 16"),
            ("blocks", blocks.to_string(), one, "1, since an EAGLE-3 head has one block"),
            ("answer-tokens", answer_tokens.to_string(), answer_tokens > 0, "at least 1"),
            ("limit", limit.to_string(), limit > 0, "at least 1"),
            ("epochs", epochs.to_string(), epochs > 0.0, "above 0"),
            ("mlp", mlp.to_string(), mlp > 0, "at least 1"),
        ])?;
        self.options.check()
    }

    /// The figures in which `other` differs, by name: (name, here, there).
    pub fn differences(&self, other: &Self) -> Vec<(String, String, String)> {
        // A recipe consists of numbers, texts and lists, all of which JSON can represent.
        let [here, there] =
            [self, other].map(|recipe| serde_json::to_value(recipe).unwrap_or_default());
        let mut all = Vec::new();
        compare("", &here, &there, &mut all);
        all
    }
}

/// What trainings scored before this could be chosen.
fn all_tokens() -> DraftVocabSize {
    DraftVocabSize::All
}

/// Adds the values that differ between `here` and `there`, which are called `name`.
fn compare(name: &str, here: &Value, there: &Value, into: &mut Vec<(String, String, String)>) {
    if let (Value::Object(fields), Value::Object(_)) = (here, there) {
        let dot = if name.is_empty() { "" } else { "." };
        for (field, value) in fields {
            compare(&format!("{name}{dot}{field}"), value, &there[field], into);
        }
    } else if here != there {
        let shown = |value: &Value| match value {
            Value::Null => "nothing".to_owned(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        into.push((name.to_owned(), shown(here), shown(there)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quick_training_of_a_wide_target_has_a_lower_rate() {
        let rate = |hidden| Recipe::quick().for_width(hidden).options.learning_rate;
        assert_eq!([rate(64), rate(256), rate(512), rate(4096)], [2e-3, 2e-3, 1e-3, 1.25e-4]);
        let once = Recipe::quick().for_width(512);
        assert_eq!(once.clone().for_width(512), once);
        assert_eq!(Recipe::paper().for_width(4096), Recipe::paper());
    }

    #[test]
    fn all_recipes_are_sound_and_survive_their_file() {
        for recipe in [Recipe::quick(), Recipe::paper(), Recipe::published()] {
            recipe.check().unwrap();
            let json = serde_json::to_string(&recipe).unwrap();
            assert_eq!(serde_json::from_str::<Recipe>(&json).unwrap(), recipe);
        }
    }

    #[test]
    fn the_published_batch_gives_way_to_a_batch_of_tokens() {
        let with = |flags: &[&str]| {
            let resume = clap::Arg::new("resume").long("resume");
            let command = Recipe::augment_args_for_update(clap::Command::new("train").arg(resume));
            let given = command.get_matches_from([&["train", "--data=x"], flags].concat());
            Recipe::published().with_flags(&given).unwrap().options
        };
        let published = with(&[]);
        assert_eq!((published.batch_texts, published.batches()), (Some(16), 16));
        assert_eq!(published.step_tokens(100.0), 1600.0);
        let tokens = with(&["--batch-tokens", "4096", "--accumulate", "2"]);
        assert_eq!((tokens.batch_texts, tokens.batches()), (None, 2));
        assert_eq!(tokens.step_tokens(100.0), 8192.0);
        assert_eq!(with(&["--batch-texts", "4", "--batch-tokens", "9"]).batch_texts, Some(4));
    }

    #[test]
    fn a_kind_over_tapped_states_learns_by_the_cross_entropy_alone() {
        let kind = FusionKind::Eagle3;
        let recipe = Recipe::quick().of_kind(kind);
        recipe.check().unwrap();
        assert_eq!((recipe.options.vloss, recipe.options.noise), (0.0, 0.0));
        // Flags that follow remain in effect, even if the kind is repeated.
        let mut noisy = recipe;
        noisy.options.noise = 0.1;
        assert_eq!(noisy.clone().of_kind(kind), noisy);
        let two = Recipe { blocks: 2, ..Recipe::quick().of_kind(FusionKind::Eagle3) };
        let error = two.check().unwrap_err().to_string();
        assert!(error.contains("`--blocks` is 2, but must be 1, since an EAGLE-3 head"), "{error}");
        assert_eq!(Recipe::quick().of_kind(FusionKind::Dgf), Recipe::quick());
    }

    #[test]
    fn differences_are_named() {
        let paper = Recipe::paper();
        // What is ours is what the published recipe leaves out.
        let differences = paper.differences(&Recipe::published());
        let names: Vec<&str> = differences.iter().map(|(name, ..)| name.as_str()).collect();
        let ours = "limit blocks draft_vocab epochs options.batch_texts options.noise_uncapped \
                    options.elastic options.used.share options.mask options.first_weights";
        assert_eq!(names.join(" "), ours);
        assert_eq!(paper.differences(&paper), []);
        let mut other = Recipe { blocks: 2, system: Some("Hm".into()), ..paper.clone() };
        other.options.betas.beta2 = 0.9;
        let names: Vec<String> = paper
            .differences(&other)
            .into_iter()
            .map(|(name, a, b)| format!("{name} {a} {b}"))
            .collect();
        assert_eq!(
            names,
            ["system nothing Hm", "blocks 4 2", "options.betas [0.9,0.95] [0.9,0.9]"]
        );
    }
}
