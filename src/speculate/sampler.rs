//! From logits to the target's token: processors, then one draw per position.
//!
//! The processors run in this order, each on the result of the previous one:
//! 1. penalties on the raw logits of tokens in the [`TokenUses`]: repetition (divides positive,
//!    multiplies negative logits), then presence and frequency (subtracted);
//! 2. temperature (division);
//! 3. top-p over the whole distribution, then top-k, then min-p. Each keeps the first tokens in
//!    order of probability (ties by lower id), so the shortest of the three lists remains.
//!
//! The draw is Gumbel-max: the argmax of scaled logit + noise over the tokens that remain, with
//! noise that depends only on seed, position and token ([`Noise`]).

use super::history::TokenUses;
use super::logprobs::{Filter, Logprobs};
use super::noise::{GumbelTopK, Noise};
use super::rows;
use crate::kernels::sum_exp;
use serde::{Deserialize, Serialize};

/// Temperatures up to this one are greedy, as in EAGLE's code.
const GREEDY: f32 = 1e-5;
/// How many tokens are sorted at first for top-p; it grows until their mass suffices.
const FIRST_HEAD: usize = 64;

/// How the target's token is drawn. Temperature 0 is greedy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SamplerSettings {
    /// 0 takes the likeliest token.
    pub temperature: f32,
    /// Keep the k likeliest; 0 keeps all.
    pub top_k: usize,
    /// Nucleus mass; 1 keeps all.
    pub top_p: f32,
    /// Keep tokens with at least this fraction of the likeliest token's probability; 0 keeps all.
    pub min_p: f32,
    /// Divides positive logits and multiplies negative logits of tokens already used; 1 changes
    /// nothing.
    pub repetition_penalty: f32,
    /// Subtracted once from tokens already used.
    pub presence_penalty: f32,
    /// Subtracted for every earlier use.
    pub frequency_penalty: f32,
    /// The same seed gives the same text.
    pub seed: u64,
}

impl Default for SamplerSettings {
    fn default() -> Self {
        Self {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            seed: 0,
        }
    }
}

impl SamplerSettings {
    /// The highest temperature that can be chosen: beyond it any model writes noise.
    pub const HOTTEST: f32 = 2.0;

    /// Whether the likeliest token is always taken.
    pub fn is_greedy(&self) -> bool {
        self.temperature <= GREEDY || self.temperature.is_nan()
    }

    /// These settings, with the values of `found` where they are still those of `before`.
    pub fn replacing(&self, before: &Self, found: &Self) -> Self {
        fn pick<T: PartialEq>(now: T, before: T, found: T) -> T {
            if now == before { found } else { now }
        }
        let number = |of: fn(&Self) -> f32| pick(of(self), of(before), of(found));
        Self {
            temperature: number(|s| s.temperature),
            top_k: pick(self.top_k, before.top_k, found.top_k),
            top_p: number(|s| s.top_p),
            min_p: number(|s| s.min_p),
            repetition_penalty: number(|s| s.repetition_penalty),
            presence_penalty: number(|s| s.presence_penalty),
            frequency_penalty: number(|s| s.frequency_penalty),
            seed: pick(self.seed, before.seed, found.seed),
        }
    }

    fn penalises(&self) -> bool {
        self.repetition_penalty != 1.0
            || self.presence_penalty != 0.0
            || self.frequency_penalty != 0.0
    }

    /// The logit of a token that was used so often.
    fn penalised(&self, logit: f32, uses: u32) -> f32 {
        let penalty = self.repetition_penalty;
        let logit = if logit > 0.0 { logit / penalty } else { logit * penalty };
        logit - (self.presence_penalty + self.frequency_penalty * uses as f32)
    }

    pub(super) fn filters(&self) -> bool {
        self.top_k > 0 || self.top_p < 1.0 || self.min_p > 0.0
    }
}

/// What the filters left of the latest row: the first tokens by logit, ties by lower id.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    settings: SamplerSettings,
    count: usize,
    best: f32,
    last: (u32, f32),
}

impl Kept {
    fn new(kept: &[(u32, f32)], settings: SamplerSettings) -> Option<Self> {
        let (first, last) = (kept.first()?, kept.last()?);
        Some(Self { settings, count: kept.len(), best: first.1, last: *last })
    }

    /// The filter that kept a token of this logit from the draw; `None` if it was left.
    pub(super) fn cuts(&self, token: u32, logit: f32) -> Option<Filter> {
        let logit = rows::clamp(logit);
        let (last, least) = self.last;
        if logit > least || logit == least && token <= last {
            return None;
        }
        let share = rows::exp((logit - self.best) / self.settings.temperature);
        Some(match self.settings {
            SamplerSettings { top_k, .. } if top_k == self.count => Filter::TopK,
            SamplerSettings { min_p, .. } if share < min_p => Filter::MinP,
            _ => Filter::TopP,
        })
    }
}

/// Draws the target's tokens. Between draws it keeps only buffers, and what the filters left of the
/// latest row.
#[derive(Clone, Debug, Default)]
pub struct Sampler {
    /// The settings for drawing; they may be changed between draws.
    pub settings: SamplerSettings,
    /// The tokens that the user forces, by position of the text: they are drawn there whatever the
    /// logits.
    pub forced: Vec<(usize, u32)>,
    scratch: Vec<f32>,
    kept: Option<Kept>,
}

impl Sampler {
    /// A sampler with these settings.
    pub fn new(settings: SamplerSettings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// The token at `position` of the text (0 is the first token of the prompt), from its raw
    /// logits `[vocab]` and the text before it.
    pub fn draw(&mut self, logits: &[f32], position: usize, history: &TokenUses) -> u32 {
        let drawn = self.draw_freely(logits, position, history);
        self.forced_at(position).unwrap_or(drawn)
    }

    /// The token that is forced at this position.
    pub fn forced_at(&self, position: usize) -> Option<u32> {
        self.forced.iter().find(|forced| forced.0 == position).map(|forced| forced.1)
    }

    /// What the target thought of the position that was drawn last, where `taken` was drawn. It
    /// changes no draw.
    pub fn logprobs(&self, logits: &[f32], taken: u32, history: &TokenUses) -> Logprobs {
        let settings = &self.settings;
        let penalised = |token: u32| {
            let uses = history.uses_of(token).filter(|_| settings.penalises())?;
            Some(settings.penalised(logits[token as usize], uses))
        };
        Logprobs::of(logits, taken, penalised, self.kept.as_ref())
    }

    fn draw_freely(&mut self, logits: &[f32], position: usize, history: &TokenUses) -> u32 {
        let settings = self.settings;
        self.kept = None;
        if settings.is_greedy() {
            return rows::argmax(self.penalise(logits, history));
        }
        let noise = Noise::new(settings.seed, position);
        let row = self.penalise(logits, history);
        let kept = settings.filters().then(|| head(row, &settings));
        let top = top_of(row, kept.as_deref());
        let scaled = |x: f32| f64::from((rows::clamp(x) - top) / settings.temperature);
        let mut noisy = GumbelTopK::new(noise, 1.0, 1);
        match kept {
            Some(kept) => {
                self.kept = Kept::new(&kept, settings);
                for (token, x) in kept {
                    noisy.offer(token, scaled(x));
                }
            }
            None => noisy.offer_row(row, |token| token, scaled),
        }
        noisy.best().first().map_or(0, |&(token, _)| token)
    }

    /// The distribution that [`Self::draw`] draws from: (token, probability), likeliest first,
    /// without tokens of probability 0. A greedy sampler has a single token.
    pub fn distribution(&mut self, logits: &[f32], history: &TokenUses) -> Vec<(u32, f32)> {
        let settings = self.settings;
        let row = self.penalise(logits, history);
        if settings.is_greedy() {
            return vec![(rows::argmax(row), 1.0)];
        }
        let kept = head(row, &settings);
        let top = top_of(row, Some(&kept));
        let weight = |x: f32| f64::from(rows::exp((x - top) / settings.temperature));
        let total: f64 = kept.iter().map(|&(_, x)| weight(x)).sum();
        let shares = kept.into_iter().map(|(token, x)| (token, (weight(x) / total) as f32));
        shares.filter(|&(_, p)| p > 0.0).collect()
    }

    /// The logits with the penalties of `history`.
    fn penalise<'a>(&'a mut self, logits: &'a [f32], history: &TokenUses) -> &'a [f32] {
        let settings = self.settings;
        if !settings.penalises() {
            return logits;
        }
        self.scratch.clear();
        self.scratch.extend_from_slice(logits);
        for (token, uses) in history.uses() {
            let Some(x) = self.scratch.get_mut(token as usize) else { continue };
            *x = settings.penalised(*x, uses);
        }
        &self.scratch
    }
}

/// The largest logit of a row, from what [`head`] has left of it if it was called.
pub(super) fn top_of(row: &[f32], kept: Option<&[(u32, f32)]>) -> f32 {
    match kept {
        Some(kept) => kept.first().map_or(0.0, |&(_, x)| x),
        None => rows::clamp(rows::max(row)),
    }
}

/// The tokens that top-p, top-k and min-p leave, as (token, logit), likeliest first; at least one
/// if any logit is a number.
pub(super) fn head(row: &[f32], settings: &SamplerSettings) -> Vec<(u32, f32)> {
    let limit = if settings.top_k > 0 { settings.top_k.min(row.len()) } else { row.len() };
    let top = rows::clamp(rows::max(row));
    let scaled = |x: f32| (rows::clamp(x) - top) / settings.temperature;
    let nucleus = settings.top_p < 1.0;
    let mass = if nucleus {
        f64::from(settings.top_p) * sum_exp(row, top, settings.temperature)
    } else {
        f64::INFINITY
    };
    // Sorting a whole vocabulary is expensive and the result is usually short, so sort a few
    // tokens, and more only if that was not enough.
    let short = nucleus || settings.min_p > 0.0;
    let mut size = if short { FIRST_HEAD.min(limit) } else { limit };
    loop {
        let mut kept = best(row, size);
        let mut sum = 0.0;
        let end = kept.iter().position(|&(_, x)| {
            let enough = sum >= mass && sum > 0.0;
            sum += f64::from(rows::exp(scaled(x)));
            enough || rows::exp(scaled(x)) < settings.min_p
        });
        match end {
            Some(end) => kept.truncate(end.max(1)),
            None if size < limit => {
                size = (size * 8).min(limit);
                continue;
            }
            None => {}
        }
        for (_, x) in &mut kept {
            *x = rows::clamp(*x);
        }
        return kept;
    }
}

/// The `k` largest numbers of `row`, best first, ties by lower id.
fn best(row: &[f32], k: usize) -> Vec<(u32, f32)> {
    if k <= FIRST_HEAD {
        return rows::top_k(row, k);
    }
    let order = |a: &(u32, f32), b: &(u32, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
    // Adding 0 turns -0 into 0, which total_cmp would distinguish.
    let numbers = (0..).zip(row).map(|(token, &x)| (token, x + 0.0));
    let mut all: Vec<(u32, f32)> = numbers.filter(|&(_, x)| x > f32::NEG_INFINITY).collect();
    if k < all.len() {
        all.select_nth_unstable_by(k, order);
        all.truncate(k);
    }
    all.sort_unstable_by(order);
    all
}
