//! What a file's header says about its model, for a list of models: as much as possible, and why
//! the model cannot be opened if so.

use std::path::Path;

use super::config::{config, mtp};
use super::file::{GgufFile, TensorEntry};
use super::values::Value;
use super::{GgufTensors, assistant, dflash, read, title, vocabulary};
use crate::library::sizes::{self, pass_bytes};
use crate::library::{Facts, Result, Runs};
use crate::model::ModelEngine;
use crate::model::head::HeadConfig;

/// Reads the header of a file, together with its other shards.
pub(in crate::library) fn facts(path: &Path) -> Facts {
    let mut facts = Facts::default();
    let runs = read(path).and_then(|file| {
        facts.title = Some(title(path, &file));
        let architecture = file.text("general.architecture").ok().flatten();
        facts.architecture = architecture.map(str::to_owned);
        let mixture = file.value("general.file_type").and_then(Value::as_u64).and_then(mixture);
        facts.quantisation = mixture.map(str::to_owned);
        facts.vocabulary = vocabulary::fingerprint(&file);
        facts.note_size(&sizes::of(file.tensors.values().map(TensorEntry::weight)));
        runs(file, &mut facts.mtp)
    });
    match runs {
        Ok(runs) => facts.runs = Some(runs),
        Err(problem) => facts.problem = Some(problem.to_string()),
    }
    facts
}

/// How a file is run, if it can be; notes the head that it also holds.
fn runs(file: GgufFile, head: &mut Option<Box<HeadConfig>>) -> Result<Runs> {
    if let Some(config) = assistant::config(&file)? {
        return Ok(Runs::Head(Box::new(config)));
    }
    if let Some(config) = dflash::config(&file)? {
        return Ok(Runs::Dflash(Box::new(config)));
    }
    let (config, architecture) = config(&file)?;
    vocabulary::model(&file)?;
    *head = mtp(&file, architecture, &config).map(Box::new);
    let weights = GgufTensors::new(file, architecture, &config, None)?;
    let pass_bytes = pass_bytes(&config, &weights, &sizes::of(weights.weights()));
    Ok(Runs::Model { config: Box::new(config), pass_bytes, engine: ModelEngine::Dovetail })
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
