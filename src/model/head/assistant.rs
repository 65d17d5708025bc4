//! Gemma 4's assistant on the CPU (method.md, Assistants): a few layers without keys and values of
//! their own, which read those of two of the target's layers. It must not depend on drafting.

use std::sync::Arc;

use super::backend::{check_room, feature_of};
use super::draft_vocab::ranked;
use super::pack::{called, scored_rows};
use super::{
    Candidates, DraftVocabulary, HeadBackend, HeadConfig, HeadError, HeadKind, HeadRequest, Misfit,
    Pairs, TREE_ROWS,
};
use crate::kernels::{Format, KvCache, Matrix, Pool, TreeMask};
use crate::model::cpu::layer::{Layer, NormWeights};
use crate::model::cpu::packer::Packer;
use crate::model::cpu::scratch::{CpuBlocks, PassScratch, PassTiming};
use crate::model::weights::{EMBEDDING, NORM, layer_name};
use crate::model::{Config, RopeTable};
use crate::speculate::{BeamRow, Ranking};

/// How many of the target's layers it reads: the last with a window and the last without one.
const CACHES: usize = 2;

/// The projection of the embedding and the target's row to the assistant's width.
const PRE: &str = "pre_projection.weight";
/// The projection of its output to the width of the target's rows.
const POST: &str = "post_projection.weight";

/// What an assistant is in addition to its layers.
#[derive(Clone, Debug, PartialEq)]
pub struct AssistantConfig {
    /// H of its target.
    pub target_hidden: usize,
    /// The format of its largest matrix.
    pub format: Format,
}

impl HeadConfig {
    /// An assistant whose layers are those of `body`, as if they had keys and values.
    pub fn of_assistant(mut body: Config, assistant: AssistantConfig) -> Self {
        // It reads embeddings as its target does.
        body.block.embedding_scale = (assistant.target_hidden as f32).sqrt();
        Self::of_body(body, HeadKind::Assistant(assistant))
    }

    /// How many keys and values an assistant reads of a position.
    pub(super) fn read_width(&self) -> usize {
        let config = over_caches(&self.body);
        let width = |layer| config.kv_shape(layer).keys() + config.kv_shape(layer).values();
        (0..CACHES).map(width).sum()
    }

    /// Checks that an assistant can read the keys and values of `target`.
    pub(super) fn reads(&self, target: &Config) -> Result<(), Misfit> {
        let of = |config: &Config, layers: [usize; CACHES]| {
            let [local, global] = layers.map(|layer| config.kv_shape(layer));
            let window = config.block.window.as_ref().map_or(0, |window| window.size);
            [local.heads, local.key_dim, global.heads, global.key_dim, window]
        };
        let found = target.last_caches().map_or([0; 5], |layers| of(target, layers));
        let own = of(&over_caches(&self.body), [0, 1]);
        Misfit::unless_equal([
            ("number of key heads with a window", own[0], found[0]),
            ("width of key heads with a window", own[1], found[1]),
            ("number of key heads without a window", own[2], found[2]),
            ("width of key heads without a window", own[3], found[3]),
            ("window", own[4], found[4]),
        ])
    }
}

/// The layers of `body` after two that only have keys and values, which the others read.
fn over_caches(body: &Config) -> Config {
    let mut config = Config { layers: body.layers + CACHES, ..body.clone() };
    let block = &mut config.block;
    block.own_kv_layers = Some(CACHES);
    if let Some(window) = &mut block.window {
        window.layers.splice(0..0, [true, false]);
    }
    if let Some(widths) = &mut block.intermediates {
        widths.splice(0..0, [0; CACHES]);
    }
    config
}

/// An assistant with a copy of what it reads of the target's cache.
pub struct AssistantHead {
    config: Config,
    target_hidden: usize,
    pool: Arc<Pool>,
    pre: Matrix,
    post: Matrix,
    layers: Vec<Layer>,
    norm: NormWeights,
    embedding: Arc<Matrix>,
    /// `[scored tokens, H]`.
    lm_head: Matrix,
    /// The scored tokens, if not all.
    draft_vocab: Option<DraftVocabulary>,
    rope: Vec<RopeTable>,
    cache: KvCache,
    /// The last pair's token, and the output of the target's final norm that came before it.
    root: (u32, Vec<f32>),
    /// What the root and then the scratch rows hand on, `[1 + scratch, H of the target]`.
    handed_on: Vec<f32>,
    scratch: PassScratch,
    timing: PassTiming,
}

impl AssistantHead {
    /// Packs an assistant.
    ///
    /// # Errors
    /// [`HeadError`] if a tensor is missing or misshapen, or there is not enough memory.
    pub fn new(request: &HeadRequest<'_>) -> Result<Self, HeadError> {
        let &HeadRequest { weights, shared, ref pool, capacity, precision, kv, .. } = request;
        let config = over_caches(&weights.config.body);
        let narrowed = request.narrowed()?;
        let mut packer = Packer::new(&narrowed, pool);
        let [h, target_hidden] = [config.hidden, shared.embedding.inputs()];
        let layer = |layer| {
            let name = |part: &str| layer_name(layer - CACHES, part);
            packer.layer_of(&config, layer, h, &name)
        };
        let layers = (CACHES..config.layers).map(layer).collect::<Result<_, _>>()?;
        let table = packer.matrix(EMBEDDING, [config.vocab, h], None)?;
        let draft_vocab = weights.draft_vocab.clone();
        let lm_head = match &draft_vocab {
            Some(scored) => scored_rows(&table, scored, pool, precision)?,
            None => table,
        };
        let slots = capacity.saturating_add(TREE_ROWS);
        let cache = KvCache::of_layers(config.kv_shapes(0..CACHES), slots, kv)
            .map_err(|error| HeadError::Device(error.to_string()))?;
        Ok(Self {
            pre: packer.matrix(PRE, [h, 2 * target_hidden], None)?,
            post: packer.matrix(POST, [target_hidden, h], None)?,
            norm: packer.norm(&config.block, NORM, h)?,
            layers,
            embedding: Arc::clone(&shared.embedding),
            lm_head,
            draft_vocab,
            rope: RopeTable::of(&config, capacity),
            cache,
            config,
            target_hidden,
            pool: Arc::clone(pool),
            root: (0, Vec::new()),
            handed_on: Vec::new(),
            scratch: PassScratch::default(),
            timing: PassTiming::default(),
        })
    }

    /// Runs rows of tokens and what comes before each, `[rows, H of the target]`, all at the
    /// position after those in the cache. Notes what they hand on and ranks the children of each.
    fn pass(&mut self, tokens: &[u32], before: &[f32], ranking: &Ranking) -> Candidates {
        let Self { config, pool, cache, scratch, timing, .. } = self;
        let (rows, wide) = (tokens.len(), self.target_hidden);
        let mask = TreeMask::of_prefix(rows);
        let caches = std::slice::from_mut(cache);
        let mut blocks = CpuBlocks::begin(config, pool, caches, scratch, timing);
        blocks.place(&mask, &self.rope);
        let mut joined = vec![0.0; rows * 2 * wide];
        for (row, joined) in joined.chunks_exact_mut(2 * wide).enumerate() {
            let (embedding, state) = joined.split_at_mut(wide);
            self.embedding.row(tokens[row] as usize, embedding);
            config.block.scale_embedding(embedding);
            state.copy_from_slice(&before[row * wide..(row + 1) * wide]);
        }
        let mut stream = vec![0.0; rows * config.hidden];
        blocks.products(&joined, &mut [(&self.pre, &mut stream)]);
        blocks.scratch.stream.copy_from_slice(&stream);
        for (index, layer) in self.layers.iter().enumerate() {
            blocks.run(CACHES + index, layer, &mask);
        }
        self.norm.apply(pool, &blocks.scratch.stream, config.rms_eps, &mut stream);
        let mut handed_on = vec![0.0; rows * wide];
        let scored = self.lm_head.outputs();
        let mut logits = vec![0.0; rows * scored];
        let outputs = &mut [(&self.post, &mut handed_on[..]), (&self.lm_head, &mut logits)];
        blocks.products(&stream, outputs);
        config.block.finish_logits(pool, &mut logits);
        self.handed_on.extend_from_slice(&handed_on);
        ranked(pool, &logits, scored, self.draft_vocab.as_ref(), ranking)
    }
}

impl HeadBackend for AssistantHead {
    fn describe(&self) -> String {
        format!("{} on CPU", called(self.pre.format()))
    }

    fn extend(&mut self, start: usize, pairs: Pairs<'_>, _: usize) -> Result<(), HeadError> {
        let Pairs { features, tokens } = pairs;
        let rows = tokens.len();
        check_room(start + rows, self.cache.capacity() - TREE_ROWS)?;
        self.cache.truncate(start);
        let features: Vec<&[f32]> = features.chunks_exact(features.len() / rows.max(1)).collect();
        let mut at = self.target_hidden;
        for layer in 0..CACHES {
            let shape = self.cache.layer(layer);
            let mut part = |width: usize| {
                let from = at;
                at += width;
                features.iter().flat_map(|row| &row[from..from + width]).copied().collect()
            };
            let [keys, values]: [Vec<f32>; 2] = [part(shape.keys()), part(shape.values())];
            self.cache.write(&self.pool, layer, &keys, &values);
        }
        self.cache.commit(&self.pool, &(0..rows).collect::<Vec<_>>());
        if let (Some(&token), Some(row)) = (tokens.last(), features.last()) {
            self.root = (token, row[..self.target_hidden].to_vec());
        }
        self.handed_on.clear();
        Ok(())
    }

    fn rank_root(&mut self, ranking: &Ranking) -> Result<Vec<(u32, f32)>, HeadError> {
        let (token, before) = std::mem::take(&mut self.root);
        self.handed_on.clear();
        let ranked = self.pass(&[token], &before, ranking).pop();
        self.root = (token, before);
        Ok(ranked.unwrap_or_default())
    }

    fn step(&mut self, beam: &[BeamRow], ranking: &Ranking) -> Result<Candidates, HeadError> {
        let wide = self.target_hidden;
        if self.handed_on.len() / wide + beam.len() > TREE_ROWS {
            // The tree has reached its largest size.
            return Ok(Vec::new());
        }
        let of = |row: &BeamRow| &self.handed_on[feature_of(row) * wide..][..wide];
        let before: Vec<f32> = beam.iter().flat_map(of).copied().collect();
        let tokens: Vec<u32> = beam.iter().map(|row| row.token).collect();
        Ok(self.pass(&tokens, &before, ranking))
    }

    fn outputs(&self) -> Result<Vec<f32>, HeadError> {
        Ok(self.handed_on.clone())
    }

    fn device_bytes(&self) -> u64 {
        let layers = self.layers.iter().flat_map(Layer::matrices);
        let own = layers.chain([&self.pre, &self.post, &self.lm_head]);
        (own.map(Matrix::bytes).sum::<usize>() + self.cache.bytes()) as u64
    }
}
