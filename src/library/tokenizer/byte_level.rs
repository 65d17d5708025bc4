//! GPT-2's byte-level BPE on the `tokenizers` library: how the families that GGUF files name split
//! a text into words.

use serde_json::{Value, json};

use crate::library::{LibraryError, Result};

/// How a text is split into the words within which merging happens.
#[derive(Debug)]
pub(super) struct Words {
    /// llama.cpp's names of this rule.
    names: &'static [&'static str],
    /// The cuts, one after the other.
    cuts: &'static [&'static str],
    /// Whether a word that is a token is always that token, independent of the merges.
    pub(super) whole_words: bool,
    /// Whether a text begins with its begin token if the file does not say.
    pub(super) begins: bool,
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
const THREE_DIGITS: &str = r"\p{N}{1,3}";
/// MiniCPM5's, after its digits.
const MINICPM_5: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
);
/// Qwen 2's without the English contractions.
const UFAKZEKA: &str =
    r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// Ling's: Qwen 2's, but every line end is a word.
const BAILING: &str = concat!(
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"|\s*[\r\n]|\s+(?!\S)|\s+",
);
/// Llama 3's, with white space in runs of powers of two.
const JAIS_2: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)",
    r"|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}",
);
/// Words of several, with the spaces between them.
const EXAONE_MOE: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+",
);
/// GPT-4o's, with Chinese characters apart.
const KIMI_K2: &str = concat!(
    r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*",
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+",
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
/// GPT-4o's with single digits, after scripts of East Asia and their punctuation.
const YOUTU: [&str; 2] = [
    r"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+",
    concat!(
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+",
        r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}",
        r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
];
/// DeepSeek V3's with every line end and digit apart.
const SPARK: [&str; 4] = [
    THREE_DIGITS,
    DEEPSEEK_3[1],
    concat!(
        r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"##,
        r##"| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+"##,
    ),
    ONE_DIGIT,
];
/// DeepSeek V3's, with digits in threes from the end and more scripts.
const AFMOE: [&str; 3] = [
    r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))",
    concat!(
        "[一-鿿㐀-䶿豈-\u{faff}぀-ゟ゠-ヿ･-ﾟ⼀-\u{2fdf}",
        "\u{e00}-\u{e7f}\u{e80}-\u{eff}\u{1780}-\u{17ff}\u{1000}-\u{109f}",
        "\u{aa60}-\u{aa7f}\u{a9e0}-\u{a9ff}가-\u{d7af}\u{1100}-\u{11ff}]+",
    ),
    DEEPSEEK_3[2],
];
const DEEPSEEK_CODER: [&str; 5] =
    [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", r"[一-龥ࠀ-一가-퟿]+", ONE_DIGIT];
const FALCON: [&str; 3] = [r"[\p{P}\$\+<=>\^~\|`]+", DEFAULT[1], DEFAULT[3]];
/// BLOOM's: a word ends at white space and some punctuation.
const BLOOM: &str = r" ?[^(\s|.,!?…。，、।۔،)]+";
const CHAMELEON: [&str; 6] = [
    r"<sentinel:[0-9]+>",
    r"(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z",
    r"([\t\n]|    |  )",
    ONE_DIGIT,
    r"[\p{P}!-/:-@\[-`{-~]",
    GPT_2,
];

const fn rule(names: &'static [&'static str], cuts: &'static [&'static str]) -> Words {
    Words { names, cuts, whole_words: false, begins: false, composed: false }
}

/// Every rule, with the names and flags of llama.cpp. GLM-4 takes whole words too, as its own
/// tokenizer does, and Qwen's composes.
static RULES: [Words; 31] = [
    rule(&["default", ""], &DEFAULT),
    Words {
        whole_words: true,
        begins: true,
        ..rule(
            &[
                "llama-bpe",
                "llama3",
                "llama-v3",
                "falcon3",
                "falcon-h1",
                "pixtral",
                "midm-2.0",
                "lfm2",
                "jina-v5-nano",
            ],
            &[LLAMA_3],
        )
    },
    rule(&["dbrx", "smaug-bpe"], &[LLAMA_3]),
    Words { whole_words: true, ..rule(&["glm4", "chatglm-bpe"], &[LLAMA_3]) },
    Words { whole_words: true, ..rule(&["minicpm5"], &[THREE_DIGITS, MINICPM_5]) },
    rule(&["jais-2"], &[JAIS_2]),
    Words {
        composed: true,
        ..rule(&["qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez"], &[QWEN_2])
    },
    Words { composed: true, ..rule(&["qwen35"], &[QWEN_35]) },
    rule(&["stablelm2", "hunyuan", "solar-open", "grok-2"], &[QWEN_2]),
    rule(&["ufakzeka"], &[UFAKZEKA]),
    rule(&["laguna"], &[r"[^\n]+|[\n]+", QWEN_2]),
    rule(
        &[
            "gpt-2",
            "gpt2",
            "phi-2",
            "olmo",
            "mpt",
            "jais",
            "trillion",
            "granite-docling",
            "exaone4",
            "gigachat",
            "a.x-4.0",
            "mellum",
            "modern-bert",
            "roberta-bpe",
            "jina-es",
            "jina-de",
            "jina-v1-en",
            "jina-v2-es",
            "jina-v2-de",
            "jina-v2-code",
        ],
        &[GPT_2],
    ),
    rule(
        &[
            "smollm",
            "starcoder",
            "refact",
            "codeshell",
            "command-r",
            "exaone",
            "minerva-7b",
            "mellum2",
        ],
        &[ONE_DIGIT, GPT_2],
    ),
    rule(&["seed-coder"], &[SEED]),
    rule(&["gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"], &[GPT_4O]),
    Words { whole_words: true, ..rule(&["granite-embed-multi-97m"], &[GPT_4O]) },
    rule(&["tiny_aya", "cohere2moe"], &[r"\d{1,3}(?=(?:\d{3})*\b)", GPT_4O]),
    rule(&["kimi-k2"], &[KIMI_K2]),
    Words { whole_words: true, ..rule(&["youtu"], &YOUTU) },
    Words { whole_words: true, begins: true, ..rule(&["tekken"], &[TEKKEN]) },
    rule(&["deepseek-llm"], &DEEPSEEK_LLM),
    rule(&["deepseek-coder"], &DEEPSEEK_CODER),
    rule(&["deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"], &DEEPSEEK_3),
    rule(&["spark2_5"], &SPARK),
    rule(&["afmoe"], &AFMOE),
    rule(&["bailingmoe", "bailingmoe2", "llada-moe"], &[BAILING]),
    rule(&["exaone-moe"], &[EXAONE_MOE]),
    rule(&["falcon"], &FALCON),
    rule(&["poro-chat", "bloom", "gpt3-finnish"], &[BLOOM]),
    rule(&["viking"], &[BLOOM, ONE_DIGIT]),
    Words { begins: true, ..rule(&["chameleon"], &CHAMELEON) },
];

/// The rule that llama.cpp calls `pre`.
pub(super) fn words(pre: &str, origin: &str) -> Result<&'static Words> {
    let found = RULES.iter().find(|rule| rule.names.contains(&pre));
    found.ok_or_else(|| {
        let named = RULES.iter().flat_map(|rule| rule.names).filter(|name| !name.is_empty());
        let supported = named.copied().collect::<Vec<_>>().join(", ");
        LibraryError::tokenizer_kind(origin, "tokenizer.ggml.pre", pre, &supported)
    })
}

/// Whether a text begins with the begin token if a file with this rule does not say.
pub(in crate::library) fn begins(pre: &str) -> bool {
    RULES.iter().any(|rule| rule.begins && rule.names.contains(&pre))
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
        Vocabulary { tokens, kinds, scheme, begin: None, end: None, marks_strip: false }
            .build("test")
            .unwrap()
    }

    fn spelled(pre: &str, text: &str) -> Vec<String> {
        let tokenizer = tokenizer(pre);
        let tokens = tokenizer.encode(text, false).unwrap();
        tokens.iter().map(|&token| tokenizer.label(token)).collect()
    }

    /// llama.cpp's names (llama-vocab.cpp of November 2026) by its `ignore_merges` and `add_bos`.
    const RECORDED: [(bool, bool, &str); 4] = [
        (
            true,
            true,
            "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano \
              tekken",
        ),
        (true, false, "minicpm5 youtu granite-embed-multi-97m"),
        (false, true, "chameleon"),
        (
            false,
            false,
            "default deepseek-llm deepseek-coder deepseek-v3 spark2_5 falcon mpt starcoder gpt-2 \
              phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert \
              jais-2 jina-v1-en jina-v2-code roberta-bpe refact command-r qwen2 deepseek-r1-qwen \
              kormo f2llmv2 qwen35 stablelm2 olmo dbrx smaug-bpe poro-chat viking jais smollm \
              codeshell bloom gpt3-finnish exaone exaone4 exaone-moe minerva-7b megrez gpt-4o \
              llama4 kanana2 talkie tiny_aya cohere2moe trillion granite-docling bailingmoe \
              bailingmoe2 llada-moe seed-coder hunyuan hunyuan-dense hy_v4 joyai-llm kimi-k2 \
              ufakzeka grok-2 afmoe laguna minimax-m2 solar-open mellum2",
        ),
    ];

    #[test]
    fn names_and_flags_are_those_of_llama_cpp() {
        let mut recorded = 0;
        for (whole_words, begin, names) in RECORDED {
            for name in names.split_whitespace() {
                let rule = words(name, "test").unwrap();
                assert_eq!((rule.whole_words, begins(name)), (whole_words, begin), "{name}");
                recorded += 1;
            }
        }
        // GLM-4's, whose own tokenizer takes whole words, and two spellings of ours.
        for name in ["glm4", "chatglm-bpe"] {
            assert!(words(name, "test").unwrap().whole_words && !begins(name));
        }
        let ours = ["gpt2", "", "glm4", "chatglm-bpe"].len();
        assert_eq!(RULES.iter().flat_map(|rule| rule.names).count(), recorded + ours);
        // These are not over bytes, or cut where nothing is.
        for name in ["gemma4", "granite-embed-multi-311m", "sarvam-moe", "whitespace", "superbpe"] {
            assert!(words(name, "test").unwrap_err().to_string().contains(name));
        }
    }

    #[test]
    fn every_rule_splits_a_text_without_loss() {
        let text = "I'll pay 1234567 ÀÉ,\n\n  漢字 한글 ไทย <a> x+=1;\t it'S naïve…  end  ";
        for name in RULES.iter().flat_map(|rule| rule.names) {
            let tokenizer = tokenizer(name);
            let tokens = tokenizer.encode(text, false).unwrap();
            assert_eq!(tokenizer.text(&tokens), text, "{name}");
        }
    }

    #[test]
    fn rules_of_later_families_cut_where_they_say() {
        assert_eq!(spelled("afmoe", "1234"), ["1", "2", "3", "4"]);
        assert_eq!(spelled("afmoe", "123412"), ["123", "4", "12"]);
        assert_eq!(spelled("tiny_aya", "1234 12"), ["1", "2", "3", "4", " ", "12"]);
        assert_eq!(spelled("falcon3", "12341"), ["123", "4", "1"]);
        assert_eq!(spelled("deepseek-coder", "b 12"), ["b", " ", "1", "2"]);
        assert_eq!(spelled("viking", " 12"), [" ", "1", "2"]);
        assert_eq!(spelled("dbrx", "xyz"), ["x", "y", "z"]);
        assert_eq!(spelled("pixtral", "xyz"), ["xyz"]);
        assert_eq!(spelled("kimi-k2", "ab漢").concat(), spelled("gpt-4o", "ab漢").concat());
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
        assert_eq!(spelled("glm4", "xyz"), ["xyz"]);
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
        let Err(error) = words("superbpe", "x.gguf") else { panic!("accepted") };
        let text = error.to_string();
        assert!(text.contains("x.gguf") && text.contains("superbpe"), "{text}");
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
