//! The parts of a `tokenizer.json` that are read here: its vocabulary as far as it must be known,
//! and the steps that the `tokenizers` library will take. It must not depend on that library.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::Fingerprint;

/// The whole file.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct TokenizerFile {
    pub(super) added_tokens: Vec<AddedId>,
    pub(super) normalizer: Value,
    pub(super) pre_tokenizer: Value,
    pub(super) post_processor: Value,
    pub(super) decoder: Value,
    pub(super) model: TokenizerModel,
}

#[derive(Deserialize)]
pub(super) struct AddedId {
    pub(super) id: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct TokenizerModel {
    pub(super) vocab: Listed,
}

/// A vocabulary: an object of ids, or a list of tokens with their scores.
#[derive(Default)]
pub(super) struct Listed {
    pub(super) count: u64,
    /// The largest id plus one.
    pub(super) end: u64,
    /// The tokens that a [`Fingerprint`] compares.
    pub(super) sampled: Vec<(u64, String)>,
}

impl Listed {
    fn take(&mut self, id: u64, token: &str) {
        self.count += 1;
        self.end = self.end.max(id.saturating_add(1));
        if Fingerprint::SAMPLED.contains(&id) {
            self.sampled.push((id, token.to_owned()));
        }
    }
}

/// A text of the file, copied only if it contains escapes.
#[derive(Deserialize)]
struct JsonText<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Deserialize<'de> for Listed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self::default())
    }
}

impl<'de> Visitor<'de> for Listed {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tokens with their ids, or a list of tokens with their scores")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self, A::Error> {
        while let Some((JsonText(token), id)) = map.next_entry::<JsonText<'de>, u64>()? {
            self.take(id, &token);
        }
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Self, A::Error> {
        while let Some((JsonText(token), _score)) =
            items.next_element::<(JsonText<'de>, IgnoredAny)>()?
        {
            self.take(self.count, &token);
        }
        Ok(self)
    }
}
