//! Scales of whole tensors next to the weights, as in NVFP4 files.

use crate::support::gguf::Gguf;
use crate::support::library::{arch_file, arch_recording, load_files};
use candle_core::quantized::GgmlDType;
use candle_core::{Device, Tensor};
use dovetail::model::Target;

/// Makes a matrix larger and gives it the scales that reverse this. Powers of two from 1 on change
/// no digit of a weight, even if it is a subnormal half float.
fn scale(file: &mut Gguf, name: &str, factors: &[f32]) {
    let weight = file.tensors[&format!("{name}.weight")].dequantize(&Device::Cpu).unwrap();
    let mut shape = vec![1; weight.rank()];
    shape[0] = factors.len();
    let by = Tensor::from_slice(factors, shape, &Device::Cpu).unwrap();
    let greater = weight.broadcast_mul(&by).unwrap();
    file.tensor(&format!("{name}.weight"), &greater, GgmlDType::F16);
    let back: Vec<f32> = factors.iter().map(|factor| 1.0 / factor).collect();
    let back = Tensor::from_slice(&back, factors.len(), &Device::Cpu).unwrap();
    file.tensor(&format!("{name}.scale"), &back, GgmlDType::F32);
}

fn logits(file: &Gguf, name: &str) -> Vec<u32> {
    let (tokens, _) = arch_recording(name, "logits");
    let logits = load_files(&file.open().unwrap(), 64, 2).prefill(&tokens).unwrap().logits;
    logits.into_iter().map(f32::to_bits).collect()
}

#[test]
fn matrices_experts_and_fused_tensors_are_multiplied_by_their_scales() {
    let experts: Vec<f32> = (0..8).map(|i| (1 << i) as f32).collect();
    for (name, scaled) in [
        ("qwen3moe", vec![("attn_q", vec![2.0]), ("ffn_up_exps", experts.clone())]),
        ("mixtral", vec![("attn_output", vec![4.0]), ("ffn_down_exps", vec![8.0])]),
        ("phi3", vec![("attn_qkv", vec![4.0]), ("ffn_up", vec![8.0])]),
        ("deepseek2", vec![("attn_k_b", vec![2.0]), ("attn_kv_a_mqa", vec![4.0])]),
    ] {
        let mut file = Gguf::read(&arch_file(&format!("{name}.gguf")));
        let expected = logits(&file, name);
        for (part, factors) in scaled {
            scale(&mut file, &format!("blk.1.{part}"), &factors);
        }
        // Scales of activations are not used in a product with floats or 8 bits.
        let one = Tensor::from_slice(&[3f32], 1, &Device::Cpu).unwrap();
        file.tensor("blk.0.attn_output.input_scale", &one, GgmlDType::F32);
        assert_eq!(logits(&file, name), expected, "{name}");
    }
}

#[test]
fn scales_that_fit_nothing_are_refused_by_name() {
    let numbers = |numbers: &[f32]| Tensor::from_slice(numbers, numbers.len(), &Device::Cpu);
    for (name, scales, expected) in [
        ("blk.0.attn_glue.scale", &[1.0][..], "its tensor `blk.0.attn_glue.weight` is missing"),
        ("blk.0.ffn_up_exps.scale", &[1.0, 2.0, 3.0], "3 scales for 8 matrices"),
        ("blk.0.attn_q.scale", &[1.0, 2.0], "2 scales for 1 matrices"),
        ("blk.0.attn_q.scale", &[f32::NAN], "finite"),
    ] {
        let mut file = Gguf::read(&arch_file("mixtral.gguf"));
        file.tensor(name, &numbers(scales).unwrap(), GgmlDType::F32);
        let text = file.refusal();
        assert!(text.contains(name) && text.contains(expected), "{text}");
    }
}
