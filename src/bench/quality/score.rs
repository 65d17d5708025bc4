//! Perplexity and divergence from logits. It must not depend on models.

use std::time::Duration;

/// What logits predict.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TokenPrediction<'a> {
    logits: &'a [f32],
    /// ln Σ exp(logit).
    log_total: f64,
    /// The likeliest token, the first of equals.
    best: u32,
}

impl<'a> TokenPrediction<'a> {
    /// Of `logits`, at least one.
    pub(super) fn of(logits: &'a [f32]) -> Self {
        let mut best = 0;
        for (token, logit) in logits.iter().enumerate() {
            if *logit > logits[best] {
                best = token;
            }
        }
        let peak = f64::from(logits[best]);
        let total: f64 = logits.iter().map(|&logit| (f64::from(logit) - peak).exp()).sum();
        Self { logits, log_total: peak + total.ln(), best: best as u32 }
    }

    fn log_probability(&self, token: u32) -> f64 {
        self.logits
            .get(token as usize)
            .map_or(f64::NEG_INFINITY, |&logit| f64::from(logit) - self.log_total)
    }
}

/// How well a model predicted the tokens of a text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Score {
    /// Tokens scored.
    pub tokens: usize,
    /// Sum of their log-probabilities.
    pub log_probability: f64,
    /// Time of the passes.
    pub time: Duration,
}

impl Score {
    pub(super) fn count(&mut self, prediction: &TokenPrediction<'_>, token: u32) {
        self.tokens += 1;
        self.log_probability += prediction.log_probability(token);
    }

    /// exp of the mean negative log-probability; 1 of no tokens.
    pub fn perplexity(&self) -> f64 {
        (-self.log_probability / self.tokens.max(1) as f64).exp()
    }
}

/// How far predictions are from those of another model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Divergence {
    /// Positions compared.
    pub positions: usize,
    /// Sum over positions of KL(other ‖ ours), in nats.
    pub kl: f64,
    /// The largest KL of one position.
    pub largest: f64,
    /// Positions at which both have the same likeliest token.
    pub same_best: usize,
}

impl Divergence {
    pub(super) fn count(&mut self, other: &TokenPrediction<'_>, ours: &TokenPrediction<'_>) {
        let terms = other.logits.iter().zip(ours.logits).map(|(&p, &q)| {
            let p = f64::from(p) - other.log_total;
            let q = f64::from(q) - ours.log_total;
            // A token that the other model rules out adds nothing.
            if p == f64::NEG_INFINITY { 0.0 } else { p.exp() * (p - q) }
        });
        // Rounding may put the sum a little below 0.
        let kl = terms.sum::<f64>().max(0.0);
        self.positions += 1;
        self.kl += kl;
        self.largest = self.largest.max(kl);
        self.same_best += usize::from(other.best == ours.best);
    }

    /// Mean KL of a position, in nats.
    pub fn mean_kl(&self) -> f64 {
        self.kl / self.positions.max(1) as f64
    }

    /// Share of positions at which both have the same likeliest token.
    pub fn same_best_share(&self) -> f64 {
        self.same_best as f64 / self.positions.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_logits_have_the_perplexity_of_the_vocabulary() {
        let logits = [2.5; 8];
        let prediction = TokenPrediction::of(&logits);
        let mut score = Score::default();
        for token in 0..8 {
            score.count(&prediction, token);
        }
        assert!((score.perplexity() - 8.0).abs() < 1e-9, "{score:?}");
        score.count(&prediction, 8);
        assert!(score.perplexity().is_infinite(), "a token that cannot be predicted");
    }

    #[test]
    fn kl_of_two_known_distributions() {
        // p = (1/4, 3/4), q = (1/2, 1/2): KL = 1/4 ln 1/2 + 3/4 ln 3/2.
        let p = [0.0, 3.0f32.ln()];
        let q = [7.0, 7.0];
        let mut divergence = Divergence::default();
        divergence.count(&TokenPrediction::of(&p), &TokenPrediction::of(&q));
        let expected = 0.25 * 0.5f64.ln() + 0.75 * 1.5f64.ln();
        assert!((divergence.mean_kl() - expected).abs() < 1e-6, "{divergence:?}");
        assert_eq!(divergence.same_best_share(), 0.0);
    }

    proptest! {
        #[test]
        fn a_model_does_not_diverge_from_itself_and_from_others_never_negatively(
            a in prop::collection::vec(-30.0f32..30.0, 16),
            b in prop::collection::vec(-30.0f32..30.0, 16),
            shift in -50.0f32..50.0,
        ) {
            let shifted: Vec<f32> = a.iter().map(|x| x + shift).collect();
            let mut same = Divergence::default();
            same.count(&TokenPrediction::of(&a), &TokenPrediction::of(&shifted));
            prop_assert!(same.largest < 1e-3, "{same:?}");
            let mut other = Divergence::default();
            other.count(&TokenPrediction::of(&a), &TokenPrediction::of(&b));
            prop_assert!(other.kl >= 0.0 && other.kl.is_finite());
        }
    }
}
