//! Sizes of models on their devices, for placement and for the cost model. It must never measure.

use crate::kernels::{Format, KvCache, KvFormat};
use crate::library::{DflashFiles, TargetFiles};
use crate::model::head::{DraftPrecision, HeadConfig, HeadKind, TREE_ROWS};
use crate::model::{Config, CpuTarget, DflashConfig};
use crate::plan::{DraftSize, LayerSize, Setting, TargetSize};
use crate::settings::ScoredTokens;

/// Bytes per weight in half precision.
const HALF: f64 = 2.0;
/// The most by which a weight of the target is larger there than in its file: a weight in Q6_K
/// takes 10 bits instead of 6.6.
pub(super) const WIDENED: f64 = 1.55;
/// Bytes that the program takes next to weights and caches: itself and the buffers of a pass; and
/// for each token of the vocabulary, its texts and logits. Measured with 135 million to 1.5 billion
/// weights.
const PROGRAM: u64 = 80 << 20;
const PER_TOKEN: u64 = 600;
/// Bytes per weight of a head on the CPU unless the user wants another precision: a code, and its
/// part of a block's scale.
pub(crate) const FOUR_BITS: f64 = 20.0 / 32.0;

/// An automatic draft vocabulary is the first sixth of the target's: tokenizers merge frequent
/// pairs first.
const AUTO_SHARE: usize = 6;
/// Its size is a multiple of this.
const AUTO_GRAIN: usize = 1024;
/// And it is not smaller than this.
const AUTO_LEAST: usize = 4096;

/// Bytes of the target's KV cache in main memory with this many positions.
pub(super) fn kv_bytes(config: &Config, positions: usize, format: KvFormat) -> u64 {
    let recurrent = (0..config.layers).filter(|&layer| config.block.recurrent_of(layer).is_some());
    let states = config
        .block
        .recurrent
        .as_ref()
        .map_or(0, |all| KvCache::recurrent_bytes(&all.shape, recurrent.count()));
    let kv = KvCache::bytes_of(&config.kv_shapes(0..config.layers), positions, format);
    kv.saturating_add(states) as u64
}

/// Bytes that are needed next to a target's weights and cache to decode with it.
pub(super) fn scratch(config: &Config) -> u64 {
    PROGRAM + PER_TOKEN * config.vocab as u64
}

/// Bytes of one block's keys and values in half precision, with slots for the context and a tree.
pub(super) fn device_cache(config: &Config, capacity: usize) -> u64 {
    4 * (config.kv_width() * (capacity + TREE_ROWS)) as u64
}

/// The target's size for the cost model.
pub(crate) fn of_target(target: &CpuTarget) -> TargetSize {
    // The part that the CPU computes; for a target on another device, the whole.
    let layers = match target.layers() {
        0 => target.config().layers,
        some => some,
    };
    let config = Config { layers, ..target.config().clone() };
    TargetSize::dense(config.linear_weights(), target.pass_bytes(), layers)
        .with_experts(config.routed_weights())
}

/// The whole target in main memory, before it is loaded.
pub(super) fn of_target_files(files: &TargetFiles) -> TargetSize {
    let config = &files.config;
    let weights = config.linear_weights();
    let lookup = if config.tied_head { 0 } else { (config.vocab * config.hidden) as u64 };
    let routed = config.routed_weights();
    let unused = routed.map_or(0.0, |(routed, used)| routed as f64 * (1.0 - used));
    let all = weights as f64 + unused;
    let read = files.bytes as f64 * all / (all + lookup as f64).max(1.0);
    TargetSize::dense(weights, read as u64, config.layers).with_experts(routed)
}

/// The target's blocks on a GPU.
pub(super) fn of_layers(files: &TargetFiles, context: usize) -> LayerSize {
    let config = &files.config;
    let head_weights = (config.vocab * config.hidden) as u64;
    let linear = config.linear_weights();
    let block = (linear - head_weights) / config.layers.max(1) as u64;
    let lookup = if config.tied_head { 0 } else { head_weights };
    let stored = files.bytes as f64 / (linear + lookup).max(1) as f64;
    // Never wider than 16 bits, unless the file is.
    let bytes_per_weight = (stored * WIDENED).min(stored.max(HALF));
    let bytes = |weights: u64| (weights as f64 * bytes_per_weight) as u64;
    let cache = device_cache(config, context);
    LayerSize {
        layers: config.layers,
        layer: bytes(block) + cache,
        cache,
        head: bytes(head_weights),
    }
}

/// How many bytes a small model takes on a GPU, including its KV cache.
pub(super) fn of_draft(files: &TargetFiles, context: usize) -> u64 {
    let size = of_layers(files, context);
    size.held(size.layers)
}

/// Bytes per weight of a head that is `stored` in this format.
pub(super) fn head_weight(precision: DraftPrecision, stored: Format, on_gpu: bool) -> f64 {
    // A whole number of blocks, as rows have.
    let format = precision.format(stored, 1 << 10);
    match format {
        // On a GPU, scale and minimum of a run of 32 codes are 32-bit floats.
        Format::Q8_0 if on_gpu => (32.0 + 4.0) / 32.0,
        Format::Q4_1 if on_gpu => (16.0 + 8.0) / 32.0,
        format => format.bytes_per_weight(),
    }
}

/// A head with what it shares with the target (method.md, Draft heads).
pub(crate) fn of_head(config: &HeadConfig, tied_head: bool, bytes_per_weight: f64) -> DraftSize {
    let body = &config.body;
    let vocabulary = (body.hidden * body.vocab) as u64;
    DraftSize {
        fixed: fusion(config) + scored(config),
        lookup: match config.kind {
            HeadKind::Assistant(_) => 0,
            _ if tied_head && shares_lm_head(config) => 0,
            _ => vocabulary,
        },
        block: head_block(body),
        bytes_per_weight,
        blocks: config.blocks(),
        elastic: config.elastic,
        levels: config.levels().unwrap_or(usize::MAX),
        ..DraftSize::NOTHING
    }
}

/// How many weights of a head were trained, without those of its blocks and without what it shares
/// with the target.
pub(super) fn own_weights(config: &HeadConfig) -> u64 {
    let own_head = if shares_lm_head(config) { 0 } else { scored(config) };
    fusion(config) + own_head + unused_experts(&config.body)
}

fn fusion(config: &HeadConfig) -> u64 {
    let body = &config.body;
    let square = (body.hidden * body.hidden) as u64;
    match &config.kind {
        HeadKind::Dgf => 4 * square,
        HeadKind::Eagle | HeadKind::Mtp(_) => 2 * square,
        // The projections from the target's width and back.
        HeadKind::Assistant(own) => 3 * (body.hidden * own.target_hidden) as u64,
        // `fc`, and attention that also reads the token's embedding.
        HeadKind::Eagle3(own) => {
            let attention = body.q_width() + 2 * body.kv_width();
            (body.hidden * (own.feature_width() + attention)) as u64
        }
    }
}

/// Weights of the LM head.
fn scored(config: &HeadConfig) -> u64 {
    (config.body.hidden * config.scored()) as u64
}

fn shares_lm_head(config: &HeadConfig) -> bool {
    let has_own = matches!(config.kind, HeadKind::Eagle3(_) | HeadKind::Assistant(_));
    config.draft_vocab.is_none() && !has_own
}

/// A small model with `bytes` of weights, before they are packed, that scores so many tokens.
pub(crate) fn of_small(config: &Config, bytes: u64, scored: usize) -> DraftSize {
    let weights = config.linear_weights();
    let rows = |count: usize| (count * config.hidden) as u64;
    let unscored = rows(config.vocab - scored);
    DraftSize {
        fixed: weights - unscored,
        lookup: unscored + if config.tied_head { 0 } else { rows(config.vocab) },
        bytes_per_weight: bytes as f64 / weights.max(1) as f64,
        ..DraftSize::NOTHING
    }
}

/// A DFlash drafter before it is packed.
pub(super) fn of_dflash_files(
    files: &DflashFiles,
    precision: DraftPrecision,
    on_gpu: bool,
) -> DraftSize {
    let weights = files.config.weights();
    let stored = files.bytes as f64 / weights.max(1) as f64;
    let bytes_per_weight = head_weight(precision, Format::F16, on_gpu).min(stored);
    of_dflash(&files.config, (weights as f64 * bytes_per_weight) as u64)
}

/// A DFlash drafter with `bytes` of packed weights and cache.
pub(crate) fn of_dflash(config: &DflashConfig, bytes: u64) -> DraftSize {
    let fixed = config.weights();
    let bytes_per_weight = bytes as f64 / fixed.max(1) as f64;
    let levels = config.levels();
    let pass_rows = config.rows;
    DraftSize { fixed, bytes_per_weight, pass_rows, levels, ..DraftSize::NOTHING }
}

/// The most that a head takes on a GPU, including its KV cache. Its embedding stays in main memory.
pub(super) fn head_on_gpu(config: &HeadConfig, bytes_per_weight: f64, context: usize) -> u64 {
    (most_weights(config) as f64 * bytes_per_weight) as u64 + head_cache(config, context)
}

/// The most that a head takes on the CPU, including its KV cache, while it is loaded and not yet
/// packed.
pub(super) fn head_on_cpu(config: &HeadConfig, context: usize) -> u64 {
    let embedding = (config.body.hidden * config.body.vocab) as u64;
    let weights = most_weights(config) + embedding;
    (weights as f64 * HALF) as u64 + head_cache(config, context)
}

fn most_weights(config: &HeadConfig) -> u64 {
    let body = &config.body;
    let h = body.hidden as u64;
    // DGF's fusion is the widest with one feature; an EAGLE-3 head's attention is wider as well.
    let taps = config.kind.eagle3().map_or(0, |own| 3 * own.feature_width() as u64);
    let blocks = config.blocks() as u64 * head_block(body) + unused_experts(body);
    h * (4 * h + taps) + scored(config) + blocks
}

fn head_cache(config: &HeadConfig, context: usize) -> u64 {
    config.blocks() as u64 * device_cache(&config.body, config.capacity(context))
}

/// Weights of one block of a head that a row uses.
fn head_block(body: &Config) -> u64 {
    (body.linear_weights() - (body.vocab * body.hidden) as u64) / body.layers.max(1) as u64
}

/// Weights of a head's experts that a row does not use.
fn unused_experts(body: &Config) -> u64 {
    body.routed_weights().map_or(0, |(all, used)| (all as f64 * (1.0 - used)) as u64)
}

/// The most tokens of `vocab` that `wished` lets a head score, not counting those that end a turn.
pub(super) fn most_scored(wished: &ScoredTokens, vocab: usize) -> usize {
    match wished {
        ScoredTokens::All => vocab,
        ScoredTokens::First(Setting::Fixed(count)) => (*count).min(vocab),
        ScoredTokens::First(Setting::Auto) | ScoredTokens::OfText(_) => {
            (vocab / AUTO_SHARE).next_multiple_of(AUTO_GRAIN).max(AUTO_LEAST).min(vocab)
        }
    }
}
