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
    /// Its vocabulary.
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
    let bytes = pass_bytes(&config, &weights, sizes::of(weights.weights()));
    Ok((config, bytes))
}

/// The name of a mixture by its number in `general.file_type` (llama.cpp's `llama_ftype`).
fn mixture(number: u64) -> Option<&'static str> {
    Some(match number {
        0 => "F32",
        1 => "F16",
        2 => "Q4_0",
        3 => "Q4_1",
        7 => "Q8_0",
        8 => "Q5_0",
        9 => "Q5_1",
        10 => "Q2_K",
        11 => "Q3_K_S",
        12 => "Q3_K_M",
        13 => "Q3_K_L",
        14 => "Q4_K_S",
        15 => "Q4_K_M",
        16 => "Q5_K_S",
        17 => "Q5_K_M",
        18 => "Q6_K",
        19 => "IQ2_XXS",
        20 => "IQ2_XS",
        21 => "Q2_K_S",
        22 => "IQ3_XS",
        23 => "IQ3_XXS",
        24 => "IQ1_S",
        25 => "IQ4_NL",
        26 => "IQ3_S",
        27 => "IQ3_M",
        28 => "IQ2_S",
        29 => "IQ2_M",
        30 => "IQ4_XS",
        31 => "IQ1_M",
        32 => "BF16",
        36 => "TQ1_0",
        37 => "TQ2_0",
        38 => "MXFP4_MOE",
        _ => return None,
    })
}
