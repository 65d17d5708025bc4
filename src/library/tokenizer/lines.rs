//! Gemma 4's BPE on the `tokenizers` library: SentencePiece's spelling with listed merges, which
//! run over whole lines instead of words.

use std::collections::HashSet;

use serde_json::{Value, json};
use tokenizers::models::bpe::BPE;

use super::sentence_piece::{LONGEST_MERGED, spelled_with_bytes};
use super::vocabulary::Vocabulary;

/// The model, with the file's merges, each `left right`.
pub(super) fn model(vocabulary: &Vocabulary, merges: &[String]) -> tokenizers::Result<BPE> {
    let mut all: Vec<(&str, &str)> =
        merges.iter().filter_map(|merge| merge.split_once(' ')).collect();
    let newlines = newline_merges(vocabulary, &all);
    all.extend(newlines);
    let merges = all.into_iter().map(|(left, right)| (left.to_owned(), right.to_owned()));
    spelled_with_bytes(vocabulary, merges.collect())
}

/// The merges of newlines that are not in `listed`. A run of newlines that is a token is always
/// that token: llama.cpp looks it up, and its files may leave out these merges.
fn newline_merges<'a>(
    vocabulary: &'a Vocabulary,
    listed: &[(&'a str, &'a str)],
) -> Vec<(&'a str, &'a str)> {
    let is_run = |text: &str| text.bytes().all(|byte| byte == b'\n');
    let listed: HashSet<_> = listed.iter().filter(|(left, _)| is_run(left)).collect();
    let mut runs: Vec<&str> = vocabulary.tokens.iter().map(String::as_str).collect();
    runs.retain(|token| token.len() <= LONGEST_MERGED && is_run(token));
    runs.sort_unstable_by_key(|run| run.len());
    runs.dedup();
    let merges = runs.iter().flat_map(|run| (1..run.len()).map(|at| run.split_at(at)));
    merges.filter(|merge| !listed.contains(merge)).collect()
}

/// Merges stop only where a run of newlines begins or ends.
pub(super) fn cuts() -> Value {
    json!({"type": "Split", "pattern": {"Regex": r"\n+"}, "behavior": "Isolated", "invert": false})
}

#[cfg(test)]
mod tests {
    use super::super::Tokenizer;
    use super::super::vocabulary::{Scheme, TokenKind};
    use super::*;
    use proptest::prelude::*;

    /// The structure of Gemma 4's on a small scale.
    fn tokenizer(merges: &[&str]) -> Tokenizer {
        let mut tokens = vec!["<pad>".to_owned(), "<eos>".to_owned(), "<bos>".to_owned()];
        let mut kinds = vec![TokenKind::Control; 3];
        tokens.push("<unk>".to_owned());
        kinds.push(TokenKind::Unknown);
        for byte in 0..=255u8 {
            tokens.push(format!("<0x{byte:02X}>"));
            kinds.push(TokenKind::Byte);
        }
        let texts =
            ["\n", "\n\n", "\n\n\n", "\n\n\n\n", "▁", "a", "b", "c", "é", "<", ">", "0", "x"];
        let merged = ["▁a", "ab", "a▁", "▁ab", "c▁a", "▁▁", "b\n", "0A", "unreached"];
        tokens.extend(texts.iter().chain(&merged).map(|&token| token.to_owned()));
        kinds.resize(tokens.len(), TokenKind::Normal);
        tokens.push("<tool>".to_owned());
        kinds.push(TokenKind::UserDefined);
        let merges = merges.iter().map(|&merge| merge.to_owned()).collect();
        let scheme = Scheme::Lines { merges };
        Vocabulary { tokens, kinds, scheme, begin: Some(2), end: None, marks_strip: false }
            .build("test")
            .unwrap()
    }

    const MERGES: [&str; 5] = ["▁ ▁", "a b", "▁ ab", "a ▁", "b \n"];

    fn spelled(tokenizer: &Tokenizer, text: &str) -> Vec<String> {
        let tokens = tokenizer.encode(text, false).unwrap();
        tokens.iter().map(|&token| tokenizer.label(token)).collect()
    }

    #[test]
    fn merges_run_by_rank_over_spaces() {
        let tokenizer = tokenizer(&MERGES);
        // No space is put first, and words do not stop a merge.
        assert_eq!(spelled(&tokenizer, "ab ab"), ["ab", " ab"]);
        assert_eq!(spelled(&tokenizer, "a c"), ["a ", "c"]);
        // Two spaces rank first, so that the second does not join `ab`.
        assert_eq!(spelled(&tokenizer, "c  ab"), ["c", "  ", "ab"]);
        // `▁a` is a token without a merge.
        assert_eq!(spelled(&tokenizer, " ac"), [" ", "a", "c"]);
        assert_eq!(tokenizer.encode("a", true).unwrap()[0], 2);
    }

    #[test]
    fn a_run_of_newlines_is_taken_whole() {
        // `b \n` cannot merge: a line ends before its newline.
        let bare = tokenizer(&MERGES);
        assert_eq!(
            spelled(&bare, "b\nb\n\nb\n\n\n b"),
            ["b", "\n", "b", "\n\n", "b", "\n\n\n", " ", "b"]
        );
        assert_eq!(spelled(&bare, "\n\n\n\n"), ["\n\n\n\n"]);
        // The file's own merges come first, and keep their order.
        let listed = tokenizer(&["\n\n \n", "\n \n"]);
        assert_eq!(spelled(&listed, "\n\n\n"), ["\n\n\n"]);
        assert_eq!(spelled(&listed, &"\n".repeat(6)).concat(), "\n".repeat(6));
    }

    #[test]
    fn what_is_missing_becomes_bytes_and_names_of_tokens_stay_text() {
        let tokenizer = tokenizer(&MERGES);
        assert_eq!(spelled(&tokenizer, "é漢"), ["é", "\\xE6", "\\xBC", "\\xA2"]);
        assert_eq!(spelled(&tokenizer, "<0x0A>"), ["<", "0", "x", "0", "A", ">"]);
        assert_eq!(spelled(&tokenizer, "a<tool>b<eos>"), ["a", "<tool>", "b", "<eos>"]);
        assert_ne!(spelled(&tokenizer, "unreached"), ["unreached"]);
    }

    proptest! {
        #[test]
        fn every_text_comes_back(text in "[ab \\n<>0xAéß漢😀\\t\\r]{0,40}") {
            let tokenizer = tokenizer(&MERGES);
            let tokens = tokenizer.encode(&text, false).unwrap();
            prop_assert_eq!(tokenizer.text(&tokens), text);
        }
    }
}
