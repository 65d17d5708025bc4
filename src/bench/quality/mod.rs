//! `bench quality`: how well a target predicts a text (perplexity), and, if asked, how far its
//! predictions are from those of candle-transformers' own model of the same file. It must not
//! depend on drafters.
//!
//! The text is cut into windows, each run on its own. Every token that has another before it in its
//! window is scored: perplexity = exp(−mean log p). The same tokens go through the other model, and
//! KL(other ‖ ours) is summed over the whole vocabulary.

#[cfg(any(test, feature = "candle-models"))]
mod candle;
mod report;
mod score;

use std::path::PathBuf;
use std::time::Instant;

use crate::bench::{MeasureError, load_cpu};
use crate::files::read_text;
use crate::kernels::KvFormat;
use crate::library::{LibraryError, Spec, Tokenizer, open_target};
use crate::model::Target;
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

/// What is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QualityOptions {
    /// A UTF-8 text; `None` is [`BUNDLED_TEXT`].
    pub text: Option<PathBuf>,
    /// Tokens of a window, at least 2 and at most what the model was made for.
    pub window: usize,
    /// Compute threads.
    pub threads: usize,
    /// Whether candle-transformers' model is scored as well.
    pub against_candle: bool,
}

/// Another implementation of the same model.
pub trait ReferenceModel {
    /// The logits `[vocab]` after `token` at `position`; position 0 starts again.
    ///
    /// # Errors
    /// If it fails.
    fn logits(&mut self, token: u32, position: usize) -> candle_core::Result<Vec<f32>>;
}

/// Loads the target and scores the text.
///
/// # Errors
/// [`MeasureError`].
pub fn run(spec: &Spec, options: &QualityOptions) -> Result<QualityReport, MeasureError> {
    if options.window < 2 {
        let reason = format!("--window must be 2 or more, not {}", options.window);
        return Err(MeasureError::Options(reason));
    }
    let (text, name) = match &options.text {
        Some(path) => (
            read_text(path, LONGEST).map_err(|error| {
                MeasureError::Options(format!("cannot read the text {}: {error}", path.display()))
            })?,
            path.display().to_string(),
        ),
        None => (BUNDLED_TEXT.to_owned(), "bundled".to_owned()),
    };
    let mut reference = open_reference(spec, options.against_candle)?;
    let files = open_target(spec, &mut |_| {})?;
    let window = options.window.min(files.config.max_positions);
    let windows = windows(&files.tokenizer, &text, window)?;
    if windows.is_empty() {
        let reason = format!(
            "the text {name} has fewer than two tokens, so there is nothing to \
                              score"
        );
        return Err(MeasureError::Options(reason));
    }
    let mut target = load_cpu(&files, options.threads, window, KvFormat::F32)?;
    let reference = reference.as_mut().map(|model| model.as_mut() as &mut dyn ReferenceModel);
    let measured = measure(&mut target, reference, &windows)?;
    Ok(QualityReport::new(&files, &target, name, window, &measured))
}

/// candle-transformers' model of a local GGUF file.
fn open_reference(
    spec: &Spec,
    wanted: bool,
) -> Result<Option<Box<dyn ReferenceModel>>, MeasureError> {
    match spec {
        _ if !wanted => Ok(None),
        _ if !cfg!(feature = "candle-models") => Err(MeasureError::Options(
            "this build does not include candle-transformers' models; build it with `cargo build \
             --release --features candle-models`"
                .to_owned(),
        )),
        #[cfg(feature = "candle-models")]
        Spec::Gguf(path) => Ok(Some(Box::new(candle::CandleModel::open(path)?))),
        other => Err(MeasureError::Options(format!(
            "--against candle needs a GGUF file on this machine, but the target is {other}"
        ))),
    }
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
    mut reference: Option<&mut dyn ReferenceModel>,
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
            let logits = target.verify(&chain(tokens))?.logits;
            target.commit(&(0..tokens.len()).collect::<Vec<_>>());
            ours.time += start.elapsed();
            for (i, row) in logits.chunks_exact(target.vocab()).enumerate() {
                let at = from + i;
                let next = window[at + 1];
                let prediction = TokenPrediction::of(row);
                ours.count(&prediction, next);
                if let Some(reference) = reference.as_deref_mut() {
                    let start = Instant::now();
                    let logits = reference.logits(tokens[i], at)?;
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

/// A tree without branches: causal decoding of several tokens in one pass. There is at least one.
fn chain(tokens: &[u32]) -> Tree {
    let mut tree = Tree::root(tokens[0]);
    for (parent, &token) in tokens[1..].iter().enumerate() {
        tree.push(parent, token, 0.0);
    }
    tree
}
