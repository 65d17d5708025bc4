//! A DFlash drafter (method.md, DFlash): its passes on some device, and what the CPU computes from
//! their results. It must not depend on how a tree is grown or on where the passes run.

use std::sync::Arc;

use super::packer::Packer;
use super::scratch::products;
use crate::kernels::{Matrix, Pool, QuantizedRows};
use crate::model::dflash::DflashConfig;
use crate::model::head::{DraftVocabulary, HeadError, rows_of};
use crate::model::weights::{self, WeightError, WeightSource};
use crate::model::{LoadRequest, TrafficMeter};
use crate::speculate::{Ranking, top_k};

/// The passes of a DFlash drafter on a device, and the cache that they read.
pub trait DflashPasses: Send {
    /// Precision and device, e.g. `Q4_1 on CPU`.
    fn describe(&self) -> String;

    /// How many positions are in the cache.
    fn len(&self) -> usize;

    /// Whether no position is in the cache.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Rolls back to the first `len` positions.
    fn truncate(&mut self, len: usize);

    /// Puts the target's tapped states `[positions, states · target's H]` into the cache, as those
    /// of the next positions.
    ///
    /// # Errors
    /// [`HeadError::Device`].
    fn inject(&mut self, features: &[f32]) -> Result<(), HeadError>;

    /// Runs a block of rows, which leave nothing in the cache. Writes what the final norm returns,
    /// `[rows, H]`, and its logits.
    ///
    /// # Errors
    /// [`HeadError::Device`].
    fn draft(
        &mut self,
        tokens: &[u32],
        outputs: &mut [f32],
        logits: &mut Vec<f32>,
    ) -> Result<(), HeadError>;

    /// Bytes of weights that are its own, and of its cache.
    fn bytes(&self) -> u64;

    /// The traffic counters of the GPU; `None` on the CPU.
    fn traffic(&self) -> Option<TrafficMeter> {
        None
    }
}

/// A DFlash, DSpark or DFlash-2 model.
pub struct DflashModel {
    /// Shape and constants.
    pub config: DflashConfig,
    pool: Arc<Pool>,
    /// Its passes, and the cache that they read.
    pub passes: Box<dyn DflashPasses>,
    /// The scored tokens, if not all.
    vocabulary: Option<DraftVocabulary>,
    markov: Option<Markov>,
    selector: Option<Selector>,
    /// The final norm's outputs of the last block of rows, `[rows, H]`, and their logits.
    outputs: Vec<f32>,
    logits: Vec<f32>,
    rows: QuantizedRows,
    /// Bytes of the matrices here.
    own_bytes: u64,
}

/// Corrects logits by the token before (DSpark).
struct Markov {
    /// `[V, R]`: a row for each token before.
    before: Matrix,
    /// `[scored, R]`: a row for each scored token.
    scored: Matrix,
    /// The logit of a row's confidence from its output and the token before, `[1, H + R]`.
    confidence: Option<(Matrix, Vec<f32>)>,
}

/// Scores the best candidates of a row by the one chosen before (DFlash-2).
struct Selector {
    /// `[V, rank]` each.
    before: Matrix,
    after: Matrix,
    /// `[rank, H]`.
    hidden: Matrix,
    /// How many candidates a row has.
    count: usize,
    /// The products of `hidden` and the last outputs, `[rows, rank]`.
    outputs: Vec<f32>,
}

/// A drafter that is less confident than this that its next token is right does not draft it: of
/// such nodes fewer than one in four is accepted, and each makes the target's pass longer.
const LEAST_CONFIDENCE: f32 = 0.25;

impl DflashModel {
    /// Packs what the CPU computes from these passes.
    pub(in crate::model) fn new(
        passes: Box<dyn DflashPasses>,
        config: &DflashConfig,
        request: &LoadRequest<'_>,
    ) -> Result<Self, WeightError> {
        let &LoadRequest { config: body, source, ref pool, .. } = request;
        let (h, vocab) = (body.hidden, body.vocab);
        let scored = config.scored.unwrap_or(vocab);
        let mut packer = Packer::new(source, pool);
        let markov = config.markov.map(|rank| {
            let confidence = config.confidence.then(|| {
                let matrix = packer.matrix("conf_proj.weight", [1, h + rank], None)?;
                Ok::<_, WeightError>((matrix, weights::vector(source, "conf_proj.bias", 1)?))
            });
            Ok::<_, WeightError>(Markov {
                confidence: confidence.transpose()?,
                before: packer.matrix("markov_w1.weight", [vocab, rank], None)?,
                scored: packer.matrix("markov_w2.weight", [scored, rank], None)?,
            })
        });
        let selector = config.selector.map(|[rank, count]| {
            Ok::<_, WeightError>(Selector {
                before: packer.matrix("selector_predecessor.weight", [vocab, rank], None)?,
                after: packer.matrix("selector_successor.weight", [vocab, rank], None)?,
                hidden: packer.matrix("selector_hidden.weight", [rank, h], None)?,
                count,
                outputs: Vec::new(),
            })
        });
        let (markov, selector) = (markov.transpose()?, selector.transpose()?);
        Ok(Self {
            vocabulary: draft_vocabulary(source, vocab)?,
            config: config.clone(),
            pool: Arc::clone(pool),
            passes,
            markov,
            selector,
            outputs: Vec::new(),
            logits: Vec::new(),
            rows: QuantizedRows::new(),
            own_bytes: packer.bytes,
        })
    }

    /// Drafts the tokens after `root`, which follows what is in the cache. The rows of the block
    /// leave nothing there.
    ///
    /// # Errors
    /// [`HeadError::Device`].
    pub fn draft(&mut self, root: u32) -> Result<(), HeadError> {
        let Self { config, pool, passes, outputs, logits, .. } = self;
        let mut tokens = vec![config.mask; config.rows];
        tokens[0] = root;
        outputs.resize(config.rows * config.body.hidden, 0.0);
        passes.draft(&tokens, outputs, logits)?;
        if let Some(selector) = &mut self.selector {
            selector.outputs.resize(config.rows * selector.hidden.outputs(), 0.0);
            let product = (&selector.hidden, &mut selector.outputs[..]);
            products(pool, &mut self.rows, outputs, &mut [product]);
        }
        Ok(())
    }

    /// The number of tokens that a row has logits for.
    fn scored(&self) -> usize {
        self.config.scored.unwrap_or(self.config.body.vocab)
    }

    /// The logits of a row of the last draft after each of these tokens, `[tokens, scored]`, before
    /// any selector, and how confident the drafter is of each, if it says.
    pub fn logits_after(&mut self, row: usize, before: &[u32]) -> (Vec<f32>, Vec<f32>) {
        let scored = self.scored();
        let Self { config, pool, rows, markov, .. } = self;
        let mut all = self.logits[row * scored..(row + 1) * scored].repeat(before.len());
        let Some(markov) = markov else { return (all, Vec::new()) };
        let codes = rows_of(&markov.before, before);
        let mut change = vec![0.0; all.len()];
        products(pool, rows, &codes, &mut [(&markov.scored, &mut change)]);
        all.iter_mut().zip(change).for_each(|(logit, change)| *logit += change);
        let Some((matrix, bias)) = &markov.confidence else { return (all, Vec::new()) };
        let hidden = config.body.hidden;
        let output = &self.outputs[row * hidden..(row + 1) * hidden];
        let codes = codes.chunks_exact(markov.before.inputs());
        let joined: Vec<f32> = codes.flat_map(|code| [output, code].concat()).collect();
        let mut confidence = vec![0.0; before.len()];
        products(pool, rows, &joined, &mut [(matrix, &mut confidence)]);
        let sigmoid = |x: f32| 1.0 / (1.0 + (-x - bias[0]).exp());
        (all, confidence.into_iter().map(sigmoid).collect())
    }

    /// What may follow each of the tokens `before` at a level of the last draft, below 0 the root.
    pub fn candidates(
        &mut self,
        level: usize,
        before: &[u32],
        ranking: &Ranking,
    ) -> Vec<Vec<(u32, f32)>> {
        let row = level + self.config.rows - self.config.levels();
        if let Some((tokens, scores)) = self.scores(row, before) {
            let of = |scores| ranking.candidates_among(scores, |i| tokens[i as usize]);
            return scores.chunks_exact(tokens.len().max(1)).map(of).collect();
        }
        let (logits, confidence) = self.logits_after(row, before);
        let tokens = self.vocabulary.as_ref().map(DraftVocabulary::tokens);
        let scored = self.scored();
        let mut all = vec![Vec::new(); before.len()];
        self.pool.chunks(&mut all, 1, |i, candidates| {
            let logits = &logits[i * scored..(i + 1) * scored];
            candidates[0] = match tokens {
                _ if confidence.get(i).is_some_and(|&own| own < LEAST_CONFIDENCE) => return,
                None => ranking.candidates(logits),
                Some(tokens) => ranking.candidates_among(logits, |id| tokens[id as usize]),
            };
        });
        all
    }

    /// The selector's candidates for a row, ascending, and their scores after each of the tokens
    /// `before`, `[tokens, candidates]`; `None` without a selector.
    pub fn scores(&self, row: usize, before: &[u32]) -> Option<(Vec<u32>, Vec<f32>)> {
        let selector = self.selector.as_ref()?;
        let vocab = self.scored();
        let logits = &self.logits[row * vocab..(row + 1) * vocab];
        let mut best = top_k(logits, selector.count);
        best.sort_unstable_by_key(|&(token, _)| token);
        let tokens: Vec<u32> = best.iter().map(|&(token, _)| token).collect();
        let rank = selector.hidden.outputs();
        let output = &selector.outputs[row * rank..(row + 1) * rank];
        let after = rows_of(&selector.after, &tokens);
        let before = rows_of(&selector.before, before);
        let score = |before: &[f32], after: &[f32]| -> f32 {
            before.iter().zip(output).zip(after).map(|((a, b), c)| a * b * c).sum()
        };
        let of = |before| {
            best.iter().zip(after.chunks_exact(rank)).map(move |((_, x), c)| x + score(before, c))
        };
        let scores = before.chunks_exact(rank).flat_map(of).collect();
        Some((tokens, scores))
    }

    /// Bytes of weights that are its own, and of its cache; on a GPU, of those there.
    pub fn bytes(&self) -> u64 {
        self.passes.bytes() + if self.passes.traffic().is_none() { self.own_bytes } else { 0 }
    }
}

/// The scored tokens: 64-bit numbers of the target's tokens.
fn draft_vocabulary(
    source: &dyn WeightSource,
    vocab: usize,
) -> Result<Option<DraftVocabulary>, WeightError> {
    let Some(stored) = source.tensor("d2t") else { return Ok(None) };
    let tokens = stored.bytes.as_chunks().0.iter().map(|&bytes| i64::from_le_bytes(bytes));
    let offsets: Vec<i64> = tokens.zip(0..).map(|(token, id)| token.wrapping_sub(id)).collect();
    let wrong = |problem| WeightError::of(source, "d2t", format!(": {problem}"));
    DraftVocabulary::from_offsets(&offsets, vocab).map(Some).map_err(wrong)
}
