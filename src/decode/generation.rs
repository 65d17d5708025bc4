//! One generation: prefill in chunks, the first token, then rounds until the answer ends. It must
//! not depend on how a tree was drafted.

use super::drafter_set::OverlapGuard;
use super::engine::{DecodeError, Engine, Request};
use super::options::RoundOptions;
use super::propose::Drafted;
use super::round::{Committed, Finish, Origin, Round, Summary, Timing};
use super::text::{Answer, TokenText};
use crate::draft::{Ahead, Drafter};
use crate::model::{TargetError, Traffic, Verified};
use crate::overlap::{OutcomeRecord, PassListener, SequencesRecord};
use crate::speculate::{Accepted, Logprobs, Sampler, TokenUses, accept, no_number};
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

/// How far the tree was right, as far as the answer goes.
struct CommittedPath {
    accepted: Vec<usize>,
    bonus: u32,
    committed: Vec<Committed>,
}

/// An answer in progress: [`Self::prefill`] until complete, [`Self::first_token`] once, then
/// [`Self::round`] until [`Self::finish`] says why it ended. It may be dropped at any point; the
/// engine keeps what was computed.
pub struct Generation<'a> {
    pub(super) engine: &'a mut Engine,
    names: &'a dyn TokenText,
    prompt: Vec<u32>,
    pub(super) answer: Answer,
    history: TokenUses,
    sampler: Sampler,
    /// Logits of the prompt's last token, once it is read.
    logits: Vec<f32>,
    pub(super) summary: Summary,
    /// Receives rounds that are being verified.
    listener: Option<PassListener>,
    /// The drafter that reads the prompt while the target does, and the blocks of its trees.
    beside: Option<(usize, usize)>,
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
        request.check(self.target.capacity())?;
        let tokens = request.prompt.len();
        let reused_tokens = self.reuse(&request);
        let mut sampler = Sampler::default();
        sampler.forced = request.forced.iter().map(|&(at, token)| (tokens + at, token)).collect();
        Ok(Generation {
            engine: self,
            names,
            answer: Answer::new(&request),
            history: TokenUses::new(&request.prompt),
            prompt: request.prompt,
            sampler,
            logits: Vec::new(),
            summary: Summary { prompt_tokens: tokens, reused_tokens, ..Summary::default() },
            listener: None,
            beside: None,
        })
    }
}

impl Generation<'_> {
    /// Progress of the prefill.
    pub fn progress(&self) -> PrefillProgress {
        PrefillProgress { done: self.engine.target.len(), total: self.prompt.len() }
    }

    /// Lets the drafter of these options read the rest of the prompt while the target does, if it
    /// can.
    pub fn read_beside(&mut self, options: &RoundOptions) {
        let own = std::iter::once((options.drafter, options.budget.blocks));
        let arm = options.arm.map(|arm| (arm.drafter, arm.budget.blocks));
        let reads =
            |&(at, _): &(usize, usize)| self.engine.drafter(at).is_some_and(Drafter::reads_beside);
        self.beside = own.chain(arm).filter(|_| options.speculate).find(reads);
    }

    /// Prefills the next chunk of the prompt.
    ///
    /// # Errors
    /// [`DecodeError::Target`].
    pub fn prefill(&mut self) -> Result<PrefillProgress, DecodeError> {
        let start = Instant::now();
        let traffic = self.engine.traffic();
        let rest = &self.prompt[self.engine.target.len()..];
        if !rest.is_empty() {
            self.logits = self.engine.prefill(rest, self.beside)?;
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
        if no_number(&self.logits, token) {
            return Err(self.no_numbers());
        }
        let logprobs = self.sampler.logprobs(&self.logits, token, &self.history);
        self.history.push(token);
        let mut token = self.emit(token, self.origin(position, Origin::Target));
        token.logprobs = self.labelled(token.token, logprobs);
        self.end_if_full(Some(&mut token));
        self.engine.push_root(token.token);
        self.summary.prefill_ms += milliseconds(start);
        Ok(token)
    }

    /// One round: draft, verify, accept, record. The drafter may draft ahead while the target
    /// verifies. Call only while [`Self::finish`] is `None`.
    ///
    /// # Errors
    /// [`DecodeError::Target`]; nothing was committed then.
    pub fn round(&mut self, options: &RoundOptions) -> Result<Round, DecodeError> {
        let start = Instant::now();
        let traffic = self.engine.traffic();
        self.sampler.settings = options.sampler;
        let drafted = self.draft(options);
        let draft_ms = milliseconds(start);
        let (verified, ahead, timing) = self.verify(options, &drafted)?;
        let accepted = self.accept(&drafted, &verified)?;
        self.engine.target.reuse(verified.logits);
        let mut round = self.record(options, drafted, ahead, accepted);
        round.traffic = self.engine.traffic().since(traffic);
        round.timing = Timing { draft_ms, ..timing };
        round.timing.other_ms = (milliseconds(start) - round.timing.total_ms()).max(0.0);
        self.summary.add(&round);
        Ok(round)
    }

    /// The target's pass over the tree, while the drafter drafts ahead if it is to, with what that
    /// drafted and the times of both.
    fn verify(
        &mut self,
        options: &RoundOptions,
        drafted: &Drafted,
    ) -> Result<(Verified, Ahead, Timing), DecodeError> {
        let tree = &drafted.tree;
        let start = Instant::now();
        let ahead = drafted.overlapping().and_then(|by| {
            let gamma = by.request.budget.shape.gamma;
            let listener = self.listener.as_ref();
            let watch = listener.map(|it| it.pass(self.summary.rounds, tree, gamma, start));
            self.engine.drafting.draft_ahead(by.drafter, tree, by.request, watch)
        });
        let verified = self.engine.target.verify(tree);
        let verify_ms = milliseconds(start);
        let (ahead, spent) = ahead.map(OverlapGuard::end).unwrap_or_default();
        let ahead_ms = in_milliseconds(spent.ahead);
        let wait_ms = in_milliseconds(spent.wait);
        let transfer_ms = in_milliseconds(spent.transfer);
        let verified = match verified {
            Ok(verified) => verified,
            Err(error) => {
                self.engine.recover(error)?;
                self.engine.target.verify(tree)?
            }
        };
        if options.speculate {
            let arm = options.arm.map(|arm| arm.drafter);
            let drafters = std::iter::once(options.drafter).chain(arm);
            let Engine { drafting, text, .. } = &mut *self.engine;
            drafting.verified(drafters, text, tree, &verified.logits);
        }
        let timing = Timing { verify_ms, ahead_ms, wait_ms, transfer_ms, ..Timing::default() };
        Ok((verified, ahead, timing))
    }

    /// Walks the tree by the target's choices, appends them to the answer and commits them. Nothing
    /// after the end of the answer is committed, neither positions nor the bonus token.
    fn accept(
        &mut self,
        drafted: &Drafted,
        verified: &Verified,
    ) -> Result<CommittedPath, DecodeError> {
        let tree = &drafted.tree;
        let position = self.engine.target.len();
        let Accepted { mut path, bonus, logprobs } =
            accept(tree, &verified.logits, &mut self.sampler, position, &mut self.history);
        if path.len() == 1
            && no_number(&verified.logits[..verified.logits.len() / tree.len()], bonus)
        {
            return Err(self.no_numbers());
        }
        if let Some(model) = &drafted.model {
            let accepted = path[1..].iter().map(|&node| tree.nodes()[node].token);
            self.engine.drafting.rates.learn(model, accepted.chain([bonus]));
        }
        let mut committed = Vec::with_capacity(path.len());
        for (next, logprobs) in (1..=path.len()).zip(logprobs) {
            let (token, origin) = match path.get(next) {
                Some(&node) => (tree.nodes()[node].token, Origin::Accepted),
                None => (bonus, Origin::Target),
            };
            let mut token = self.emit(token, self.origin(position + next, origin));
            token.logprobs = self.labelled(token.token, logprobs);
            committed.push(token);
            if self.summary.finish.is_some() {
                break;
            }
        }
        let has_bonus = committed.len() == path.len();
        path.truncate(committed.len() + 1);
        self.engine.commit(tree, &path, &verified.features);
        self.end_if_full(committed.last_mut());
        if has_bonus {
            self.engine.push_root(bonus);
        }
        Ok(CommittedPath { accepted: path.split_off(1), bonus, committed })
    }

    /// The record of the round, without its times.
    fn record(
        &self,
        options: &RoundOptions,
        drafted: Drafted,
        ahead: Ahead,
        path: CommittedPath,
    ) -> Round {
        let label = |token| self.names.label(token);
        let Drafted { tree, by, .. } = drafted;
        let CommittedPath { accepted, bonus, committed } = path;
        let won: Vec<u32> = match self.summary.finish {
            None => committed.iter().map(|it| it.token).collect(),
            Some(_) => Vec::new(),
        };
        let gamma = by.map_or(0, |by| by.request.budget.shape.gamma);
        let sequences = ahead.sequences.as_ref();
        let outcomes = ahead.outcomes.iter();
        let mut round = Round {
            index: self.summary.rounds,
            labels: tree.nodes().iter().map(|node| label(node.token)).collect(),
            tree,
            accepted,
            bonus,
            bonus_label: label(bonus),
            committed,
            budget: by.map_or(options.budget, |by| by.budget),
            strategy: options.strategy.to_owned(),
            speculative: options.speculate && self.engine.drafter(options.drafter).is_some(),
            drafter: by.map(|by| by.drafter),
            drafted_ahead: by.is_some_and(|by| by.was_ahead),
            ahead: sequences.map(|ahead| SequencesRecord {
                c: options.duo_c,
                ..SequencesRecord::new(gamma, ahead, &won, &label)
            }),
            outcomes: outcomes.map(|ahead| OutcomeRecord::new(ahead, &label)).collect(),
            timing: Timing::default(),
            traffic: Traffic::default(),
            context: self.engine.target.len(),
            finish: self.summary.finish,
        };
        if round.has_bonus() {
            let end = round.accepted.last().copied().unwrap_or(0);
            for outcome in &mut round.outcomes {
                outcome.came = (outcome.node, outcome.tree.nodes()[0].token) == (end, bonus);
            }
        }
        round
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
    pub fn watch(&mut self, listener: Option<PassListener>) {
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
        std::mem::take(&mut self.engine.drafting.notices)
    }

    /// Where the token at this position of the text comes from: from `otherwise`, unless it was
    /// forced.
    fn origin(&self, position: usize, otherwise: Origin) -> Origin {
        self.sampler.forced_at(position).map_or(otherwise, |_| Origin::Forced)
    }

    /// With the display texts of its tokens; `taken` is the one that it is about.
    fn labelled(&self, taken: u32, logprobs: Logprobs) -> Option<Box<Logprobs>> {
        let labels = logprobs.tokens(taken).map(|token| self.names.label(token)).collect();
        Some(Box::new(Logprobs { labels, ..logprobs }))
    }

    /// Appends a token to the answer and decides whether the answer ends with it.
    fn emit(&mut self, token: u32, origin: Origin) -> Committed {
        self.answer.emit(token, origin, &mut self.summary, self.names)
    }

    /// Ends the answer if there is no room for the root any more. What was held back because it
    /// may begin a stop string then belongs to `last`.
    fn end_if_full(&mut self, last: Option<&mut Committed>) {
        let full = self.engine.target.len() >= self.engine.target.capacity();
        if full && self.summary.finish.is_none() {
            self.summary.finish = Some(Finish::ContextFull);
            if let Some(last) = last {
                last.text.push_str(&self.answer.stream.finish(self.names));
            }
        }
    }

    /// The target has computed no numbers. Its keys and values may be none either, so they must not
    /// be reused or saved.
    fn no_numbers(&mut self) -> DecodeError {
        let after = self.engine.text.len();
        self.engine.forget();
        TargetError::NoNumbers { after }.into()
    }
}

pub(super) fn milliseconds(since: Instant) -> f64 {
    in_milliseconds(since.elapsed())
}

/// Rounded to microseconds: more digits would only fill the records.
fn in_milliseconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e3
}
