//! What the headers of a model's files say, in any format. It must not depend on where the files
//! were found, and must never read a weight.

use crate::kernels::Matrix;
use crate::library::drafts;
use crate::library::folder::{Folder, json};
use crate::library::hf_names::NamedTensors;
use crate::library::open;
use crate::library::pickle::PickledTensors;
use crate::library::safetensors::Tensors;
use crate::library::sizes::{self, Size, pass_bytes};
use crate::library::tokenizer::Fingerprint;
use crate::library::{LibraryError, Result};
use crate::model::head::HeadConfig;
use crate::model::{Config, DflashConfig, ModelEngine};

/// What the headers of a model's files say. What is unknown is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// The model's name as users know it, e.g. `Qwen2.5 0.5B Instruct`; `None` if it has only that
    /// of its folder.
    pub title: Option<String>,
    /// `general.architecture` of a GGUF file, `model_type` of a folder.
    pub architecture: Option<String>,
    /// The number of weights.
    pub parameters: Option<u64>,
    /// The mixture of types (`Q4_K_M`), or the type with the most bytes (`BF16`).
    pub quantisation: Option<String>,
    /// Bytes that the weights take in addition if those are repacked that would be expanded in
    /// every product, which is many times slower.
    pub growth: u64,
    /// How the model is run, if it can be.
    pub runs: Option<Runs>,
    /// The MTP head in its own files, if they hold one that we run.
    pub mtp: Option<Box<HeadConfig>>,
    /// Its vocabulary.
    pub vocabulary: Option<Fingerprint>,
    /// Why it cannot be opened, and what to do.
    pub problem: Option<String>,
}

/// How a model is run.
#[derive(Clone, Debug, PartialEq)]
pub enum Runs {
    /// As a target, or as a small model that drafts for one.
    Model {
        /// Shape and constants.
        config: Box<Config>,
        /// Bytes of weights that a pass over one row reads.
        pass_bytes: u64,
        /// Who runs it.
        engine: ModelEngine,
    },
    /// As a draft head.
    Head(Box<HeadConfig>),
    /// As a DFlash drafter.
    Dflash(Box<DflashConfig>),
}

impl Facts {
    /// For a folder with a `config.json`: a model or a draft head.
    pub(in crate::library) fn of_folder(folder: &Folder) -> Self {
        let mut facts = Self::default();
        if let Err(problem) = facts.read_folder(folder) {
            facts.problem = Some(problem.to_string());
        }
        facts
    }

    fn read_folder(&mut self, folder: &Folder) -> Result<()> {
        let file = folder.need("config.json", "download all files of the model")?;
        let settings = json(&file)?;
        self.architecture = settings["model_type"].as_str().map(str::to_owned);
        let tensors = Tensors::open(folder)?;
        let config_error = || LibraryError::config(file.name());
        let (size, drafter) = match &tensors {
            Some(tensors) => (sizes::of(tensors.weights()), drafts::drafter(&settings, tensors)),
            None => {
                let pickled = PickledTensors::open(folder)?;
                (sizes::of(pickled.weights()), drafts::head(&settings, &pickled))
            }
        };
        self.note_size(&size);
        self.runs = drafter.map_err(config_error())?;
        if self.runs.is_some() {
            return Ok(());
        }
        let Some(tensors) = tensors else {
            let remedy = "download the model in safetensors format, or use its GGUF file";
            return Err(LibraryError::missing(folder.name(), "model.safetensors", remedy));
        };
        let (config, engine) = Config::of_checkpoint(&settings).map_err(config_error())?;
        let tokenizer =
            folder.need("tokenizer.json", "download it, or use the model's GGUF file")?;
        self.vocabulary = Fingerprint::of_json(&tokenizer);
        let pass_bytes = match engine {
            ModelEngine::Dovetail => {
                let named = NamedTensors::new(tensors, &settings, &config);
                self.mtp = open::mtp(&settings, &named, &config).map(Box::new);
                pass_bytes(&config, &named, &size)
            }
            ModelEngine::Candle => size.widened(),
        };
        self.runs = Some(Runs::Model { config: Box::new(config), pass_bytes, engine });
        Ok(())
    }

    /// Fills in what follows from all tensors.
    pub(in crate::library) fn note_size(&mut self, size: &Size) {
        let format = size.format();
        self.parameters = Some(size.parameters);
        self.growth =
            size.formats.iter().map(|&(format, bytes)| Matrix::growth(format, bytes)).sum();
        if self.quantisation.is_none() {
            self.quantisation = format.map(|format| format.name().to_owned());
        }
    }
}
