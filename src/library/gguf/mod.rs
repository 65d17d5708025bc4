//! GGUF files: everything a target needs in one mapped file.
//!
//! The parser is our own: a header may come from an untrusted source, so every length in it is
//! checked against the existing bytes, and no allocation depends on an unchecked length. It must
//! not depend on kernels.

mod assistant;
mod config;
mod dflash;
mod file;
mod names;
mod reader;
mod roles;
mod scales;
mod summary;
mod values;
mod vocabulary;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use super::blob::{Blob, BlobPart, identity_of};
use super::shard_names::{all_numbered, numbered};
use super::target::{check_vocabulary, detail, end_tokens};
use super::titles::{self, with_size};
use super::transposed::transposed;
use super::{
    DflashFiles, DraftFiles, HeadFiles, LibraryError, Recommended, Result, TargetFiles, Weight,
    sizes,
};
use crate::chat::{ChatTemplate, SpecialTokens};
use crate::model::head::{HeadConfig, MTP};
use crate::model::{ArchitectureRow, Config, MappedBytes, RawTensor, WeightSource};
use crate::printable::printable_line;
use assistant::ASSISTANT;
use dflash::DFLASH;
use file::{GgufFile, TensorEntry};
use scales::Scales;
pub(super) use summary::facts;

/// Opens a file as a target, together with its other shards (`-00001-of-00003.gguf`).
pub(super) fn open(path: &Path) -> Result<TargetFiles> {
    let name = stem(path);
    let file = read(path)?;
    let (config, architecture) = config::config(&file)?;
    let (vocabulary, roles) = vocabulary::vocabulary(&file)?;
    let spelled = |id: Option<u32>| {
        id.and_then(|id| vocabulary.tokens.get(id as usize)).cloned().unwrap_or_default()
    };
    let tokens = SpecialTokens {
        bos: spelled(roles.bos),
        eos: spelled(roles.eos),
        unk: spelled(roles.unknown),
        pad: spelled(roles.padding),
    };
    let title = title(path, &file);
    let model_name = file.text("general.name")?.map(str::to_owned);
    let source = file.text("tokenizer.chat_template")?;
    let template = match source.filter(|source| !source.trim().is_empty()) {
        Some(source) => ChatTemplate::new(source, file.name(), tokens)?,
        None => {
            let names = format!("{name} {}", model_name.as_deref().unwrap_or_default());
            ChatTemplate::built_in(&names, tokens)?
        }
    };
    let tokenizer = vocabulary.build(file.name())?;
    // A recommendation of another type is ignored, because the model can be run without it.
    let sampling = Recommended::of_gguf(|key| file.float(key).ok().flatten());
    let mtp = config::mtp(&file, architecture, &config);
    let embeds = file.flag(&format!("{}.attention.causal", architecture.gguf))? == Some(false);
    let weights = GgufTensors::new(file, architecture, &config, mtp.as_ref())?;
    check_vocabulary(&path.display().to_string(), &tokenizer, &config)?;
    let size = sizes::of(weights.weights());
    Ok(TargetFiles {
        eos: end_tokens(roles.ends, &template, &tokenizer, &config),
        config,
        weights: Box::new(weights),
        tokenizer,
        template,
        bos: roles.bos,
        embeds,
        name: with_size(&printable_line(&title), &size.short()),
        detail: detail(&size, mtp.as_ref()),
        bytes: size.bytes,
        formats: size.formats,
        repack: false,
        sampling,
        candle: None,
        mtp,
    })
}

/// Opens a file as a draft head or a DFlash drafter.
pub(super) fn open_draft(path: &Path) -> Result<DraftFiles> {
    let file = read(path)?;
    let name = file.name().to_owned();
    if let Some(config) = dflash::config(&file)? {
        let bytes = file.tensors.values().map(|entry| entry.weight().bytes).sum();
        let weights = Box::new(GgufTensors::new(file, &DFLASH, &config.body, None)?);
        return Ok(DraftFiles::Dflash(DflashFiles { config, weights, name, bytes }));
    }
    if let Some(config) = assistant::config(&file)? {
        let weights = Box::new(GgufTensors::new(file, &ASSISTANT, &config.body, None)?);
        return Ok(DraftFiles::Head(HeadFiles::assistant(config, weights, name)));
    }
    if let Some(other) = file.other() {
        return Err(other.error(&name));
    }
    if config::config(&file).is_ok() {
        return Err(LibraryError::NotAHead { given: name });
    }
    let reason = "a draft head is a folder with config.json and model.safetensors or \
                  pytorch_model.bin, and this GGUF file is not a language model either";
    Err(LibraryError::Spec { given: name, reason: reason.to_owned() })
}

/// The header of a file, together with its other shards.
fn read(path: &Path) -> Result<GgufFile> {
    let first = numbered(path, 1);
    let blob = Blob::open(first.as_deref().unwrap_or(path))?;
    GgufFile::read(blob, |number, _| match numbered(path, number) {
        Some(shard) => Blob::open(&shard),
        None => Err(LibraryError::unsupported(
            path.display(),
            "the name of a split file",
            format!("`{}`", stem(path)),
            "rename it to `…-00001-of-0000N.gguf`, as it was published",
        )),
    })
}

/// The model's name as users know it. Values of another type in the header are left out.
fn title(path: &Path, file: &GgufFile) -> String {
    // Without its extension and its number among several.
    let called =
        all_numbered(path).map_or_else(|| stem(path).into_owned(), |(stem, _)| stem.to_owned());
    titles::title(&called, |key| file.text(&format!("general.{key}")).ok().flatten())
}

fn stem(path: &Path) -> Cow<'_, str> {
    path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy()
}

/// The tensors of a file by their Hugging Face names.
#[derive(Debug)]
pub(super) struct GgufTensors {
    /// One file, or all files of a model.
    blobs: Vec<Blob>,
    tensors: BTreeMap<String, TensorEntry>,
    /// The tensors that the file stores with rows and columns exchanged.
    transposed: BTreeSet<String>,
    /// The factors of whole tensors.
    scales: BTreeMap<String, f32>,
}

impl GgufTensors {
    fn new(
        file: GgufFile,
        architecture: &ArchitectureRow,
        config: &Config,
        mtp: Option<&HeadConfig>,
    ) -> Result<Self> {
        let heads = mtp.map_or(0, |head| head.levels().unwrap_or(1));
        let (blobs, mut found) = file.into_tensors();
        let mut scales = Scales::take(&mut found, &blobs)?;
        let mut tensors = BTreeMap::new();
        let mut transposed = BTreeSet::new();
        for (name, entry) in found {
            let of_head = names::after(&name, config.layers).filter(|&(block, _)| block < heads);
            let parts = if let (Some((block, part)), Some(head)) = (of_head, mtp) {
                // What is missing is found when the head is built, without which the model runs.
                let parts = names::of_mtp(block, part, &entry, architecture.family, &head.body);
                parts.unwrap_or_default()
            } else if names::is_aside(&name, config) {
                continue;
            } else if let Some((keys, values)) = names::latent_parts(&name, &entry, config) {
                transposed.extend(keys.iter().map(|(name, _)| name.clone()));
                [keys, values].concat()
            } else {
                let own = match architecture.gguf {
                    gguf if gguf == ASSISTANT.gguf => assistant::named(&name, &entry),
                    gguf if gguf == DFLASH.gguf => dflash::named(&name, &entry),
                    _ => None,
                };
                let named = || names::canonical(&name, &entry, architecture.family, config);
                // A missing part would silently change every answer.
                own.or_else(named).ok_or_else(|| {
                    LibraryError::unsupported(
                        blobs[entry.file].name(),
                        format!("a tensor of architecture {}", architecture.gguf),
                        format!("`{name}`, {:?}", entry.shape),
                        "use a model without this part",
                    )
                })?
            };
            scales.place(&name, &parts, &blobs[entry.file])?;
            tensors.extend(parts);
        }
        let scales = scales.finish(&blobs[0])?;
        Ok(Self { blobs, tensors, transposed, scales })
    }

    /// Its contents, for a line about the model, without a head in the same file.
    pub(super) fn weights(&self) -> impl Iterator<Item = Weight> {
        let own = self.tensors.iter().filter(|(name, _)| !name.starts_with(MTP));
        own.map(|(_, entry)| entry.weight())
    }
}

impl WeightSource for GgufTensors {
    fn describe(&self) -> String {
        self.blobs[0].name().to_owned()
    }

    fn tensor(&self, name: &str) -> Option<RawTensor<'_>> {
        let entry = self.tensors.get(name)?;
        let raw = RawTensor {
            format: entry.format,
            shape: entry.shape.clone(),
            bytes: Cow::Borrowed(&self.blobs[entry.file][entry.range.clone()]),
        };
        if self.transposed.contains(name) { transposed(&raw) } else { Some(raw) }
    }

    fn mapped(&self, name: &str) -> Option<MappedBytes> {
        let entry = self.tensors.get(name).filter(|_| !self.transposed.contains(name))?;
        Some(Arc::new(BlobPart(self.blobs[entry.file].clone(), entry.range.clone())))
    }

    fn scale(&self, name: &str) -> f32 {
        self.scales.get(name).copied().unwrap_or(1.0)
    }

    fn release(&self, name: &str) {
        if let Some(entry) = self.tensors.get(name) {
            self.blobs[entry.file].release(entry.range.clone());
        }
    }

    fn identity(&self) -> Option<String> {
        let ranges = self.tensors.values().map(|entry| (entry.file, entry.range.start));
        identity_of(&self.blobs, ranges)
    }
}
