//! One generation: prefill in chunks, the first token, then rounds until the answer ends. It must
//! not depend on how a tree was drafted.

use super::ahead::{AheadOutcome, AheadRecord};
use super::answer::Answer;
use super::draft_thread::OverlapTimes;
use super::drafter_set::OverlapGuard;
use super::engine::{DecodeError, Engine, Request};
use super::options::{Rival, RoundOptions};
use super::pending::AheadListener;
use super::round::{Committed, Finish, Origin, Round, Summary, Timing};
use super::text::TokenText;
use crate::draft::{Budget, DraftRequest};
use crate::plan::Schedule;
use crate::speculate::{Accepted, Coupling, History, Sampler, Tree, accept};
use std::time::{Duration, Instant};

/// Progress of the prefill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefillProgress {
    /// How many tokens are done, including those reused from the KV cache.
    pub done: usize,
    /// How many tokens the prompt has.
    pub total: usize,
}

impl PrefillProgress {
    /// Whether the whole prompt is prefilled.
    pub fn is_complete(self) -> bool {
        self.done == self.total
    }
}

/// A drafter and what it may spend.
#[derive(Clone, Copy)]
struct Proposer {
    drafter: usize,
    budget: Budget,
    schedule: Schedule,
}

/// A round's tree.
struct Drafted {
    tree: Tree,
    /// `None` for the root alone, for which no drafter was called.
    by: Option<DraftedBy>,
    /// The model's own tree, if this tree was merged from it and another drafter's.
    model: Option<Tree>,
}

/// Which drafter made the tree, what it was allowed to spend, and what was requested within the
/// available room.
#[derive(Clone, Copy)]
struct DraftedBy {
    drafter: usize,
    budget: Budget,
    schedule: Schedule,
    request: DraftRequest,
}

impl Drafted {
    /// Only the root.
    fn nothing(root: u32) -> Self {
        Self { tree: Tree::root(root), by: None, model: None }
    }
}

/// An answer in progress: [`Self::prefill`] until complete, [`Self::first_token`] once, then
/// [`Self::step`] until [`Self::finish`] says why it ended. It may be dropped at any point; the
/// engine keeps what was computed.
pub struct Generation<'a> {
    engine: &'a mut Engine,
    names: &'a dyn TokenText,
    prompt: Vec<u32>,
    answer: Answer,
    history: History,
    sampler: Sampler,
    /// Logits of the prompt's last token, once it is read.
    logits: Vec<f32>,
    summary: Summary,
    /// Receives rounds that are being verified.
    listener: Option<AheadListener>,
}

impl Engine {
    /// Begins a generation; continue with the methods of [`Generation`].
    ///
    /// # Errors
    /// [`DecodeError`] if the prompt is empty or does not fit.
    pub fn generate<'a>(
        &'a mut self,
        request: Request,
        names: &'a dyn TokenText,
    ) -> Result<Generation<'a>, DecodeError> {
        let tokens = request.prompt.len();
        let capacity = self.target.capacity();
        if tokens == 0 {
            return Err(DecodeError::EmptyPrompt);
        }
        if tokens > capacity {
            return Err(DecodeError::PromptTooLong { tokens, capacity });
        }
        let reused = self.reuse(&request);
        Ok(Generation::new(self, names, request, reused))
    }
}

impl<'a> Generation<'a> {
    pub(super) fn new(
        engine: &'a mut Engine,
        names: &'a dyn TokenText,
        request: Request,
        reused: usize,
    ) -> Self {
        let (answer, prompt) = (Answer::new(&request), request.prompt);
        let history = History::new(&prompt);
        let prompt_tokens = prompt.len();
        let summary = Summary { prompt_tokens, reused_tokens: reused, ..Summary::default() };
        let (sampler, logits, listener) = (Sampler::default(), Vec::new(), None);
        Self { engine, names, prompt, answer, history, sampler, logits, summary, listener }
    }

    /// Progress of the prefill.
    pub fn progress(&self) -> PrefillProgress {
        PrefillProgress { done: self.engine.target.len(), total: self.prompt.len() }
    }

    /// Prefills the next chunk of the prompt.
    ///
    /// # Errors
    /// [`DecodeError::Target`].
    pub fn prefill(&mut self) -> Result<PrefillProgress, DecodeError> {
        let (start, traffic) = (Instant::now(), self.engine.traffic());
        let rest = &self.prompt[self.engine.target.len()..];
        if !rest.is_empty() {
            self.logits = self.engine.prefill(rest)?;
        }
        self.summary.prefill_traffic += self.engine.traffic().since(traffic);
        self.summary.prefill_ms += milliseconds(start);
        Ok(self.progress())
    }

    /// Prefills the rest of the prompt and samples the first token from its last logits.
    ///
    /// # Errors
    /// [`DecodeError::Target`].
    pub fn first_token(&mut self, options: &RoundOptions) -> Result<Committed, DecodeError> {
        while !self.prefill()?.is_complete() {}
        let start = Instant::now();
        self.sampler.settings = options.sampler;
        let position = self.engine.target.len();
        let token = self.sampler.draw(&self.logits, position, &self.history);
        self.history.push(token);
        let token = self.emit(token, Origin::Target);
        self.end_if_full();
        self.engine.push_root(token.token);
        self.summary.prefill_ms += milliseconds(start);
        Ok(token)
    }

    /// One round: draft, verify, accept, commit; under [`Schedule::Overlap`] the drafter works
    /// ahead while the target verifies. Call only while [`Self::finish`] is `None`.
    ///
    /// # Errors
    /// [`DecodeError::Target`]; nothing was committed then.
    pub fn step(&mut self, options: &RoundOptions) -> Result<Round, DecodeError> {
        let start = Instant::now();
        let traffic = self.engine.traffic();
        self.sampler.settings = options.sampler;
        let Drafted { tree, by, model } = self.draft(options);
        let draft_ms = milliseconds(start);
        let drafter = by.map(|by| by.drafter);
        let drafted_ahead =
            drafter.is_some_and(|drafter| self.engine.drafting.was_drafted_ahead(drafter));
        let budget = by.map_or(options.budget, |by| by.budget);
        let overlapping = by.filter(|by| by.schedule == Schedule::Overlap);
        let verifying = Instant::now();
        let ahead = overlapping.and_then(|by| {
            let (listener, index) = (self.listener.as_ref(), self.summary.rounds);
            let gamma = by.request.budget.shape.gamma;
            let watch = listener.map(|listener| listener.pass(index, &tree, gamma, verifying));
            self.engine.drafting.draft_ahead(by.drafter, &tree, by.request, watch)
        });
        let verified = self.engine.target.verify(&tree);
        let verify_ms = milliseconds(verifying);
        let OverlapTimes { ahead, wait } =
            ahead.map_or_else(OverlapTimes::default, OverlapGuard::end);
        let (ahead_ms, wait_ms) = (in_milliseconds(ahead), in_milliseconds(wait));
        let verified = match verified {
            Ok(verified) => verified,
            Err(error) => {
                self.engine.recover(error)?;
                self.engine.target.verify(&tree)?
            }
        };
        let rival = options.rival.map(|rival| rival.drafter);
        let asked = std::iter::once(options.drafter).chain(rival).filter(|_| options.speculate);
        self.engine.drafting.verified(asked, &tree, &verified.logits);
        let sequences = overlapping.and_then(|by| {
            let ahead = self.engine.drafting.drafter(by.drafter)?.sequences_ahead()?;
            Some((by.request.budget.shape.gamma, ahead.clone()))
        });
        let drafter_ahead = overlapping.and_then(|by| self.engine.drafting.drafter(by.drafter));
        let outcomes = drafter_ahead.map_or(Vec::new(), |drafter| {
            let label = |token| self.names.label(token);
            let ahead = drafter.outcomes_ahead().iter();
            ahead.map(|ahead| AheadOutcome::new(ahead, &label)).collect()
        });

        let position = self.engine.target.len();
        let Accepted { path, bonus } =
            accept(&tree, &verified.logits, &mut self.sampler, position, &mut self.history);
        if let Some(model) = model {
            let accepted = path[1..].iter().map(|&node| tree.nodes()[node].token);
            self.engine.drafting.learn_rates(&model, accepted.chain([bonus]));
        }
        let mut committed = Vec::with_capacity(path.len());
        for next in 1..=path.len() {
            let (token, origin) = match path.get(next) {
                Some(&node) => (tree.nodes()[node].token, Origin::Accepted),
                None => (bonus, Origin::Target),
            };
            committed.push(self.emit(token, origin));
            if self.summary.finish.is_some() {
                break;
            }
        }
        // Rollback: nothing after the end of the answer is kept, neither positions nor the bonus
        // token.
        let kept = committed.len().min(path.len() - 1);
        let has_bonus = committed.len() == path.len();
        self.engine.commit(&tree, &path[..=kept], &verified.features);
        if self.end_if_full() {
            self.answer.flush(committed.last_mut(), self.names);
        }
        if has_bonus {
            self.engine.push_root(bonus);
        }
        let names = self.names;
        let ahead = sequences.map(|(gamma, ahead)| {
            let goes_on = self.summary.finish.is_none();
            let won: Vec<u32> = committed.iter().filter(|_| goes_on).map(|won| won.token).collect();
            AheadRecord::new(gamma, &ahead, &won, &|token| names.label(token))
        });
        let mut round = Round {
            index: self.summary.rounds,
            labels: tree.nodes().iter().map(|node| names.label(node.token)).collect(),
            tree,
            accepted: path[1..=kept].to_vec(),
            bonus,
            bonus_label: names.label(bonus),
            committed,
            budget,
            strategy: options.strategy.to_owned(),
            speculative: options.speculate && self.engine.drafter(options.drafter).is_some(),
            drafter,
            drafted_ahead,
            ahead,
            outcomes,
            timing: Timing { draft_ms, verify_ms, ahead_ms, wait_ms, ..Timing::default() },
            traffic: self.engine.traffic().since(traffic),
            context: self.engine.target.len(),
            finish: self.summary.finish,
        };
        let end = round.accepted.last().copied().unwrap_or(0);
        for outcome in round.outcomes.iter_mut().filter(|_| has_bonus) {
            outcome.came = (outcome.node, outcome.tree.nodes()[0].token) == (end, bonus);
        }
        round.timing.other_ms = (milliseconds(start) - round.timing.total_ms()).max(0.0);
        self.summary.add(&round);
        Ok(round)
    }

    /// Cancels the generation. Text held back because it may begin a stop string is discarded.
    pub fn cancel(&mut self) {
        self.summary.finish.get_or_insert(Finish::Cancelled);
    }

    /// Why the answer ended, if it did.
    pub fn finish(&self) -> Option<Finish> {
        self.summary.finish
    }

    /// Declares that the prompt's last tokens, `begun`, are the beginning of this answer, whose
    /// text continues them. Must be called before the first token.
    pub fn go_on_from(&mut self, begun: &[u32]) {
        self.answer.stream.go_on_from(begun, self.names);
    }

    /// From the next round on, `listener` receives rounds while the target verifies them, if
    /// sequences are drafted ahead then (DuoDecoding). It changes no token.
    pub fn watch(&mut self, listener: Option<AheadListener>) {
        self.listener = listener;
    }

    /// Totals so far.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Adds the time outside of the latest round that was spent planning it, ms.
    pub fn count_planning(&mut self, ms: f64) {
        self.summary.timing.plan_ms += ms;
    }

    /// Notices for the user since the last call.
    pub fn take_notices(&mut self) -> Vec<String> {
        self.engine.drafting.take_notices()
    }

    /// The round's tree, within the room of context and answer: the first drafter's tree, or the
    /// rival's if that is expected to give more tokens for its time.
    fn draft(&mut self, options: &RoundOptions) -> Drafted {
        let start = Instant::now();
        let root = self.engine.text.last().copied().unwrap_or_default();
        let RoundOptions { drafter, budget, schedule, .. } = *options;
        let first = self.propose(options, Proposer { drafter, budget, schedule });
        let times = options.verify_times.or(options.rival.map(|rival| rival.verify_times));
        let Some(times) = times else { return first.unwrap_or(Drafted::nothing(root)) };
        let paths = first.as_ref().map(|first| first.tree.paths()).unwrap_or_default();
        let spent = milliseconds(start);
        let (nodes, promised) = match options.verify_times {
            Some(times) => times.best_size(paths, spent),
            None => (
                paths.len() + 1,
                times.rate(1.0 + paths.iter().sum::<f64>(), paths.len() + 1, spent),
            ),
        };
        if let Some(rival) = options.rival.filter(|rival| rival.rate > promised) {
            let Rival { drafter, budget, schedule, .. } = rival;
            if let Some(drafted) = self.propose(options, Proposer { drafter, budget, schedule }) {
                return self.merge(options.drafter, first, drafted);
            }
        }
        let Some(Drafted { tree, mut by, model }) = first else { return Drafted::nothing(root) };
        let tree = tree.most_likely(nodes);
        if let (Some(by), Some(_)) = (&mut by, options.verify_times) {
            // γ is the size that the round verifies, not that of the larger tree from which it was
            // chosen.
            by.budget.shape.gamma = tree.len();
        }
        Drafted { tree, by, model }
    }

    /// Merges a model's tree with what the first drafter proposed as well: the likeliest nodes of
    /// both, as many as the model may have.
    fn merge(&self, first: usize, beside: Option<Drafted>, drafted: Drafted) -> Drafted {
        let Some(by) = drafted.by else { return drafted };
        let drafting = &self.engine.drafting;
        // What is drafted ahead continues from the drafter's own tree.
        if by.schedule == Schedule::Overlap || !drafting.merge(first, by.drafter) {
            return drafted;
        }
        let most = by.request.budget.shape.gamma;
        let tree = match &beside {
            Some(beside) => drafting.merged(&drafted.tree, &beside.tree, most),
            None => drafted.tree.clone(),
        };
        Drafted { tree, by: drafted.by, model: Some(drafted.tree) }
    }

    /// A drafter's tree; `None` if nothing is to be drafted or there is no room for it.
    fn propose(&mut self, options: &RoundOptions, proposer: Proposer) -> Option<Drafted> {
        let Proposer { drafter, mut budget, schedule } = proposer;
        let committed = self.engine.target.len();
        let root = self.engine.text.last().copied().unwrap_or_default();
        let room = self.engine.target.capacity() - committed;
        // The bonus token is one of the remaining tokens, so the accepted length is at most one
        // less.
        let left = self.answer.max_tokens - self.summary.tokens - 1;
        let asked = budget;
        budget.shape.gamma = budget.shape.gamma.min(room);
        if !options.speculate || budget.shape.gamma <= 1 || left == 0 {
            return None;
        }
        let levels = left.min(self.engine.drafting.room(drafter));
        if levels == 0 {
            return None;
        }
        budget.shape.depth = budget.shape.depth.min(levels - 1);
        let vocab = self.engine.target.vocab();
        let sampled = options.coupled && !options.sampler.is_greedy();
        let coupling = sampled.then_some(Coupling { sampler: options.sampler, root: committed });
        let times = options.verify_times.filter(|_| drafter == options.drafter);
        let least_path = times.map_or(0.0, |times| times.least_path());
        let request = DraftRequest { root, budget, coupling, least_path };
        let tree = self.engine.drafting.propose(drafter, &request, vocab);
        let by = Some(DraftedBy { drafter, budget: asked, schedule, request });
        Some(Drafted { tree, by, model: None })
    }

    /// Appends a token to the answer and decides whether the answer ends with it.
    fn emit(&mut self, token: u32, origin: Origin) -> Committed {
        self.answer.emit(token, origin, &mut self.summary, self.names)
    }

    /// Ends the answer if there is no room for the root any more. Returns whether it ended just
    /// now.
    fn end_if_full(&mut self) -> bool {
        let full = self.engine.target.len() >= self.engine.target.capacity();
        let ends = full && self.summary.finish.is_none();
        if ends {
            self.summary.finish = Some(Finish::ContextFull);
        }
        ends
    }
}

fn milliseconds(since: Instant) -> f64 {
    in_milliseconds(since.elapsed())
}

/// Rounded to microseconds: more digits would only fill the records.
fn in_milliseconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e3
}
