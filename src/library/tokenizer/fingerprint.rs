//! Which vocabulary a model has, judged by a part of it: enough to find models that can draft for
//! each other without building their tokenizers. Whether they really can is checked token by token
//! when they are loaded.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use super::file::TokenizerFile;

/// It is equal for vocabularies of the same tokenizer: control tokens and padding, in which the
/// sizes of a family differ, are outside of the compared part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// The compared ids. Below them are bytes and control tokens, which all BPE vocabularies share,
    /// or in which the versions of a family differ.
    pub(in crate::library) const SAMPLED: Range<u64> = 1000..5000;

    /// The fingerprint of the tokens with these ids, of `count` in all. `None` if there are none:
    /// such a small vocabulary does not belong to a language model.
    pub(in crate::library) fn of<'a>(
        count: u64,
        tokens: impl Iterator<Item = (u64, &'a str)>,
    ) -> Option<Self> {
        // The order does not matter, because a JSON object has none.
        let mut sum = count.min(Self::SAMPLED.end);
        let mut any = false;
        for (id, token) in tokens.filter(|(id, _)| Self::SAMPLED.contains(id)) {
            let mut hasher = DefaultHasher::new();
            (id, token).hash(&mut hasher);
            sum = sum.wrapping_add(hasher.finish());
            any = true;
        }
        any.then_some(Self(sum))
    }

    /// The fingerprint from the text of a `tokenizer.json`.
    pub(in crate::library) fn of_json(json: &[u8]) -> Option<Self> {
        let file: TokenizerFile = serde_json::from_slice(json).ok()?;
        let vocab = file.model.vocab;
        Self::of(vocab.count, vocab.sampled.iter().map(|(id, token)| (*id, token.as_str())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of_json(vocab: serde_json::Value) -> Option<Fingerprint> {
        let file = json!({"version": "1.0", "model": {"type": "BPE", "vocab": vocab}});
        Fingerprint::of_json(file.to_string().as_bytes())
    }

    #[test]
    fn a_family_has_one_fingerprint_however_its_vocabulary_is_written() {
        let token = |id: u64| format!("t{id}");
        let all: Vec<String> = (0..6000).map(token).collect();
        let listed = |tokens: &[String]| {
            let sampled = (0u64..).zip(tokens.iter().map(String::as_str));
            Fingerprint::of(tokens.len() as u64, sampled).unwrap()
        };
        let object = all.iter().rev().map(|token| (token.clone(), token[1..].parse().unwrap()));
        let object: serde_json::Map<_, _> = object.collect();
        let scored = all.iter().map(|token| json!([token, -1.5])).collect();
        assert_eq!(of_json(object.into()), Some(listed(&all)));
        assert_eq!(of_json(scored), Some(listed(&all)));
        // Other control tokens, and more padding.
        let mut padded = all.clone();
        padded[3] = "<tool>".to_owned();
        padded.push("[PAD6000]".to_owned());
        assert_eq!(listed(&padded), listed(&all));
        let mut other = all.clone();
        other.swap(2000, 2001);
        assert_ne!(listed(&other), listed(&all));
        assert_ne!(listed(&all[..4000]), listed(&all));
    }

    #[test]
    fn what_is_no_vocabulary_has_none() {
        assert_eq!(of_json(json!({"a": 0, "b": 1})), None);
        assert_eq!(of_json(json!("a")), None);
        assert_eq!(of_json(json!({"a": -1})), None);
        assert_eq!(Fingerprint::of_json(b"{\"model\": {\"vocab\": {\"a\""), None);
    }
}
