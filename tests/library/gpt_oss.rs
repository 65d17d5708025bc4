//! gpt-oss as its authors publish it, a safetensors folder with the experts in MXFP4. Written from
//! the golden GGUF file, it gives the same logits, which another test compares with the reference.

use crate::support::gguf::{Stored, published};
use crate::support::library::{arch, arch_recording, load_files, off_by, open_target};
use dovetail::kernels::Format;
use dovetail::library::{Spec, TargetFiles};
use dovetail::model::Target;
use safetensors::tensor::Dtype;
use serde_json::{Value, json};
use tempfile::TempDir;

/// How many experts a layer of the golden model has, and its width.
const EXPERTS: usize = 8;
const HIDDEN: usize = 64;

fn golden() -> TargetFiles {
    arch("gpt-oss")
}

/// The published `config.json`, with the golden model's numbers. As in llama.cpp, YaRN's ramp
/// begins and ends at whole pairs; in the published file `truncate` is false.
fn config() -> Value {
    json!({
        "model_type": "gpt_oss", "hidden_act": "silu", "attention_bias": true, "vocab_size": 267,
        "hidden_size": HIDDEN, "intermediate_size": 32, "num_hidden_layers": 2, "head_dim": 32,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 4096,
        "num_local_experts": EXPERTS, "num_experts_per_tok": 2, "experts_per_token": 2,
        "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 8,
        "swiglu_limit": 7.0, "rms_norm_eps": 1e-5, "rope_theta": 150_000,
        "tie_word_embeddings": false, "eos_token_id": 2,
        "rope_scaling": {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
            "original_max_position_embeddings": 128, "truncate": true},
        "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]},
    })
}

/// Codes and scales of GGUF's MXFP4 blocks in the published form: a block's codes in order, two
/// neighbours per byte.
fn published_blocks(blocks: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (mut codes, mut scales) = (Vec::new(), Vec::new());
    for block in blocks.chunks_exact(17) {
        scales.push(block[0]);
        let low = block[1..].iter().map(|byte| byte & 15);
        let in_order: Vec<u8> = low.chain(block[1..].iter().map(|byte| byte >> 4)).collect();
        codes.extend(in_order.chunks_exact(2).map(|two| two[0] | two[1] << 4));
    }
    (codes, scales)
}

/// The tensors of the checkpoint, from the golden file's.
fn tensors() -> Vec<(String, Stored)> {
    let files = golden();
    let get = |name: &str| files.weights.tensor(name).unwrap_or_else(|| panic!("{name}"));
    let mut all: Vec<(String, Stored)> =
        ["model.embed_tokens.weight", "lm_head.weight", "model.norm.weight"]
            .map(|name| (name.to_owned(), Stored::of(&get(name))))
            .into();
    for layer in 0..2 {
        let named = |part: &str| format!("model.layers.{layer}.{part}");
        let mut parts = vec!["input_layernorm.weight", "post_attention_layernorm.weight"];
        parts.push("self_attn.sinks");
        for part in ["q", "k", "v", "o"] {
            for kind in ["weight", "bias"] {
                let name = named(&format!("self_attn.{part}_proj.{kind}"));
                all.push((name.clone(), Stored::of(&get(&name))));
            }
        }
        all.extend(parts.into_iter().map(|part| (named(part), Stored::of(&get(&named(part))))));
        for kind in ["weight", "bias"] {
            let router = Stored::of(&get(&named(&format!("mlp.gate.{kind}"))));
            all.push((named(&format!("mlp.router.{kind}")), router));
        }
        for (stored, parts, rows, inputs) in [
            ("gate_up_proj", &["gate_proj", "up_proj"][..], 64, HIDDEN),
            ("down_proj", &["down_proj"][..], HIDDEN, 32),
        ] {
            let (mut codes, mut scales, mut bias) = (Vec::new(), Vec::new(), Vec::new());
            for expert in 0..EXPERTS {
                let of = |part: &str, kind: &str| {
                    get(&named(&format!("mlp.experts.{expert}.{part}.{kind}")))
                };
                for row in 0..rows / parts.len() {
                    for part in parts {
                        let weight = of(part, "weight");
                        assert_eq!(weight.format, Format::Mxfp4);
                        let size = weight.bytes.len() / weight.shape[0];
                        let (c, s) = published_blocks(&weight.bytes[row * size..][..size]);
                        codes.extend(c);
                        scales.extend(s);
                        bias.extend(&of(part, "bias").bytes[4 * row..][..4]);
                    }
                }
            }
            let name = |kind: &str| named(&format!("mlp.experts.{stored}_{kind}"));
            let blocks = inputs / 32;
            let mut put = |kind: &str, dtype, shape, bytes| {
                all.push((name(kind), Stored { dtype, shape, bytes }));
            };
            put("blocks", Dtype::U8, vec![EXPERTS, rows, blocks, 16], codes);
            put("scales", Dtype::U8, vec![EXPERTS, rows, blocks], scales);
            put("bias", Dtype::F32, vec![EXPERTS, rows], bias);
        }
    }
    all
}

fn pairs(tensors: &[(String, Stored)]) -> impl Iterator<Item = (&String, &Stored)> {
    tensors.iter().map(|(name, tensor)| (name, tensor))
}

fn opened(folder: &TempDir) -> TargetFiles {
    open_target(&Spec::Folder(folder.path().to_owned())).unwrap()
}

#[test]
fn a_published_checkpoint_gives_the_logits_of_the_gguf_file() {
    let folder = published(&config(), pairs(&tensors()));
    let files = opened(&folder);
    assert_eq!(files.config.block, golden().config.block);
    assert!(files.formats.iter().any(|(format, _)| *format == Format::Mxfp4));
    let (tokens, _) = arch_recording("gpt-oss", "logits");
    let of = |files: &TargetFiles| load_files(files, 256, 2).prefill(&tokens).unwrap().logits;
    let (found, expected) = (of(&files), of(&golden()));
    assert_eq!(found.len(), expected.len());
    assert!(found.iter().zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits()));
}

#[test]
fn a_ramp_between_whole_pairs_is_another_one() {
    let (tokens, _) = arch_recording("gpt-oss", "logits");
    let tensors = tensors();
    let logits = |truncate: bool| {
        let mut config = config();
        config["rope_scaling"]["truncate"] = json!(truncate);
        let folder = published(&config, pairs(&tensors));
        load_files(&opened(&folder), 256, 2).prefill(&tokens).unwrap().logits
    };
    let (whole, exact) = (logits(true), logits(false));
    let off = off_by(&whole, &exact);
    assert!(off > 1e-3 && off.is_finite(), "{off}");
}

#[test]
fn experts_in_other_shapes_are_refused_by_name() {
    let sound = tensors();
    let name = "model.layers.1.mlp.experts.down_proj_blocks";
    let at = sound.iter().position(|(found, _)| found == name).unwrap();
    let change = |how: &dyn Fn(&mut Stored)| {
        let mut all = sound.clone();
        how(&mut all[at].1);
        let folder = published(&config(), pairs(&all));
        let files = opened(&folder);
        let asked = "model.layers.1.mlp.experts.0.down_proj.weight";
        assert!(files.weights.tensor(asked).is_none());
    };
    // Blocks of 32 codes instead of 16 bytes, one expert too few, no blocks at all.
    change(&|stored| stored.shape = vec![EXPERTS, HIDDEN / 2, 1, 32]);
    change(&|stored| stored.shape = vec![EXPERTS / 2, HIDDEN * 2, 1, 16]);
    change(&|stored| {
        stored.shape = vec![EXPERTS, HIDDEN, 0, 16];
        stored.bytes.clear();
    });
}
