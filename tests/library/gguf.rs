//! GGUF files, written by candle (an independent writer), read by us.

use std::path::Path;

use super::open_target;
use crate::support::gguf::{
    Gguf, as_u32, golden, header_length, open_bytes, refusal, small, texts,
};
use crate::support::golden::GOLDEN;
use crate::support::library::load_files;
use candle_core::quantized::GgmlDType;
use candle_core::quantized::gguf_file::Value;
use candle_core::{Device, Tensor};
use dovetail::chat::{Message, Role};
use dovetail::kernels::Format;
use dovetail::library::Spec;
use dovetail::model::{RopeLayout, RopeScaling, Target};
use proptest::prelude::*;
use serde_json::Value as Json;

#[test]
fn a_golden_model_gives_its_golden_logits() {
    for name in ["target_mha", "target_gqa"] {
        let files = golden(name).open().unwrap();
        assert_eq!(files.config.rope_layout, RopeLayout::Interleaved);
        assert!(!files.config.tied_head);
        let mut target = load_files(&files, 128, 2);
        let golden = Path::new(GOLDEN).join(format!("prefill_{name}.safetensors"));
        let golden = candle_core::safetensors::load(golden, &Device::Cpu).unwrap();
        let ids = golden["p0.input_ids"].to_dtype(candle_core::DType::U32).unwrap();
        let ids: Vec<u32> = ids.flatten_all().unwrap().to_vec1().unwrap();
        let expected: Vec<Vec<f32>> = golden["p0.logits"].to_vec2().unwrap();
        let logits = target.prefill(&ids).unwrap().logits;
        for (ours, theirs) in logits.iter().zip(expected.last().unwrap()) {
            assert!((ours - theirs).abs() < 1e-4, "{name}: {ours} is not {theirs}");
        }
    }
}

#[test]
fn every_format_is_read_byte_for_byte() {
    let kinds = [
        (GgmlDType::F32, Format::F32),
        (GgmlDType::F16, Format::F16),
        (GgmlDType::BF16, Format::BF16),
        (GgmlDType::Q8_0, Format::Q8_0),
        (GgmlDType::Q4_0, Format::Q4_0),
        (GgmlDType::Q4K, Format::Q4K),
        (GgmlDType::Q5K, Format::Q5K),
        (GgmlDType::Q6K, Format::Q6K),
    ];
    for (kind, format) in kinds {
        let mut file = small();
        let tensor = Tensor::randn(0f32, 1.0, (32, 256), &Device::Cpu).unwrap();
        file.tensor("output.weight", &tensor, kind);
        let files = file.open().unwrap();
        let head = files.weights.tensor("lm_head.weight").unwrap();
        assert_eq!((head.format, head.shape.as_slice()), (format, &[32, 256][..]));
        let written = file.tensors["output.weight"].data().unwrap();
        assert_eq!(head.bytes, written, "{format}");
        files.weights.release("lm_head.weight");
        assert_eq!(files.weights.tensor("lm_head.weight").unwrap().bytes, written);
    }
}

#[test]
fn sentence_piece_gives_the_ids_of_sentence_piece() {
    let data: Json = serde_json::from_str(include_str!("data/sentence_piece.json")).unwrap();
    let list = |key: &str| data[key].as_array().unwrap();
    let pieces: Vec<String> =
        list("pieces").iter().map(|piece| piece.as_str().unwrap().to_owned()).collect();
    let scores = list("scores").iter().map(|s| Value::F32(s.as_f64().unwrap() as f32)).collect();
    let mut file = small();
    let embedding = Tensor::zeros((pieces.len(), 32), candle_core::DType::F32, &Device::Cpu);
    file.set("tokenizer.ggml.tokens", texts(&pieces))
        .set("tokenizer.ggml.scores", Value::Array(scores))
        .set(
            "tokenizer.ggml.token_type",
            as_u32(list("kinds").iter().map(|kind| kind.as_u64().unwrap() as u32)),
        )
        .tensor("token_embd.weight", &embedding.unwrap(), GgmlDType::F32);
    let tokenizer = file.open().unwrap().tokenizer;
    for sample in list("texts") {
        let text = sample["text"].as_str().unwrap();
        let expected: Vec<u32> = sample["ids"]
            .as_array()
            .unwrap()
            .iter()
            .map(|id| id.as_u64().unwrap() as u32)
            .collect();
        assert_eq!(tokenizer.encode(text, false).unwrap(), expected, "{text:?}");
        assert_eq!(tokenizer.text(&expected), text);
    }
    assert_eq!(tokenizer.encode("a", true).unwrap()[0], 1, "begins with <s>");
}

#[test]
fn byte_level_gives_the_ids_of_its_tokenizer_json() {
    let bundled = open_target(&Spec::Bundled).unwrap();
    let json: Json =
        serde_json::from_str(include_str!("../../assets/demo/target/tokenizer.json")).unwrap();
    let mut tokens = vec![String::new(); bundled.config.vocab];
    for (token, id) in json["model"]["vocab"].as_object().unwrap() {
        tokens[id.as_u64().unwrap() as usize] = token.clone();
    }
    let mut kinds = vec![1; tokens.len()];
    for added in json["added_tokens"].as_array().unwrap() {
        let id = added["id"].as_u64().unwrap() as usize;
        tokens[id] = added["content"].as_str().unwrap().to_owned();
        kinds[id] = 3;
    }
    let merges: Vec<String> = json["model"]["merges"]
        .as_array()
        .unwrap()
        .iter()
        .map(|merge| match merge {
            Json::String(merge) => merge.clone(),
            pair => format!("{} {}", pair[0].as_str().unwrap(), pair[1].as_str().unwrap()),
        })
        .collect();
    let mut file = small();
    let embedding = Tensor::zeros((tokens.len(), 32), candle_core::DType::F32, &Device::Cpu);
    file.set("tokenizer.ggml.model", Value::String("gpt2".to_owned()))
        .set("tokenizer.ggml.pre", Value::String("gpt-2".to_owned()))
        .set("tokenizer.ggml.tokens", texts(&tokens))
        .set("tokenizer.ggml.merges", texts(&merges))
        .set("tokenizer.ggml.token_type", as_u32(kinds))
        .tensor("token_embd.weight", &embedding.unwrap(), GgmlDType::F32);
    let ours = file.open().unwrap().tokenizer;
    let samples: Json = serde_json::from_str(include_str!("data/sentence_piece.json")).unwrap();
    for sample in samples["texts"].as_array().unwrap() {
        let text = format!("<|user|>{}<|end|>", sample["text"].as_str().unwrap());
        let expected = bundled.tokenizer.encode(&text, false).unwrap();
        assert_eq!(ours.encode(&text, false).unwrap(), expected, "{text:?}");
    }
}

#[test]
fn gemma_4_merges_over_lines_and_begins_with_its_begin_token() {
    let mut file = small();
    let merges = ["▁ a", "a b", "b x"].map(str::to_owned);
    file.set("tokenizer.ggml.model", Value::String("gemma4".to_owned()))
        .set("tokenizer.ggml.merges", texts(&merges))
        .set("tokenizer.ggml.add_bos_token", Value::Bool(false));
    file.metadata.remove("tokenizer.ggml.scores");
    let tokenizer = file.open().unwrap().tokenizer;
    // By the order of the merges; `bx` is not a token; `A` is a byte; a character without bytes is
    // unknown.
    assert_eq!(tokenizer.encode(" abxA\n", true).unwrap(), [1, 6, 5, 10, 8, 0]);
    assert_eq!(tokenizer.encode("ab ba", false).unwrap(), [7, 3, 5, 4]);
    file.metadata.remove("tokenizer.ggml.merges");
    let text = file.refusal();
    assert!(text.contains("`tokenizer.ggml.merges`"), "{text}");
}

#[test]
fn template_marks_and_name_come_from_the_file() {
    let mut file = small();
    file.set("general.name", Value::String("Small Llama".to_owned())).set(
        "tokenizer.chat_template",
        Value::String(
            "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{{ eos_token }}\
             {% endfor %}"
                .to_owned(),
        ),
    );
    let target = file.open().unwrap();
    let question = dovetail::chat::Message::new(dovetail::chat::Role::User, "ab".to_owned());
    let prompt = target.template.render(&[question], true).unwrap();
    assert_eq!(prompt, "<s>[user]ab</s>");
    let tokens = target.tokenizer.encode(&prompt, target.template.wants_bos()).unwrap();
    assert_eq!((tokens[0], *tokens.last().unwrap()), (1, 2));
    assert_eq!((target.bos, target.eos), (Some(1), vec![2]));
    assert_eq!(target.name, "Small Llama 9K");
    assert_eq!(target.detail, "10 K parameters, Q8_0, 11 kB");

    let plain = small().open().unwrap();
    assert!(plain.template.wants_bos());
    assert!(plain.name.starts_with("model "), "{}", plain.name);
}

#[test]
fn llama_3_factors_and_other_fields_reach_the_config() {
    let mut file = small();
    let factors = Tensor::new(&[1f32, 1.0, 4.0, 8.0], &Device::Cpu).unwrap();
    file.tensor("rope_freqs.weight", &factors, GgmlDType::F32);
    let config = file.open().unwrap().config;
    assert_eq!(config.rope_scaling, RopeScaling::Factors(vec![1.0, 1.0, 4.0, 8.0]));

    let mut file = small();
    file.set("llama.rope.scaling.type", Value::String("linear".to_owned()))
        .set("llama.rope.scaling.factor", Value::F32(2.0))
        .set("llama.attention.sliding_window", Value::U32(16));
    let config = file.open().unwrap().config;
    assert_eq!(config.rope_scaling, RopeScaling::Linear { factor: 2.0 });
    assert_eq!(config.block.window_of(0), Some(16));
}

#[test]
fn what_cannot_be_run_is_refused_by_name() {
    let text = |text: &str| Some(Value::String(text.to_owned()));
    // Key, its value or that it is removed, and what the error says.
    for (key, value, expected) in [
        ("general.architecture", text("mamba"), "`mamba`"),
        ("split.count", Some(Value::U16(3)), "split.no"),
        ("llama.expert_count", Some(Value::U32(8)), "expert_used_count"),
        ("llama.attention.value_length", Some(Value::U32(4)), "head width, 8"),
        ("tokenizer.ggml.model", text("bert"), "tokenizer.ggml.model is `bert`"),
        ("tokenizer.ggml.tokens", None, "contains its tokenizer"),
        ("llama.block_count", None, "`block_count` is absent"),
        ("llama.block_count", text("one"), "`block_count` is \"one\": it must be a whole number"),
        (
            "llama.block_count",
            Some(Value::I32(-1)),
            "`block_count` is -1: it must be a whole number",
        ),
    ] {
        let mut file = small();
        file.metadata.remove(key);
        if let Some(value) = value {
            file.set(key, value);
        }
        let text = file.refusal();
        assert!(text.contains(expected), "{text} lacks {expected}");
    }
    let mut file = small();
    file.tensors.remove("token_embd.weight");
    let text = file.refusal();
    assert!(text.contains("`token_embd.weight`: missing"), "{text}");
    let mut file = small();
    let norm = Tensor::zeros(32, candle_core::DType::F32, &Device::Cpu).unwrap();
    file.tensor("blk.0.attn_post_norm.weight", &norm, GgmlDType::F32);
    let text = file.refusal();
    assert!(text.contains("`blk.0.attn_post_norm.weight`"), "{text}");
    let mut file = small();
    let tensor = Tensor::zeros((4, 256), candle_core::DType::F32, &Device::Cpu).unwrap();
    file.tensor("output.weight", &tensor, GgmlDType::Q8K);
    let text = file.refusal();
    assert!(text.contains("tensor `output.weight` is Q8_K") && text.contains("IQ4_XS"), "{text}");
}

#[test]
fn other_files_and_versions_are_refused() {
    let sound = small().bytes();
    let with = |at: usize, bytes: &[u8]| {
        let mut changed = sound.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        refusal(&changed)
    };
    assert!(refusal(b"GGU").contains("instead of \"GGUF\""));
    assert!(with(0, b"abcd").contains("instead of \"GGUF\""));
    let named: [(String, &str); 5] = [
        (refusal(b""), "an empty file"),
        (with(0, b"PK\x03\x04"), "a zip archive"),
        (with(0, b"tjgg"), "a GGML file"),
        (with(4, &1u32.to_le_bytes()), "version 1"),
        (with(4, &3u32.to_be_bytes()), "big-endian"),
    ];
    for (text, what) in named {
        assert!(text.contains("not a language model but a"), "{text}");
        assert!(text.contains(what) && !text.contains("damaged"), "{text}");
    }
    assert!(with(4, &9u32.to_le_bytes()).contains("the version of GGUF is 9"));
    assert!(with(8, &u64::MAX.to_le_bytes()).contains("tensor"));
    assert!(with(16, &u64::MAX.to_le_bytes()).contains("metadata key"));
    let torn = refusal(&sound[..sound.len() - 64]);
    assert!(torn.contains("of the data, but the data has"), "{torn}");
}

#[test]
fn no_length_that_lies_is_believed() {
    let sound = small().bytes();
    let mut refused = 0;
    for at in 0..header_length(&sound) - 8 {
        for lie in [u64::MAX, 1 << 60, 1 << 40] {
            let mut changed = sound.clone();
            changed[at..at + 8].copy_from_slice(&lie.to_le_bytes());
            refused += usize::from(open_bytes(&changed).is_err());
        }
    }
    assert!(refused > 1000, "only {refused} lies were noticed");
}

#[test]
fn a_file_torn_anywhere_is_refused() {
    let sound = small().bytes();
    let header = header_length(&sound);
    for length in (1..header).chain((header..sound.len() - 32).step_by(97)) {
        let Err(error) = open_bytes(&sound[..length]) else { panic!("opened {length} bytes") };
        assert!(error.to_string().contains("offset"), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn changed_files_never_panic(
        changes in prop::collection::vec((0.0..1.0f64, any::<u8>()), 1..12),
    ) {
        let mut bytes = small().bytes();
        let header = header_length(&bytes);
        for (at, value) in changes {
            bytes[(at * header as f64) as usize] = value;
        }
        if let Ok(files) = open_bytes(&bytes) {
            let tokens = files.tokenizer.encode("ab a <s> é", true).unwrap();
            files.tokenizer.text(&tokens);
            files.weights.tensor("model.norm.weight");
        }
    }
}

#[test]
fn a_files_own_sampling_and_a_harmless_name_are_read() {
    let mut file = small();
    file.set("general.name", Value::String("evil\u{1b}]52;c;QQ==\u{7}".to_owned()))
        .set("general.sampling.temp", Value::F32(0.5))
        .set("general.sampling.top_k", Value::I32(-1))
        .set("general.sampling.top_p", Value::String("most".to_owned()));
    let files = file.open().unwrap();
    assert!(files.name.starts_with("evil␛]52;c;QQ==␇ "), "{:?}", files.name);
    // Converters write -1 for no limit.
    let expected = [("sampler.temperature", 0.5), ("sampler.top_k", 0.0)];
    assert_eq!(files.sampling.values, expected);
}

/// A small model with some tokens spelled otherwise.
fn spelled(others: &[(usize, &str)]) -> Gguf {
    let mut file = small();
    let Value::Array(listed) = &file.metadata["tokenizer.ggml.tokens"] else { panic!("no tokens") };
    let mut tokens: Vec<String> =
        listed.iter().map(|token| token.to_string().unwrap().clone()).collect();
    for &(id, token) in others {
        tokens[id] = token.to_owned();
    }
    file.set("tokenizer.ggml.tokens", texts(&tokens));
    file
}

#[test]
fn an_answer_ends_at_every_token_that_is_spelled_so() {
    let ends = |others: &[(usize, &str)]| {
        let mut file = spelled(others);
        let files = file.set("tokenizer.ggml.eos_token_id", Value::U32(9)).open().unwrap();
        for &id in &files.eos {
            assert!(files.tokenizer.is_special(id), "{id}");
        }
        files.eos
    };
    assert_eq!(ends(&[(10, "<|endoftext|>"), (11, "<|im_end|>")]), [2, 9, 10, 11]);
    assert_eq!(
        ends(&[(10, "<|file_sep|>"), (11, "<|repo_name|>"), (4, "[PAD]")]),
        [2, 4, 9, 10, 11]
    );
    assert_eq!(ends(&[(10, "<|end|>"), (11, "<|user|>")]), [2, 9, 10]);
    assert_eq!(ends(&[(10, "<|end|>"), (11, "<|return|>"), (4, "<|call|>")]), [2, 4, 9, 11]);
    assert_eq!(ends(&[(11, "<|tool_response>")]), [9, 11]);
}

#[test]
fn the_begin_token_comes_once() {
    let prompt = |begins: bool, template: &str| {
        let mut file = small();
        file.set("tokenizer.ggml.bos_token_id", Value::U32(7));
        file.set("tokenizer.ggml.add_bos_token", Value::Bool(begins));
        file.set("tokenizer.chat_template", Value::String(template.to_owned()));
        let files = file.open().unwrap();
        let said = [Message::new(Role::User, "a".to_owned())];
        let controls = |text: &str| files.tokenizer.controls_in(text);
        let prompt = files.template.prompt(&said, true, &controls).unwrap();
        let tokens = files.tokenizer.encode_whole(&prompt, files.template.wants_bos()).unwrap();
        tokens.iter().filter(|(token, _)| *token == 7).count()
    };
    for template in ["{{ messages[0].content }}", "{{ bos_token }}{{ messages[0].content }}"] {
        assert_eq!(prompt(true, template), 1, "{template}");
    }
    assert_eq!(prompt(false, "{{ messages[0].content }}"), 0);
}

#[test]
fn what_is_no_language_model_is_named_with_one_remedy() {
    let named =
        |key: &str, value: &str| small().set(key, Value::String(value.to_owned())).refusal();
    for (text, what) in [
        (named("general.type", "adapter"), "a LoRA adapter; merge it"),
        (named("adapter.type", "lora"), "a LoRA adapter"),
        (named("general.type", "imatrix"), "an importance matrix"),
        (named("general.type", "mmproj"), "the projector (mmproj)"),
        (named("general.architecture", "clip"), "the projector (mmproj)"),
        (named("general.architecture", "nomic-bert"), "an embedding model"),
        (named("general.architecture", "whisper"), "a model of images, video or sound"),
    ] {
        assert!(text.contains(what) && !text.contains("damaged"), "{text}");
    }
}
