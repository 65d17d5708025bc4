//! What the file of a DFlash drafter says (method.md, DFlash): its decoder blocks, and how it reads
//! the target and drafts. It must not depend on how a file spells it.

use super::head::Misfit;
use super::{Config, ConfigError, FeatureSource};

/// Shape and constants of a DFlash drafter.
#[derive(Clone, Debug, PartialEq)]
pub struct DflashConfig {
    /// Its decoder blocks, without windows. Its vocabulary is the target's.
    pub body: Config,
    /// H of the target.
    pub target_hidden: usize,
    /// The states of the target that it taps, ascending.
    pub states: Vec<usize>,
    /// B: how many rows a pass has, the last token of the text and then mask tokens.
    pub rows: usize,
    /// The mask token.
    pub mask: u32,
    /// The window of each layer.
    pub windows: Vec<Option<usize>>,
    /// For each layer, whether a row sees only the rows before it.
    pub causal: Vec<bool>,
    /// Whether the first row drafts too: row i then drafts the token after its own position, and
    /// otherwise the one at its own position.
    pub from_anchor: bool,
    /// Whether it has an embedding and an LM head of its own.
    pub own_tables: [bool; 2],
    /// How many tokens its LM head scores, if it is its own.
    pub scored: Option<usize>,
    /// R: the width of the Markov head (DSpark).
    pub markov: Option<usize>,
    /// Whether it has a confidence head (DSpark).
    pub confidence: bool,
    /// How many rows its convolutions read, and how many kernels the channels share (DFlash-2).
    pub convolution: Option<[usize; 2]>,
    /// The width of the candidate selector, and how many candidates it has (DFlash-2).
    pub selector: Option<[usize; 2]>,
}

/// The most rows of a pass; published drafters have 16.
const MOST_ROWS: usize = 256;

impl DflashConfig {
    /// Checks that the numbers fit together.
    ///
    /// # Errors
    /// [`ConfigError`] on the first field that is wrong.
    pub(crate) fn checked(self) -> Result<Self, ConfigError> {
        ConfigError::unless_within("block_size", self.rows, 2..=MOST_ROWS)?;
        let states = format!("{:?} for states of width {}", self.states, self.target_hidden);
        let reason = "it must list layers in rising order, one for each equal part of the inputs \
                      of `fc.weight`";
        let sound = self.states.is_sorted_by(|a, b| a < b)
            && !self.states.is_empty()
            && self.target_hidden > 0;
        ConfigError::unless(sound, "target_layers", states, reason)?;
        let reason = format!("it must be one of the {} tokens", self.body.vocab);
        let sound = (self.mask as usize) < self.body.vocab;
        ConfigError::unless(sound, "mask_token_id", self.mask, reason)?;
        let [taps, groups] = self.convolution.unwrap_or([1, 1]);
        let reason = "a kernel must be no larger than a block, and a group no larger than a row";
        let sound = taps <= self.rows && groups > 0;
        ConfigError::unless(sound, "conv_kernel_size", taps, reason)?;
        let sound = self.windows.iter().all(|&window| window != Some(0));
        ConfigError::unless(sound, "sliding_window", 0, "it must be positive")?;
        Ok(self)
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        match (self.markov, self.selector) {
            (Some(_), _) => "DSpark",
            (None, Some(_)) => "DFlash-2",
            (None, None) => "DFlash",
        }
    }

    /// How many tokens one pass drafts.
    pub fn levels(&self) -> usize {
        self.rows - usize::from(!self.from_anchor)
    }

    /// What it reads of the target.
    pub fn features(&self) -> FeatureSource {
        FeatureSource::States(self.states.clone())
    }

    /// Weights that a pass reads: the blocks with their convolutions, `fc` and the LM head.
    pub(crate) fn weights(&self) -> u64 {
        let body = &self.body;
        let scored = self.scored.unwrap_or(body.vocab);
        let fc = body.hidden * self.states.len() * self.target_hidden;
        let blocks = body.linear_weights() - (body.vocab * body.hidden) as u64;
        let [taps, groups] = self.convolution.unwrap_or([0; 2]);
        let kernels = 4 * body.layers * taps * groups * body.hidden;
        blocks + (fc + kernels + scored * body.hidden) as u64
    }

    /// Checks that it was made for a target like this one.
    ///
    /// # Errors
    /// [`Misfit`] with the figures of both.
    pub fn fits_target(&self, target: &Config) -> Result<(), Misfit> {
        let last = self.states.last().copied().unwrap_or(0);
        // Without its own embedding or LM head, it is as wide as the target's.
        let width = if self.own_tables == [true; 2] { target.hidden } else { self.body.hidden };
        Misfit::unless_equal([
            ("hidden size", self.target_hidden, target.hidden),
            ("embedding width", width, target.hidden),
            ("vocabulary size", self.body.vocab, target.vocab),
            // The last layer's states are the last that can be tapped.
            ("last tapped layer", last, last.min(target.layers)),
        ])
    }
}
