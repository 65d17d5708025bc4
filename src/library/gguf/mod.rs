//! GGUF files: everything a target needs in one mapped file.
//!
//! The parser is our own: a header is written by whoever made the file, so no length in it is
//! believed before it is held against the bytes that are there, and nothing is allocated by what
//! it claims.

mod architectures;
mod config;
mod file;
mod names;
mod reader;
mod shards;
mod types;
mod values;
mod vocabulary;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use super::blob::Blob;
use super::{LibraryError, Recommended, Tokenizer, Weight};
use crate::chat::{ChatTemplate, SpecialTokens};
use crate::model::{Config, RawTensor, WeightSource};
use architectures::Architecture;
use file::{Entry, File};

/// What a file holds beside its weights.
pub(super) struct Parts {
    pub(super) config: Config,
    pub(super) tokenizer: Tokenizer,
    pub(super) template: ChatTemplate,
    /// End tokens that the file lists.
    pub(super) eos: Vec<u32>,
    pub(super) bos: Option<u32>,
    /// The model's own name, if it has one.
    pub(super) name: Option<String>,
    pub(super) sampling: Recommended,
    pub(super) weights: Weights,
}

/// Opens a file as a target, or the files it is one of (`-00001-of-00003.gguf`).
pub(super) fn open(path: &Path) -> Result<Parts, LibraryError> {
    let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy();
    let first = shards::numbered(path, 1);
    let blob = Blob::open(first.as_deref().unwrap_or(path))?;
    let file = File::read(blob, |number, _| match shards::numbered(path, number) {
        Some(shard) => Blob::open(&shard),
        None => Err(LibraryError::Unsupported {
            origin: path.display().to_string(),
            what: "the name of a file of several".to_owned(),
            found: format!("`{name}`"),
            remedy: "name it `…-00001-of-0000N.gguf`, as it was published".to_owned(),
        }),
    })?;
    let (config, architecture) = config::config(&file)?;
    let vocabulary = vocabulary::vocabulary(&file)?;
    let spelled = |id: Option<u32>| {
        id.and_then(|id| vocabulary.tokens.get(id as usize)).cloned().unwrap_or_default()
    };
    let bos = vocabulary::token(&file, "bos")?;
    let mut eos = Vec::new();
    for role in ["eos", "eot", "eom"] {
        eos.extend(vocabulary::token(&file, role)?);
    }
    let tokens = SpecialTokens {
        bos: spelled(bos),
        eos: spelled(eos.first().copied()),
        unk: spelled(vocabulary::token(&file, "unknown")?),
        pad: spelled(vocabulary::token(&file, "padding")?),
    };
    let model_name = file.text("general.name")?.map(str::to_owned);
    let template = match file.text("tokenizer.chat_template")? {
        Some(source) => ChatTemplate::new(source, file.name(), tokens)?,
        None => {
            let names = format!("{name} {}", model_name.as_deref().unwrap_or_default());
            ChatTemplate::built_in(&names, tokens)?
        }
    };
    let tokenizer = vocabulary.build(file.name())?;
    // A recommendation of another type is none: the model can be run without it.
    let sampling = Recommended::of_gguf(|key| file.float(key).ok().flatten());
    let weights = Weights::new(file, architecture, &config)?;
    Ok(Parts { config, tokenizer, template, eos, bos, name: model_name, sampling, weights })
}

/// The tensors of a file by their Hugging Face names.
#[derive(Debug)]
pub(super) struct Weights {
    /// One file, or all of a model in several.
    blobs: Vec<Blob>,
    tensors: BTreeMap<String, Entry>,
}

impl Weights {
    fn new(file: File, architecture: &Architecture, config: &Config) -> Result<Self, LibraryError> {
        let (blobs, found) = file.into_tensors();
        let mut tensors = BTreeMap::new();
        for (name, entry) in found {
            if names::is_aside(&name) {
                continue;
            }
            match names::canonical(&name, &entry, architecture, config) {
                Some(parts) => tensors.extend(parts),
                // A part that is left out would change every answer without a word.
                None => {
                    return Err(LibraryError::Unsupported {
                        origin: blobs[entry.file].name().to_owned(),
                        what: format!("a tensor of architecture {}", architecture.name),
                        found: format!("`{name}`, {:?}", entry.shape),
                        remedy: "take a model without such a part".to_owned(),
                    });
                }
            }
        }
        Ok(Self { blobs, tensors })
    }

    /// What is in it, for a line about the model.
    pub(super) fn weights(&self) -> impl Iterator<Item = Weight> {
        self.tensors.values().map(|entry| Weight {
            format: entry.format,
            elements: entry.shape.iter().map(|&n| n as u64).product(),
            bytes: entry.range.len() as u64,
        })
    }
}

impl WeightSource for Weights {
    fn describe(&self) -> String {
        self.blobs[0].name().to_owned()
    }

    fn tensor(&self, name: &str) -> Option<RawTensor<'_>> {
        let entry = self.tensors.get(name)?;
        Some(RawTensor {
            format: entry.format,
            shape: entry.shape.clone(),
            bytes: Cow::Borrowed(&self.blobs[entry.file][entry.range.clone()]),
        })
    }

    fn release(&self, name: &str) {
        if let Some(entry) = self.tensors.get(name) {
            self.blobs[entry.file].release(entry.range.clone());
        }
    }
}
