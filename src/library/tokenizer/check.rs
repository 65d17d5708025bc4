//! Checks a `tokenizer.json` before the `tokenizers` library reads it: the library allocates the
//! size that a number in the file claims, and accepts some damaged parts. It must not depend on
//! what the parts do, except how large they can make a text.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use super::file::TokenizerFile;

/// The most bytes of a file; the largest published one has an eighth.
const LONGEST: usize = 256 << 20;
/// The most ids of tokens, sixteen times the largest published vocabulary.
const MOST_IDS: u64 = 1 << 22;
/// The most steps of a normalizer or pre-tokenizer.
const MOST_STEPS: usize = 64;
/// How many times longer they may make a text.
const MOST_GROWTH: u64 = 1 << 12;
/// The most bytes of a text that is inserted into others.
const LONGEST_CONTENT: usize = 64;
/// The most bytes of a pattern.
const LONGEST_PATTERN: usize = 16 << 10;

/// Checks that this file can be passed to the library; otherwise returns what is wrong with it.
pub(super) fn check(json: &[u8]) -> Result<(), String> {
    if json.len() > LONGEST {
        return Err(format!("it has {} bytes, and the limit is {LONGEST}", json.len()));
    }
    let file: TokenizerFile = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    let added = file.added_tokens.iter().map(|added| added.id.saturating_add(1)).max();
    let ids = file.model.vocab.end.max(added.unwrap_or(0));
    if ids > MOST_IDS {
        return Err(format!("the token id {} is above {MOST_IDS}", ids - 1));
    }
    for (part, name) in [
        (&file.normalizer, "normalizer"),
        (&file.pre_tokenizer, "pre_tokenizer"),
        (&file.post_processor, "post_processor"),
        (&file.decoder, "decoder"),
    ] {
        let mut steps = Steps { count: 0, growth: 1 };
        steps.walk(part).map_err(|problem| format!("{name}: {problem}"))?;
    }
    Ok(())
}

/// The steps of one part so far.
struct Steps {
    count: usize,
    growth: u64,
}

impl Steps {
    fn walk(&mut self, part: &Value) -> Result<(), String> {
        match part {
            Value::Array(items) => items.iter().try_for_each(|item| self.walk(item)),
            Value::Object(fields) => {
                if fields.contains_key("type") {
                    self.step(part)?;
                }
                fields.values().try_for_each(|field| self.walk(field))
            }
            _ => Ok(()),
        }
    }

    fn step(&mut self, step: &Value) -> Result<(), String> {
        self.count += 1;
        if self.count > MOST_STEPS {
            return Err(format!("more than {MOST_STEPS} steps"));
        }
        let kind = step["type"].as_str().unwrap_or_default();
        let pattern = &step["pattern"];
        let pattern = pattern.as_str().or(pattern["String"].as_str()).or(pattern["Regex"].as_str());
        if pattern.is_some_and(str::is_empty) {
            return Err(format!("{kind} has an empty pattern"));
        }
        if pattern.is_some_and(|pattern| pattern.len() > LONGEST_PATTERN) {
            return Err(format!("{kind} has a pattern of more than {LONGEST_PATTERN} bytes"));
        }
        let mut longest = 0;
        for field in ["content", "prepend", "replacement"] {
            let text = step[field].as_str().unwrap_or_default();
            if text.len() > LONGEST_CONTENT {
                return Err(format!("{kind}: `{field}` has more than {LONGEST_CONTENT} bytes"));
            }
            longest = longest.max(text.len());
        }
        if kind == "FixedLength" && step["length"] == 0 {
            return Err("FixedLength has length 0".to_owned());
        }
        if let Some(map) = step["precompiled_charsmap"].as_str() {
            check_charsmap(map)?;
        }
        let replaced = step["pattern"]["String"].as_str().map_or(1, str::len).max(1);
        let growth = match kind {
            "Replace" => longest.div_ceil(replaced).max(1) as u64,
            "ByteLevel" => 2,
            "Metaspace" | "NFKC" | "NFKD" | "NFD" | "NFC" => 3,
            _ => 1,
        };
        self.growth = self.growth.saturating_mul(growth);
        if self.growth > MOST_GROWTH {
            return Err(format!("its steps can make text {} times longer", self.growth));
        }
        Ok(())
    }
}

/// SentencePiece's table of characters begins with the number of bytes in its index, which has four
/// bytes per unit; the texts follow it.
fn check_charsmap(base64: &str) -> Result<(), String> {
    let not_base64 = |_| "the precompiled_charsmap is not base64".to_owned();
    let bytes = BASE64_STANDARD.decode(base64).map_err(not_base64)?;
    let length = bytes.len();
    let Some((size, rest)) = bytes.split_first_chunk().filter(|(_, rest)| rest.len() >= 4) else {
        return Err(format!("the precompiled_charsmap has only {length} bytes"));
    };
    let size = u32::from_le_bytes(*size) as usize;
    if size == 0 || !size.is_multiple_of(4) || size > rest.len() {
        return Err(format!(
            "the precompiled_charsmap has {length} bytes, too few for its index of {size}"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn with(field: &str, part: Value) -> Result<(), String> {
        let mut file = json!({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}});
        file[field] = part;
        check(file.to_string().as_bytes())
    }

    #[test]
    fn parts_that_the_library_fails_on_are_named() {
        let replace = |pattern: Value, content: &str| {
            json!({"type": "Replace",
            "pattern": pattern, "content": content})
        };
        let charsmap = |map: &str| json!({"type": "Precompiled", "precompiled_charsmap": map});
        for (part, words) in [
            (replace(json!({"String": ""}), "x"), "Replace has an empty pattern"),
            (replace(json!({"Regex": ""}), "x"), "Replace has an empty pattern"),
            (
                json!({"type": "Sequence", "normalizers": [replace(json!({"String": ""}), "x")]}),
                "empty",
            ),
            (replace(json!({"String": "a"}), &"x".repeat(9999)), "more than 64 bytes"),
            (json!(vec![replace(json!({"String": "a"}), "aa"); 40]), "times longer"),
            (json!(vec![json!({"type": "Lowercase"}); 99]), "steps"),
            // An index of 4 GiB - 4, of nothing, of three bytes, and of more than there is.
            (charsmap("/P///wAAAAAAAAAA"), "too few for its index of 4294967292"),
            (charsmap("AAAAAAAAAAAAAAAA"), "too few for its index of 0"),
            (charsmap("AwAAAAAAAAAAAAAA"), "too few for its index of 3"),
            (charsmap("DAAAAAAAAAAAAAA="), "too few for its index of 12"),
            (charsmap(""), "only 0 bytes"),
            (charsmap("????????????????"), "base64"),
        ] {
            let problem = with("normalizer", part.clone()).unwrap_err();
            assert!(problem.starts_with("normalizer: ") && problem.contains(words), "{problem}");
        }
        assert!(with("normalizer", charsmap("CAAAAAAAAAAAAAAA")).is_ok());
        assert!(with("normalizer", replace(json!({"String": " "}), "▁")).is_ok());
    }

    #[test]
    fn ids_beyond_any_vocabulary_are_refused() {
        for (field, part) in [
            ("added_tokens", json!([{"id": 4_294_967_295u64, "content": "x"}])),
            ("model", json!({"type": "BPE", "vocab": {"a": 4_294_967_295u64}, "merges": []})),
        ] {
            let problem = with(field, part).unwrap_err();
            assert!(problem.contains("4294967295"), "{problem}");
        }
        assert!(with("model", json!({"type": "Unigram", "vocab": [["a", 0.0]]})).is_ok());
        assert!(with("model", json!({"type": "BPE", "vocab": {"a": -1}})).is_err());
    }
}
