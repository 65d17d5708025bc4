//! The fingerprint of a target: tells whether a draft head, or a training that is resumed, belongs
//! to it. Must never read a whole model.

use serde::{Deserialize, Serialize};

use super::TargetFiles;
use crate::files::{FNV_START, fnv1a_part};
use crate::model::weights::tensors;

/// Bytes hashed at either end of a tensor: a model of 14 GB need not be read whole.
const SAMPLE: usize = 4096;

/// What identifies a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetFingerprint {
    /// Its name, for people.
    pub name: String,
    /// H.
    pub hidden: usize,
    /// V.
    pub vocab: usize,
    /// Of shapes, formats and the ends of all weights, hexadecimal.
    pub weights: String,
    /// Of the vocabulary, hexadecimal.
    pub tokenizer: String,
}

/// In what a target differs from a fingerprint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetDifference {
    /// What differs.
    pub what: &'static str,
    /// The fingerprint's.
    pub before: String,
    /// The target's.
    pub now: String,
}

impl TargetFingerprint {
    /// The fingerprint of a target.
    pub fn of(files: &TargetFiles) -> Self {
        let mut weights = Fnv::default();
        for (name, shape) in tensors(&files.config) {
            weights.add(name.as_bytes());
            weights.add(format!("{shape:?}").as_bytes());
            if let Some(tensor) = files.weights.tensor(&name) {
                weights.add(tensor.format.to_string().as_bytes());
                let (bytes, ends) = (&tensor.bytes, tensor.bytes.len().min(SAMPLE));
                weights.add(&bytes[..ends]);
                weights.add(&bytes[bytes.len() - ends..]);
            }
        }
        Self {
            name: files.name.clone(),
            hidden: files.config.hidden,
            vocab: files.config.vocab,
            weights: words_of(&weights),
            tokenizer: files.tokenizer.vocabulary_hash(),
        }
    }

    /// The first difference of `now` from this one; its name is none.
    pub fn difference(&self, now: &Self) -> Option<TargetDifference> {
        let sides = |side: &Self| {
            [
                side.hidden.to_string(),
                side.vocab.to_string(),
                side.tokenizer.clone(),
                side.weights.clone(),
            ]
        };
        let names = ["hidden size", "vocabulary size", "vocabulary", "weights"];
        let mut all = names.into_iter().zip(sides(self)).zip(sides(now));
        let ((what, before), now) = all.find(|((_, before), now)| before != now)?;
        Some(TargetDifference { what, before, now })
    }
}

fn words_of(hash: &Fnv) -> String {
    format!("{:016x}", hash.0)
}

/// FNV-1a of texts one after the other.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(FNV_START)
    }
}

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        self.0 = fnv1a_part(self.0, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::{Spec, open_target};

    #[test]
    fn the_same_target_has_the_same_fingerprint_and_another_has_not() {
        let open = |spec| TargetFingerprint::of(&open_target(&spec, &mut |_| {}).unwrap());
        let bundled = open(Spec::Bundled);
        assert_eq!(bundled.difference(&open(Spec::Bundled)), None);
        let renamed = TargetFingerprint { name: "other".into(), ..bundled.clone() };
        assert_eq!(bundled.difference(&renamed), None);
        let other = TargetFingerprint { vocab: 7, ..bundled.clone() };
        let found = bundled.difference(&other).unwrap();
        assert_eq!((found.what, found.before.as_str()), ("vocabulary size", "4096"));
        let finetuned = TargetFingerprint { weights: "0".into(), ..bundled.clone() };
        assert_eq!(bundled.difference(&finetuned).unwrap().what, "weights");
    }
}
