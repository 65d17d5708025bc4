//! GGUF files of every architecture with wrong numbers in their headers: each gives an error that
//! names the file and the field, never a panic and never an allocation of the size that the number
//! claims.

use std::fs;
use std::path::Path;

use crate::support::gguf::header_length;
use crate::support::library::{arch_file, arch_names, open_target};
use dovetail::kernels::{KvFormat, Pool};
use dovetail::library::Spec;
use dovetail::model::{CpuTarget, LoadRequest, Target};
use dovetail::speculate::Tree;
use proptest::prelude::*;

const U32: u32 = 4;
const I32: u32 = 5;
const F32: u32 = 6;

/// Overwrites the number of a metadata key, of four bytes.
fn set(file: &mut [u8], key: &str, value: [u8; 4]) {
    let entry = [&(key.len() as u64).to_le_bytes(), key.as_bytes()].concat();
    let at = file.windows(entry.len()).position(|window| window == entry);
    let at = at.unwrap_or_else(|| panic!("no key {key}")) + entry.len();
    let kind = u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    assert!([U32, I32, F32].contains(&kind), "{key} is of type {kind}");
    file[at + 4..at + 8].copy_from_slice(&value);
}

/// Opens and loads a target and runs one token; returns what was refused, in words.
fn run(path: &Path) -> Result<(), String> {
    let files = open_target(&Spec::Gguf(path.to_owned())).map_err(|error| error.to_string())?;
    let request =
        LoadRequest::new(&files.config, &*files.weights, Pool::new(1).into(), 64, KvFormat::F32);
    let target = CpuTarget::load(&request);
    let mut target = target.map_err(|error| error.to_string())?;
    target.verify(&Tree::root(0)).map_err(|error| error.to_string())?;
    Ok(())
}

/// A golden model with one number changed is refused with an error that contains `says`.
fn refused(name: &str, key: &str, value: [u8; 4], says: &str) {
    let mut bytes = fs::read(arch_file(&format!("{name}.gguf"))).unwrap();
    set(&mut bytes, key, value);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    fs::write(&path, bytes).unwrap();
    let text = match run(&path) {
        Ok(()) => panic!("{name} with {key} = {value:?} runs"),
        Err(text) => text,
    };
    let fits = text.contains("model.gguf") && text.contains(says);
    assert!(fits, "{name} with {key} = {value:?}: {text}");
}

#[test]
fn false_counts_and_widths_are_refused_by_field() {
    let most = u32::MAX;
    // File, key after the architecture, values, and what the error says.
    let cases: [(&str, &str, &[u32], &str); 31] = [
        ("llama", "llama.block_count", &[0, 3, most], ""),
        ("llama", "llama.embedding_length", &[0, 63, most], ""),
        ("llama", "llama.feed_forward_length", &[0, 7, most], ""),
        ("llama", "llama.attention.head_count", &[0, 3, most], ""),
        ("llama", "llama.attention.head_count_kv", &[0, 3, most], ""),
        ("llama", "llama.context_length", &[0, most], ""),
        ("gemma2", "gemma2.attention.sliding_window", &[0], "sliding_window"),
        ("gemma3", "gemma3.attention.sliding_window", &[0], "sliding_window"),
        ("gpt-oss", "gpt-oss.attention.sliding_window", &[0], "sliding_window"),
        ("gemma3", "gemma3.attention.key_length", &[0, 7, most], ""),
        ("phi3-longrope", "phi3.rope.dimension_count", &[0, 13, 64, most], "rope"),
        ("phi3-longrope", "phi3.rope.scaling.original_context_length", &[0], "rope"),
        ("smollm3", "smollm3.attention.head_count_kv", &[0, 3, most], ""),
        ("starcoder2", "starcoder2.feed_forward_length", &[0, 7, most], ""),
        ("qwen3moe", "qwen3moe.expert_count", &[0, 7, 9, most], ""),
        ("qwen3moe", "qwen3moe.expert_used_count", &[0, 9, most], "expert_used_count"),
        ("qwen3moe", "qwen3moe.expert_feed_forward_length", &[0, 5, most], ""),
        ("mixtral", "llama.expert_count", &[7, most], ""),
        ("mixtral", "llama.expert_used_count", &[0, 9, most], "expert_used_count"),
        ("gpt-oss", "gpt-oss.expert_used_count", &[0, 9, most], "expert_used_count"),
        ("gpt-oss", "gpt-oss.expert_count", &[0, 9, most], ""),
        ("deepseek2", "deepseek2.attention.kv_lora_rank", &[0, 5, most], ""),
        ("deepseek2", "deepseek2.attention.q_lora_rank", &[5, most], ""),
        ("deepseek2", "deepseek2.attention.key_length_mla", &[0, 9, most], ""),
        ("deepseek2", "deepseek2.attention.value_length_mla", &[0, 9, most], ""),
        ("deepseek2", "deepseek2.rope.dimension_count", &[0, 7, most], ""),
        ("deepseek2", "deepseek2.leading_dense_block_count", &[0, 2, most], ""),
        ("deepseek2", "deepseek2.expert_shared_count", &[2, most], ""),
        ("deepseek3", "deepseek2.expert_group_count", &[3, most], "expert_group_count"),
        ("deepseek3", "deepseek2.expert_group_used_count", &[0, 5, most], "expert_group_count"),
        ("deepseek3", "deepseek2.expert_used_count", &[0, 9, most], "expert_used_count"),
    ];
    for (name, key, values, says) in cases {
        for value in values {
            refused(name, key, value.to_le_bytes(), says);
        }
    }
}

#[test]
fn numbers_that_are_none_are_refused_by_field() {
    let cases: [(&str, &str, &[f32], &str); 13] = [
        ("llama", "llama.attention.layer_norm_rms_epsilon", &[0.0, f32::NAN], "rms_epsilon"),
        ("llama3-rope-freqs", "llama.rope.freq_base", &[0.0, -1.0, f32::NAN], "freq_base"),
        ("llama-linear", "llama.rope.scaling.factor", &[-4.0, f32::NAN, f32::INFINITY], "rope"),
        ("llama-yarn", "llama.rope.scaling.factor", &[-4.0, f32::NAN, f32::INFINITY], "rope"),
        ("gemma2", "gemma2.attn_logit_softcapping", &[0.0, -5.0, f32::NAN], "softcapping"),
        ("gemma2", "gemma2.final_logit_softcapping", &[f32::INFINITY], "softcapping"),
        ("granite", "granite.logit_scale", &[0.0, f32::NAN], "logit_scale"),
        ("granite", "granite.attention.scale", &[0.0, f32::NAN], "attention.scale"),
        ("granite", "granite.embedding_scale", &[f32::INFINITY], "embedding_scale"),
        ("granite", "granite.residual_scale", &[f32::NAN], "residual_scale"),
        ("phi3-longrope", "phi3.rope.scaling.attn_factor", &[-1.0, f32::NAN], "rope"),
        ("deepseek2", "deepseek2.expert_weights_scale", &[-1.0, f32::NAN], "weights_scale"),
        ("deepseek3", "deepseek2.rope.scaling.yarn_log_multiplier", &[f32::NAN], "yarn_log"),
    ];
    for (name, key, values, says) in cases {
        for value in values {
            refused(name, key, value.to_le_bytes(), says);
        }
    }
}

#[test]
fn a_shard_of_another_model_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let name = |n: usize| format!("llama-{n:05}-of-00003.gguf");
    for n in 1..=3 {
        fs::copy(arch_file(&name(n)), folder.path().join(name(n))).unwrap();
    }
    let first = folder.path().join(name(1));
    assert_eq!(run(&first), Ok(()));
    let second = folder.path().join(name(2));
    let sound = fs::read(&second).unwrap();
    // Another model's shard has a layer that is missing here, or another shape of the same layer.
    let layer = b"blk.1.attn_q.weight";
    let at = sound.windows(layer.len()).position(|window| window == layer).unwrap();
    let mut other = sound.clone();
    other[at + 4] = b'7';
    fs::write(&second, &other).unwrap();
    let text = run(&first).unwrap_err();
    assert!(text.contains("llama-0000") && text.contains("q_proj"), "{text}");
    let mut other = sound;
    let dims = at + layer.len() + 4;
    let halved = u64::from_le_bytes(other[dims..dims + 8].try_into().unwrap()) / 2;
    other[dims..dims + 8].copy_from_slice(&halved.to_le_bytes());
    fs::write(&second, &other).unwrap();
    let text = run(&first).unwrap_err();
    assert!(text.contains("llama-0000") && text.contains("q_proj"), "{text}");
}

/// Numbers that break unexpected assumptions.
const ODD: [u64; 10] = [0, 1, 2, 0x7F, 0xFF, 0xFFFF, 0x7FFF_FFFF, 0xFFFF_FFFF, 1 << 40, u64::MAX];

proptest! {
    // The environment variable PROPTEST_CASES runs more of them.
    #![proptest_config(ProptestConfig::default())]

    /// Bytes and numbers changed anywhere in a header, tensor types among them.
    #[test]
    fn changed_headers_of_every_architecture_never_panic(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec(
            (any::<prop::sample::Index>(), any::<u8>(), prop::sample::select(&ODD[..]), 0usize..4),
            1..6,
        ),
    ) {
        let names = arch_names();
        let name = format!("{}.gguf", names[which.index(names.len())]);
        let mut bytes = fs::read(arch_file(&name)).unwrap();
        let header = header_length(&bytes);
        for (at, byte, odd, width) in changes {
            let at = at.index(header);
            match width {
                0 => bytes[at] = byte,
                width => {
                    let number = odd.to_le_bytes();
                    let width = (1 << width).min(header - at);
                    bytes[at..at + width].copy_from_slice(&number[..width]);
                }
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        fs::write(&path, bytes).unwrap();
        if let Err(text) = run(&path) {
            prop_assert!(text.contains("model.gguf"), "{}: {}", name, text);
        }
    }
}
