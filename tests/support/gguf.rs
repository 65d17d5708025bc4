//! GGUF files as converters write them, through candle, whose writer is not ours.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::golden::GOLDEN;
use super::library::{self, open_target};
use super::models::small_config;
use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use dovetail::kernels::Format;
use dovetail::library::{LibraryError, Spec, TargetFiles};
use dovetail::model::{Config, RawTensor, RopeLayout};
use safetensors::tensor::{Dtype, TensorView};
use serde_json::json;
use tempfile::TempDir;

/// A file to be written.
pub struct Gguf {
    pub metadata: BTreeMap<String, Value>,
    pub tensors: BTreeMap<String, QTensor>,
    /// Type and `[rows, columns]` of tensors that candle cannot write; their bytes are passed as
    /// floats.
    blocks: BTreeMap<String, (Format, [usize; 2])>,
}

pub fn texts(items: &[String]) -> Value {
    Value::Array(items.iter().cloned().map(Value::String).collect())
}

pub fn as_u32(items: impl IntoIterator<Item = u32>) -> Value {
    Value::Array(items.into_iter().map(Value::U32).collect())
}

impl Gguf {
    /// A file of types that candle knows.
    pub fn read(path: &Path) -> Self {
        let mut file = fs::File::open(path).unwrap();
        let content = gguf_file::Content::read(&mut file).unwrap();
        let names = content.tensor_infos.keys();
        let tensors = names
            .map(|name| (name.clone(), content.tensor(&mut file, name, &Device::Cpu).unwrap()));
        let tensors = tensors.collect();
        let metadata = content.metadata.into_iter().collect();
        Self { metadata, tensors, blocks: BTreeMap::new() }
    }

    pub fn set(&mut self, key: &str, value: Value) -> &mut Self {
        self.metadata.insert(key.to_owned(), value);
        self
    }

    pub fn tensor(&mut self, name: &str, tensor: &Tensor, kind: GgmlDType) -> &mut Self {
        self.tensors.insert(name.to_owned(), QTensor::quantize(tensor, kind).unwrap());
        self
    }

    /// A matrix of these blocks; the bytes of a row are a multiple of 4.
    pub fn blocks(&mut self, name: &str, format: Format, shape: [usize; 2], bytes: &[u8]) {
        let floats = [shape[0], bytes.len() / shape[0] / 4];
        let placeholder =
            Tensor::from_raw_buffer(bytes, candle_core::DType::F32, &floats, &Device::Cpu).unwrap();
        self.tensor(name, &placeholder, GgmlDType::F32);
        self.blocks.insert(name.to_owned(), (format, shape));
    }

    pub fn bytes(&self) -> Vec<u8> {
        let metadata: Vec<_> =
            self.metadata.iter().map(|(key, value)| (key.as_str(), value)).collect();
        let tensors: Vec<_> =
            self.tensors.iter().map(|(name, data)| (name.as_str(), data)).collect();
        let mut file = std::io::Cursor::new(Vec::new());
        gguf_file::write(&mut file, &metadata, &tensors).unwrap();
        let mut bytes = file.into_inner();
        for (name, (format, [rows, columns])) in &self.blocks {
            let at = dims_of(&bytes, name);
            bytes[at..at + 8].copy_from_slice(&(*columns as u64).to_le_bytes());
            bytes[at + 8..at + 16].copy_from_slice(&(*rows as u64).to_le_bytes());
            bytes[at + 16..at + 20].copy_from_slice(&format.ggml().to_le_bytes());
        }
        bytes
    }

    pub fn open(&self) -> Result<TargetFiles, LibraryError> {
        open_bytes(&self.bytes())
    }

    pub fn refusal(&self) -> String {
        refusal(&self.bytes())
    }

    /// Metadata of a model with these numbers and no tokenizer.
    pub fn with_config(architecture: &str, config: &Config) -> Self {
        let mut file =
            Self { metadata: BTreeMap::new(), tensors: BTreeMap::new(), blocks: BTreeMap::new() };
        file.set("general.architecture", Value::String(architecture.to_owned()));
        let number = |n: usize| Value::U32(n as u32);
        for (key, value) in [
            ("context_length", number(config.max_positions)),
            ("embedding_length", number(config.hidden)),
            ("feed_forward_length", number(config.intermediate)),
            ("block_count", number(config.layers)),
            ("attention.head_count", number(config.heads)),
            ("attention.head_count_kv", number(config.kv_heads)),
            ("attention.layer_norm_rms_epsilon", Value::F32(config.rms_eps)),
            ("rope.freq_base", Value::F32(config.rope_theta as f32)),
            ("rope.dimension_count", number(config.head_dim)),
        ] {
            file.set(&format!("{architecture}.{key}"), value);
        }
        file
    }

    /// A tokenizer of SentencePiece's kind: control tokens, then letters that may merge.
    pub fn with_letters(&mut self) -> &mut Self {
        let tokens: Vec<String> =
            ["<unk>", "<s>", "</s>", "▁", "a", "b", "▁a", "ab", "<0x41>", "<0x42>", "x", "y"]
                .map(str::to_owned)
                .to_vec();
        let scores = (0..12).map(|i| Value::F32(-(i as f32))).collect();
        self.set("tokenizer.ggml.model", Value::String("llama".to_owned()))
            .set("tokenizer.ggml.tokens", texts(&tokens))
            .set("tokenizer.ggml.scores", Value::Array(scores))
            .set("tokenizer.ggml.token_type", as_u32([2, 3, 3, 1, 1, 1, 1, 1, 6, 6, 1, 1]))
            .set("tokenizer.ggml.bos_token_id", Value::U32(1))
            .set("tokenizer.ggml.eos_token_id", Value::U32(2))
            .set("tokenizer.ggml.unknown_token_id", Value::U32(0))
    }
}

/// Where the two dimensions of a matrix are in a file; its type number follows.
pub fn dims_of(file: &[u8], name: &str) -> usize {
    let entry = [&(name.len() as u64).to_le_bytes(), name.as_bytes(), &2u32.to_le_bytes()].concat();
    file.windows(entry.len()).position(|window| window == entry).unwrap() + entry.len()
}

/// Where the table of tensors ends: after the name, the two dimensions, the type and the offset of
/// the last one.
pub fn header_length(file: &[u8]) -> usize {
    let last = b".weight";
    let at = file.windows(last.len()).rposition(|window| window == last).unwrap();
    at + last.len() + 4 + 16 + 4 + 8
}

/// A whole model of one layer, a few kilobytes.
pub fn small() -> Gguf {
    let config = Config {
        vocab: 12,
        hidden: 32,
        intermediate: 64,
        layers: 1,
        head_dim: 8,
        rope_layout: RopeLayout::Interleaved,
        tied_head: true,
        max_positions: 64,
        ..small_config()
    };
    let mut file = Gguf::with_config("llama", &config);
    file.with_letters();
    for (name, shape) in dovetail::model::weights::tensors(&config) {
        let tensor = Tensor::randn(0f32, 1.0, shape, &Device::Cpu).unwrap();
        let kind = if tensor.rank() == 1 { GgmlDType::F32 } else { GgmlDType::Q8_0 };
        file.tensor(&gguf_name(&name), &tensor, kind);
    }
    file
}

pub fn gguf_name(name: &str) -> String {
    let name = name.strip_prefix("model.").unwrap_or(name);
    for (ours, theirs) in [
        ("embed_tokens.weight", "token_embd.weight"),
        ("norm.weight", "output_norm.weight"),
        ("lm_head.weight", "output.weight"),
    ] {
        if name == ours {
            return theirs.to_owned();
        }
    }
    let mut name = name.replace("layers.", "blk.");
    for (ours, theirs) in [
        ("input_layernorm", "attn_norm"),
        ("post_attention_layernorm", "ffn_norm"),
        ("self_attn.o_proj", "attn_output"),
        ("self_attn.q_norm", "attn_q_norm"),
        ("self_attn.k_norm", "attn_k_norm"),
        ("self_attn.q_proj", "attn_q"),
        ("self_attn.k_proj", "attn_k"),
        ("self_attn.v_proj", "attn_v"),
        ("mlp.gate_proj", "ffn_gate"),
        ("mlp.up_proj", "ffn_up"),
        ("mlp.down_proj", "ffn_down"),
    ] {
        name = name.replace(ours, theirs);
    }
    name
}

pub fn open_bytes(bytes: &[u8]) -> Result<TargetFiles, LibraryError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    fs::write(&path, bytes).unwrap();
    open_target(&Spec::Gguf(path))
}

pub fn refusal(bytes: &[u8]) -> String {
    let text = library::refusal(open_bytes(bytes));
    assert!(text.contains("model.gguf"), "{text}");
    text
}

/// GPT-2's spelling of a byte.
pub fn spelling(byte: u8) -> char {
    let printable = |b: u8| matches!(b, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    if printable(byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|&b| !printable(b)).count() as u32;
    char::from_u32(0x100 + before).unwrap()
}

/// Gives a folder a tokenizer of one token per byte, and a template that adds nothing.
pub fn put_byte_tokenizer(folder: &Path) {
    let ids = (0..=255).map(spelling).enumerate();
    let vocab: serde_json::Map<String, serde_json::Value> =
        ids.map(|(id, c)| (c.to_string(), json!(id))).collect();
    let level = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
        "use_regex": false});
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
        "normalizer": null, "pre_tokenizer": level, "post_processor": null, "decoder": level,
        "model": {"type": "BPE", "dropout": null, "unk_token": null,
            "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": false,
            "byte_fallback": false, "vocab": vocab, "merges": []},
    });
    fs::write(folder.join("tokenizer.json"), tokenizer.to_string()).unwrap();
    let texts = json!({"chat_template":
        "{% for message in messages %}{{ message['content'] }}{% endfor %}"});
    fs::write(folder.join("tokenizer_config.json"), texts.to_string()).unwrap();
}

/// A tensor of a checkpoint.
#[derive(Clone)]
pub struct Stored {
    pub dtype: Dtype,
    pub shape: Vec<usize>,
    pub bytes: Vec<u8>,
}

impl Stored {
    pub fn of(tensor: &RawTensor<'_>) -> Self {
        let dtype = match tensor.format {
            Format::F32 => Dtype::F32,
            Format::F16 => Dtype::F16,
            other => panic!("{other}"),
        };
        Self { dtype, shape: tensor.shape.clone(), bytes: tensor.bytes.to_vec() }
    }
}

/// A folder as models are published, with a tokenizer of one token per byte.
pub fn published<'a>(
    config: &serde_json::Value,
    tensors: impl IntoIterator<Item = (&'a String, &'a Stored)>,
) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    let views = tensors.into_iter().map(|(name, Stored { dtype, shape, bytes })| {
        (name, TensorView::new(*dtype, shape.clone(), bytes).unwrap())
    });
    let bytes = safetensors::serialize(views, None).unwrap();
    fs::write(folder.path().join("model.safetensors"), bytes).unwrap();
    put_byte_tokenizer(folder.path());
    folder
}

/// A golden model as a converter writes it: rows of q and k interleaved, one token per byte.
pub fn golden(name: &str) -> Gguf {
    let folder = Path::new(GOLDEN).join(name);
    let config = fs::read(folder.join("config.json")).unwrap();
    let config = Config::from_hf_json(&serde_json::from_slice(&config).unwrap()).unwrap();
    let weights =
        candle_core::safetensors::load(folder.join("model.safetensors"), &Device::Cpu).unwrap();
    let mut file = Gguf::with_config("llama", &config);
    let bytes: Vec<String> = (0..=255u8).map(|byte| spelling(byte).to_string()).collect();
    file.set("tokenizer.ggml.model", Value::String("gpt2".to_owned()))
        .set("tokenizer.ggml.pre", Value::String("gpt-2".to_owned()))
        .set("tokenizer.ggml.tokens", texts(&bytes))
        .set("tokenizer.ggml.merges", texts(&[]))
        .set("tokenizer.ggml.eos_token_id", Value::U32(2));
    for (name, tensor) in weights {
        let heads = match name.as_str() {
            name if name.ends_with("q_proj.weight") => config.heads,
            name if name.ends_with("k_proj.weight") => config.kv_heads,
            _ => 0,
        };
        let tensor = if heads > 0 {
            let (rows, columns) = tensor.dims2().unwrap();
            let halves = tensor.reshape((heads, 2, config.head_dim / 2, columns)).unwrap();
            halves.transpose(1, 2).unwrap().contiguous().unwrap().reshape((rows, columns)).unwrap()
        } else {
            tensor
        };
        file.tensor(&gguf_name(&name), &tensor, GgmlDType::F32);
    }
    file
}
