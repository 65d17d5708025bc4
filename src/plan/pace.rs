//! How fast rounds of one kind are, in tokens per millisecond: what this answer shows, combined
//! with what many answers have shown. It must not depend on the kind.

/// How many rounds the long-run mean counts for against those of this answer.
const PRIOR: f64 = 3.0;
/// The same for a model: what its draft gains varies more from round to round than between texts,
/// and a round that it loses costs more than one without a draft saves.
const PRIOR_OF_MODEL: f64 = 6.0;
/// The factor by which earlier rounds of this answer lose weight with each round, because texts
/// change.
const FADE: f64 = 0.9;
/// How much of that weight carries over to the next answer.
const CARRIED: f64 = 0.4;
/// How many rounds the long-run mean covers; at the start it covers all rounds so far and the
/// expected one.
const LONG: f64 = 32.0;

/// Tokens and time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Mean {
    pub(super) tokens: f64,
    pub(super) ms: f64,
}

impl Mean {
    /// Whether a clock could have produced it: a file may contain anything.
    pub(super) fn is_sound(self) -> bool {
        let positive = |x: f64| x.is_finite() && x > 0.0;
        positive(self.tokens) && positive(self.ms)
    }
}

/// The pace of one kind of round, in means of tokens and of time per round. The long-run mean is
/// x̄ += (x − x̄) / n with n up to [`LONG`]. The latest rounds of this answer are added to it as
/// (PRIOR·x̄ + Σ FADEⁱ·xᵢ) / (PRIOR + Σ FADEⁱ).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pace {
    /// An average round.
    long: Mean,
    /// Sums over this answer; the latest rounds count most.
    lately: Mean,
    /// How many rounds `lately` covers, with the same weights.
    rounds: f64,
    /// How many rounds `long` covers.
    known: f64,
}

impl Pace {
    /// Expects rounds like this one.
    pub(super) fn new(long: Mean) -> Self {
        Self { long, lately: Mean::default(), rounds: 0.0, known: 1.0 }
    }

    /// Starts from `seen` observed rounds with this mean.
    pub(super) fn recalled(long: Mean, seen: f64) -> Self {
        Self { known: (1.0 + seen).clamp(1.0, LONG), ..Self::new(long) }
    }

    /// How many rounds the average covers, without the one that was only expected.
    pub(super) fn seen(&self) -> f64 {
        self.known - 1.0
    }

    /// Notes a round.
    pub(super) fn note(&mut self, tokens: f64, ms: f64) {
        self.lately.tokens = self.lately.tokens * FADE + tokens;
        self.lately.ms = self.lately.ms * FADE + ms;
        self.rounds = self.rounds * FADE + 1.0;
        self.known = (self.known + 1.0).min(LONG);
        self.long.tokens += (tokens - self.long.tokens) / self.known;
        self.long.ms += (ms - self.long.ms) / self.known;
    }

    /// Everything on the machine now takes this many times as long as when these rounds were timed.
    pub(super) fn slow_down(&mut self, factor: f64) {
        self.lately.ms *= factor;
        self.long.ms *= factor;
    }

    /// Begins another answer.
    pub(super) fn begin_answer(&mut self) {
        self.lately.tokens *= CARRIED;
        self.lately.ms *= CARRIED;
        self.rounds *= CARRIED;
    }

    /// Whether the average is known and no longer a guess.
    pub(super) fn is_known(&self) -> bool {
        self.known >= LONG / 2.0
    }

    /// An average round.
    pub(super) fn long(&self) -> Mean {
        self.long
    }

    /// A round as it is currently expected.
    pub(super) fn expected(&self) -> Mean {
        self.lately_and(PRIOR, self.long.tokens)
    }

    /// The same for a model in a text where the fraction `share` of its average acceptance is
    /// expected.
    pub(super) fn expected_in(&self, share: f64) -> Mean {
        self.lately_and(PRIOR_OF_MODEL, 1.0 + share * (self.long.tokens - 1.0))
    }

    /// The latest rounds of this answer, and `prior` average ones of `tokens` tokens.
    fn lately_and(&self, prior: f64, tokens: f64) -> Mean {
        let weight = prior + self.rounds;
        Mean {
            tokens: (prior * tokens + self.lately.tokens) / weight,
            ms: (prior * self.long.ms + self.lately.ms) / weight,
        }
    }
}

/// How well drafts do in this text compared with others: what is hard for one model is hard for
/// all.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Ease {
    rounds: f64,
    accepted: f64,
    expected: f64,
}

impl Ease {
    /// How many expected rounds count against those of the text.
    const PRIOR: f64 = 8.0;

    /// Notes how many tokens of a draft were accepted, and how many are accepted on average.
    pub(super) fn note(&mut self, accepted: f64, expected: f64) {
        self.rounds += 1.0;
        self.accepted += accepted;
        self.expected += expected.max(0.0);
    }

    /// Begins another answer: the next text may be of another kind.
    pub(super) fn fade(&mut self) {
        for sum in [&mut self.rounds, &mut self.accepted, &mut self.expected] {
            *sum *= CARRIED;
        }
    }

    /// The fraction of the average acceptance that is expected here, which is 1 without rounds:
    /// (PRIOR + n·Σ accepted / Σ expected) / (PRIOR + n).
    pub(super) fn share(&self) -> f64 {
        if self.expected <= 0.0 {
            return 1.0;
        }
        let here = self.accepted / self.expected;
        (Self::PRIOR + self.rounds * here) / (Self::PRIOR + self.rounds)
    }
}

/// The results of rounds of one kind, with equal weight within an answer: this tells a loss from
/// bad luck.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Tally {
    rounds: f64,
    tokens: f64,
    /// The sum of the squares of their tokens.
    squares: f64,
    ms: f64,
}

impl Tally {
    /// Notes a round.
    pub(super) fn note(&mut self, tokens: f64, ms: f64) {
        self.rounds += 1.0;
        self.tokens += tokens;
        self.squares += tokens * tokens;
        self.ms += ms;
    }

    /// As [`Pace::slow_down`].
    pub(super) fn slow_down(&mut self, factor: f64) {
        self.ms *= factor;
    }

    /// Begins another answer, or resumes after rounds of another kind: earlier observations count
    /// less.
    pub(super) fn fade(&mut self) {
        for sum in [&mut self.rounds, &mut self.tokens, &mut self.squares, &mut self.ms] {
            *sum *= CARRIED;
        }
    }

    /// Tokens per millisecond that such rounds may truly have: one standard error above the
    /// observed mean, (x̄ + s/√n) · n / Σ ms. It is unlimited while there are too few rounds to
    /// know how much they vary.
    pub(super) fn may_have(&self) -> f64 {
        const KNOWN: f64 = 6.0;
        if self.rounds < KNOWN {
            return f64::INFINITY;
        }
        let mean = self.tokens / self.rounds;
        let variance = (self.squares / self.rounds - mean * mean).max(0.0);
        (mean + (variance / self.rounds).sqrt()) * self.rounds / self.ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(pace: &Pace) -> f64 {
        pace.expected().tokens / pace.expected().ms
    }

    #[test]
    fn ten_rounds_outweigh_what_was_expected_and_the_next_answer_remembers_less() {
        let mut pace = Pace::recalled(Mean { tokens: 1.0, ms: 2.0 }, LONG);
        assert_eq!(rate(&pace), 0.5);
        for _ in 0..10 {
            pace.note(3.0, 2.0);
        }
        assert!(rate(&pace) > 1.1, "{pace:?}");
        assert!(pace.long().tokens < 1.7, "the long run is long: {pace:?}");
        let before = rate(&pace);
        pace.begin_answer();
        assert!(rate(&pace) < before && rate(&pace) > 0.6, "{pace:?}");
        for _ in 0..10 {
            pace.note(1.0, 2.0);
        }
        assert!(rate(&pace) < 0.75, "{pace:?}");
    }

    #[test]
    fn a_first_guess_is_soon_outweighed_for_good() {
        let mut pace = Pace::new(Mean { tokens: 4.0, ms: 2.0 });
        for _ in 0..4 {
            pace.note(1.0, 2.0);
        }
        assert!(pace.long().tokens < 1.7, "{pace:?}");
    }

    #[test]
    fn a_tally_knows_a_loss_from_bad_luck() {
        let mut tally = Tally::default();
        for _ in 0..5 {
            tally.note(1.0, 1.0);
        }
        assert_eq!(tally.may_have(), f64::INFINITY, "five rounds say nothing");
        tally.note(1.0, 1.0);
        assert!((tally.may_have() - 1.0).abs() < 1e-9, "{tally:?}");
        // Earlier observations shorten the proof.
        tally.fade();
        for _ in 0..3 {
            tally.note(1.0, 1.0);
        }
        assert_eq!(tally.may_have(), f64::INFINITY);
        tally.note(1.0, 1.0);
        assert!((tally.may_have() - 1.0).abs() < 1e-9, "{tally:?}");
        // The same mean from rounds that vary may have been luck.
        let mut tally = Tally::default();
        for _ in 0..4 {
            tally.note(0.5, 1.0);
        }
        for _ in 0..4 {
            tally.note(1.5, 1.0);
        }
        let most = tally.may_have();
        assert!(most > 1.15 && most < 1.2, "{most}");
        for i in 0..400 {
            tally.note(if i % 2 == 0 { 0.5 } else { 1.5 }, 1.0);
        }
        assert!(tally.may_have() < 1.03, "{tally:?}");
    }

    #[test]
    fn a_hard_text_is_known_after_some_rounds() {
        let mut ease = Ease::default();
        assert_eq!(ease.share(), 1.0);
        for _ in 0..8 {
            ease.note(0.0, 2.0);
        }
        assert_eq!(ease.share(), 0.5);
        ease.fade();
        assert!(ease.share() > 0.7, "{ease:?}");
        for _ in 0..50 {
            ease.note(3.0, 2.0);
        }
        assert!((1.3..1.5).contains(&ease.share()), "{ease:?}");
        let mut pace = Pace::recalled(Mean { tokens: 3.0, ms: 2.0 }, LONG);
        assert_eq!(pace.expected_in(0.5).tokens, 2.0);
        for _ in 0..40 {
            pace.note(3.0, 2.0);
        }
        assert!(pace.expected_in(0.5).tokens > 2.6, "its own rounds weigh more: {pace:?}");
        // A draft of which nothing was ever accepted says nothing about the text.
        let mut none = Ease::default();
        none.note(1.0, 0.0);
        assert_eq!(none.share(), 1.0);
    }

    #[test]
    fn what_no_clock_gives_is_not_sound() {
        assert!(Mean { tokens: 1.0, ms: 0.5 }.is_sound());
        for ms in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(!Mean { tokens: 1.0, ms }.is_sound());
        }
    }
}
