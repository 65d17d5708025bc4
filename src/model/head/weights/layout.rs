//! Which tensors a head of a given shape has: names, shapes, and which of them may be left out. It
//! must never read a tensor.

use std::collections::BTreeMap;

use crate::model::Config;
use crate::model::head::{HeadConfig, HeadKind, TapNorm};

pub(in crate::model::head) const EMBEDDING: &str = "embed_tokens.weight";
pub(in crate::model::head) const LM_HEAD: &str = "lm_head.weight";
pub(in crate::model::head) const FC: &str = "fc.weight";
pub(in crate::model::head) const NORM: &str = "norm.weight";
pub(in crate::model::head) const FC_BIAS: &str = "fc.bias";
pub(in crate::model::head) const JOINED_TAP_NORM: &str = "input_norm.weight";
pub(super) const D2T: &str = "d2t";
pub(super) const T2D: &str = "t2d";

/// Name to shape.
type Shapes = BTreeMap<String, Vec<usize>>;

/// The tensors of a head of this shape by their published names (method.md, Published files of a
/// head), without the embedding and the biases of q, k and v, which only some checkpoints have. The
/// block of an EAGLE-3 head has the name that its authors use.
pub fn layout(config: &HeadConfig) -> BTreeMap<String, Vec<usize>> {
    let body = &config.body;
    let h = body.hidden;
    let mut layout = Shapes::new();
    let mut put = |name: &str, shape: &[usize]| layout.insert(name.to_owned(), shape.to_vec());
    match &config.kind {
        HeadKind::Dgf => {
            put("W_1", &[h, h]);
            put("W_2", &[h, h]);
            put("W_z", &[2 * h, h]);
            put("input_layernorm.weight", &[h]);
        }
        HeadKind::Eagle => {
            put(FC, &[h, 2 * h]);
            put(FC_BIAS, &[h]);
        }
        HeadKind::Eagle3(own) => {
            put(FC, &[h, config.feature_width()]);
            put(FC_BIAS, &[h]);
            put(NORM, &[h]);
            put(LM_HEAD, &[config.scored(), h]);
            put("midlayer.input_layernorm.weight", &[h]);
            put("midlayer.hidden_norm.weight", &[h]);
            match own.tap_norm {
                None => {}
                Some(TapNorm::Joined) => {
                    put(JOINED_TAP_NORM, &[config.feature_width()]);
                }
                Some(TapNorm::Each) => {
                    for tap in 0..own.tap_count() {
                        put(&tap_norm(tap), &[own.target_hidden]);
                    }
                }
            }
            put_block(&mut layout, "midlayer", body, 2 * h);
            return layout;
        }
        // Its tensors are the target's.
        HeadKind::Mtp(_) | HeadKind::Assistant(_) => return layout,
    }
    for block in 0..body.layers {
        let at = block_name(&config.kind, block);
        put_block(&mut layout, &at, body, h);
        if block > 0 {
            layout.insert(format!("{at}.input_layernorm.weight"), vec![h]);
        }
    }
    layout
}

/// What every block has, if its attention reads rows of `width` numbers.
fn put_block(layout: &mut Shapes, at: &str, body: &Config, width: usize) {
    let h = body.hidden;
    let i = body.intermediate;
    let q = body.q_width();
    let kv = body.kv_width();
    let mut put = |part: &str, shape: &[usize]| layout.insert(format!("{at}.{part}"), shape.into());
    for (x, outputs) in [("q", q), ("k", kv), ("v", kv)] {
        put(&format!("self_attn.{x}_proj.weight"), &[outputs, width]);
    }
    put("self_attn.o_proj.weight", &[h, q]);
    put("mlp.gate_proj.weight", &[i, h]);
    put("mlp.up_proj.weight", &[i, h]);
    put("mlp.down_proj.weight", &[h, i]);
    put("post_attention_layernorm.weight", &[h]);
}

/// Every tensor that a checkpoint with tensors of these names may have: its shape, and whether it
/// is required.
pub(super) fn expected(
    config: &HeadConfig,
    has: impl Fn(&str) -> bool,
) -> BTreeMap<String, (Vec<usize>, bool)> {
    let body = &config.body;
    let needed = layout(config).into_iter();
    let mut all: BTreeMap<_, _> = needed
        .map(|(name, shape)| {
            let required = name != FC_BIAS && name != LM_HEAD;
            (name, (shape, required))
        })
        .collect();
    // The target's embedding is used if it is as wide as the head.
    let other_width = config.target_hidden() != body.hidden;
    all.insert(EMBEDDING.into(), (vec![body.vocab, body.hidden], other_width));
    if other_width && let Some((_, required)) = all.get_mut(LM_HEAD) {
        *required = true;
    }
    if let Some(count) = config.draft_vocab {
        all.insert(D2T.into(), (vec![count], true));
        all.insert(T2D.into(), (vec![body.vocab], false));
    }
    // If one block of a head has a tensor, all of them have it.
    let blocks = || (0..body.layers).map(|block| block_name(&config.kind, block));
    let biases = |at: String| {
        [("q", body.q_width()), ("k", body.kv_width()), ("v", body.kv_width())]
            .map(|(x, width)| (bias_name(&at, x), (vec![width], true)))
    };
    let mut optional = vec![blocks().flat_map(biases).collect::<Vec<_>>()];
    if config.kind.eagle3().is_some() {
        let norms = |at: String| QK.map(|x| (qk_norm_name(&at, x), (vec![body.head_dim], true)));
        optional.push(blocks().flat_map(norms).collect());
    }
    let present = optional.into_iter().filter(|group| group.iter().any(|(name, _)| has(name)));
    all.extend(present.flatten());
    all
}

/// The projections that can have a norm before the rotation.
pub(super) const QK: [&str; 2] = ["q", "k"];

/// The name that the tensors of a block begin with.
pub(in crate::model::head) fn block_name(kind: &HeadKind, block: usize) -> String {
    match kind {
        HeadKind::Eagle3(_) => "midlayer".to_owned(),
        _ => format!("layers.{block}"),
    }
}

pub(super) fn bias_name(block: &str, projection: &str) -> String {
    format!("{block}.self_attn.{projection}_proj.bias")
}

pub(super) fn qk_norm_name(block: &str, projection: &str) -> String {
    format!("{block}.self_attn.{projection}_norm.weight")
}

pub(in crate::model::head) fn tap_norm(tap: usize) -> String {
    format!("fc_norm.{tap}.weight")
}

/// Tensors that checkpoints contain but a head does not need. The target's LM head is used if the
/// head does not have its own; the rotary frequencies are computed; and a head that scores every
/// token does not need the draft vocabulary.
pub(super) fn is_ignored(name: &str, config: &HeadConfig) -> bool {
    match name {
        LM_HEAD => config.kind.eagle3().is_none(),
        D2T | T2D => config.draft_vocab.is_none(),
        _ => name.ends_with("rotary_emb.inv_freq") || name.starts_with("verifier_"),
    }
}
