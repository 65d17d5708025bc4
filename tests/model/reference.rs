//! The same random weights through candle_transformers' own models, for the options that are
//! missing in the golden models (tied head, Llama-3 frequencies, Qwen2's biases, Qwen3's norms).

use std::collections::HashMap;

use crate::support::models::{load_target, small_config};
use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::{llama, qwen2, qwen3};
use dovetail::kernels::{Format, KvFormat, Pool};
use dovetail::model::weights::tensors;
use dovetail::model::{Config, RandomWeights, RopeLayout, RopeScaling, Target, WeightSource};
use dovetail::speculate::Tree;

use crate::support::golden::assert_close;

const TOLERANCE: f32 = 2e-4;
const POSITIONS: usize = 64;
const PROMPT: [u32; 9] = [1, 17, 3, 3, 59, 20, 8, 41, 5];
const ANSWER: [u32; 5] = [9, 2, 60, 33, 9];

fn config() -> Config {
    Config { vocab: 61, layers: 3, max_positions: POSITIONS, ..small_config() }
}

fn weights(config: &Config) -> RandomWeights {
    RandomWeights::new(config, Format::F32, 5)
}

fn candle_weights(config: &Config) -> VarBuilder<'static> {
    let source = weights(config);
    let map: HashMap<String, Tensor> = tensors(config)
        .into_iter()
        .map(|(name, shape)| {
            let bytes = source.tensor(&name).unwrap().bytes;
            let tensor = Tensor::from_raw_buffer(&bytes, DType::F32, &shape, &Device::Cpu);
            (name, tensor.unwrap())
        })
        .collect();
    VarBuilder::from_tensors(map, DType::F32, &Device::Cpu)
}

/// Runs the prompt and then the answer token by token through both. `reference` takes tokens and
/// the position of the first, and returns the logits of the last.
fn compare(config: &Config, mut reference: impl FnMut(&Tensor, usize) -> Tensor) {
    let mut target = load_target(config, &weights(config), Pool::new(2), POSITIONS, KvFormat::F32);
    let mut reference = |tokens: &[u32], at: usize| -> Vec<f32> {
        let tokens = Tensor::new(tokens, &Device::Cpu).unwrap().unsqueeze(0).unwrap();
        reference(&tokens, at).flatten_all().unwrap().to_vec1().unwrap()
    };
    let ours = target.prefill(&PROMPT).unwrap().logits;
    let theirs = reference(&PROMPT, 0);
    assert!(theirs.iter().any(|&l| l.abs() > 0.1), "the comparison must have something to see");
    assert_close("prompt", &ours, &theirs, TOLERANCE);
    for (i, &token) in ANSWER.iter().enumerate() {
        let ours = target.verify(&Tree::root(token)).unwrap().logits;
        target.commit(&[0]);
        assert_close("answer", &ours, &reference(&[token], PROMPT.len() + i), TOLERANCE);
    }
}

fn compare_llama(config: &Config, rope_scaling: Option<llama::Llama3RopeConfig>) {
    let reference = llama::Config {
        hidden_size: config.hidden,
        intermediate_size: config.intermediate,
        vocab_size: config.vocab,
        num_hidden_layers: config.layers,
        num_attention_heads: config.heads,
        num_key_value_heads: config.kv_heads,
        use_flash_attn: false,
        rms_norm_eps: f64::from(config.rms_eps),
        rope_theta: config.rope_theta as f32,
        bos_token_id: None,
        eos_token_id: None,
        rope_scaling,
        max_position_embeddings: POSITIONS,
        tie_word_embeddings: config.tied_head,
    };
    let model = llama::Llama::load(candle_weights(config), &reference).unwrap();
    let mut cache = llama::Cache::new(true, DType::F32, &reference, &Device::Cpu).unwrap();
    compare(config, |tokens, at| model.forward(tokens, at, &mut cache).unwrap());
}

#[test]
fn llama_with_every_kind_of_heads() {
    for kv_heads in [1, 2, 4] {
        compare_llama(&Config { kv_heads, ..config() }, None);
    }
}

#[test]
fn llama_with_a_tied_head() {
    compare_llama(&Config { tied_head: true, ..config() }, None);
}

#[test]
fn llama_3_frequencies() {
    // An original context this short puts some frequencies in each of the three bands.
    let scaled = Config {
        rope_scaling: RopeScaling::Llama3 {
            factor: 8.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_positions: 32,
        },
        ..config()
    };
    let reference = llama::Llama3RopeConfig {
        factor: 8.0,
        low_freq_factor: 1.0,
        high_freq_factor: 4.0,
        original_max_position_embeddings: 32,
        rope_type: llama::Llama3RopeType::Llama3,
    };
    compare_llama(&scaled, Some(reference));
}

/// The `config.json` of a Qwen checkpoint with this configuration.
fn qwen_json(config: &Config) -> serde_json::Value {
    serde_json::json!({
        "vocab_size": config.vocab, "hidden_size": config.hidden,
        "intermediate_size": config.intermediate, "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads, "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_dim, "attention_bias": false, "hidden_act": "silu",
        "max_position_embeddings": POSITIONS, "sliding_window": POSITIONS,
        "use_sliding_window": false, "max_window_layers": 0, "tie_word_embeddings": false,
        "rope_theta": config.rope_theta, "rms_norm_eps": config.rms_eps,
    })
}

#[test]
fn qwen2_biases() {
    let config = Config { qkv_bias: true, ..config() };
    let reference: qwen2::Config = serde_json::from_value(qwen_json(&config)).unwrap();
    let mut model = qwen2::ModelForCausalLM::new(&reference, candle_weights(&config)).unwrap();
    compare(&config, |tokens, at| model.forward(tokens, at).unwrap());
}

#[test]
fn qwen3_norms_and_heads_wider_than_the_stream() {
    let config = Config { qk_norm: true, head_dim: 24, ..config() };
    let reference: qwen3::Config = serde_json::from_value(qwen_json(&config)).unwrap();
    let mut model = qwen3::ModelForCausalLM::new(&reference, candle_weights(&config)).unwrap();
    compare(&config, |tokens, at| model.forward(tokens, at).unwrap());
}

/// A GGUF file of architecture `llama` stores rows of q and k as pairs; read with the right layout
/// it is the same model.
#[test]
fn interleaved_rows_give_the_same_bits() {
    struct Interleaved(RandomWeights, usize);
    impl WeightSource for Interleaved {
        fn describe(&self) -> String {
            self.0.describe()
        }
        fn tensor(&self, name: &str) -> Option<dovetail::model::RawTensor<'_>> {
            let mut tensor = self.0.tensor(name)?;
            if name.contains("q_proj") || name.contains("k_proj") {
                let rows = tensor.shape[0];
                let row = tensor.bytes.len() / rows;
                let d = self.1;
                // Row (head, pair, which of the two) was row (head, which of the two, pair).
                let from = |r: usize| r / d * d + (r % 2) * (d / 2) + r % d / 2;
                let bytes: Vec<u8> = (0..rows)
                    .flat_map(|r| tensor.bytes[from(r) * row..(from(r) + 1) * row].to_vec())
                    .collect();
                tensor.bytes = bytes.into();
            }
            Some(tensor)
        }
    }
    let load = |config: &Config, source: &dyn WeightSource| {
        load_target(config, source, Pool::new(1), POSITIONS, KvFormat::F32)
    };
    let halves = Config { qkv_bias: true, ..config() };
    let pairs = Config { rope_layout: RopeLayout::Interleaved, ..halves.clone() };
    let stored = Interleaved(weights(&halves), halves.head_dim);
    assert_eq!(
        load(&halves, &weights(&halves)).prefill(&PROMPT).unwrap(),
        load(&pairs, &stored).prefill(&PROMPT).unwrap(),
    );
}
