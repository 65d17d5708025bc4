//! What a target returns as the feature of a position: the output of its final norm, or states of
//! its residual stream tapped on the way (method.md, EAGLE-3). It must not depend on who reads
//! them.

use super::Config;

/// What `prefill` and `verify` of a target return as features.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FeatureSource {
    /// The output of the final norm.
    #[default]
    FinalNorm,
    /// These states, concatenated, ascending. State i is the residual stream that enters block i,
    /// so state 0 is the embedding and the last state is what enters the final norm.
    States(Vec<usize>),
    /// The output of the final norm, and then keys (after RoPE) and values of the last layer with a
    /// window and of the last one without that have any (Gemma 4's assistant).
    LastKeysAndValues,
}

impl FeatureSource {
    /// How many numbers the feature of a position has in this model.
    pub fn width(&self, config: &Config) -> usize {
        match self {
            Self::FinalNorm => config.hidden,
            Self::States(states) => states.len() * config.hidden,
            Self::LastKeysAndValues => {
                let shape = |layer| config.kv_shape(layer);
                let width = |layer| shape(layer).keys() + shape(layer).values();
                let layers = config.last_caches().into_iter().flatten();
                config.hidden + layers.map(width).sum::<usize>()
            }
        }
    }

    /// The states; none for the final norm, which is not a state.
    pub fn states(&self) -> &[usize] {
        match self {
            Self::FinalNorm | Self::LastKeysAndValues => &[],
            Self::States(states) => states,
        }
    }
}

/// Collects states of the rows of a pass. A state that the model does not have is left as zeros.
pub(in crate::model) struct Taps<'a> {
    states: &'a [usize],
    hidden: usize,
    /// `[rows, states · hidden]`.
    out: &'a mut [f32],
}

impl<'a> Taps<'a> {
    /// Taps of `states` of a stream `hidden` wide, into `out`.
    pub(in crate::model) fn new(states: &'a [usize], hidden: usize, out: &'a mut [f32]) -> Self {
        Self { states, hidden, out }
    }

    /// No taps.
    pub(in crate::model) fn none() -> Self {
        Self { states: &[], hidden: 0, out: &mut [] }
    }

    /// Whether this state is one of them.
    pub(in crate::model) fn want(&self, state: usize) -> bool {
        self.states.contains(&state)
    }

    /// Stores the stream `[rows, hidden]` as it is at `state`, if that state is wanted, as the rows
    /// from `first` on.
    pub(in crate::model) fn take(&mut self, state: usize, first: usize, stream: &[f32]) {
        let Some(slot) = self.states.iter().position(|&tapped| tapped == state) else { return };
        let width = self.states.len() * self.hidden;
        let at = slot * self.hidden;
        let out = self.out.chunks_exact_mut(width).skip(first);
        for (out, row) in out.zip(stream.chunks_exact(self.hidden)) {
            out[at..at + self.hidden].copy_from_slice(row);
        }
    }
}
