//! `bench quality`: how well a target predicts a text (perplexity), and, if asked, how far its
//! predictions are from those of candle-transformers' own model of the same file. It must not
//! depend on drafters.
//!
//! The text is cut into windows, each run on its own. Every token that has another before it in its
//! window is scored: perplexity = exp(−mean log p). The same tokens go through the other model, and
//! KL(other ‖ ours) is summed over the whole vocabulary.

mod report;
mod score;

use std::path::PathBuf;
use std::time::Instant;

use crate::bench::MeasureError;
use crate::files::read_text;
use crate::kernels::{KvFormat, Pool};
use crate::library::{LibraryError, Spec, Tokenizer, open_reference, open_target};
use crate::model::{CandleModel, Target};
use crate::speculate::Tree;

use score::TokenPrediction;

pub use report::QualityReport;
pub use score::{Divergence, Score};

/// The text that is scored unless another is named; `assets/bench/SOURCES.md` says what it is.
pub const BUNDLED_TEXT: &str = include_str!("../../../assets/bench/quality.txt");

/// Most bytes of a text.
const LONGEST: u64 = 64_000_000;
/// Tokens of one pass.
const PASS: usize = 32;

/// An implementation to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Reference {
    /// candle-transformers' models.
    Candle,
}

/// What is measured. The fields are flags of `bench quality`, whose help the comments are.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct QualityOptions {
    /// UTF-8 text to score [default: a bundled text of 200 tokens].
    #[arg(long, value_name = "FILE")]
    pub text: Option<PathBuf>,
    /// Tokens per window, at least 2; each window is scored separately.
    // And at most what the model was made for.
    #[arg(long, value_name = "N", default_value_t = 512)]
    pub window: usize,
    /// Number format of the KV cache: f32, f16 or q8.
    #[arg(long, value_name = "TYPE", default_value = "f32", value_parser = kv_format)]
    pub kv: KvFormat,
    /// Compare with another library's model of the same GGUF file, token by token.
    #[arg(long, value_name = "LIBRARY", display_order = 100)]
    pub against: Option<Reference>,
}

/// The format with this name.
fn kv_format(name: &str) -> Result<KvFormat, String> {
    let found = KvFormat::ALL.into_iter().find(|format| format.name() == name);
    found.ok_or_else(|| "the KV cache is f32, f16 or q8".to_owned())
}

/// Loads the target and scores the text.
///
/// # Errors
/// [`MeasureError`].
pub fn run(
    spec: &Spec,
    options: &QualityOptions,
    threads: usize,
) -> Result<QualityReport, MeasureError> {
    let QualityOptions { text, window, kv, against } = options;
    if *window < 2 {
        return Err(MeasureError::Options(format!("--window must be 2 or more, not {window}")));
    }
    let mut name = "bundled".to_owned();
    let mut words = BUNDLED_TEXT.to_owned();
    if let Some(path) = text {
        name = path.display().to_string();
        words = read_text(path, LONGEST).map_err(|error| {
            MeasureError::Options(format!("cannot read the text {name}: {error}"))
        })?;
    }
    let files = open_target(spec, &mut |_| {})?;
    let window = files.config.max_positions.min(*window);
    let windows = windows(&files.tokenizer, &words, window)?;
    if windows.is_empty() {
        return Err(MeasureError::Options(format!(
            "the text {name} has fewer than two tokens, so there is nothing to score"
        )));
    }
    let mut target = files.on_cpu(Pool::new(threads), window, *kv)?;
    let mut reference = against.map(|_| candle_model(spec, window)).transpose()?;
    let measured = measure(&mut target, reference.as_mut(), &windows)?;
    Ok(QualityReport::new(&files, &target, name, window, &measured))
}

/// candle-transformers' model of the same files.
fn candle_model(spec: &Spec, positions: usize) -> Result<CandleModel, MeasureError> {
    let files = open_reference(spec)?;
    let no_tensors = || MeasureError::Options(format!("candle cannot read the tensors of {spec}"));
    Ok(files.ok_or_else(no_tensors)?.load(positions)?)
}

/// The tokens of `text` in windows, each with the model's begin-of-text token in front where the
/// model wants one. A window of one token would score nothing and is left out.
///
/// # Errors
/// [`LibraryError`].
pub fn windows(
    tokenizer: &Tokenizer,
    text: &str,
    window: usize,
) -> Result<Vec<Vec<u32>>, LibraryError> {
    let tokens = tokenizer.encode(text, false)?;
    let around = tokenizer.encode(text, true)?;
    let begins = around.len() > tokens.len() && around.first() != tokens.first();
    let begin = if begins { around.first().copied() } else { None };
    let each = window.saturating_sub(begin.iter().len()).max(1);
    let windows =
        tokens.chunks(each).map(|chunk| begin.into_iter().chain(chunk.to_vec()).collect());
    Ok(windows.filter(|window: &Vec<u32>| window.len() > 1).collect())
}

/// Both models' scores of the same windows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QualityMeasurement {
    /// The target's.
    pub ours: Score,
    /// The other model's score, and how far the target's predictions are from its own.
    pub reference: Option<(Score, Divergence)>,
}

/// Scores `windows` with `target` and, in turn, with `reference`.
///
/// # Errors
/// [`MeasureError::Pass`], [`MeasureError::Candle`].
pub fn measure(
    target: &mut dyn Target,
    mut reference: Option<&mut CandleModel>,
    windows: &[Vec<u32>],
) -> Result<QualityMeasurement, MeasureError> {
    let mut ours = Score::default();
    let mut theirs = Score::default();
    let mut divergence = Divergence::default();
    for window in windows {
        target.truncate(0);
        // The last token has no successor to predict.
        let inputs = window.len().saturating_sub(1);
        for from in (0..inputs).step_by(PASS) {
            let tokens = &window[from..inputs.min(from + PASS)];
            let start = Instant::now();
            let logits = target.verify(&Tree::chain(tokens))?.logits;
            target.commit(&(0..tokens.len()).collect::<Vec<_>>());
            ours.time += start.elapsed();
            for (i, row) in logits.chunks_exact(target.vocab()).enumerate() {
                let at = from + i;
                let next = window[at + 1];
                let prediction = TokenPrediction::of(row);
                ours.count(&prediction, next);
                if let Some(reference) = reference.as_deref_mut() {
                    let start = Instant::now();
                    let logits = reference.read(&tokens[i..=i], at)?;
                    theirs.time += start.elapsed();
                    // Embeddings may have rows that no token uses.
                    let shared = logits.len().min(row.len());
                    let theirs_of = TokenPrediction::of(&logits[..shared]);
                    let ours_of = TokenPrediction::of(&row[..shared]);
                    theirs.count(&theirs_of, next);
                    divergence.count(&theirs_of, &ours_of);
                }
            }
        }
    }
    Ok(QualityMeasurement { ours, reference: reference.map(|_| (theirs, divergence)) })
}
