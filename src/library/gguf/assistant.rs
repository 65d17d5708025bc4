//! Gemma 4's assistants in GGUF files: their keys and tensors in addition to those of a Gemma 4
//! model (method.md, Assistants). It must not depend on how they draft.

use super::config::config_as;
use super::file::{GgufFile, TensorEntry};
use super::names::Named;
use crate::library::{LibraryError, Result};
use crate::model::head::{AssistantConfig, HeadConfig};
use crate::model::{ArchitectureRow, Family, RopeLayout};

/// How the layers of an assistant are stored.
pub(super) const ASSISTANT: ArchitectureRow = ArchitectureRow {
    title: "Gemma 4 assistant",
    gguf: "gemma4-assistant",
    model_type: "gemma4_text",
    family: Family::Gemma4,
    gguf_layout: RopeLayout::Halves,
};

/// What the names of its own tensors begin with.
const OWN: &str = "nextn.";

/// Such a tensor by the name that the model requests.
pub(super) fn named(name: &str, entry: &TensorEntry) -> Option<Vec<Named>> {
    Some(vec![(name.strip_prefix(OWN)?.to_owned(), entry.clone())])
}

/// What a file says of an assistant; `None` if it holds another architecture.
pub(super) fn config(file: &GgufFile) -> Result<Option<HeadConfig>> {
    if file.text("general.architecture")? != Some(ASSISTANT.gguf) {
        return Ok(None);
    }
    let body = config_as(file, &ASSISTANT)?;
    let missing = |what: &str| {
        let remedy = "convert the assistant again with llama.cpp";
        LibraryError::missing(file.name(), what, remedy)
    };
    let target_hidden = file.number("gemma4-assistant.embedding_length_out")?.unwrap_or(0);
    if !(1..=1 << 20).contains(&target_hidden) {
        return Err(missing("metadata `gemma4-assistant.embedding_length_out`"));
    }
    let largest = file.tensors.get("token_embd.weight");
    let format = largest.ok_or_else(|| missing("tensor `token_embd.weight`"))?.format;
    let own = AssistantConfig { target_hidden: target_hidden as usize, format };
    Ok(Some(HeadConfig::of_assistant(body, own)))
}
