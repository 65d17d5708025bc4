//! Sizes of models on their devices, as placement and the cost model take them. Must never measure.

use crate::library::{HeadFiles, TargetFiles};
use crate::model::head::{FusionKind, HeadConfig};
use crate::model::{Config, CpuTarget};
use crate::plan::{DraftSize, LayerSize, TargetSize};

/// Bytes of a weight on a GPU.
pub(super) const HALF: f64 = 2.0;
/// Bytes of a head's weight on the CPU: a code, and its part of a block's scale.
pub(in crate::worker) const EIGHT_BITS: f64 = 34.0 / 32.0;

/// Bytes of one block's keys and values on a device: half precision, room that grows by doubling.
pub(super) fn device_cache(config: &Config, capacity: usize) -> u64 {
    4 * (config.kv_width() * capacity.next_power_of_two()) as u64
}

/// The target as the cost model sees it.
pub(super) fn of_target(files: &TargetFiles, target: &CpuTarget) -> TargetSize {
    let layers = target.layers();
    TargetSize {
        weights: Config { layers, ..files.config.clone() }.linear_weights(),
        bytes: target.pass_bytes(),
        layers,
    }
}

/// The target's blocks as placement sees them, beside what the draft takes on the device.
pub(super) fn of_layers(config: &Config, head: Option<&HeadFiles>, context: usize) -> LayerSize {
    let head_weights = (config.vocab * config.hidden) as u64;
    let block = (config.linear_weights() - head_weights) / config.layers.max(1) as u64;
    LayerSize {
        layers: config.layers,
        layer: (block as f64 * HALF) as u64 + device_cache(config, context),
        draft: head.map_or(0, |head| most_head_bytes(head, context)),
    }
}

/// A head with its share of the target (method.md, Draft heads).
pub(in crate::worker) fn of_head(
    config: &HeadConfig,
    kind: FusionKind,
    tied_head: bool,
    bytes_per_weight: f64,
) -> DraftSize {
    let body = &config.body;
    let square = (body.hidden * body.hidden) as u64;
    let vocabulary = (body.hidden * body.vocab) as u64;
    let scored = (body.hidden * config.scored()) as u64;
    let fusion = match kind {
        FusionKind::Dgf => 4 * square,
        FusionKind::Eagle => 2 * square,
        // `fc`, and attention that reads the token's embedding too.
        FusionKind::Eagle3 => {
            let attention = body.q_width() + 2 * body.kv_width();
            (body.hidden * (config.feature_width() + attention)) as u64
        }
    };
    let shares_lm_head = config.draft_vocab.is_none() && kind != FusionKind::Eagle3;
    DraftSize {
        fixed: fusion + scored,
        lookup: if tied_head && shares_lm_head { 0 } else { vocabulary },
        block: head_block(body),
        bytes_per_weight,
        blocks: config.blocks(),
        elastic: config.elastic,
    }
}

/// A small model with `bytes` of weights, before they are packed.
pub(in crate::worker) fn of_small(config: &Config, bytes: u64) -> DraftSize {
    let weights = config.linear_weights();
    DraftSize {
        fixed: weights,
        lookup: if config.tied_head { 0 } else { (config.vocab * config.hidden) as u64 },
        block: 0,
        bytes_per_weight: bytes as f64 / weights.max(1) as f64,
        blocks: 0,
        elastic: false,
    }
}

/// What a head takes on a GPU at most, KV cache included.
pub(super) fn most_head_bytes(files: &HeadFiles, context: usize) -> u64 {
    let body = &files.config.body;
    let (h, blocks) = (body.hidden as u64, files.config.blocks() as u64);
    // DGF's fusion is the widest of one feature; an EAGLE-3 head's attention is wider, too.
    let taps = files.config.eagle3.as_ref().map_or(0, |own| 3 * own.feature_width() as u64);
    let weights = h * (4 * h + taps) + 2 * h * body.vocab as u64 + blocks * head_block(body);
    let cache = device_cache(body, files.config.capacity(context));
    (weights as f64 * HALF) as u64 + blocks * cache
}

/// Weights of one block of a head.
fn head_block(body: &Config) -> u64 {
    let (h, i) = (body.hidden as u64, body.intermediate as u64);
    let (q, kv) = (body.q_width() as u64, body.kv_width() as u64);
    2 * h * q + 2 * h * kv + 3 * h * i
}
