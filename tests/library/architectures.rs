//! Tiny models of every architecture, from GGUF files, against the logits of the reference program
//! (tests/golden/arch): each row of plain decoding, and trees in which every node has the bits of
//! plain decoding.

use super::open_target;
use crate::support::exact::{leaves, tree_is_plain, trees};
use crate::support::gguf::Gguf;
use crate::support::library::{
    arch, arch_file, arch_recording, load_files, off_by, off_by_recorded, refusal,
};
use crate::support::models::load_target;
use candle_core::quantized::GgmlDType;
use candle_core::quantized::gguf_file::Value;
use candle_core::{Device, Tensor};
use dovetail::kernels::{Format, KvFormat, Matrix, Pool};
use dovetail::library::Spec;
use dovetail::model::{CpuTarget, RawTensor, Target, WeightSource, weights};
use dovetail::speculate::Tree;
use proptest::prelude::*;

/// The largest difference of a logit: models with tied embeddings have logits of up to 50.
const UNTIED: f32 = 5e-5;
const TIED: f32 = 1e-4;
/// Block weights are multiplied with 8-bit activations, both here and in the reference program,
/// whose own rows are off by as much (0.2 and 0.1).
const BLOCKS: f32 = 0.25;

/// File, the logits to compare with, tolerance, context.
const MODELS: [(&str, &str, f32, usize); 52] = [
    ("llama", "logits", UNTIED, 256),
    ("llama3-rope-freqs", "logits", UNTIED, 256),
    ("llama-linear", "logits", UNTIED, 256),
    ("llama-yarn", "logits", UNTIED, 256),
    ("llama-tied-bias", "logits", TIED, 256),
    ("llama-mixed", "logits", BLOCKS, 256),
    ("qwen2", "logits", UNTIED, 256),
    ("qwen3", "logits", TIED, 256),
    ("gemma2", "logits_exact_gelu", TIED, 256),
    ("gemma3", "logits_exact_gelu", TIED, 256),
    ("phi3", "logits", UNTIED, 256),
    ("phi3-longrope", "logits", TIED, 1024),
    ("phi3-longrope", "logits_short", TIED, 512),
    ("smollm3", "logits", TIED, 256),
    ("granite", "logits", TIED, 256),
    ("olmo2", "logits", UNTIED, 256),
    ("starcoder2", "logits_exact_gelu", TIED, 256),
    ("qwen3moe", "logits", TIED, 256),
    ("mixtral", "logits", UNTIED, 256),
    ("deepseek2", "logits", UNTIED, 256),
    ("deepseek3", "logits", UNTIED, 256),
    ("gpt-oss", "logits", BLOCKS, 256),
    ("glm4", "logits", UNTIED, 256),
    ("glm4moe", "logits", UNTIED, 256),
    ("command-r", "logits", TIED, 256),
    ("cohere2", "logits", TIED, 256),
    ("internlm2", "logits", UNTIED, 256),
    ("seed_oss", "logits", UNTIED, 256),
    ("ernie4_5", "logits", TIED, 256),
    ("ernie4_5-moe", "logits", TIED, 256),
    ("hunyuan-dense", "logits", TIED, 256),
    ("exaone4", "logits", TIED, 256),
    ("olmoe", "logits", UNTIED, 256),
    ("minicpm", "logits", TIED, 256),
    ("stablelm", "logits", UNTIED, 256),
    ("stablelm-12b", "logits", UNTIED, 256),
    ("phi2", "logits_exact_gelu", TIED, 256),
    ("bitnet", "logits", TIED, 256),
    ("mimo2", "logits", UNTIED, 256),
    ("gemma4", "logits_exact_gelu", 2.0 * TIED, 256),
    ("gemma4-dense", "logits_exact_gelu", TIED, 256),
    ("gemma4-moe", "logits_exact_gelu", TIED, 256),
    ("qwen3next", "logits", UNTIED, 256),
    ("qwen35", "logits", UNTIED, 256),
    ("qwen35moe", "logits", UNTIED, 256),
    ("lfm2", "logits", TIED, 256),
    ("lfm2moe", "logits", TIED, 256),
    ("mamba2", "logits", TIED, 256),
    ("falcon-h1", "logits", UNTIED, 256),
    ("granitehybrid", "logits", TIED, 256),
    ("nemotron_h", "logits", UNTIED, 256),
    ("nemotron_h_moe", "logits", UNTIED, 256),
];

fn load(name: &str, context: usize, threads: usize) -> CpuTarget {
    let files = arch(name);
    load_files(&files, context, threads)
}

#[test]
fn every_architecture_gives_the_reference_logits() {
    let mut wrong = Vec::new();
    for (name, logits, tolerance, context) in MODELS {
        let (tokens, expected) = arch_recording(name, logits);
        let mut target = load(name, context, 2);
        let mut worst = (0.0, 0);
        let vocab = target.vocab();
        for (at, (&token, expected)) in tokens.iter().zip(expected.chunks_exact(vocab)).enumerate()
        {
            let found = target.verify(&Tree::root(token)).unwrap().logits;
            target.commit(&[0]);
            let off = off_by(&found, expected);
            // A NaN is never below a tolerance.
            if off > worst.0 || off.is_nan() {
                worst = (off, at);
            }
        }
        if worst.0 > tolerance || worst.0.is_nan() {
            wrong.push(format!("{name} {logits}: off by {} at position {}", worst.0, worst.1));
        }
        // The whole prompt at once gives the same bits at its end.
        let last = target.verify(&Tree::root(tokens[0])).unwrap().logits;
        target.truncate(0);
        target.prefill(&tokens).unwrap();
        assert_eq!(target.verify(&Tree::root(tokens[0])).unwrap().logits, last, "{name}");
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Weights with every matrix unpacked to floats.
struct Floats<'a>(&'a dyn WeightSource);

impl WeightSource for Floats<'_> {
    fn describe(&self) -> String {
        self.0.describe()
    }
    fn tensor(&self, name: &str) -> Option<RawTensor<'_>> {
        let raw = self.0.tensor(name)?;
        let &[rows, columns] = raw.shape.as_slice() else { return Some(raw) };
        let pool = Pool::new(1);
        let matrix = Matrix::pack(raw.format, rows, columns, &raw.bytes, &pool).unwrap();
        let mut bytes = Vec::new();
        let mut row = vec![0f32; columns];
        for i in 0..rows {
            matrix.row(i, &mut row);
            bytes.extend(row.iter().flat_map(|x| x.to_le_bytes()));
        }
        Some(RawTensor { format: Format::F32, bytes: bytes.into(), ..raw })
    }
}

/// The same weights without a file.
struct Loose<'a>(&'a dyn WeightSource);

impl WeightSource for Loose<'_> {
    fn describe(&self) -> String {
        self.0.describe()
    }
    fn tensor(&self, name: &str) -> Option<RawTensor<'_>> {
        self.0.tensor(name)
    }
    fn scale(&self, name: &str) -> f32 {
        self.0.scale(name)
    }
}

#[test]
fn a_table_that_stays_in_its_file_gives_the_bits_of_a_packed_one() {
    let (tokens, _) = arch_recording("gemma4", "logits");
    let files = arch("gemma4");
    let name = weights::PER_LAYER_EMBEDDING;
    let table = files.weights.tensor(name).unwrap();
    assert_eq!((*files.weights.mapped(name).unwrap()).as_ref(), &*table.bytes);
    let packed = Loose(&*files.weights);
    let mut packed = load_target(&files.config, &packed, Pool::new(2), 256, KvFormat::F32);
    // This drops the files, and their table stays mapped.
    let mut stored = load("gemma4", 256, 2);
    assert!(stored.weight_bytes() < packed.weight_bytes());
    let found = stored.prefill(&tokens).unwrap().logits;
    assert_eq!(found, packed.prefill(&tokens).unwrap().logits);
}

/// Without 8-bit activations the tolerance is that of the other models.
#[test]
fn block_weights_as_floats_give_the_reference_logits() {
    for name in ["llama-mixed", "gpt-oss"] {
        let (tokens, expected) = arch_recording(name, "logits");
        let files = arch(name);
        let source = Floats(&*files.weights);
        let mut target = load_target(&files.config, &source, Pool::new(2), 256, KvFormat::F32);
        let found = target.prefill(&tokens).unwrap().logits;
        let off = off_by(&found, &expected);
        assert!(off < UNTIED, "{name} is off by {off}");
    }
}

/// Files from before 2025 hold the matrices of keys and values, `[heads · (nope + value), rank]`,
/// in one tensor.
#[test]
fn an_older_file_of_latent_attention_gives_the_reference_logits() {
    let mut file = Gguf::read(&arch_file("deepseek2.gguf"));
    for block in 0..2 {
        let name = |part: &str| format!("blk.{block}.attn_{part}.weight");
        let mut take = |part: &str| {
            let tensor = file.tensors.remove(&name(part)).unwrap();
            tensor.dequantize(&Device::Cpu).unwrap()
        };
        let keys = take("k_b").transpose(1, 2).unwrap();
        let both = Tensor::cat(&[&keys.contiguous().unwrap(), &take("v_b")], 1).unwrap();
        file.tensor(&name("kv_b"), &both.flatten(0, 1).unwrap(), GgmlDType::F16);
    }
    for (key, width) in [("key_length", 24), ("value_length", 16)] {
        file.metadata.remove(&format!("deepseek2.attention.{key}_mla")).unwrap();
        file.set(&format!("deepseek2.attention.{key}"), Value::U32(width));
    }
    file.set("deepseek2.attention.head_count_kv", Value::U32(4));
    let off = off_by_recorded(&file.open().unwrap(), "deepseek2");
    assert!(off < UNTIED, "off by {off}");
    // Widths that do not fit the tensor.
    file.set("deepseek2.attention.value_length", Value::U32(17));
    assert!(file.refusal().contains("attn_kv_b"));
}

#[test]
fn a_model_in_several_files_is_the_model_in_one() {
    let (tokens, _) = arch_recording("llama", "logits");
    let expected = load("llama", 64, 2).prefill(&tokens).unwrap();
    // Any of its files identifies the model.
    for number in 1..=3 {
        let mut shards = load(&format!("llama-{number:05}-of-00003"), 64, 2);
        assert_eq!(shards.prefill(&tokens).unwrap(), expected);
    }
}

#[test]
fn files_that_are_no_model_together_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let name = |n: usize| format!("llama-{n:05}-of-00003.gguf");
    let put = |from: usize, to: usize| {
        std::fs::copy(arch_file(&name(from)), folder.path().join(name(to))).unwrap();
    };
    let refused = || refusal(open_target(&Spec::Gguf(folder.path().join(name(1)))));
    put(1, 1);
    put(2, 2);
    let text = refused();
    assert!(text.contains(&name(3)), "a missing file: {text}");
    put(2, 3);
    let text = refused();
    assert!(text.contains(&name(3)) && text.contains("split.no"), "a file twice: {text}");
    put(3, 1);
    let text = refused();
    assert!(text.contains(&name(1)), "another first file: {text}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    /// With windows, sinks, soft caps, experts and latent attention, every node of a tree has the
    /// bits of plain decoding along its path, at any number of threads.
    #[test]
    fn every_node_of_a_tree_is_plain(
        prompt in prop::collection::vec(0u32..260, 1..40),
        tree in trees(260, 1..20),
        threads in 1usize..4,
    ) {
        for (name, _, _, context) in MODELS {
            let mut target = load(name, context, threads);
            tree_is_plain(&mut target, &prompt, &tree, &leaves(&tree), tree.len() - 1);
        }
    }
}
