//! Drafts from what the conversation and the target's own passes have shown: a suffix tree of the
//! text (longest match, continuations by how often they followed) and recycled tokens (what the
//! target considered likely in the same context). They form one tree, grown best first by how often
//! claims of each kind have been right so far. It needs no model and no training, and must not
//! depend on devices.

mod calibration;
mod history;
mod recycled;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use super::acceptance_stats::Pending;
use super::{DraftError, DraftRequest, Drafter};
use crate::speculate::ngrams::{self, NgramTable};
use crate::speculate::suffix_tree::{Continuation, Match, SuffixTree};
use crate::speculate::{Coupling, DrafterId, Sources, Tree};
use calibration::{CLAIMANTS, Calibration, Claim, Claimant};
pub use history::History;
use history::LONGEST;
use recycled::Recycled;

/// The minimum probability of a proposed path: below it, the target's pass over the node costs more
/// than it gains on any machine.
const LEAST: f32 = 0.01;
/// How many last tokens of a text are used to find what was considered likely.
const LAST: usize =
    if recycled::ORDERS > ngrams::ORDERS { recycled::ORDERS } else { ngrams::ORDERS };
/// How many continuations of a phrase are considered: the most common, and of equally common ones
/// the newest.
const CONTINUATIONS: usize = 8;

/// Proposes what its sources claim.
#[derive(Debug)]
pub struct ContextDraft {
    /// The only source of claims, if it is one.
    kind: DrafterId,
    /// The text, as far as it has been needed.
    phrases: SuffixTree,
    recycled: Recycled,
    /// Earlier chats, if the user lets them be read.
    history: Option<Arc<History>>,
    /// What the target considered likely in its own texts, if there is a table of it.
    ngrams: Option<Arc<NgramTable>>,
    calibration: Calibration,
    pending: Pending,
    /// What each node of the pending tree is based on.
    claims: Vec<Claims>,
}

/// Every claimant, and the source that is credited with its tokens.
const SOURCES: [(Claimant, DrafterId); CLAIMANTS] = [
    (Claimant::Suffix, DrafterId::Suffix),
    (Claimant::History, DrafterId::History),
    (Claimant::Recycled, DrafterId::Recycling),
    (Claimant::Ngram, DrafterId::Ngram),
];

/// What a node is based on: at most one claim per claimant.
#[derive(Clone, Copy, Debug, Default)]
struct Claims([Option<Claim>; CLAIMANTS]);

impl Claims {
    fn all(self) -> impl Iterator<Item = (Claimant, Claim)> {
        SOURCES.into_iter().zip(self.0).filter_map(|((by, _), claim)| Some((by, claim?)))
    }

    fn sources(self) -> Sources {
        let claimed = SOURCES.into_iter().zip(self.0).filter(|(_, claim)| claim.is_some());
        claimed.map(|((_, source), _)| source).collect()
    }

    /// Whether `by` claims the token.
    fn has(self, by: Claimant) -> bool {
        self.0[by as usize].is_some()
    }
}

/// A token that may become a node.
#[derive(Debug)]
struct ContextCandidate {
    /// The probability of the whole path to it.
    path: f32,
    parent: usize,
    token: u32,
    probability: f32,
    claims: Claims,
}

impl ContextDraft {
    /// A drafter whose claims come from [`DrafterId::Suffix`], what followed the same phrase, from
    /// [`DrafterId::Recycling`], what the target considered likely in the same context, or from
    /// both in one tree.
    pub fn new(kind: DrafterId) -> Self {
        Self {
            kind,
            phrases: SuffixTree::default(),
            recycled: Recycled::default(),
            history: None,
            ngrams: None,
            calibration: Calibration::default(),
            pending: Pending::default(),
            claims: Vec::new(),
        }
    }

    fn has_suffix(&self) -> bool {
        self.kind != DrafterId::Recycling
    }

    fn has_recycling(&self) -> bool {
        self.kind != DrafterId::Suffix
    }

    /// Uses earlier chats too, if its sources include the suffix tree.
    pub fn with_history(mut self, history: Arc<History>) -> Self {
        self.history = self.has_suffix().then_some(history);
        self
    }

    /// Uses an n-gram table too, if its sources include recycling.
    pub fn with_ngrams(mut self, ngrams: Arc<NgramTable>) -> Self {
        self.ngrams = self.has_recycling().then_some(ngrams);
        self
    }

    /// What may follow a node that ends with `last` (its last [`LAST`] tokens) and continues
    /// `matches`; `depth` is that of the claimed tokens, starting at 1.
    fn claimed(
        &self,
        last: &[u32],
        matches: &[Match],
        coupling: Option<&Coupling>,
        depth: usize,
    ) -> Vec<(u32, Claims)> {
        let mut found: Vec<(u32, Claims)> = Vec::new();
        for &matched in matches {
            let mut all: Vec<Continuation> = self.phrases.continuations(matched).collect();
            let total = all.iter().map(|next| next.count).sum();
            all.sort_unstable_by_key(|next| Reverse((next.count, next.last)));
            for next in all.into_iter().take(CONTINUATIONS) {
                let claim = Claim::Phrase { length: matched.length, count: next.count, total };
                // A longer phrase may have claimed this token.
                claim_of(&mut found, next.token, Claimant::Suffix).get_or_insert(claim);
            }
        }
        let recycled = self.recycled.after(last).map(|(order, next)| (order, next.clone()));
        let known = self.ngrams.as_ref().and_then(|table| table.after(last));
        for (by, known) in [(Claimant::Recycled, recycled), (Claimant::Ngram, known)] {
            let Some((order, next)) = known else { continue };
            for (token, claim) in ranked(order, &next, coupling, depth) {
                *claim_of(&mut found, token, by) = Some(claim);
            }
        }
        found
    }

    /// The best `width` claimed tokens, with probabilities that add up to at most 1.
    fn ranked(&self, claimed: Vec<(u32, Claims)>, width: usize) -> Vec<(u32, f32, Claims)> {
        let known = claimed.into_iter().filter_map(|(token, claims)| {
            let all = claims.all().map(|(by, claim)| (by, self.calibration.probability(by, claim)));
            // Every token here is claimed by at least one source.
            let (by, promised) = all.max_by(|a, b| a.1.total_cmp(&b.1))?;
            Some((token, by, promised, claims))
        });
        let known: Vec<(u32, Claimant, f32, Claims)> = known.collect();
        // Each source's rates were counted independently of the others. If the most probable source
        // names other tokens, a token that it does not name gets what it leaves.
        let lead = known.iter().max_by(|a, b| a.2.total_cmp(&b.2));
        let lead = lead.map_or(Claimant::Suffix, |first| first.1);
        let of_lead = known.iter().filter(|(.., claims)| claims.has(lead));
        let taken: f32 = of_lead.map(|(_, _, promised, _)| promised).sum();
        let left = (1.0 - taken).max(0.0);
        let share = |claims: Claims| if claims.has(lead) { 1.0 } else { left };
        let ranked = known
            .into_iter()
            .map(|(token, _, promised, claims)| (token, share(claims) * promised, claims));
        let mut ranked: Vec<(u32, f32, Claims)> = ranked.collect();
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        ranked.truncate(width);
        let sum: f32 = ranked.iter().map(|(_, probability, _)| probability).sum();
        if sum > 1.0 {
            for (_, probability, _) in ranked.iter_mut() {
                *probability /= sum;
            }
        }
        ranked
    }

    /// The tree under `request.root`, the most probable nodes first, and what each node is based
    /// on.
    fn grow(&self, text: &[u32], request: &DraftRequest) -> (Tree, Vec<Claims>) {
        let shape = request.budget.shape;
        let mut tree = Tree::root(request.root);
        let mut claims = vec![Claims::default()];
        let mut followed: Vec<Vec<Match>> = vec![self.matches()];
        let mut lasts: Vec<Vec<u32>> = vec![last(text)];
        // The likeliest first, of equally likely candidates the older one. The bits of positive
        // floats are in their order.
        let mut heap: BinaryHeap<(u32, Reverse<usize>)> = BinaryHeap::new();
        let mut candidates: Vec<ContextCandidate> = Vec::new();
        let mut node = 0;
        let mut path = 1.0;
        let least = LEAST.max(request.least_path as f32);
        loop {
            let depth = tree.nodes()[node].depth + 1;
            let mut found =
                self.claimed(&lasts[node], &followed[node], request.coupling.as_ref(), depth);
            if let Some(history) = &self.history {
                add_history(&mut found, history, &phrase(text, &tree, node));
            }
            for (token, probability, claims) in self.ranked(found, shape.width.max(1)) {
                let path = path * probability;
                if path >= least {
                    heap.push((path.to_bits(), Reverse(candidates.len())));
                    let parent = node;
                    candidates.push(ContextCandidate { path, parent, token, probability, claims });
                }
            }
            if tree.len() >= shape.gamma {
                break;
            }
            let Some((_, Reverse(number))) = heap.pop() else { break };
            let next = &candidates[number];
            node = tree.push(next.parent, next.token, next.probability.ln());
            path = next.path;
            tree.credit(node, next.claims.sources());
            claims.push(next.claims);
            let further = followed[next.parent].iter();
            followed.push(further.filter_map(|&m| self.phrases.extend(m, next.token)).collect());
            let mut tokens = lasts[next.parent].clone();
            tokens.push(next.token);
            lasts.push(last(&tokens));
        }
        (tree, claims)
    }

    /// The longest match of the text's end, the longest of at most half its length, and of a
    /// quarter: those in between add hardly any information.
    fn matches(&self) -> Vec<Match> {
        let mut matches: Vec<Match> = Vec::new();
        if self.has_suffix() {
            for found in self.phrases.matches() {
                if matches.last().is_none_or(|last| 2 * found.length <= last.length) {
                    matches.push(found);
                }
            }
        }
        matches.truncate(3);
        matches
    }
}

/// The last tokens of the text that ends with a node, as many as are looked up in earlier chats.
fn phrase(text: &[u32], tree: &Tree, node: usize) -> Vec<u32> {
    let path = tree.ancestors(node).map(|node| tree.nodes()[node].token);
    // The text ends with the root.
    let text = text.iter().rev().skip(1).copied();
    let mut phrase: Vec<u32> = path.chain(text).take(LONGEST).collect();
    phrase.reverse();
    phrase
}

/// Adds what followed `phrase` in earlier chats to the claims after it.
fn add_history(claimed: &mut Vec<(u32, Claims)>, history: &History, phrase: &[u32]) {
    let Some(followed) = history.after(phrase) else { return };
    let total = followed.next.iter().map(|(_, count)| count).sum();
    for (token, count) in followed.next.into_iter().take(CONTINUATIONS) {
        let claim = Claim::Phrase { length: followed.length, count, total };
        *claim_of(claimed, token, Claimant::History) = Some(claim);
    }
}

/// The place for the claim of `by` for `token`.
fn claim_of(claimed: &mut Vec<(u32, Claims)>, token: u32, by: Claimant) -> &mut Option<Claim> {
    let known = claimed.iter().position(|(known, _)| *known == token);
    let at = known.unwrap_or_else(|| {
        claimed.push((token, Claims::default()));
        claimed.len() - 1
    });
    &mut claimed[at].1.0[by as usize]
}

/// What the target considered likely after a context of `order` tokens, by (token, logit), ranked
/// with the noise with which it will draw at `depth`, if that is known.
fn ranked(
    order: usize,
    next: &[(u32, f32)],
    coupling: Option<&Coupling>,
    depth: usize,
) -> Vec<(u32, Claim)> {
    let noise = coupling
        .map(|coupling| (coupling.noise(depth), f64::from(coupling.sampler.temperature).max(1e-3)));
    let score = |&(token, logit): &(u32, f32)| match noise {
        None => (token, logit),
        Some((noise, temperature)) => {
            (token, (f64::from(logit) / temperature + noise.gumbel(token)) as f32)
        }
    };
    let mut scored: Vec<(u32, f32)> = next.iter().map(score).collect();
    scored.sort_by(|a, b| b.1.total_cmp(&a.1));
    let value = |rank: usize| scored.get(rank).map_or(f32::NEG_INFINITY, |next| next.1);
    let held = scored.iter().enumerate().map(|(rank, &(token, score))| {
        let gap = if rank == 0 { score - value(1) } else { value(0) - score };
        (token, Claim::Held { order, rank, gap, coupled: noise.is_some() })
    });
    held.collect()
}

/// The last tokens of a text, which form a context.
fn last(text: &[u32]) -> Vec<u32> {
    text[text.len().saturating_sub(LAST)..].to_vec()
}

impl Drafter for ContextDraft {
    fn describe(&self) -> String {
        match self.kind {
            DrafterId::Suffix => "suffix tree of the conversation",
            DrafterId::Recycling => "recycled tokens",
            _ => "suffix tree and recycled tokens",
        }
        .into()
    }

    fn is_calibrated(&self) -> bool {
        true
    }

    fn truncate(&mut self, len: usize) {
        self.pending.forget();
        // Without a first pair the first token is not known either.
        self.phrases.truncate(if len == 0 { 0 } else { len + 1 });
    }

    fn start_over(&mut self) {
        self.recycled = Recycled::default();
    }

    fn observe(&mut self, _features: &[f32], tokens: &[u32]) -> Result<(), DraftError> {
        let Self { pending, claims, calibration, .. } = self;
        pending.follow(tokens, |node, right| {
            for (by, claim) in claims[node].all() {
                calibration.note(by, claim, right);
            }
        });
        Ok(())
    }

    fn propose(&mut self, text: &[u32], request: &DraftRequest) -> Result<Tree, DraftError> {
        if self.has_suffix() {
            for &token in text.iter().skip(self.phrases.text().len()) {
                self.phrases.push(token);
            }
        }
        let (tree, claims) = self.grow(text, request);
        self.pending.wait(&tree);
        self.claims = claims;
        Ok(tree)
    }

    fn verified(&mut self, text: &[u32], tree: &Tree, logits: &[f32]) {
        if !self.has_recycling() {
            return;
        }
        let vocab = logits.len() / tree.len();
        // The text ends with the root.
        let text = last(text);
        for (node, logits) in logits.chunks_exact(vocab.max(1)).enumerate() {
            let context = [&text[..], &tree.tokens_to(node)].concat();
            self.recycled.keep(&context, logits);
        }
    }
}

#[cfg(test)]
mod tests;
