//! A target with its drafters, and the text whose KV cache they keep between generations.

use super::drafter_set::DrafterSet;
use crate::draft::Drafter;
use crate::model::{Target, TargetError, Traffic, TrafficMeter};
use crate::speculate::Tree;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Rows of a chunk of the prefill: the first, and the limits.
const FIRST_CHUNK: usize = 64;
const SMALLEST_CHUNK: usize = 16;
const LARGEST_CHUNK: usize = 512;
/// A chunk that takes less time than this is followed by a larger one, and one that takes more time
/// by a smaller one.
const SHORT: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_millis(600);

/// What to decode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The tokens of the whole prompt, including the conversation so far.
    pub prompt: Vec<u32>,
    /// The most tokens of the answer, at least 1.
    pub max_tokens: usize,
    /// Tokens that end the answer.
    pub eos: Vec<u32>,
    /// Texts that end the answer and are not part of it.
    pub stop: Vec<String>,
    /// The runs of the prompt that are not part of an answer, ascending, if they are known: the
    /// target may read these on another device.
    pub asked: Vec<Range<usize>>,
    /// Tokens that the user forces in the place of the target's, by their number in the answer,
    /// from 0.
    pub forced: Vec<(usize, u32)>,
}

impl Request {
    /// Refuses a prompt that is empty or does not fit in `capacity` positions.
    pub(super) fn check(&self, capacity: usize) -> Result<(), DecodeError> {
        match self.prompt.len() {
            0 => Err(DecodeError::EmptyPrompt),
            tokens if tokens > capacity => Err(DecodeError::PromptTooLong { tokens, capacity }),
            _ => Ok(()),
        }
    }
}

/// Why an answer cannot be begun or continued.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The prompt is empty.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// The prompt does not fit the KV cache.
    #[error(
        "the prompt has {tokens} tokens, but the context holds {capacity}; shorten the \
        conversation or raise `context`"
    )]
    PromptTooLong {
        /// The length of the prompt.
        tokens: usize,
        /// The capacity of the target's cache.
        capacity: usize,
    },
    /// The target failed.
    #[error(transparent)]
    Target(#[from] TargetError),
}

/// Runs one generation after the other. The common prefix of two prompts is computed only once.
pub struct Engine {
    pub(super) target: Box<dyn Target>,
    pub(super) drafting: DrafterSet,
    /// The tokens of the committed positions, followed by the root while an answer is in progress.
    pub(super) text: Vec<u32>,
    /// Features of committed positions that no drafter has observed, because the token after them
    /// is not known yet: `[rows, feature width]`, starting with position `drafting.observed`.
    pending_features: Vec<f32>,
    /// The features of the observed positions, if they are stored and a drafter reads them.
    pub(super) observed_features: Option<Vec<f32>>,
    /// How many rows a chunk of the prefill has: many for speed, few enough that it can be
    /// cancelled within a second.
    chunk: usize,
    /// The counters of the GPUs that target and drafters run on, each GPU once.
    meters: Vec<TrafficMeter>,
}

impl Engine {
    /// An engine with empty KV caches: the caches of `target` and `drafters` are truncated. A
    /// [`super::RoundOptions`] names a drafter by its index in `drafters`.
    pub fn new(
        mut target: Box<dyn Target>,
        drafters: impl IntoIterator<Item = Box<dyn Drafter>>,
    ) -> Self {
        target.truncate(0);
        let mut engine = Self {
            target,
            drafting: DrafterSet::new(Vec::new()),
            text: Vec::new(),
            pending_features: Vec::new(),
            observed_features: None,
            chunk: FIRST_CHUNK,
            meters: Vec::new(),
        };
        engine.replace_drafters(drafters);
        engine
    }

    /// The target.
    pub fn target(&self) -> &dyn Target {
        self.target.as_ref()
    }

    /// The drafter of this index, if it has not failed.
    pub fn drafter(&self, at: usize) -> Option<&dyn Drafter> {
        self.drafting.drafter(at)
    }

    /// Replaces the drafters and truncates all KV caches, because the new drafters have observed
    /// nothing of the text.
    pub fn replace_drafters(&mut self, drafters: impl IntoIterator<Item = Box<dyn Drafter>>) {
        self.drafting = DrafterSet::new(drafters.into_iter().collect());
        self.target.set_features(self.drafting.features().unwrap_or_default());
        // Target and drafters may share a device.
        self.meters.clear();
        let of_drafters = self.drafting.working().filter_map(Drafter::traffic);
        for meter in self.target.traffic().into_iter().chain(of_drafters) {
            if !self.meters.iter().any(|other| other.is_same(&meter)) {
                self.meters.push(meter);
            }
        }
        self.forget();
    }

    /// What has been sent over the buses to the GPUs so far.
    pub fn traffic(&self) -> Traffic {
        let mut all = Traffic::default();
        for meter in &self.meters {
            all += meter.read();
        }
        all
    }

    /// Whether any part of it runs on a GPU with our own shaders.
    pub fn is_on_gpu(&self) -> bool {
        !self.meters.is_empty()
    }

    /// The tokens after `prompt` in the text that was decoded last, if that text begins with it.
    pub fn text_after(&self, prompt: &[u32]) -> Option<&[u32]> {
        self.text.strip_prefix(prompt)
    }

    /// Truncates all KV caches, so that no prefix is reused.
    pub fn forget(&mut self) {
        self.target.truncate(0);
        self.text.clear();
        self.drafting.truncate(0);
        self.pending_features.clear();
        if let Some(features) = &mut self.observed_features {
            features.clear();
        }
    }

    /// Forgets all texts: the caches, and what drafters remember beyond them.
    pub fn start_over(&mut self) {
        self.forget();
        self.drafting.start_over();
    }

    /// Rolls the caches back to the common prefix of their text and `prompt` and returns its
    /// length. At least the prompt's last token is run again, for its logits. With a drafter the
    /// last common token is run again too, because the drafter needs its feature together with the
    /// next token. So are tokens that were computed on another device than they would be now.
    pub(super) fn reuse(&mut self, request: &Request) -> usize {
        let prompt = &request.prompt;
        let alike = self.text.iter().zip(prompt).take_while(|(a, b)| a == b).count();
        let mut common = alike.min(self.target.len()).min(prompt.len() - 1);
        if self.drafting.any() {
            common = common.saturating_sub(1).min(self.drafting.observed);
        }
        common = self.target.begin_prompt(&request.asked, common);
        self.target.truncate(common);
        self.text.truncate(common);
        self.drafting.truncate(common);
        self.pending_features.clear();
        let width = self.target.feature_width();
        if let Some(features) = &mut self.observed_features {
            features.truncate(common * width);
        }
        common
    }

    /// Prefills the next chunk of the prompt; returns the last token's logits. Drafters only take
    /// note, so that their own pass over the prompt does not delay the first token, except for
    /// the one in `beside`, which reads at the same time. `beside` is its number, and the blocks of
    /// its trees.
    pub(super) fn prefill(
        &mut self,
        rest: &[u32],
        beside: Option<(usize, usize)>,
    ) -> Result<Vec<f32>, TargetError> {
        let start = Instant::now();
        let slice = &rest[..self.target.next_rows(self.chunk).min(rest.len())];
        let reading = beside.and_then(|(drafter, blocks)| {
            let prompt = [&self.text, rest].concat();
            self.drafting.read_beside(drafter, prompt, blocks)
        });
        let read = self.target.prefill(slice);
        drop(reading);
        let verified = match read {
            Ok(verified) => verified,
            Err(error) => {
                self.recover(error)?;
                self.target.prefill(slice)?
            }
        };
        self.text.extend_from_slice(slice);
        self.observe(&verified.features);
        // The last chunk of a prompt is shorter and tells nothing about speed; neither does a chunk
        // on another device.
        if slice.len() == self.chunk {
            match start.elapsed() {
                time if time < SHORT => self.chunk = (self.chunk * 2).min(LARGEST_CHUNK),
                time if time > LONG => self.chunk = (self.chunk / 2).max(SMALLEST_CHUNK),
                _ => {}
            }
        }
        Ok(verified.logits)
    }

    /// Continues after the target's device has failed, on the device that it has in reserve, which
    /// reads the committed text again. What was drafted stays.
    ///
    /// # Errors
    /// `error` itself if it is a different error, or if there is no device in reserve.
    pub(super) fn recover(&mut self, error: TargetError) -> Result<(), TargetError> {
        if !matches!(error, TargetError::Device(_)) {
            return Err(error);
        }
        let committed = self.target.len();
        let goes_on = match self.target.fall_back() {
            Ok(goes_on) => goes_on,
            Err(why) => {
                tracing::warn!("the target cannot move to another device: {why}");
                return Err(error);
            }
        };
        for tokens in self.text[..committed].chunks(LARGEST_CHUNK) {
            self.target.prefill(tokens)?;
        }
        self.drafting.notices.push(format!("{error}; {goes_on}"));
        Ok(())
    }

    /// Appends the root of the next tree: a token of the text whose position is not committed.
    pub(super) fn push_root(&mut self, token: u32) {
        self.text.push(token);
        self.observe(&[]);
    }

    /// Commits `path` of the verified tree and drops the KV rows of rejected nodes; `features` are
    /// those of all nodes.
    pub(super) fn commit(&mut self, tree: &Tree, path: &[usize], features: &[f32]) {
        let width = self.target.feature_width();
        self.target.commit(path);
        self.text.extend(path[1..].iter().map(|&node| tree.nodes()[node].token));
        let rows = path.iter().map(|&node| &features[node * width..(node + 1) * width]);
        let features: Vec<f32> = rows.flatten().copied().collect();
        self.observe(&features);
    }

    /// Adds the features of positions just committed and lets the drafters observe every pair that
    /// is complete.
    fn observe(&mut self, features: &[f32]) {
        if !self.drafting.any() {
            return;
        }
        self.pending_features.extend_from_slice(features);
        let width = self.target.feature_width();
        let from = self.drafting.observed;
        let pairs =
            (self.text.len() - from).saturating_sub(1).min(self.pending_features.len() / width);
        if pairs > 0 {
            let tokens = &self.text[from + 1..=from + pairs];
            let features = &self.pending_features[..pairs * width];
            self.drafting.observe(features, tokens);
            if let Some(observed) = self.observed_features.as_mut()
                && self.drafting.features().is_some()
            {
                observed.extend_from_slice(features);
            }
            self.pending_features.drain(..pairs * width);
        }
    }
}
