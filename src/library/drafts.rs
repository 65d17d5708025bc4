//! From what the user named to a draft that can be built: a draft head or a DFlash drafter. It must
//! never read weights.

use std::collections::HashMap;

use serde_json::Value;

use super::folder::{Folder, json};
use super::hf_names::NamedTensors;
use super::hub::{Downloading, Hub};
use super::open::config_in;
use super::pickle::PickledTensors;
use super::published_dflash::{self, PublishedTensors, is_dflash};
use super::safetensors::Tensors;
use super::{LibraryError, Result, Runs, Spec, TargetFiles, bundled, gguf, sizes};
use crate::kernels::Format;
use crate::model::head::{
    AssistantConfig, FusionKind, HeadConfig, HeadKind, TensorSource, stored_as,
};
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
        let stored = config.kind.format()?;
        Some(Self { config, tensors: Box::new(HashMap::new()), weights: None, stored, name })
    }

    /// An assistant with these weights.
    pub(super) fn assistant(
        config: HeadConfig,
        weights: Box<dyn WeightSource + Send>,
        name: String,
    ) -> Self {
        let stored = config.kind.format().unwrap_or(Format::F16);
        let tensors = Box::new(HashMap::new());
        Self { config, tensors, weights: Some(weights), stored, name }
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

impl DraftFiles {
    /// The draft head; a DFlash drafter is an error.
    pub(super) fn head(self) -> Result<HeadFiles> {
        match self {
            Self::Head(files) => Ok(files),
            Self::Dflash(files) => {
                let remedy = "use it with --draft, or name a draft head";
                Err(LibraryError::unsupported(files.name, "the draft", "a DFlash drafter", remedy))
            }
        }
    }
}

/// Opens a draft head or a DFlash drafter; `report` receives a download's progress.
///
/// # Errors
/// [`LibraryError`] with the file, the value and what to do.
pub fn open_draft(spec: &Spec, report: Downloading<'_>) -> Result<DraftFiles> {
    match spec {
        Spec::Gguf(path) => gguf::open_draft(path),
        Spec::Bundled => draft_in(&bundled::HEAD, None),
        Spec::Folder(path) => draft_in(&Folder::Disk(path.clone()), None),
        Spec::Hub(id) => {
            let path = Hub::from_env()?.head(id, report)?;
            draft_in(&Folder::Disk(path), Some(id.to_string()))
        }
    }
}

/// Opens a draft head; `report` receives a download's progress.
///
/// # Errors
/// [`LibraryError`] with the file, the value and what to do.
pub fn open_head(spec: &Spec, report: Downloading<'_>) -> Result<HeadFiles> {
    open_draft(spec, report)?.head()
}

/// Checks that a head was made for a target like this one; called before weights are read.
///
/// # Errors
/// [`LibraryError::Misfit`] with the figures of both.
pub fn check_fit(target: &Config, head: &HeadFiles) -> Result<()> {
    let misfit = |source| LibraryError::Misfit { origin: head.name.clone(), source };
    head.config.fits_target(target).map_err(misfit)
}

/// Opens what drafts in a folder of Hugging Face files; messages call it `name`, if it has one.
pub(super) fn draft_in(folder: &Folder, name: Option<String>) -> Result<DraftFiles> {
    let file = config_in(folder)?;
    let settings = json(&file)?;
    let name = name.unwrap_or_else(|| folder.name());
    let Some(tensors) = Tensors::open(folder)? else {
        let tensors = Box::new(PickledTensors::open(folder)?);
        return head_of(&settings, tensors, file.name(), name);
    };
    match drafter(&settings, &tensors).map_err(LibraryError::config(file.name()))? {
        Some(Runs::Dflash(config)) => {
            let bytes = sizes::of(tensors.weights()).bytes;
            let weights = Box::new(PublishedTensors(tensors));
            Ok(DraftFiles::Dflash(DflashFiles { config: *config, weights, name, bytes }))
        }
        Some(Runs::Head(config)) if matches!(config.kind, HeadKind::Assistant(_)) => {
            let weights = NamedTensors::new(tensors, &layers_of(&settings), &config.body);
            Ok(DraftFiles::Head(HeadFiles::assistant(*config, Box::new(weights), name)))
        }
        _ => head_of(&settings, Box::new(tensors), file.name(), name),
    }
}

/// How the files with this `config.json` draft; `None` if they are not known to.
pub(super) fn drafter(settings: &Value, tensors: &Tensors) -> Result<Option<Runs>, ConfigError> {
    if is_dflash(settings) {
        let config = published_dflash::config(settings, tensors)?;
        return Ok(Some(Runs::Dflash(Box::new(config))));
    }
    match assistant(settings, tensors)? {
        Some(config) => Ok(Some(Runs::Head(Box::new(config)))),
        None => head(settings, tensors),
    }
}

/// The same for files that can only be a draft head.
pub(super) fn head(
    settings: &Value,
    tensors: &dyn TensorSource,
) -> Result<Option<Runs>, ConfigError> {
    let Some(fusion) = FusionKind::of(tensors.names().iter().map(String::as_str)) else {
        return Ok(None);
    };
    Ok(Some(Runs::Head(Box::new(HeadConfig::from_json(settings, fusion)?))))
}

/// A draft head of these tensors; `origin` is its `config.json`.
fn head_of(
    settings: &Value,
    tensors: Box<dyn TensorSource + Send>,
    origin: &str,
    name: String,
) -> Result<DraftFiles> {
    // If it is not a head at all, this is reported when its tensors are read.
    let names = tensors.names();
    let kind = FusionKind::of(names.iter().map(String::as_str));
    let embeds = names.iter().any(|name| name == "model.embed_tokens.weight");
    if kind.is_none() && embeds && Config::from_hf_json(settings).is_ok() {
        return Err(LibraryError::NotAHead { given: name });
    }
    let kind = kind.unwrap_or(FusionKind::Eagle);
    let config = HeadConfig::from_json(settings, kind).map_err(LibraryError::config(origin))?;
    // Its smallest matrix.
    let keys = names.iter().find(|name| name.ends_with("k_proj.weight"));
    let stored = keys.and_then(|name| tensors.tensor(name).ok()).map(|keys| keys.dtype());
    let stored = stored.map_or(Format::F16, stored_as);
    Ok(DraftFiles::Head(HeadFiles { config, tensors, weights: None, stored, name }))
}

/// What a `config.json` says of Gemma 4's assistant (method.md, Assistants); `None` if it is of
/// another model. Fields and tensors have the names of transformers' `gemma4_assistant`.
fn assistant(settings: &Value, tensors: &Tensors) -> Result<Option<HeadConfig>, ConfigError> {
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
