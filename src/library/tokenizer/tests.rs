//! How tokenizers split texts, and what they refuse.

use super::*;
use crate::model::SharedVocabulary;
use proptest::prelude::*;
use serde_json::{Value, json};

/// All single bytes, a few merges, two special tokens; ids in this order.
fn byte_level() -> Tokenizer {
    let mut vocab = serde_json::Map::new();
    for byte in 0..=255u8 {
        vocab.insert(pieces::char_of(byte).to_string(), Value::from(vocab.len()));
    }
    for token in ["he", "Ġhe", "ll", "hell", "hello"] {
        vocab.insert(token.into(), Value::from(vocab.len()));
    }
    let merges = ["h e", "Ġ he", "l l", "he ll", "hell o"];
    from(json!({
        "version": "1.0",
        "truncation": {"max_length": 2, "strategy": "LongestFirst", "stride": 0,
            "direction": "Right"},
        "padding": null,
        "added_tokens": [
            {"id": 261, "content": "<|end|>", "special": true, "single_word": false,
                "lstrip": false, "rstrip": false, "normalized": false},
            {"id": 262, "content": "<|en|>", "special": false, "single_word": false,
                "lstrip": false, "rstrip": false, "normalized": false}
        ],
        "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false,
            "trim_offsets": true, "use_regex": true},
        "post_processor": null,
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true,
            "use_regex": true},
        "model": {"type": "BPE", "vocab": vocab, "merges": merges}
    }))
}

fn sentence_piece() -> Tokenizer {
    let tokens = ["<unk>", "▁", "a", "b", "▁a", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>"];
    let mut kinds = vec![TokenKind::Normal; tokens.len()];
    kinds[0] = TokenKind::Unknown;
    kinds[5..].fill(TokenKind::Byte);
    let scheme = Scheme::SentencePiece { scores: vec![0.0; tokens.len()], space_first: true };
    let tokens = tokens.map(str::to_owned).to_vec();
    Vocabulary { tokens, kinds, scheme, begin: None, end: None, marks_strip: false }
        .build("test")
        .unwrap()
}

fn from(json: Value) -> Tokenizer {
    Tokenizer::from_json(json.to_string().as_bytes(), "test").unwrap()
}

#[test]
fn no_text_makes_fewer_tokens_than_its_length_allows() {
    let tokenizer = byte_level();
    // `<|end|>` is the longest.
    assert_eq!(tokenizer.least_tokens(4 * 7 * 100), 100);
    assert_eq!(tokenizer.least_tokens(4 * 7 * 100 + 1), 101);
    assert_eq!(tokenizer.least_tokens(0), 0);
    let text = "<|end|>".repeat(50) + "hello";
    let tokens = tokenizer.encode(&text, false).unwrap();
    assert!(tokenizer.least_tokens(text.len()) <= tokens.len());
}

#[test]
fn special_tokens_in_a_text_are_those_tokens() {
    let tokenizer = byte_level();
    let tokens = tokenizer.encode("hello hello<|end|>", false).unwrap();
    // hello, Ġhe, ll, o and the control token; not cut at 2 as the file says.
    assert_eq!(tokens, [260, 257, 258, b'o'.into(), 261]);
    assert_eq!(tokenizer.text(&tokens), "hello hello");
    assert_eq!(tokenizer.label(261), "<|end|>");
    assert!(tokenizer.is_special(261) && !tokenizer.is_special(262));
    assert_eq!(tokenizer.added_prefix("<|end|>\n"), Some(261));
    assert_eq!(tokenizer.added_prefix("end"), None);
}

#[test]
fn labels_show_spaces_and_parts_of_characters() {
    let tokenizer = byte_level();
    assert_eq!(tokenizer.label(tokenizer.id("Ġhe").unwrap()), " he");
    assert_eq!(tokenizer.label(0xE4), "\\xE4");
    assert_eq!(tokenizer.label(b'\n'.into()), "\n");
    assert_eq!(tokenizer.label(9999), "<9999>");
    assert_eq!(sentence_piece().label(5), "\\xF0");
    assert_eq!(sentence_piece().label(4), " a");
}

#[test]
fn pieces_tell_text_from_bytes_and_marks() {
    let kinds = |tokenizer: &Tokenizer, ids: &[usize]| -> Vec<_> {
        let pieces = tokenizer.pieces(tokenizer.vocab_size() + 3);
        assert_eq!(pieces[tokenizer.vocab_size()..], [None, None, None]);
        ids.iter().map(|&id| pieces[id].as_ref().unwrap().kind).collect()
    };
    let text = PieceKind::Text;
    let byte = PieceKind::Byte;
    let special = PieceKind::Special;
    assert_eq!(kinds(&byte_level(), &[65, 260, 261, 262]), [text, text, special, text]);
    assert_eq!(kinds(&sentence_piece(), &[1, 4, 5]), [text, text, byte]);
    // One text in two spellings.
    let ours = byte_level().pieces(263);
    let theirs = sentence_piece().pieces(9);
    let shared = SharedVocabulary::new(&theirs, &ours);
    assert_eq!(shared.counterpart(1), Some(b' '.into()));
    assert_eq!(shared.counterpart(5), Some(0xF0));
    let mut spelled = Vec::new();
    shared.translate(4, &mut spelled);
    assert_eq!(spelled, [u32::from(b' '), u32::from(b'a')]);
}

#[test]
fn sentence_piece_gives_back_the_text() {
    let tokenizer = sentence_piece();
    let tokens = tokenizer.encode("a b 😀", false).unwrap();
    assert_eq!(tokens, [4, 1, 3, 1, 5, 6, 7, 8]);
    assert_eq!(tokenizer.text(&tokens), "a b 😀");
    assert_eq!(tokenizer.text(&tokens[..6]), "a b \u{FFFD}");
}

#[test]
fn other_kinds_are_refused_by_name() {
    let mut json: Value =
        serde_json::from_str(&sentence_piece().0.tokenizer.to_string(false).unwrap()).unwrap();
    json["decoder"] = json!({"type": "WordPiece", "prefix": "##", "cleanup": true});
    let error = Tokenizer::from_json(json.to_string().as_bytes(), "x/tokenizer.json");
    let text = error.unwrap_err().to_string();
    assert!(text.contains("x/tokenizer.json") && text.contains("WordPiece"), "{text}");
    let text = Tokenizer::from_json(b"{", "x/tokenizer.json").unwrap_err().to_string();
    assert!(text.contains("x/tokenizer.json"), "{text}");
}

proptest! {
    #[test]
    fn byte_level_text_comes_back_and_agrees_with_the_library(
        text in "\\PC{0,20}[\\s\\PC]{0,20}",
    ) {
        let tokenizer = byte_level();
        let tokens = tokenizer.encode(&text, false).unwrap();
        prop_assert_eq!(tokenizer.text(&tokens), text);
        for cut in 0..tokens.len() {
            let ours = tokenizer.text(&tokens[..cut]);
            prop_assert_eq!(ours, tokenizer.0.tokenizer.decode(&tokens[..cut], true).unwrap());
        }
    }
}
