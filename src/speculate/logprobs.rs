//! What the target thought of one position: its likeliest tokens, and which of them the sampler
//! left to the draw. Small enough to be kept for every token of a conversation.

use super::rows;
use super::sampler::Kept;
use crate::kernels::log_sum_exp;
use serde::{Deserialize, Serialize};

/// How many of the target's tokens are kept of each position.
pub const LIKELIEST: usize = 10;

/// A log-probability in 16 bits: how many thousandths of a nat it is below 0, at most 65.535.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "f32", into = "f64")]
pub struct LogProb(u16);

impl From<f32> for LogProb {
    fn from(nats: f32) -> Self {
        // The cast saturates: minus infinity and NaN become the smallest probability.
        Self(if nats.is_nan() { u16::MAX } else { (-nats * 1e3).round() as u16 })
    }
}

impl From<LogProb> for f64 {
    fn from(LogProb(thousandths): LogProb) -> Self {
        (0.0 - Self::from(thousandths)) / 1e3
    }
}

impl LogProb {
    /// The probability, 0 to 1.
    pub fn probability(self) -> f64 {
        f64::from(self).exp()
    }

    /// How surprising the token was: −log₂ of its probability, in bits.
    pub fn bits(self) -> f64 {
        -f64::from(self) / std::f64::consts::LN_2
    }
}

/// Which filter kept the sampler from a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Filter {
    /// The likelier tokens had this mass already.
    TopP,
    /// So many tokens were likelier.
    TopK,
    /// It was too unlikely next to the likeliest.
    MinP,
}

/// One of the target's likeliest tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Likely {
    /// Token id.
    pub token: u32,
    /// By the target's raw logits, before penalties and temperature.
    pub logprob: LogProb,
    /// Why it could not be drawn; `None` if it could.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Filter>,
    /// Whether a penalty changed its logit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub penalised: bool,
}

/// What the target thought of the position of a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Logprobs {
    /// The log-probability of the token that was taken there, by the raw logits.
    pub logprob: LogProb,
    /// Its place among all tokens by the raw logits, from 1 on.
    pub rank: u32,
    /// The likeliest tokens, likeliest first: at most [`LIKELIEST`].
    pub top: Box<[Likely]>,
    /// Display text of each of `top`, and then of the token that was taken, if it is not among
    /// them; none where they are kept elsewhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
}

impl Logprobs {
    /// The tokens of [`Self::labels`]; `taken` is the one that was taken.
    pub fn tokens(&self, taken: u32) -> impl Iterator<Item = u32> + '_ {
        let top = self.top.iter().map(|likely| likely.token);
        let is_top = top.clone().any(|token| token == taken);
        top.chain((!is_top).then_some(taken))
    }

    /// Of a row of raw logits from which `taken` was taken. `penalised` is the logit of a token
    /// after the penalties; `None` if it has none. `kept` is what the filters left.
    pub(super) fn of(
        logits: &[f32],
        taken: u32,
        penalised: impl Fn(u32) -> Option<f32>,
        kept: Option<&Kept>,
    ) -> Self {
        let total = log_sum_exp(logits);
        let best = rows::top_k(logits, LIKELIEST);
        let top = best.iter().map(|&(token, raw)| {
            let penalised = penalised(token);
            let logit = penalised.unwrap_or(logits[token as usize]);
            let cut = kept.and_then(|kept| kept.cuts(token, logit));
            Likely { token, logprob: (raw - total).into(), cut, penalised: penalised.is_some() }
        });
        let top = top.collect();
        let own = logits.get(taken as usize).copied().unwrap_or(f32::NEG_INFINITY);
        let place = best.iter().position(|&(token, _)| token == taken);
        let before = place.unwrap_or_else(|| {
            let likelier = logits.iter().filter(|&&x| x > own).count();
            let ties = logits.iter().take(taken as usize).filter(|&&x| x == own).count();
            likelier + ties
        });
        let logprob = (own - total).into();
        Self { logprob, rank: before as u32 + 1, top, labels: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Sampler, SamplerSettings, TokenUses};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_log_probability_survives_json() {
        for (nats, written) in [(0.0, "0.0"), (-0.8934, "-0.893"), (-1e9, "-65.535")] {
            let small = LogProb::from(nats);
            assert_eq!(serde_json::to_string(&small).unwrap(), written);
            assert_eq!(serde_json::from_str::<LogProb>(written).unwrap(), small);
        }
        assert_eq!(LogProb::from(f32::NEG_INFINITY), LogProb::from(f32::NAN));
        assert!((LogProb::from(-std::f32::consts::LN_2).bits() - 1.0).abs() < 1e-3);
    }

    proptest! {
        /// What is not cut is what the sampler draws from, for all filters and penalties.
        #[test]
        fn a_token_is_cut_if_and_only_if_it_cannot_be_drawn(
            row in proptest::collection::vec(-6.0f32..6.0, 12..40),
            used in proptest::collection::vec(0u32..12, 0..6),
            (top_k, top_p, min_p) in (0usize..12, 0.3f32..1.1, 0.0f32..0.4),
            (temperature, repetition_penalty) in (0.2f32..1.5, 0.8f32..1.6),
        ) {
            let settings = SamplerSettings {
                temperature, top_k, top_p, min_p, repetition_penalty, ..SamplerSettings::default()
            };
            let history = TokenUses::new(&used);
            let mut sampler = Sampler::new(settings);
            let token = sampler.draw(&row, 5, &history);
            let found = sampler.logprobs(&row, token, &history);
            let left = sampler.distribution(&row, &history);
            for likely in &found.top {
                let drawable = left.iter().any(|&(token, _)| token == likely.token);
                prop_assert_eq!(likely.cut.is_none(), drawable, "{:?}", likely);
                let penalised = repetition_penalty != 1.0 && used.contains(&likely.token);
                prop_assert_eq!(likely.penalised, penalised);
            }
            let all = rows::log_softmax(&row);
            let own = all[token as usize];
            // Rounded to thousandths.
            prop_assert!((f64::from(found.logprob) - f64::from(own)).abs() < 6e-4);
            let before = |&(at, x): &(usize, &f32)| *x > own || *x == own && at < token as usize;
            prop_assert_eq!(found.rank as usize, all.iter().enumerate().filter(before).count() + 1);
            prop_assert_eq!(found.top.len(), LIKELIEST);
        }
    }
}
