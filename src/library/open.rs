//! From what the user named to a model that can be built: target or small model. It must never read
//! weights.

use serde_json::Value;

use super::blob::Blob;
use super::folder::{Folder, json};
use super::hf_names::NamedTensors;
use super::hub::{Downloading, Hub};
use super::other_file::OtherFile;
use super::safetensors::Tensors;
use super::target::{check_vocabulary, detail, end_tokens};
use super::titles::{title, with_size};
use super::{
    LibraryError, Recommended, Result, Spec, TargetFiles, Tokenizer, bundled, gguf, sizes,
};
use crate::chat::{ChatTemplate, SpecialTokens};
use crate::model::head::{HeadConfig, MTP, MtpConfig};
use crate::model::{CandleFiles, Config, ModelEngine, PieceKind, SharedVocabulary, WeightSource};
use crate::printable::printable_line;

pub(super) const FETCH_ALL: &str = "download all files of the model into this folder";

/// Opens a target; `report` receives a download's progress.
///
/// # Errors
/// [`LibraryError`] with the file, the value and what to do.
pub fn open_target(spec: &Spec, report: Downloading<'_>) -> Result<TargetFiles> {
    match spec {
        Spec::Bundled => target_in(&bundled::TARGET, "dovetail-demo"),
        Spec::Folder(path) => {
            let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
            target_in(&Folder::Disk(path.clone()), &name)
        }
        Spec::Gguf(path) => gguf::open(path),
        Spec::Hub(id) => {
            let path = Hub::from_env()?.target(id, report)?;
            if path.is_dir() {
                // The folder is named after its commit.
                let name = id.repo.rsplit('/').next().unwrap_or(&id.repo);
                target_in(&Folder::Disk(path), name)
            } else {
                gguf::open(&path)
            }
        }
    }
}

/// Opens a small language model that drafts for a target; `report` receives a download's progress.
///
/// # Errors
/// [`LibraryError`] with the file, the value and what to do.
pub fn open_small(spec: &Spec, report: Downloading<'_>) -> Result<TargetFiles> {
    let small = match spec {
        Spec::Bundled => target_in(&bundled::SMALL, "dovetail-small")?,
        other => open_target(other, report)?,
    };
    match small.engine() {
        ModelEngine::Dovetail => Ok(small),
        ModelEngine::Candle => Err(LibraryError::Unusable(format!(
            "{} cannot draft: only candle-transformers runs its architecture; choose another \
             small model",
            small.name
        ))),
    }
}

/// What the vocabularies of a target and a small model have in common. Their tokens that begin a
/// text are treated as the same token, even if their names differ.
///
/// # Errors
/// [`LibraryError::Unusable`] if no text of the small model can be proposed.
pub fn shared_vocabulary(target: &TargetFiles, small: &TargetFiles) -> Result<SharedVocabulary> {
    let pieces = |files: &TargetFiles| files.tokenizer.pieces(files.config.vocab);
    let own = pieces(small);
    let mut shared = SharedVocabulary::new(&pieces(target), &own);
    let is_text = |id: u32| {
        let piece = own.get(id as usize).and_then(Option::as_ref);
        piece.is_some_and(|piece| piece.kind != PieceKind::Special)
    };
    if !shared.proposed().any(is_text) {
        return Err(LibraryError::Unusable(format!(
            "{} cannot draft for {}: their vocabularies have no tokens in common; use a small \
             model of the target's family",
            small.name, target.name
        )));
    }
    if let (Some(theirs), Some(own)) = (target.bos, small.bos) {
        shared.read_as(theirs, own);
    }
    Ok(shared)
}

fn target_in(folder: &Folder, name: &str) -> Result<TargetFiles> {
    let file = config_in(folder)?;
    let settings = json(&file)?;
    let (config, engine) =
        Config::of_checkpoint(&settings).map_err(LibraryError::config(file.name()))?;
    let file = folder.need(
        "tokenizer.json",
        "save it with transformers (`AutoTokenizer.from_pretrained(…).save_pretrained(…)`), or \
         use the model's GGUF file",
    )?;
    let tokenizer = Tokenizer::from_json(&file, file.name())?;
    check_vocabulary(&folder.name(), &tokenizer, &config)?;
    let mut texts = folder.json("tokenizer_config.json")?.unwrap_or_default();
    fill_in(&mut texts, folder.json("special_tokens_map.json")?);
    let template = template_in(folder, &texts, name)?;
    let embeds = settings["use_bidirectional_attention"] == true || settings["is_causal"] == false;
    let generation = folder.json("generation_config.json")?.unwrap_or_default();
    let mut eos = ids(&generation["eos_token_id"]);
    eos.extend(ids(&settings["eos_token_id"]));
    eos.extend(special(&texts, "eos_token").and_then(|token| tokenizer.id(&token)));
    let eos = end_tokens(eos, &template, &tokenizer, &config);
    let bos = special(&texts, "bos_token")
        .and_then(|token| tokenizer.id(&token))
        .or_else(|| ids(&settings["bos_token_id"]).first().copied());
    let Some(tensors) = Tensors::open(folder)? else {
        if let Some(other) = OtherFile::of_folder(|name| folder.has(name)) {
            return Err(other.error(&folder.name()));
        }
        let remedy = "download the model in safetensors format (PyTorch .bin files can run code, \
                      so only those of draft heads are read), or use its GGUF file";
        return Err(LibraryError::missing(folder.name(), "model.safetensors", remedy));
    };
    let size = sizes::of(tensors.weights());
    let mut head = None;
    let (weights, candle): (Box<dyn WeightSource + Send>, _) = match engine {
        ModelEngine::Dovetail => {
            let named = NamedTensors::new(tensors, &settings, &config);
            head = mtp(&settings, &named, &config);
            (Box::new(named), None)
        }
        ModelEngine::Candle => (Box::new(tensors), candle_files(folder, settings)?),
    };
    let own = engine.is_own();
    Ok(TargetFiles {
        config,
        weights,
        tokenizer,
        template,
        eos,
        embeds,
        bos,
        name: with_size(&printable_line(&title(name, |_| None)), &size.short()),
        detail: detail(&size, head.as_ref()),
        bytes: if own { size.bytes } else { size.widened() },
        formats: if own { size.formats } else { Vec::new() },
        repack: false,
        sampling: Recommended::of_json(&generation),
        candle,
        mtp: head,
    })
}

/// The `config.json` of a folder; without one, what the folder is instead.
pub(super) fn config_in(folder: &Folder) -> Result<Blob> {
    if let Some(file) = folder.blob("config.json")? {
        return Ok(file);
    }
    if let Some(other) = OtherFile::of_folder(|name| folder.has(name)) {
        return Err(other.error(&folder.name()));
    }
    match folder.gguf() {
        Some(file) => {
            let remedy = format!("to use a GGUF file of this folder, name it: {}", file.display());
            Err(LibraryError::missing(folder.name(), "config.json", &remedy))
        }
        None => folder.need("config.json", FETCH_ALL),
    }
}

/// The MTP head next to a checkpoint's own tensors, if there is one.
pub(super) fn mtp(settings: &Value, named: &NamedTensors, config: &Config) -> Option<HeadConfig> {
    let before_norm = Config::mtp_before_norm(settings)?;
    let format = named.tensor(&format!("{MTP}fc.weight"))?.format;
    let body = config.further_block(false, config.block.experts.is_some());
    Some(HeadConfig::of_target(body, MtpConfig { before_norm, blocks: 1, format }))
}

/// The checkpoint in `folder` for candle-transformers, if it has tensors.
fn candle_files(folder: &Folder, config: Value) -> Result<Option<CandleFiles>> {
    let files = |tensors| CandleFiles::Checkpoint { config, tensors: Box::new(tensors) };
    Ok(Tensors::open(folder)?.map(files))
}

/// A model's files for candle-transformers, for comparing the two engines. `None` if candle cannot
/// read them.
///
/// # Errors
/// [`LibraryError`] with the file, the value and what to do.
pub fn open_reference(spec: &Spec) -> Result<Option<CandleFiles>> {
    let of_folder =
        |folder: &Folder| candle_files(folder, json(&folder.need("config.json", FETCH_ALL)?)?);
    match spec {
        Spec::Bundled => of_folder(&bundled::TARGET),
        Spec::Folder(path) => of_folder(&Folder::Disk(path.clone())),
        Spec::Gguf(path) => Ok(Some(CandleFiles::Gguf(path.clone()))),
        Spec::Hub(id) => {
            let path = Hub::from_env()?.target(id, &mut |_| {})?;
            open_reference(&if path.is_dir() { Spec::Folder(path) } else { Spec::Gguf(path) })
        }
    }
}

/// The model's template: in its own file, otherwise in `tokenizer_config.json`, otherwise a
/// built-in one.
fn template_in(folder: &Folder, texts: &Value, name: &str) -> Result<ChatTemplate> {
    let token = |field| special(texts, field).unwrap_or_default();
    let tokens = SpecialTokens {
        bos: token("bos_token"),
        eos: token("eos_token"),
        unk: token("unk_token"),
        pad: token("pad_token"),
    };
    let is_some = |source: &str| !source.trim().is_empty();
    if let Some(file) = folder.blob("chat_template.jinja")? {
        let source = String::from_utf8_lossy(&file);
        if is_some(&source) {
            return Ok(ChatTemplate::new(&source, file.name(), tokens)?);
        }
    }
    let source = chosen_template(&texts["chat_template"]);
    let template = match source.filter(|source| is_some(source)) {
        Some(source) => {
            let origin = format!("{}/tokenizer_config.json", folder.name());
            ChatTemplate::new(source, &origin, tokens)
        }
        None => ChatTemplate::built_in(name, tokens),
    };
    Ok(template?)
}

/// The template itself, or, of several named ones, the one for plain conversation.
fn chosen_template(field: &Value) -> Option<&str> {
    let named = |item: &Value, name: &str| item["name"] == name;
    match field {
        Value::String(source) => Some(source),
        Value::Array(items) => items
            .iter()
            .find(|item| named(item, "default"))
            .or_else(|| items.first())
            .and_then(|item| item["template"].as_str()),
        _ => None,
    }
}

/// Adds the special tokens that only their own file names.
fn fill_in(texts: &mut Value, map: Option<Value>) {
    let Some(Value::Object(map)) = map else { return };
    if texts.is_null() {
        *texts = Value::Object(serde_json::Map::new());
    }
    let Value::Object(texts) = texts else { return };
    for (field, value) in map {
        let known = texts.entry(field).or_insert(Value::Null);
        if known.is_null() {
            *known = value;
        }
    }
}

/// A special token's text: a string, or an object that contains it.
fn special(texts: &Value, field: &str) -> Option<String> {
    let value = &texts[field];
    value.as_str().or_else(|| value["content"].as_str()).map(str::to_owned)
}

/// One token id or a list of them.
fn ids(value: &Value) -> Vec<u32> {
    let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    match value {
        Value::Array(items) => items.iter().filter_map(id).collect(),
        single => id(single).into_iter().collect(),
    }
}
