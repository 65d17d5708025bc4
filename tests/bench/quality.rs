//! `bench quality`: the perplexity is that of decoding token by token, and for the published model
//! it equals the reference program's.

use std::path::Path;

use crate::support::golden::GOLDEN;
use crate::support::library::{arch, arch_file, load_files, open_target, published};
use dovetail::bench::MeasureError;
use dovetail::bench::quality::{BUNDLED_TEXT, QualityOptions, Reference, measure, run, windows};
use dovetail::kernels::KvFormat;
use dovetail::library::{Spec, TargetFiles};
use dovetail::model::Target;
use dovetail::speculate::Tree;
use serde_json::Value;

fn options() -> QualityOptions {
    QualityOptions { text: None, window: 512, kv: KvFormat::F32, against: None }
}

fn tiny() -> TargetFiles {
    arch("llama")
}

fn quality(spec: &Spec, options: &QualityOptions) -> Value {
    serde_json::to_value(run(spec, options, 2).unwrap()).unwrap()
}

#[test]
fn the_perplexity_is_that_of_decoding_token_by_token() {
    let files = tiny();
    let mut target = load_files(&files, 128, 2);
    let vocab = target.vocab() as u32;
    let windows: Vec<Vec<u32>> =
        [90, 2, 33].map(|len| (0..len).map(|i| (i * i + 3 * len) % vocab).collect()).into();
    let found = measure(&mut target, None, &windows).unwrap().ours;
    let (mut sum, mut count) = (0.0, 0);
    for window in &windows {
        target.truncate(0);
        for pair in window.windows(2) {
            let logits = target.verify(&Tree::root(pair[0])).unwrap().logits;
            target.commit(&[0]);
            let total: f64 = logits.iter().map(|&x| f64::from(x).exp()).sum();
            sum += f64::from(logits[pair[1] as usize]) - total.ln();
            count += 1;
        }
    }
    assert_eq!(found.tokens, count);
    let expected = (-sum / f64::from(u32::try_from(count).unwrap())).exp();
    assert!((found.perplexity() / expected - 1.0).abs() < 1e-9, "{found:?}, not {expected}");
}

#[test]
fn windows_hold_the_whole_text_and_begin_as_the_model_wants() {
    let files = open_target(&Spec::Bundled).unwrap();
    let tokens = files.tokenizer.encode(BUNDLED_TEXT, false).unwrap();
    let begun = files.tokenizer.encode(BUNDLED_TEXT, true).unwrap();
    let begin = begun.len() - tokens.len();
    for window in [2, 3, 16, 100_000] {
        let cut = windows(&files.tokenizer, BUNDLED_TEXT, window).unwrap();
        assert!(cut.iter().all(|part| (2..=window.max(2)).contains(&part.len())), "{window}");
        let joined: Vec<u32> = cut.iter().flat_map(|part| &part[begin..]).copied().collect();
        let left_out = tokens.len() - joined.len();
        assert!(left_out <= 1 && tokens.starts_with(&joined), "{window}: {left_out} left out");
    }
    assert!(windows(&files.tokenizer, "", 16).unwrap().is_empty());
}

#[test]
fn the_bundled_model_is_measured_on_the_bundled_text() {
    let found = quality(&Spec::Bundled, &options());
    assert_eq!(
        (found["type"].as_str(), found["text"].as_str()),
        (Some("quality"), Some("bundled"))
    );
    let perplexity = found["perplexity"].as_f64().unwrap();
    assert!(perplexity > 1.0 && perplexity < 1e4, "{found}");
    assert!(found["tokens"].as_u64().unwrap() > 150 && found.get("candle").is_none(), "{found}");
}

#[test]
fn what_cannot_be_scored_is_said_with_the_remedy() {
    let refused = |options: &QualityOptions| run(&Spec::Bundled, options, 2).unwrap_err();
    let window = refused(&QualityOptions { window: 1, ..options() }).to_string();
    assert!(window.contains("--window must be 2 or more"), "{window}");
    let missing = QualityOptions { text: Some("no/such.txt".into()), ..options() };
    assert!(matches!(refused(&missing), MeasureError::Options(_)));
    let empty = tempfile::NamedTempFile::new().unwrap();
    let empty = QualityOptions { text: Some(empty.path().to_owned()), ..options() };
    assert!(refused(&empty).to_string().contains("nothing to score"));
}

fn compared() -> QualityOptions {
    QualityOptions { against: Some(Reference::Candle), ..options() }
}

#[test]
fn candles_models_of_the_same_files_predict_alike() {
    let gguf = |name: &str| Spec::Gguf(arch_file(&format!("{name}.gguf")));
    let all = [Spec::Bundled, gguf("llama"), gguf("qwen2"), gguf("qwen3")];
    for spec in all {
        // Windows that do not see each other.
        let found = run(&spec, &QualityOptions { window: 64, ..compared() }, 2).unwrap();
        assert_eq!(found.agrees(), Some(true), "{spec}: {found:?}");
        let found = serde_json::to_value(found).unwrap();
        let theirs = found["candle"]["perplexity"].as_f64().unwrap();
        let ratio = found["perplexity"].as_f64().unwrap() / theirs;
        assert!((ratio - 1.0).abs() < 0.02, "{spec}: {ratio}");
        // Both round activations to 8 bits where weights are quantised, in blocks of their own.
        assert!(found["candle"]["mean_kl"].as_f64().unwrap() < 2e-3, "{spec}: {found}");
    }
    assert_eq!(run(&Spec::Bundled, &options(), 2).unwrap().agrees(), None);
}

#[test]
fn another_text_is_noticed() {
    let files = tiny();
    let vocab = files.config.vocab as u32;
    let windows: Vec<Vec<u32>> =
        (1..3).map(|seed| (0..40).map(|i| (i * i + 7 * seed) % vocab).collect()).collect();
    let shifted: Vec<Vec<u32>> = windows.iter().map(|window| window[1..].to_vec()).collect();
    let mut target = load_files(&files, 64, 2);
    let [whole, cut] = [&windows, &shifted].map(|all| measure(&mut target, None, all).unwrap());
    assert_ne!(whole.ours.log_probability, cut.ours.log_probability);
}

#[test]
fn an_architecture_that_cannot_be_compared_is_named_with_those_that_can() {
    let error = run(&Spec::Gguf(arch_file("olmo2.gguf")), &compared(), 2).unwrap_err().to_string();
    assert!(error.contains("`olmo2`") && error.contains("qwen3"), "{error}");
}

/// On the recorded text, which is the bundled one.
#[test]
fn a_published_models_perplexity_is_the_reference_programs() {
    let test = "a_published_models_perplexity_is_the_reference_programs";
    let path = Path::new(GOLDEN).join("real/smollm2-text.json");
    let golden: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert_eq!(golden["text"].as_str(), Some(BUNDLED_TEXT));
    let Some(model) = published(test, "SmolLM2-135M-Instruct.Q4_1.gguf") else { return };
    let found = quality(&Spec::Gguf(model), &options());
    assert_eq!(found["tokens"], 199);
    let theirs = golden["perplexity"]["llama.cpp Q4_1"].as_f64().unwrap();
    let ours = found["perplexity"].as_f64().unwrap();
    assert!((ours / theirs - 1.0).abs() < 0.005, "{ours}, the reference program {theirs}");
}

/// The reference is the forward pass in numpy that made the golden vectors of `arch/`, in f32, over
/// the bundled text. Candle's model cannot be one: it puts SiLU where Gemma has GELU, which makes
/// 105 of numpy's 41.5 too.
#[test]
fn gemma_3_predicts_as_a_second_implementation_does() {
    let test = "gemma_3_predicts_as_a_second_implementation_does";
    let Some(model) = published(test, "gemma-3-270m-q4_k_m.gguf") else { return };
    let found = quality(&Spec::Gguf(model), &options());
    assert_eq!(found["tokens"], 198);
    let ours = found["perplexity"].as_f64().unwrap();
    assert!((ours / 41.4606 - 1.0).abs() < 0.01, "{ours}");
}

/// Where no reference is recorded, candle's model of the same file is one.
#[test]
fn the_qwen_pair_predicts_as_candles_models_do() {
    let test = "the_qwen_pair_predicts_as_candles_models_do";
    for size in ["0.5b", "1.5b"] {
        let name = format!("qwen2.5-coder-{size}-instruct-q4_k_m.gguf");
        let Some(model) = published(test, &name) else { continue };
        let found = run(&Spec::Gguf(model), &compared(), 2).unwrap();
        assert_eq!(found.agrees(), Some(true), "{size}: {found:?}");
    }
}
