//! The record of one round: the screen, `run --json`, the bench, a saved trace and a replay all
//! read this one. Must never know how it is shown.

use super::ahead::{AheadOutcome, AheadRecord};
use crate::draft::Budget;
use crate::model::Traffic;
use crate::speculate::{Credits, Tree};
use serde::{Deserialize, Serialize};

/// Where a committed token came from. Either way it is the target's own choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Proposed by the draft and confirmed by the target.
    Accepted,
    /// The bonus token: chosen by the target where the accepted path ends.
    Target,
}

/// One token of the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Committed {
    /// Token id.
    pub token: u32,
    /// The text this token completes; empty while a character is still incomplete. Less the
    /// thoughts, once they are told from the answer.
    pub text: String,
    /// The thought that it completes; `None` if it is no part of one, or that is not yet told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thought: Option<String>,
    /// Where it came from.
    pub origin: Origin,
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// The target ended its turn.
    Eos,
    /// A stop string appeared.
    StopString,
    /// The token limit was reached.
    MaxTokens,
    /// The context has no room left.
    ContextFull,
    /// The user stopped it.
    Cancelled,
}

/// Wall-clock split of a round, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// T_D: observing committed tokens and growing the tree.
    pub draft_ms: f64,
    /// T_V: the target's pass over the tree.
    pub verify_ms: f64,
    /// Acceptance, commit, text, bookkeeping.
    pub other_ms: f64,
    /// Of `verify_ms`, how long the drafter drafted ahead during the target's pass.
    #[serde(default)]
    pub ahead_ms: f64,
    /// How long the target waited after its pass for the drafter to stop.
    #[serde(default)]
    pub wait_ms: f64,
    /// Between the rounds: choosing this one's drafter and tree, and learning from it. In none of
    /// the other times.
    #[serde(default)]
    pub plan_ms: f64,
}

impl Timing {
    /// The whole round.
    pub fn total_ms(&self) -> f64 {
        self.draft_ms + self.verify_ms + self.wait_ms + self.other_ms
    }

    /// How long the drafter was idle: the target's pass, less the drafting ahead.
    pub fn draft_idle_ms(&self) -> f64 {
        (self.verify_ms - self.ahead_ms).max(0.0)
    }

    /// How long the target was idle: while it was drafted for, and waited.
    pub fn target_idle_ms(&self) -> f64 {
        self.draft_ms + self.wait_ms
    }
}

impl std::ops::AddAssign for Timing {
    fn add_assign(&mut self, other: Self) {
        self.draft_ms += other.draft_ms;
        self.verify_ms += other.verify_ms;
        self.other_ms += other.other_ms;
        self.ahead_ms += other.ahead_ms;
        self.wait_ms += other.wait_ms;
        self.plan_ms += other.plan_ms;
    }
}

/// One round. Round 0 follows the prefill and has a draft tree as any other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Number of the round in its answer, from 0.
    pub index: usize,
    /// The draft tree that was verified; node 0, the root, is the last committed token.
    pub tree: Tree,
    /// Display text of each node's token (whitespace kept, bytes of split characters as `\xNN`).
    pub labels: Vec<String>,
    /// Accepted nodes from the root's child down; their number is the accepted length. One that
    /// ends the answer is the last.
    pub accepted: Vec<usize>,
    /// The bonus token: the target's own choice where the path ended, root of the next round. Not
    /// in `committed` if an accepted token ended the answer: see [`Self::has_bonus`].
    pub bonus: u32,
    /// Display text of `bonus`.
    pub bonus_label: String,
    /// What this round added to the answer, in order: accepted tokens, then the bonus, cut at the
    /// end of the answer.
    pub committed: Vec<Committed>,
    /// The budget of the tree; the end of the context or of the answer may have cut it.
    pub budget: Budget,
    /// The strategy it was drafted under; empty if none was named.
    #[serde(default)]
    pub strategy: String,
    /// Whether speculation was on.
    pub speculative: bool,
    /// Index in the engine of the drafter whose tree it is; `None` if none proposed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drafter: Option<usize>,
    /// Whether the tree was drafted ahead, while the target verified the one before.
    #[serde(default, alias = "foreseen")]
    pub drafted_ahead: bool,
    /// What was drafted ahead in sequences while the target verified this tree (DuoDecoding).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead: Option<AheadRecord>,
    /// What was drafted ahead for the likeliest outcomes of this round while the target verified
    /// its tree (`--overlap`), in that order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outcomes: Vec<AheadOutcome>,
    /// Whether it was never decoded but worked out from a recorded one (what-if in a replay): the
    /// tokens are the recorded ones, the times those of the cost model.
    #[serde(default, skip_serializing_if = "is_false")]
    pub predicted: bool,
    /// Where its time went.
    pub timing: Timing,
    /// What went over the bus to the GPU and back; nothing without one.
    #[serde(default, skip_serializing_if = "Traffic::is_none")]
    pub traffic: Traffic,
    /// Committed positions of the target after the round.
    pub context: usize,
    /// Set on the last round of an answer.
    pub finish: Option<Finish>,
}

// What is left out of the lines: serde asks with a reference.
pub(super) fn is_false(value: &bool) -> bool {
    !value
}

fn is_zero(value: &usize) -> bool {
    *value == 0
}

impl Round {
    /// Whether the bonus belongs to the answer: an accepted token did not end it before.
    pub fn has_bonus(&self) -> bool {
        self.committed.last().is_some_and(|token| token.origin == Origin::Target)
    }

    /// Who is credited with the accepted tokens.
    pub fn credits(&self) -> Credits {
        let mut credits = Credits::default();
        self.accepted.iter().for_each(|&node| credits.add(self.tree.nodes()[node].sources));
        credits
    }
}

/// Totals of one answer. τ = committed tokens / target passes, prefill and its token excluded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Of these, reused from the KV cache.
    pub reused_tokens: usize,
    /// Tokens of the answer: the first one, which the prefill gave, and all that rounds committed,
    /// the token that ends the text included. Every place that shows a count shows this one.
    pub tokens: usize,
    /// Target passes after the prefill.
    pub rounds: usize,
    /// Rounds whose tree was drafted ahead, while the target verified the one before.
    #[serde(default, alias = "foreseen")]
    pub drafted_ahead: usize,
    /// Rounds that were not decoded but predicted, in a replay.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub predicted: usize,
    /// Accepted tokens by who proposed them.
    #[serde(default, skip_serializing_if = "Credits::is_empty")]
    pub accepted_by: Credits,
    /// τ: mean tokens committed a round.
    pub tau: f64,
    /// Committed tokens per second of decoding, prefill excluded.
    pub tokens_per_second: f64,
    /// Prefill.
    pub prefill_ms: f64,
    /// Where the time of all rounds went.
    #[serde(flatten)]
    pub timing: Timing,
    /// What went over the bus to the GPU and back in all rounds; nothing without one.
    #[serde(default, skip_serializing_if = "Traffic::is_none")]
    pub traffic: Traffic,
    /// The same of the prefill, which is not among the rounds.
    #[serde(default, skip_serializing_if = "Traffic::is_none")]
    pub prefill_traffic: Traffic,
    /// Why the answer ended.
    pub finish: Option<Finish>,
}

impl Summary {
    /// Adds a round that follows those counted, with the tokens it committed.
    pub fn count(&mut self, round: &Round) {
        self.tokens += round.committed.len();
        self.add(round);
    }

    /// Adds a round whose tokens are counted already.
    pub(super) fn add(&mut self, round: &Round) {
        self.rounds += 1;
        self.drafted_ahead += usize::from(round.drafted_ahead);
        self.predicted += usize::from(round.predicted);
        self.timing += round.timing;
        self.traffic += round.traffic;
        self.accepted_by.add_all(&round.credits());
        // The prefill gave the first token.
        let won = self.tokens.saturating_sub(1) as f64;
        let seconds = self.timing.total_ms() / 1e3;
        self.tau = won / self.rounds as f64;
        self.tokens_per_second = if seconds > 0.0 { won / seconds } else { 0.0 };
    }
}
