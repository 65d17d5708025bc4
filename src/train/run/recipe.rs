//! The recipe of a training: everything that determines the head, stored next to it so that a
//! stopped training continues with the same settings. It must not depend on folders.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::head::FusionKind;
use crate::train::{
    DraftVocabSize, Elastic, FirstWeights, Length, MaskRule, Options, TrainError, Used,
};

/// A complete training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recipe {
    /// The target as the user named it.
    pub target: String,
    /// File of the chats.
    pub data: PathBuf,
    /// The most chats to use, drawn by the seed; `None` means all.
    pub limit: Option<usize>,
    /// System message for chats that have none.
    pub system: Option<String>,
    /// Whether the target answers the questions itself, instead of using the answers in the file.
    pub self_answers: bool,
    /// The most tokens in one of its own answers.
    pub answer_tokens: usize,
    /// The share of the chats that is set aside for measuring.
    pub held_out: f64,
    /// M: how many blocks the head has.
    pub blocks: usize,
    /// How feature and token are joined.
    pub kind: FusionKind,
    /// Which tokens it scores.
    #[serde(default = "all_tokens")]
    pub draft_vocab: DraftVocabSize,
    /// How many passes over the chats, instead of the length in `options`.
    pub epochs: Option<f64>,
    /// How many held-out prompts to decode at the end; 0 for none.
    pub decode: usize,
    /// The target's hidden size for which the learning rate is meant: a wider target gets a lower
    /// rate (see [`Self::for_width`]). Without it the rate applies to any target.
    #[serde(default)]
    pub rate_width: Option<usize>,
    /// How it learns.
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
            draft_vocab: DraftVocabSize::default(),
            epochs: None,
            decode: 16,
            rate_width: None,
            options: Options { used: Used::default(), ..Options::default() },
        }
    }

    /// The paper's recipe without our changes: five blocks of which only the last is an exit, no
    /// training on its own outputs, the published mask, noise and initial weights, every token
    /// scored, 50 passes in batches of 16 full windows.
    pub fn published() -> Self {
        let paper = Self::paper();
        let options = Options {
            accumulate: 4,
            elastic: Elastic::Off,
            used: Used { share: 0.0, ..Used::default() },
            mask: MaskRule::Published,
            noise_uncapped: true,
            first_weights: FirstWeights::Published,
            ..paper.options
        };
        let draft_vocab = DraftVocabSize::All;
        let epochs = Some(50.0);
        Self { blocks: 5, draft_vocab, epochs, options, ..paper }
    }

    /// The same recipe for a head of this kind. A head over tapped states is not trained on the
    /// target's features, so it has neither SmoothL1 nor noise, and an EAGLE-3 head has one block.
    #[must_use]
    pub fn of_kind(mut self, kind: FusionKind) -> Self {
        if kind.taps() && self.kind != kind {
            self.options = Options { vloss: 0.0, ploss: 1.0, noise: 0.0, ..self.options };
            self.blocks = 1;
            self.options.elastic = Elastic::Off;
        }
        Self { kind, ..self }
    }

    /// Checks every figure.
    ///
    /// # Errors
    /// [`TrainError::Option`] for the first figure that makes no sense.
    pub fn check(&self) -> Result<(), TrainError> {
        if self.kind == FusionKind::Eagle3 && self.blocks != 1 {
            let reason = "1, since an EAGLE-3 head has one block";
            return Err(TrainError::Option("blocks", self.blocks.to_string(), reason));
        }
        self.options.check()
    }

    /// The figures in which `other` differs, by name: (name, here, there).
    pub fn differences(&self, other: &Self) -> Vec<(String, String, String)> {
        let here = self.figures();
        let there = other.figures();
        let value = |fields: &[(String, String)], name: &str| {
            let found = fields.iter().find(|(known, _)| known == name);
            found.map_or_else(|| "nothing".to_owned(), |(_, value)| value.clone())
        };
        let own = |name: &str| here.iter().any(|(known, _)| known == name);
        let others = there.iter().filter(|(name, _)| !own(name));
        let names = here.iter().chain(others).map(|(name, _)| name);
        let all = names.map(|name| (name.clone(), value(&here, name), value(&there, name)));
        all.filter(|(_, here, there)| here != there).collect()
    }

    /// Every figure with its name.
    fn figures(&self) -> Vec<(String, String)> {
        let mut figures = Vec::new();
        // A recipe consists of numbers, texts and lists, all of which JSON can represent.
        flatten("", &serde_json::to_value(self).unwrap_or_default(), &mut figures);
        figures
    }
}

/// What trainings scored before this could be chosen.
fn all_tokens() -> DraftVocabSize {
    DraftVocabSize::All
}

fn flatten(name: &str, value: &Value, into: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                let dot = if name.is_empty() { "" } else { "." };
                flatten(&format!("{name}{dot}{field}"), value, into);
            }
        }
        Value::String(text) => into.push((name.to_owned(), text.clone())),
        other => into.push((name.to_owned(), other.to_string())),
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
    fn what_is_ours_is_what_the_published_recipe_leaves_out() {
        let differences = Recipe::paper().differences(&Recipe::published());
        let names: Vec<&str> = differences.iter().map(|(name, ..)| name.as_str()).collect();
        let ours = [
            "blocks",
            "draft_vocab",
            "epochs",
            "options.accumulate",
            "options.noise_uncapped",
            "options.elastic",
            "options.used.share",
            "options.mask",
            "options.first_weights",
        ];
        assert_eq!(names, ours);
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
        assert!(error.contains("`blocks` is 2, but must be 1, since an EAGLE-3 head"), "{error}");
        assert_eq!(Recipe::quick().of_kind(FusionKind::Dgf), Recipe::quick());
    }

    #[test]
    fn differences_are_named() {
        let paper = Recipe::paper();
        assert_eq!(paper.differences(&paper), []);
        let mut other = Recipe { blocks: 2, system: Some("Hm".into()), ..paper.clone() };
        other.options.betas.1 = 0.9;
        let names: Vec<String> = paper
            .differences(&other)
            .into_iter()
            .map(|(name, a, b)| format!("{name} {a} {b}"))
            .collect();
        assert_eq!(names, ["system null Hm", "blocks 4 2", "options.betas [0.9,0.95] [0.9,0.9]"]);
    }
}
