//! The record of one round, which the screen, `run --json`, the bench, a saved trace and a replay
//! all read. It must not depend on how it is shown.

use crate::draft::Budget;
use crate::model::Traffic;
use crate::overlap::{OutcomeRecord, SequencesRecord};
use crate::plan::Strategy;
use crate::speculate::duo::SequencesAhead;
use crate::speculate::{Credits, DrafterId, LogProb, Logprobs, Node, Sources, Tree};
use serde::{Deserialize, Serialize};

/// Where a committed token came from. Unless it was forced, it is the target's own choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Proposed by the draft and accepted by the target.
    Accepted,
    /// The bonus token: chosen by the target where the accepted path ends.
    Target,
    /// Chosen by the user in the place of the target's choice.
    Forced,
}

/// One token of the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Committed {
    /// Token id.
    pub token: u32,
    /// The text that this token completes; empty while a character is still incomplete. Without the
    /// thoughts, once they are separated from the answer.
    pub text: String,
    /// The thought that it completes; `None` if it is not part of a thought, or if that is not yet
    /// known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thought: Option<String>,
    /// Where it came from.
    pub origin: Origin,
    /// What the target thought of its position; `None` in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<Box<Logprobs>>,
}

impl Committed {
    /// Appends what it completes to an answer's text and thought.
    pub fn append_to(&self, text: &mut String, thought: &mut Option<String>) {
        text.push_str(&self.text);
        if let Some(own) = &self.thought {
            thought.get_or_insert_default().push_str(own);
        }
    }
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
    /// Acceptance, commit, text, and bookkeeping.
    pub other_ms: f64,
    /// How much of `verify_ms` the drafter spent drafting ahead.
    #[serde(default)]
    pub ahead_ms: f64,
    /// How long the target waited after its pass for the drafter to stop.
    #[serde(default)]
    pub wait_ms: f64,
    /// Handing the drafter over to its thread and back, in both of these times.
    #[serde(default)]
    pub transfer_ms: f64,
    /// Between rounds: choosing this round's drafter and tree, and learning from it. Not included
    /// in the other times.
    #[serde(default)]
    pub plan_ms: f64,
}

impl Timing {
    /// The whole round.
    pub fn total_ms(&self) -> f64 {
        self.draft_ms + self.verify_ms + self.wait_ms + self.other_ms
    }

    /// How long the drafter was idle: the target's pass minus the drafting ahead.
    pub fn draft_idle_ms(&self) -> f64 {
        (self.verify_ms - self.ahead_ms).max(0.0)
    }

    /// How long the target was idle: while the drafter worked, and while the target waited for it.
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
        self.transfer_ms += other.transfer_ms;
        self.plan_ms += other.plan_ms;
    }
}

/// One round. Round 0 follows the prefill and has a draft tree like any other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Number of the round in its answer, from 0.
    pub index: usize,
    /// The draft tree that was verified; node 0, the root, is the last committed token.
    pub tree: Tree,
    /// Display text of each node's token (whitespace kept, bytes of split characters as `\xNN`).
    pub labels: Vec<String>,
    /// The accepted nodes from the root's child down; their number is the accepted length. A node
    /// that ends the answer is the last.
    pub accepted: Vec<usize>,
    /// The bonus token: the target's own choice where the path ended, and the root of the next
    /// round. It is not in `committed` if an accepted token ended the answer: see
    /// [`Self::has_bonus`].
    pub bonus: u32,
    /// Display text of `bonus`.
    pub bonus_label: String,
    /// What this round added to the answer, in order: accepted tokens, then the bonus token, cut at
    /// the end of the answer.
    pub committed: Vec<Committed>,
    /// The budget of the tree; the end of the context or of the answer may have reduced it.
    pub budget: Budget,
    /// The strategy under which it was drafted; empty if none was named.
    #[serde(default)]
    pub strategy: String,
    /// Whether speculation was on.
    pub speculative: bool,
    /// The index in the engine of the drafter that made the tree; `None` if none proposed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drafter: Option<usize>,
    /// Whether the tree was drafted ahead, while the target verified the previous one.
    #[serde(default, alias = "foreseen")]
    pub drafted_ahead: bool,
    /// Sequences drafted ahead while the target verified this tree (DuoDecoding).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead: Option<SequencesRecord>,
    /// What was drafted ahead for the likeliest outcomes of this round while the target verified
    /// its tree (`--overlap`), in that order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outcomes: Vec<OutcomeRecord>,
    /// Where its time was spent.
    pub timing: Timing,
    /// What was sent over the bus to the GPU and back; zero without a GPU.
    #[serde(default, skip_serializing_if = "Traffic::is_none")]
    pub traffic: Traffic,
    /// How many positions of the target are committed after the round.
    pub context: usize,
    /// Set on the last round of an answer.
    pub finish: Option<Finish>,
}

impl Round {
    /// Whether the bonus token belongs to the answer, that is, no accepted token ended it before.
    pub fn has_bonus(&self) -> bool {
        self.committed.len() > self.accepted.len()
    }

    /// What the draft proposed for the position of committed token `at`, likeliest first, each with
    /// its display text; empty if the tree ended before it.
    pub fn guesses(&self, at: usize) -> Vec<(Guess, &str)> {
        let nodes = self.tree.nodes();
        let parent = at.checked_sub(1).map_or(Some(0), |at| self.accepted.get(at).copied());
        let children = parent.into_iter().flat_map(|parent| self.tree.children(parent));
        let mut children: Vec<usize> = children.collect();
        children.sort_by(|&a, &b| nodes[b].log_prob.total_cmp(&nodes[a].log_prob));
        let guess = |node: usize| {
            let Node { token, log_prob, sources, .. } = nodes[node];
            let label = self.labels.get(node).map_or("", String::as_str);
            (Guess { token, logprob: log_prob.into(), sources }, label)
        };
        children.into_iter().map(guess).collect()
    }

    /// Why the round verified its root alone; `None` if it verified more.
    pub fn nothing_guessed(&self) -> Option<NothingGuessed> {
        let why = match self.drafter {
            _ if !self.speculative => match Strategy::named(&self.strategy) {
                Some(strategy) if strategy.draft == DrafterId::None => NothingGuessed::NoDraft,
                _ => NothingGuessed::Off,
            },
            Some(_) => NothingGuessed::Unlikely,
            None if self.budget.shape.gamma <= 1 => NothingGuessed::CostsMore,
            None => NothingGuessed::OneLeft,
        };
        (self.tree.len() <= 1).then_some(why)
    }

    /// The sources credited with the accepted tokens.
    pub fn credits(&self) -> Credits {
        let mut credits = Credits::default();
        for &node in &self.accepted {
            credits.add(self.tree.nodes()[node].sources);
        }
        credits
    }

    /// Whether the whole tail was accepted: the path of the first children, which is all of a
    /// chain.
    fn held(&self) -> bool {
        let tokens = self.accepted.iter().filter_map(|&node| self.tree.nodes().get(node));
        let accepted: Vec<u32> = tokens.map(|node| node.token).collect();
        accepted == SequencesAhead::tail(&self.tree)
    }

    /// How k compares with what the target chose; `None` if no sequences were drafted ahead, or if
    /// they were useless because the tail before them was not accepted.
    pub fn judged_count(&self) -> Option<JudgedCount> {
        let ahead = self.ahead.as_ref()?;
        let favourite = ahead.sequences.first()?.first()?.token;
        let judged = self.held() && self.has_bonus();
        judged.then(|| JudgedCount { drafted: ahead.k(), one_was_enough: favourite == self.bonus })
    }

    /// Checks that what is recorded as drafted ahead can have been drafted during this round.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn check_ahead(&self) -> Result<(), String> {
        if let Some(ahead) = &self.ahead {
            self.check_sequences(ahead)?;
        }
        self.outcomes.iter().try_for_each(|outcome| self.check_outcome(outcome))
    }

    fn check_sequences(&self, ahead: &SequencesRecord) -> Result<(), String> {
        let tokens: usize = ahead.sequences.iter().map(Vec::len).sum();
        if tokens > ahead.gamma {
            return Err(format!("{tokens} tokens were drafted ahead with γ = {}", ahead.gamma));
        }
        if ahead.sequences.iter().any(Vec::is_empty) {
            return Err("a sequence drafted ahead has no tokens".to_owned());
        }
        let Some(adopted) = ahead.adopted else { return Ok(()) };
        let first = ahead.sequences.get(adopted).and_then(|sequence| sequence.first());
        if first.map(|first| first.token) != Some(self.bonus) || !self.held() {
            return Err(format!(
                "sequence {adopted} was adopted but does not follow the accepted tokens"
            ));
        }
        Ok(())
    }

    fn check_outcome(&self, outcome: &OutcomeRecord) -> Result<(), String> {
        if outcome.node >= self.tree.len() || outcome.labels.len() != outcome.tree.len() {
            return Err("a tree was drafted ahead for an outcome that is not in the round's tree"
                .to_owned());
        }
        let Some(root) = outcome.tree.nodes().first() else {
            return Err("a tree drafted ahead has no root".to_owned());
        };
        let end = self.accepted.last().copied().unwrap_or(0);
        if outcome.came && (outcome.node, root.token) != (end, self.bonus) {
            return Err(
                "an outcome is marked as the round's, but the round had another one".to_owned()
            );
        }
        Ok(())
    }
}

/// Why nothing is guessed: the tree of a round is its root alone, or there is no round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NothingGuessed {
    /// No answer has begun.
    NotBegun,
    /// Speculation is switched off, or the strategy has lost its draft.
    Off,
    /// The strategy has nothing to draft with.
    NoDraft,
    /// A tree would take more time than it saves.
    CostsMore,
    /// No guess was likely enough to be checked.
    Unlikely,
    /// The answer or the context had room for one more token.
    OneLeft,
}

/// What the target's choice says about k, after it has judged the first tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JudgedCount {
    /// k.
    pub drafted: usize,
    /// Whether the target chose the first token of the draft's favourite, so that one sequence was
    /// enough.
    pub one_was_enough: bool,
}

/// What a draft proposed for one position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guess {
    /// Token id.
    pub token: u32,
    /// By the draft.
    pub logprob: LogProb,
    /// Who proposed it.
    pub sources: Sources,
}

/// Totals of one answer. τ = committed tokens / target passes, excluding the prefill and its token.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// How many of these were reused from the KV cache.
    pub reused_tokens: usize,
    /// Tokens of the answer: the first one, from the prefill, and all that rounds committed,
    /// including the token that ends the text. Every place that shows a count shows this one.
    pub tokens: usize,
    /// Target passes after the prefill.
    pub rounds: usize,
    /// How many rounds had a tree that was drafted ahead, while the target verified the previous
    /// one.
    #[serde(default, alias = "foreseen")]
    pub drafted_ahead: usize,
    /// Accepted tokens by source.
    #[serde(default, skip_serializing_if = "Credits::is_empty")]
    pub accepted_by: Credits,
    /// τ: the mean number of tokens committed per round.
    pub tau: f64,
    /// Committed tokens per second of decoding, without the prefill.
    pub tokens_per_second: f64,
    /// Time of the prefill.
    pub prefill_ms: f64,
    /// Where the time of all rounds was spent.
    #[serde(flatten)]
    pub timing: Timing,
    /// What was sent over the bus to the GPU and back in all rounds; zero without a GPU.
    #[serde(default, skip_serializing_if = "Traffic::is_none")]
    pub traffic: Traffic,
    /// The same for the prefill, which is not among the rounds.
    #[serde(default, skip_serializing_if = "Traffic::is_none")]
    pub prefill_traffic: Traffic,
    /// Why the answer ended.
    pub finish: Option<Finish>,
}

impl Summary {
    /// Adds a round that follows those already counted, with the tokens it committed.
    pub fn count(&mut self, round: &Round) {
        self.tokens += round.committed.len();
        self.add(round);
    }

    /// Adds a round whose tokens are already counted.
    pub(super) fn add(&mut self, round: &Round) {
        self.rounds += 1;
        self.drafted_ahead += usize::from(round.drafted_ahead);
        self.timing += round.timing;
        self.traffic += round.traffic;
        self.accepted_by.add_all(&round.credits());
        // The prefill produced the first token.
        let won = self.tokens.saturating_sub(1) as f64;
        let seconds = self.timing.total_ms() / 1e3;
        self.tau = won / self.rounds as f64;
        self.tokens_per_second = if seconds > 0.0 { won / seconds } else { 0.0 };
    }
}
