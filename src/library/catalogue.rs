//! The short catalogue of targets and what drafts for them: `assets/catalogue.toml`, part of the
//! binary. It must never download anything.

use std::sync::OnceLock;

use serde::Deserialize;

use super::HubId;
use crate::nearest::{likeness_to_part, most_alike};

const FILE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/catalogue.toml"));
/// The similarity from which a name is suggested, 0 to 1.
const ALIKE: f64 = 0.5;

/// A target, and the draft for it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct CataloguePair {
    /// The name that `dovetail pull` takes.
    pub name: String,
    /// The name for display.
    pub title: String,
    /// The target on the hub.
    pub target: HubId,
    /// The draft; `None` if it is in the target's own file.
    #[serde(flatten)]
    pub draft: Option<PairDraft>,
    /// Licence of the target.
    pub licence: String,
    /// Bytes of the target's file, rounded.
    pub bytes: u64,
    /// Weights of the target.
    pub weights: u64,
    /// Layers of the target.
    pub layers: usize,
    /// Bytes of the small model's file, rounded; 0 if there is none.
    #[serde(default)]
    pub small_bytes: u64,
    /// Weights of the small model; 0 if there is none.
    #[serde(default)]
    pub small_weights: u64,
}

/// What drafts for a target.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PairDraft {
    /// A draft head on the hub.
    Head(HubId),
    /// A small model on the hub.
    Small(HubId),
}

impl PairDraft {
    /// Its repository.
    pub fn id(&self) -> &HubId {
        match self {
            Self::Head(id) | Self::Small(id) => id,
        }
    }

    /// The flag that names it.
    pub fn flag(&self) -> &'static str {
        match self {
            Self::Head(_) => "--draft",
            Self::Small(_) => "--draft-model",
        }
    }
}

/// All pairs, by family.
#[allow(clippy::expect_used, reason = "the file is part of the binary, and a test reads it")]
pub fn catalogue() -> &'static [CataloguePair] {
    #[derive(Deserialize)]
    struct CatalogueToml {
        pair: Vec<CataloguePair>,
    }
    static PAIRS: OnceLock<Vec<CataloguePair>> = OnceLock::new();
    PAIRS.get_or_init(|| toml::from_str::<CatalogueToml>(FILE).expect("a valid catalogue").pair)
}

/// The pair with this name, or the similar names.
///
/// # Errors
/// The similar names; empty if there are none.
pub fn pair(name: &str) -> Result<&'static CataloguePair, Vec<&'static str>> {
    let wanted = name.to_lowercase();
    if let Some(pair) = catalogue().iter().find(|pair| pair.name == wanted) {
        return Ok(pair);
    }
    let names = catalogue().iter().map(|pair| (likeness_to_part(name, &pair.name), &*pair.name));
    Err(most_alike(names, ALIKE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_pair_is_whole_and_its_name_is_its_own() {
        let pairs = catalogue();
        assert!(pairs.len() > 10);
        let names: HashSet<_> = pairs.iter().map(|pair| pair.name.as_str()).collect();
        assert_eq!(names.len(), pairs.len());
        for pair in pairs {
            // A repository of GGUF files has many models; a head is a whole repository.
            assert!(pair.target.file.is_some(), "{}", pair.name);
            let is_small = matches!(pair.draft, Some(PairDraft::Small(_)));
            let file = pair.draft.as_ref().and_then(|draft| draft.id().file.as_ref());
            assert_eq!(file.is_some(), is_small, "{}", pair.name);
            assert_eq!(pair.small_weights > 0, is_small, "{}", pair.name);
            assert!(pair.layers > 10, "{}", pair.name);
            // No type of weights is that small or that large, and the name states the model's size.
            let bits = |bytes: u64, weights: u64| 8.0 * bytes as f64 / weights as f64;
            let target = bits(pair.bytes, pair.weights);
            assert!((4.5..11.0).contains(&target), "{}: {target}", pair.name);
            let small = bits(pair.small_bytes, pair.small_weights);
            assert!(!is_small || (4.5..11.0).contains(&small), "{}: {small}", pair.name);
            let size = pair.title.split(' ').find_map(|word| word.strip_suffix('B')?.parse().ok());
            let size: f64 = size.unwrap_or_else(|| panic!("no size: {}", pair.title));
            let billions = pair.weights as f64 / 1e9;
            assert!((billions / size - 1.0).abs() < 0.15, "{}: {billions}", pair.title);
            assert!(!pair.licence.is_empty() && !pair.title.is_empty());
            assert!(!pair.name.contains('/') && pair.name == pair.name.to_lowercase());
        }
    }

    #[test]
    fn a_pair_is_found_by_name_and_near_names_are_told() {
        assert_eq!(pair("Qwen2.5-7B").unwrap().name, "qwen2.5-7b");
        assert_eq!(pair("qwen2.5").unwrap_err()[..2], ["qwen2.5-1.5b", "qwen2.5-3b"]);
        assert_eq!(pair("lama3.1-8b").unwrap_err()[0], "llama3.1-8b");
        assert!(pair("zzzzzzzz").unwrap_err().is_empty());
        assert!(pair("").unwrap_err().is_empty());
    }
}
