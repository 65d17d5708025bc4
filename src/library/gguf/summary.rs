//! What a file's header says about its model, for a list of models: as much as possible, and why
//! the model cannot be opened if so.

use std::path::Path;

use super::config::config;
use super::file::GgufFile;
use super::{GgufTensors, called, header_name, read, vocabulary};
use crate::library::LibraryError;
use crate::library::sizes::{self, Size, Weight, pass_bytes};
use crate::library::titles;
use crate::library::tokenizer::Fingerprint;
use crate::model::Config;

/// A header in short.
#[derive(Debug, Default)]
pub(in crate::library) struct FileSummary {
    /// The model's name as users know it.
    pub(in crate::library) title: Option<String>,
    /// `general.architecture`.
    pub(in crate::library) architecture: Option<String>,
    /// The mixture of types, e.g. `Q4_K_M`.
    pub(in crate::library) mixture: Option<&'static str>,
    /// All tensors.
    pub(in crate::library) size: Option<Size>,
    /// The model's numbers, with the bytes of weights that a pass over one row reads.
    pub(in crate::library) config: Option<(Config, u64)>,
    pub(in crate::library) vocabulary: Option<Fingerprint>,
    /// Why it cannot be opened.
    pub(in crate::library) problem: Option<LibraryError>,
}

/// Reads the header of a file, together with its other shards.
pub(in crate::library) fn summary(path: &Path) -> FileSummary {
    let file = match read(path) {
        Ok(file) => file,
        Err(problem) => return FileSummary { problem: Some(problem), ..FileSummary::default() },
    };
    let text = |key: &str| file.text(key).ok().flatten();
    let weights = file.tensors().values().map(|entry| Weight {
        format: entry.format,
        elements: entry.shape.iter().map(|&n| n as u64).product(),
        bytes: entry.range.len() as u64,
    });
    let mut found = FileSummary {
        title: Some(titles::title(&called(path), header_name(&file))),
        architecture: text("general.architecture").map(str::to_owned),
        mixture: file.any_number("general.file_type").and_then(mixture),
        size: Some(sizes::of(weights)),
        vocabulary: vocabulary::fingerprint(&file),
        ..FileSummary::default()
    };
    match runnable(file) {
        Ok(config) => found.config = Some(config),
        Err(problem) => found.problem = Some(problem),
    }
    found
}

/// The configuration of a file that can be run, and the number of bytes that a pass reads.
fn runnable(file: GgufFile) -> Result<(Config, u64), LibraryError> {
    let (config, architecture) = config(&file)?;
    vocabulary::is_sentence_piece(&file)?;
    let weights = GgufTensors::new(file, architecture, &config)?;
    let bytes = pass_bytes(&config, &weights, &sizes::of(weights.weights()));
    Ok((config, bytes))
}

/// The names of mixtures by their numbers in `general.file_type` (llama.cpp's `llama_ftype`); empty
/// where a number has no name or is no longer used.
#[rustfmt::skip]
const MIXTURES: [&str; 39] = [
    "F32", "F16", "Q4_0", "Q4_1", "", "", "", "Q8_0", "Q5_0", "Q5_1", "Q2_K", "Q3_K_S", "Q3_K_M",
    "Q3_K_L", "Q4_K_S", "Q4_K_M", "Q5_K_S", "Q5_K_M", "Q6_K", "IQ2_XXS", "IQ2_XS", "Q2_K_S",
    "IQ3_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ3_M", "IQ2_S", "IQ2_M", "IQ4_XS", "IQ1_M",
    "BF16", "", "", "", "TQ1_0", "TQ2_0", "MXFP4_MOE",
];

fn mixture(number: u64) -> Option<&'static str> {
    let name = MIXTURES.get(usize::try_from(number).ok()?)?;
    (!name.is_empty()).then_some(name)
}
