//! From what the user named to a draft that can be built: a draft head or a DFlash drafter. It must
//! never read weights.

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;

use super::folder::{Folder, json};
use super::hf_names::NamedTensors;
use super::hub::{Downloading, Hub};
use super::open::FETCH_ALL;
use super::pickle::PickledTensors;
use super::published_dflash::open_published;
use super::safetensors::Tensors;
use super::{LibraryError, Result, Spec, TargetFiles, bundled, gguf};
use crate::kernels::Format;
use crate::model::head::{AssistantConfig, FusionKind, HeadConfig, TensorSource, stored_as};
use crate::model::{Config, ConfigError, DflashConfig, WeightSource, weights};

/// A draft head, ready to be built.
pub struct HeadFiles {
    /// Shape and constants.
    pub config: HeadConfig,
    /// Its tensors by the names in its file; none if they are in its target's file or in `weights`.
    pub tensors: Box<dyn TensorSource + Send>,
    /// Those of an assistant.
    pub weights: Option<Box<dyn WeightSource + Send>>,
    /// The format of most of its weights.
    pub stored: Format,
    /// File or folder, for messages.
    pub name: String,
}

impl HeadFiles {
    /// The head in the files of `target`, if there is one.
    pub fn in_target(target: &TargetFiles) -> Option<Self> {
        let config = target.mtp.clone()?;
        let name = format!("the MTP head of {}", target.name);
        let stored = config.format()?;
        Some(Self { config, tensors: Box::new(HashMap::new()), weights: None, stored, name })
    }

    /// What kind of head it is; `None` if it is none.
    pub fn kind(&self) -> Option<FusionKind> {
        let of_tensors = || FusionKind::of(self.tensors.names().iter().map(String::as_str));
        self.config.kind().or_else(of_tensors)
    }
}

/// A DFlash drafter, ready to be built.
pub struct DflashFiles {
    /// Shape and constants.
    pub config: DflashConfig,
    /// Its tensors.
    pub weights: Box<dyn WeightSource + Send>,
    /// File or folder, for messages.
    pub name: String,
    /// Bytes of its weights in the file.
    pub bytes: u64,
}

/// Either of them.
pub enum DraftFiles {
    /// A draft head.
    Head(HeadFiles),
    /// A DFlash drafter.
    Dflash(DflashFiles),
}

/// Opens a draft head or a DFlash drafter; `report` receives a download's progress.
///
/// # Errors
/// [`LibraryError`] with the file, the value and what to do.
pub fn open_draft(spec: &Spec, report: Downloading<'_>) -> Result<DraftFiles> {
    let (folder, name) = match spec {
        Spec::Gguf(path) => {
            if let Some(files) = gguf::open_dflash(path)? {
                return Ok(DraftFiles::Dflash(files));
            }
            let head = gguf::open_assistant(path)?;
            return head.map(DraftFiles::Head).ok_or_else(|| no_head_in_gguf(path));
        }
        Spec::Bundled => (bundled::HEAD.clone(), None),
        Spec::Folder(path) => (Folder::Disk(path.clone()), None),
        Spec::Hub(id) => (Folder::Disk(Hub::from_env()?.head(id, report)?), Some(id.to_string())),
    };
    let called = |own: String| name.unwrap_or(own);
    Ok(match open_published(&folder)? {
        Some(files) => DraftFiles::Dflash(DflashFiles { name: called(files.name), ..files }),
        None => {
            let files = head_in(&folder)?;
            DraftFiles::Head(HeadFiles { name: called(files.name), ..files })
        }
    })
}

/// Opens a draft head; `report` receives a download's progress.
///
/// # Errors
/// [`LibraryError`] with the file, the value and what to do.
pub fn open_head(spec: &Spec, report: Downloading<'_>) -> Result<HeadFiles> {
    match open_draft(spec, report)? {
        DraftFiles::Head(files) => Ok(files),
        DraftFiles::Dflash(files) => {
            let remedy = "use it with --draft, or name a draft head";
            Err(LibraryError::unsupported(files.name, "the draft", "a DFlash drafter", remedy))
        }
    }
}

/// Why no draft head can be opened from a GGUF file: it holds a language model, or cannot be read.
fn no_head_in_gguf(path: &Path) -> LibraryError {
    if let Err(unreadable @ LibraryError::Io { .. }) = gguf::read(path) {
        return unreadable;
    }
    let given = path.display().to_string();
    if gguf::facts(path).runs.is_some() {
        return LibraryError::NotAHead { given };
    }
    let reason = "a draft head is a folder with config.json and model.safetensors or \
                  pytorch_model.bin, and this GGUF file is not a language model either";
    LibraryError::Spec { given, reason: reason.to_owned() }
}

/// Checks that a head was made for a target like this one; called before weights are read.
///
/// # Errors
/// [`LibraryError::Misfit`] with the figures of both.
pub fn check_fit(target: &Config, head: &HeadFiles) -> Result<()> {
    let misfit = |source| LibraryError::Misfit { origin: head.name.clone(), source };
    head.config.fits_target(target).map_err(misfit)
}

pub(super) fn head_in(folder: &Folder) -> Result<HeadFiles> {
    let file = folder.need("config.json", FETCH_ALL)?;
    let settings = json(&file)?;
    let tensors: Box<dyn TensorSource + Send> = match Tensors::open(folder)? {
        Some(tensors) => {
            let config = assistant(&settings, &tensors);
            if let Some(config) = config.map_err(LibraryError::config(file.name()))? {
                let stored = config.format().unwrap_or(Format::F16);
                let named = NamedTensors::new(tensors, &layers_of(&settings), &config.body);
                return Ok(HeadFiles {
                    config,
                    tensors: Box::new(HashMap::new()),
                    weights: Some(Box::new(named)),
                    stored,
                    name: folder.name(),
                });
            }
            Box::new(tensors)
        }
        None => Box::new(PickledTensors::open(folder)?),
    };
    // If it is not a head at all, this is reported when its tensors are read.
    let names = tensors.names();
    let kind = FusionKind::of(names.iter().map(String::as_str));
    let embeds = names.iter().any(|name| name == "model.embed_tokens.weight");
    if kind.is_none() && embeds && Config::from_hf_json(&settings).is_ok() {
        return Err(LibraryError::NotAHead { given: folder.name() });
    }
    let kind = kind.unwrap_or(FusionKind::Eagle);
    let config = HeadConfig::of_kind(&settings, kind).map_err(LibraryError::config(file.name()))?;
    // Its smallest matrix.
    let keys = names.iter().find(|name| name.ends_with("k_proj.weight"));
    let stored = keys.and_then(|name| tensors.tensor(name).ok()).map(|keys| keys.dtype());
    let stored = stored.map_or(Format::F16, stored_as);
    Ok(HeadFiles { config, tensors, weights: None, stored, name: folder.name() })
}

/// What a `config.json` says of Gemma 4's assistant (method.md, Assistants); `None` if it is of
/// another model. Fields and tensors have the names of transformers' `gemma4_assistant`.
pub(super) fn assistant(
    settings: &Value,
    tensors: &Tensors,
) -> Result<Option<HeadConfig>, ConfigError> {
    let kind = settings["model_type"].as_str().unwrap_or_default();
    if !kind.starts_with("gemma4") || !kind.ends_with("_assistant") {
        return Ok(None);
    }
    let mut body = Config::from_hf_json(&layers_of(settings))?;
    body.block.global_values_are_keys = false;
    let given = &settings["backbone_hidden_size"];
    let target_hidden = given.as_u64().filter(|width| (1..=1 << 20).contains(width));
    let wrong =
        || ConfigError::new("backbone_hidden_size", given, "it must be the target's hidden size");
    let target_hidden = target_hidden.ok_or_else(wrong)? as usize;
    let table = WeightSource::tensor(tensors, weights::EMBEDDING);
    let format = table.map_or(Format::F16, |table| table.format);
    Ok(Some(HeadConfig::of_assistant(body, AssistantConfig { target_hidden, format })))
}

/// The `config.json` of an assistant's layers, as if they had keys and values.
fn layers_of(settings: &Value) -> Value {
    let mut layers = settings["text_config"].clone();
    if layers.is_object() {
        layers["model_type"] = "gemma4_text".into();
        layers["num_kv_shared_layers"] = Value::Null;
    }
    layers
}
