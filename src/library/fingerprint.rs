//! The fingerprint of a target, which tells whether a draft head or a resumed training belongs to
//! it. It must never read a whole model.

use std::hash::Hasher;

use fnv::FnvHasher;
use serde::{Deserialize, Serialize};

use super::TargetFiles;
use crate::files::hash_part;
use crate::model::weights::{WeightSource, tensors};

/// How many bytes are hashed at each end of a tensor, so that a model of 14 GB need not be read
/// completely.
const SAMPLE: usize = 4096;

/// The difference that another file of the same model may have.
const WEIGHTS: &str = "weights";

/// What identifies a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetFingerprint {
    /// Its display name.
    pub name: String,
    /// H.
    pub hidden: usize,
    /// V.
    pub vocab: usize,
    /// The hash of shapes, formats and the ends of all weights, hexadecimal.
    pub weights: String,
    /// The hash of the vocabulary, hexadecimal.
    pub tokenizer: String,
    /// The hash of the values of all norms, hexadecimal. Quantising a model leaves them unchanged
    /// and training it does not, so they identify the model in any file. `None` in a fingerprint of
    /// an older version, and for a model whose norms are missing or packed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norms: Option<String>,
}

/// How a target differs from a fingerprint.
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
        Self::of_weights(files, &*files.weights)
    }

    fn of_weights(files: &TargetFiles, source: &dyn WeightSource) -> Self {
        let mut weights = FnvHasher::default();
        let mut norms = Some(FnvHasher::default());
        for (name, shape) in tensors(&files.config) {
            hash_part(&mut weights, name.as_bytes());
            hash_part(&mut weights, format!("{shape:?}").as_bytes());
            let tensor = source.tensor(&name);
            if let Some(tensor) = &tensor {
                hash_part(&mut weights, tensor.format.to_string().as_bytes());
                let bytes = &tensor.bytes;
                let ends = bytes.len().min(SAMPLE);
                hash_part(&mut weights, &bytes[..ends]);
                hash_part(&mut weights, &bytes[bytes.len() - ends..]);
            }
            if shape.len() == 1 && name.ends_with("norm.weight") {
                let values = tensor.and_then(|tensor| tensor.values());
                norms = norms.zip(values).map(|(mut hash, values)| {
                    let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
                    hash_part(&mut hash, name.as_bytes());
                    hash_part(&mut hash, &bytes);
                    hash
                });
            }
        }
        Self {
            name: files.name.clone(),
            hidden: files.config.hidden,
            vocab: files.config.vocab,
            weights: words_of(&weights),
            tokenizer: files.tokenizer.vocabulary_hash(),
            norms: norms.as_ref().map(words_of),
        }
    }

    /// Whether `now` is the same model, possibly in another file with another quantisation.
    pub fn is_model_of(&self, now: &Self) -> bool {
        let difference = self.difference(now).map(|difference| difference.what);
        difference
            .is_none_or(|what| what == WEIGHTS && self.norms.is_some() && self.norms == now.norms)
    }

    /// The first difference of `now` from this one, compared as files; a different name does not
    /// count.
    pub fn difference(&self, now: &Self) -> Option<TargetDifference> {
        let row = |what, before: &dyn ToString, now: &dyn ToString| TargetDifference {
            what,
            before: before.to_string(),
            now: now.to_string(),
        };
        let rows = [
            row("hidden size", &self.hidden, &now.hidden),
            row("vocabulary size", &self.vocab, &now.vocab),
            row("vocabulary", &self.tokenizer, &now.tokenizer),
            row(WEIGHTS, &self.weights, &now.weights),
        ];
        rows.into_iter().find(|row| row.before != row.now)
    }
}

fn words_of(hash: &FnvHasher) -> String {
    format!("{:016x}", hash.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::Format;
    use crate::library::{Spec, open_target};
    use crate::model::weights::RawTensor;

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

        // Quantised again, it is the same model. After training, or with other tokens, it is not. A
        // fingerprint without norms only identifies its own file.
        assert!(bundled.norms.is_some() && bundled.is_model_of(&finetuned));
        let trained = TargetFingerprint { norms: Some("0".into()), ..finetuned.clone() };
        assert!(!bundled.is_model_of(&trained));
        assert!(!bundled.is_model_of(&TargetFingerprint { tokenizer: "0".into(), ..finetuned }));
        let old = |of: &TargetFingerprint| TargetFingerprint { norms: None, ..of.clone() };
        assert!(old(&bundled).is_model_of(&bundled));
        assert!(!old(&bundled).is_model_of(&old(&trained)));
    }

    /// Norms in F32 and packed matrices, as in a GGUF file, compared with bfloat16.
    #[test]
    fn the_norms_tell_a_model_in_any_format() {
        struct Widened<'a>(&'a dyn WeightSource, f32);
        impl WeightSource for Widened<'_> {
            fn describe(&self) -> String {
                self.0.describe()
            }
            fn tensor(&self, name: &str) -> Option<RawTensor<'_>> {
                let tensor = self.0.tensor(name)?;
                let bytes =
                    tensor.values()?.iter().flat_map(|x| (x + self.1).to_le_bytes()).collect();
                Some(RawTensor { format: Format::F32, bytes, ..tensor })
            }
        }
        let files = open_target(&Spec::Bundled, &mut |_| {}).unwrap();
        let of = |add| TargetFingerprint::of_weights(&files, &Widened(&*files.weights, add));
        let own = TargetFingerprint::of(&files);
        let widened = of(0.0);
        let trained = of(1e-3);
        assert_eq!(own.difference(&widened).unwrap().what, "weights");
        assert!(own.is_model_of(&widened) && !own.is_model_of(&trained));
    }
}
