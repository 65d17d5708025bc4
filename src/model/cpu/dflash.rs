//! A DFlash drafter on the CPU (method.md, DFlash): a cache that holds only what the target's
//! states put into it, and passes that draft all levels of a tree at once. It must not depend on
//! how a tree is grown.

use std::sync::Arc;

use super::layer::{Convolution, Layer, NormWeights};
use super::packer::Packer;
use super::scratch::{CpuBlocks, PassScratch, PassTiming};
use super::{CHUNK, Progress};
use crate::kernels::{Format, KvCache, KvFormat, Matrix, Pool, TreeMask};
use crate::model::dflash::DflashConfig;
use crate::model::head::{DraftVocabulary, SharedTables, rows_of};
use crate::model::weights::{self, WeightError, WeightSource, layer_name};
use crate::model::{LoadError, RopeTable};
use crate::speculate::{Ranking, top_k};

/// A DFlash drafter with its cache.
pub struct CpuDflash {
    config: DflashConfig,
    pool: Arc<Pool>,
    /// Fuses the tapped states, and the norm of what it computes.
    fc: Matrix,
    fc_norm: NormWeights,
    layers: Vec<Layer>,
    norm: NormWeights,
    embedding: Arc<Matrix>,
    lm_head: Arc<Matrix>,
    /// The scored tokens, if not all.
    vocabulary: Option<DraftVocabulary>,
    markov: Option<Markov>,
    selector: Option<Selector>,
    rope: Vec<RopeTable>,
    cache: KvCache,
    own_bytes: u64,
    scratch: PassScratch,
    timing: PassTiming,
    /// The final norm's outputs of the last block of rows, `[rows, H]`, and their logits.
    outputs: Vec<f32>,
    logits: Vec<f32>,
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

impl CpuDflash {
    /// Packs the weights and allocates a cache for `capacity` positions and a block of rows. What
    /// it has no table for it takes from the target, which is not copied.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn load(
        config: &DflashConfig,
        source: &dyn WeightSource,
        shared: &SharedTables,
        pool: Arc<Pool>,
        capacity: usize,
        kv: KvFormat,
    ) -> Result<Self, LoadError> {
        let slots = capacity.saturating_add(config.rows);
        let body = &config.body;
        let cache = KvCache::of_layers(body.kv_shapes(0..body.layers), slots, kv)
            .map_err(|error| LoadError::Cache { capacity: slots, error })?;
        let mut own_bytes = 0;
        let mut note = |packed: Progress| own_bytes = packed.bytes;
        let (h, vocab) = (body.hidden, body.vocab);
        let scored = config.scored.unwrap_or(vocab);
        let packing = Arc::clone(&pool);
        let mut packer = Packer::new(source, &packing, 0, &mut note);
        let fc =
            packer.matrix("fc.weight", [h, config.states.len() * config.target_hidden], None)?;
        let fc_norm = packer.norm(&body.block, "enc.output_norm", h)?;
        let mut layers = Vec::with_capacity(body.layers);
        for (index, &window) in config.windows.iter().enumerate() {
            let mut layer = packer.layer(body, index)?;
            layer.window = window;
            if let Some(shape) = config.convolution {
                let mut convolution = |part: &str| {
                    convolution(&mut packer, source, &layer_name(index, part), shape, h)
                };
                layer.convolutions = Some(Box::new([convolution("attn")?, convolution("ffn")?]));
            }
            layers.push(layer);
        }
        let [own_embedding, own_head] = config.own_tables;
        let embedding = match own_embedding {
            true => Arc::new(packer.matrix(weights::EMBEDDING, [vocab, h], None)?),
            false => Arc::clone(&shared.embedding),
        };
        let lm_head = match own_head {
            true => Arc::new(packer.matrix(weights::HEAD, [scored, h], None)?),
            false => Arc::clone(&shared.lm_head),
        };
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
        let norm = packer.norm(&body.block, weights::NORM, h)?;
        drop(packer);
        Ok(Self {
            norm,
            vocabulary: draft_vocabulary(source, vocab)?,
            rope: RopeTable::of(body, capacity),
            config: config.clone(),
            pool,
            fc,
            fc_norm,
            layers,
            embedding,
            lm_head,
            markov,
            selector,
            cache,
            own_bytes,
            scratch: PassScratch::default(),
            timing: PassTiming::default(),
            outputs: Vec::new(),
            logits: Vec::new(),
        })
    }

    /// Shape and constants.
    pub fn config(&self) -> &DflashConfig {
        &self.config
    }

    /// Precision and device, e.g. `Q4_1 on CPU`.
    pub fn describe(&self) -> String {
        format!(
            "{} on CPU",
            self.layers.first().and_then(Layer::typical).map_or(Format::F32, Matrix::format)
        )
    }

    /// How many positions are in the cache.
    pub fn len(&self) -> usize {
        self.cache.len()
    }

    /// Whether no position is in the cache.
    pub fn is_empty(&self) -> bool {
        self.cache.is_empty()
    }

    /// Rolls back to the first `len` positions.
    pub fn truncate(&mut self, len: usize) {
        self.cache.truncate(len);
    }

    /// Puts the target's tapped states `[positions, states · target's H]` into the cache, as those
    /// of the next positions.
    pub fn inject(&mut self, features: &[f32]) {
        let Self { config, pool, fc, fc_norm, layers, rope, cache, scratch, timing, .. } = self;
        for features in features.chunks(CHUNK * fc.inputs()) {
            let rows = features.len() / fc.inputs();
            let mask = TreeMask::causal(rows);
            let caches = std::slice::from_mut(&mut *cache);
            let mut blocks = CpuBlocks::begin(&config.body, pool, caches, scratch, timing);
            blocks.place(&mask, rope);
            let mut states = vec![0.0; rows * config.body.hidden];
            let mut fused = states.clone();
            blocks.products(features, &mut [(fc, &mut states)]);
            fc_norm.apply(pool, &states, config.body.rms_eps, &mut fused);
            for (index, layer) in layers.iter().enumerate() {
                blocks.inject(index, layer, &mask, &fused);
            }
            cache.commit(pool, &(0..rows).collect::<Vec<_>>());
        }
    }

    /// Drafts the tokens after `root`, which follows what is in the cache. The rows of the block
    /// leave nothing there.
    pub fn draft(&mut self, root: u32) {
        let Self { config, pool, layers, cache, scratch, timing, outputs, logits, .. } = self;
        let DflashConfig { body, rows, mask, .. } = &*config;
        let masks = [TreeMask::both_ways(*rows), TreeMask::causal(*rows)];
        let caches = std::slice::from_mut(cache);
        let mut blocks = CpuBlocks::begin(body, pool, caches, scratch, timing);
        blocks.place(&masks[0], &self.rope);
        let embedding = &self.embedding;
        pool.chunks(&mut blocks.scratch.stream, body.hidden, |row, stream| {
            embedding.row(if row == 0 { root } else { *mask } as usize, stream);
            body.block.scale_embedding(stream);
        });
        for (index, (layer, &causal)) in layers.iter().zip(&config.causal).enumerate() {
            blocks.run(index, layer, &masks[usize::from(causal)]);
        }
        outputs.resize(rows * body.hidden, 0.0);
        self.norm.apply(pool, &blocks.scratch.stream, body.rms_eps, outputs);
        logits.resize(rows * self.lm_head.outputs(), 0.0);
        blocks.products(outputs, &mut [(&self.lm_head, &mut *logits)]);
        body.block.finish_logits(pool, logits);
        if let Some(selector) = &mut self.selector {
            selector.outputs.resize(rows * selector.hidden.outputs(), 0.0);
            blocks.products(outputs, &mut [(&selector.hidden, &mut selector.outputs)]);
        }
    }

    /// The logits of a row of the last draft after each of these tokens, `[tokens, scored]`, before
    /// any selector, and how confident the drafter is of each, if it says.
    pub fn logits_after(&mut self, row: usize, before: &[u32]) -> (Vec<f32>, Vec<f32>) {
        let Self { config, pool, cache, scratch, timing, markov, .. } = self;
        let scored = self.lm_head.outputs();
        let mut all = self.logits[row * scored..(row + 1) * scored].repeat(before.len());
        let Some(markov) = markov else { return (all, Vec::new()) };
        let caches = std::slice::from_mut(cache);
        let mut blocks = CpuBlocks::begin(&config.body, pool, caches, scratch, timing);
        let codes = rows_of(&markov.before, before);
        let mut change = vec![0.0; all.len()];
        blocks.products(&codes, &mut [(&markov.scored, &mut change)]);
        all.iter_mut().zip(change).for_each(|(logit, change)| *logit += change);
        let Some((matrix, bias)) = &markov.confidence else { return (all, Vec::new()) };
        let hidden = config.body.hidden;
        let output = &self.outputs[row * hidden..(row + 1) * hidden];
        let codes = codes.chunks_exact(markov.before.inputs());
        let joined: Vec<f32> = codes.flat_map(|code| [output, code].concat()).collect();
        let mut confidence = vec![0.0; before.len()];
        blocks.products(&joined, &mut [(matrix, &mut confidence)]);
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
        let scored = self.lm_head.outputs();
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
        let vocab = self.lm_head.outputs();
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

    /// Keys and values of the positions of one layer as the cache holds them, `[len, heads, d]`
    /// each. For inspection.
    pub fn keys_and_values(&self, layer: usize) -> (Vec<f32>, Vec<f32>) {
        let shape = self.cache.layer(layer);
        let slots = self.cache.slots(layer, 0..self.cache.len());
        let numbers = self.cache.format().numbers(&slots);
        let rows = || numbers.chunks_exact(shape.keys() + shape.values());
        let keys = rows().flat_map(|row| &row[..shape.keys()]).copied().collect();
        (keys, rows().flat_map(|row| &row[shape.keys()..]).copied().collect())
    }

    /// Bytes of weights that are its own, and of its cache.
    pub fn bytes(&self) -> u64 {
        self.own_bytes + self.cache.bytes() as u64
    }
}

/// A convolution of these taps and kernels, `[taps, groups]`, over `width` channels.
fn convolution(
    packer: &mut Packer<'_>,
    source: &dyn WeightSource,
    at: &str,
    [taps, groups]: [usize; 2],
    width: usize,
) -> Result<Convolution, WeightError> {
    let base = weights::floats(source, &format!("{at}_conv_base"), &[2, taps, width])?;
    let dynamic =
        packer.matrix(&format!("{at}_conv_proj.weight"), [2 * taps * groups, width], None)?;
    Ok(Convolution { taps, base, dynamic })
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
