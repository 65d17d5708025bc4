//! GPT-2's byte-level BPE on the `tokenizers` library: how the families that GGUF files name split
//! a text into words.

use serde_json::{Value, json};

use crate::library::{LibraryError, Result};

/// How a text is split into the words within which merging happens.
pub(super) struct Words {
    /// The cuts, one after the other.
    cuts: &'static [&'static str],
    /// Whether a word that is a token is always that token, independent of the merges.
    pub(super) whole_words: bool,
    /// Whether the text is first converted to Unicode's composed form (NFC).
    pub(super) composed: bool,
}

const LLAMA_3: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
const QWEN_2: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
);
/// Seed-OSS's: Qwen 2's, but a line end is never a part of a word.
const SEED: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+",
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
);
/// Qwen2's with marks as parts of words.
const QWEN_35: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}",
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
/// GPT-4o's (o200k): Tekken's words with a contraction at the end, and numbers of three digits.
const GPT_4O: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+",
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
/// DeepSeek LLM's and V2's: line ends, cased letters, punctuation, Chinese and Korean, numbers.
const DEEPSEEK_LLM: [&str; 6] = [
    r"[\r\n]",
    r"\s?[\p{Lu}\p{Ll}\p{Lt}]+",
    r"\s?[!-/:-~！-／：-～‘-‟　-。]+",
    r"\s+$",
    r"[一-龥ࠀ-一가-퟿]+",
    r"\p{N}+",
];
/// DeepSeek V3's: numbers of three digits, then Chinese and Japanese, then the rest.
const DEEPSEEK_3: [&str; 3] = [
    r"\p{N}{1,3}",
    r"[一-龥぀-ゟ゠-ヿ]+",
    concat!(
        r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"##,
        r##"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##,
    ),
];
const GPT_2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
/// Mistral's Tekken: words also end where lower case is followed by upper case.
const TEKKEN: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
/// What llama.cpp does for a file that names no rule: one split after the other.
const DEFAULT: [&str; 4] = [
    r"[\p{P}\$\+<=>\^~\|]+",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)",
    r"\p{N}+",
    r"[0-9][0-9][0-9]",
];
const ONE_DIGIT: &str = r"\p{N}";

/// The rule that llama.cpp calls `pre`.
pub(super) fn words(pre: &str, origin: &str) -> Result<Words> {
    let (cuts, whole_words, composed): (&[&str], bool, bool) = match pre {
        "llama3" | "llama-v3" | "llama-bpe" | "dbrx" | "smaug-bpe" | "lfm2" | "falcon-h1" => {
            (&[LLAMA_3], true, false)
        }
        "glm4" | "chatglm-bpe" => (&[LLAMA_3], false, false),
        "qwen2" | "deepseek-r1-qwen" => (&[QWEN_2], false, true),
        "qwen35" => (&[QWEN_35], false, true),
        "stablelm2" => (&[QWEN_2], false, false),
        "gpt-2" | "gpt2" | "phi-2" | "olmo" | "mpt" | "exaone4" => (&[GPT_2], false, false),
        "smollm" | "starcoder" | "refact" | "codeshell" | "command-r" => {
            (&[ONE_DIGIT, GPT_2], false, false)
        }
        "seed-coder" => (&[SEED], false, false),
        "gpt-4o" | "llama4" => (&[GPT_4O], true, false),
        "deepseek-llm" => (&DEEPSEEK_LLM, false, false),
        "deepseek-v3" | "hunyuan-dense" => (&DEEPSEEK_3, false, false),
        "tekken" => (&[TEKKEN], true, false),
        "default" | "" => (&DEFAULT, false, false),
        other => {
            let supported = "llama-bpe, qwen2, qwen35, gpt-2, smollm, tekken, gpt-4o, \
                             deepseek-llm, deepseek-v3, glm4, lfm2, command-r, stablelm2, \
                             seed-coder, hunyuan-dense, exaone4, falcon-h1, default";
            let what = "tokenizer.ggml.pre";
            return Err(LibraryError::tokenizer_kind(origin, what, other, supported));
        }
    };
    Ok(Words { cuts, whole_words, composed })
}

impl Words {
    /// The library's JSON form.
    pub(super) fn pre_tokenizer(&self) -> Value {
        let split = |cut| {
            json!({"type": "Split", "pattern": {"Regex": cut}, "behavior": "Isolated",
                "invert": false})
        };
        let bytes = json!({
            "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false
        });
        let steps: Vec<Value> = self.cuts.iter().map(split).chain([bytes]).collect();
        json!({"type": "Sequence", "pretokenizers": steps})
    }
}

#[cfg(test)]
mod tests {
    use super::super::Tokenizer;
    use super::super::pieces::char_of;
    use super::super::vocabulary::{Scheme, TokenKind, Vocabulary};
    use super::*;
    use proptest::prelude::*;

    /// All bytes, a control token, and merges that would join everything if words did not stop
    /// them.
    fn tokenizer(pre: &str) -> Tokenizer {
        let mut tokens: Vec<String> = (0..=255u8).map(|byte| char_of(byte).to_string()).collect();
        let merges = [
            "a b", "ab c", "1 2", "12 3", "123 4", "Ġ a", "Ġ ab", "Ġ 1", "' s", "' S", "Ċ Ċ",
            "c A", "! Ċ", "Ġ Ġ",
        ];
        tokens.extend(merges.iter().map(|merge| merge.replace(' ', "")));
        tokens.push("xyz".to_owned()); // A word without merges.
        tokens.push("<|end|>".to_owned());
        let mut kinds = vec![TokenKind::Normal; tokens.len()];
        *kinds.last_mut().unwrap() = TokenKind::Control;
        let merges = merges.iter().map(|merge| (*merge).to_owned()).collect();
        let scheme = Scheme::ByteLevel { merges, pre: pre.to_owned() };
        Vocabulary { tokens, kinds, scheme, begin: None, end: None }.build("test").unwrap()
    }

    fn spelled(pre: &str, text: &str) -> Vec<String> {
        let tokenizer = tokenizer(pre);
        let tokens = tokenizer.encode(text, false).unwrap();
        tokens.iter().map(|&token| tokenizer.label(token)).collect()
    }

    #[test]
    fn digits_are_grouped_as_each_family_does() {
        for like_llama_3 in ["llama-bpe", "glm4", "lfm2", "falcon-h1"] {
            assert_eq!(spelled(like_llama_3, "12341"), ["123", "4", "1"]);
        }
        assert_eq!(spelled("qwen2", "1234"), ["1", "2", "3", "4"]);
        assert_eq!(spelled("gpt-2", "12341"), ["1234", "1"]);
        assert_eq!(spelled("gpt-2", " 12"), [" ", "12"]);
        for like_smollm in ["smollm", "command-r"] {
            assert_eq!(spelled(like_smollm, " 12"), [" ", "1", "2"]);
        }
        assert_eq!(spelled("default", "12341"), ["123", "4", "1"]);
        assert_eq!(spelled("tekken", "12"), ["1", "2"]);
    }

    #[test]
    fn words_end_as_each_family_says() {
        assert_eq!(spelled("llama-bpe", "b'S"), ["b", "'S"]);
        assert_eq!(spelled("gpt-2", "b'S"), ["b", "'", "S"]);
        assert_eq!(spelled("tekken", "abcAb"), ["abc", "A", "b"]);
        assert_eq!(spelled("gpt-2", "abcAb"), ["abc", "A", "b"]);
        assert_eq!(spelled("qwen2", "!\n\nab"), ["!", "\n\n", "ab"]);
        assert_eq!(spelled("gpt-2", "!\n\nab"), ["!", "\n", "\n", "ab"]);
        assert_eq!(spelled("qwen2", "!\nab"), ["!\n", "ab"]);
        assert_eq!(spelled("seed-coder", "!\nab"), ["!", "\n", "ab"]);
        assert_eq!(spelled("llama-bpe", "xyz"), ["xyz"]);
        assert_eq!(spelled("lfm2", "xyz"), ["xyz"]);
        assert_eq!(spelled("glm4", "xyz"), ["x", "y", "z"]);
        assert_eq!(spelled("qwen2", "xyz"), ["x", "y", "z"]);
    }

    #[test]
    fn qwen_composes_its_text() {
        assert_eq!(spelled("qwen2", "e\u{301}"), ["\\xC3", "\\xA9"]);
        assert_eq!(spelled("llama-bpe", "e\u{301}").len(), 3);
        // A mark that has no composed form belongs to its word, and not to the dot after it.
        let word = ["b\u{301}.", "b\u{301}"].map(|text| spelled("qwen35", text));
        assert_eq!(word[0], [&word[1][..], &[".".to_owned()]].concat());
    }

    #[test]
    fn an_unknown_rule_is_named() {
        let Err(error) = words("viking", "x.gguf") else { panic!("accepted") };
        let text = error.to_string();
        assert!(text.contains("x.gguf") && text.contains("viking"), "{text}");
    }

    proptest! {
        #[test]
        fn every_rule_keeps_the_text(text in "[ab1' !\\nA-Zéß漢😀\\s]{0,30}") {
            for pre in ["llama-bpe", "gpt-2", "smollm", "tekken", "default"] {
                let tokenizer = tokenizer(pre);
                let tokens = tokenizer.encode(&format!("{text}<|end|>"), false).unwrap();
                prop_assert_eq!(tokenizer.label(*tokens.last().unwrap()), "<|end|>");
                prop_assert_eq!(tokenizer.text(&tokens), text.as_str());
            }
        }
    }
}
