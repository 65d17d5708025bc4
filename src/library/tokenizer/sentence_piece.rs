//! SentencePiece's BPE on the `tokenizers` library.
//!
//! SentencePiece merges the neighbours whose union has the highest score. The library merges by
//! rank in a list, so every way to compose a token is listed, ordered by the token's score.

use serde_json::{Value, json};
use tokenizers::models::bpe::BPE;

use super::vocabulary::{TokenKind, Vocabulary, bpe};

/// Longer tokens are listed without parts: SentencePiece itself learns none above 16 characters,
/// and the work is quadratic in the length that a file claims.
pub(super) const LONGEST_MERGED: usize = 256;

/// The model, with bytes for what it cannot spell.
pub(super) fn model(vocabulary: &Vocabulary, scores: &[f32]) -> tokenizers::Result<BPE> {
    let ids = vocabulary.ids();
    let mut ranked: Vec<(f32, u32, &str, &str)> = Vec::new();
    for (id, token) in (0u32..).zip(&vocabulary.tokens) {
        let mergeable = matches!(
            vocabulary.kinds.get(id as usize),
            Some(TokenKind::Normal | TokenKind::UserDefined)
        );
        if !mergeable || token.len() > LONGEST_MERGED {
            continue;
        }
        let score = scores.get(id as usize).copied().unwrap_or(f32::NEG_INFINITY);
        for (at, _) in token.char_indices().skip(1) {
            let (left, right) = token.split_at(at);
            if ids.contains_key(left) && ids.contains_key(right) {
                ranked.push((score, id, left, right));
            }
        }
    }
    // For SentencePiece, several ways to compose a token are equal; the longer left part comes
    // first, as Hugging Face lists them.
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)).then(b.2.len().cmp(&a.2.len())));
    let merges = ranked.into_iter().map(|(_, _, l, r)| (l.to_owned(), r.to_owned())).collect();
    spelled_with_bytes(vocabulary, merges)
}

/// BPE over characters; one that is not in the vocabulary becomes bytes.
pub(super) fn spelled_with_bytes(
    vocabulary: &Vocabulary,
    merges: Vec<(String, String)>,
) -> tokenizers::Result<BPE> {
    let unknown = vocabulary.kinds.iter().position(|kind| *kind == TokenKind::Unknown);
    let has_bytes = vocabulary.kinds.contains(&TokenKind::Byte);
    bpe(vocabulary, merges, |builder| {
        let builder = builder.byte_fallback(has_bytes).fuse_unk(true);
        match unknown {
            Some(id) => builder.unk_token(vocabulary.tokens[id].clone()),
            None => builder,
        }
    })
}

/// The normalizer and the decoder that turn spaces into `▁` and back; with `space_first`, one is
/// put before the first word.
pub(super) fn spaces(space_first: bool) -> (Value, Value) {
    let mut normalizers = Vec::new();
    let mut decoders = vec![
        json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
    ];
    if space_first {
        normalizers.push(json!({"type": "Prepend", "prepend": "▁"}));
        decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    normalizers.push(json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"}));
    let normalizer = json!({"type": "Sequence", "normalizers": normalizers});
    (normalizer, json!({"type": "Sequence", "decoders": decoders}))
}

#[cfg(test)]
mod tests {
    use super::super::Tokenizer;
    use super::super::vocabulary::Scheme;
    use super::*;

    /// The structure of Llama 2's on a small scale: control tokens, bytes, then pieces with falling
    /// scores.
    fn vocabulary(space_first: bool) -> Vocabulary {
        let mut tokens = vec!["<unk>".to_owned(), "<s>".to_owned(), "</s>".to_owned()];
        let mut kinds = vec![TokenKind::Unknown, TokenKind::Control, TokenKind::Control];
        for byte in 0..=255u8 {
            tokens.push(format!("<0x{byte:02X}>"));
            kinds.push(TokenKind::Byte);
        }
        let mut scores = vec![0.0; tokens.len()];
        let pieces =
            ["▁t", "he", "▁the", "in", "er", "▁", "e", "t", "h", "i", "n", "r", "▁a", "a", "▁▁"];
        for (rank, piece) in pieces.iter().enumerate() {
            tokens.push((*piece).to_owned());
            kinds.push(TokenKind::Normal);
            scores.push(-(rank as f32));
        }
        let scheme = Scheme::SentencePiece { scores, space_first };
        Vocabulary { tokens, kinds, scheme, begin: Some(1), end: None, marks_strip: false }
    }

    fn spelled(tokenizer: &Tokenizer, text: &str) -> Vec<String> {
        let tokens = tokenizer.encode(text, false).unwrap();
        tokens.iter().map(|&token| tokenizer.label(token)).collect()
    }

    #[test]
    fn the_highest_score_merges_first() {
        let tokenizer = vocabulary(true).build("test").unwrap();
        // `▁t` outranks `he` outranks `▁the`: the merge of ▁t and he is then possible.
        assert_eq!(spelled(&tokenizer, "the"), [" the"]);
        assert_eq!(spelled(&tokenizer, "then a"), [" the", "n", " a"]);
        // `he` before `er`: h-e-r is he+r and not h+er.
        assert_eq!(spelled(&tokenizer, "her"), [" ", "he", "r"]);
        assert_eq!(spelled(&tokenizer, "the  a"), [" the", " ", " a"]);
    }

    #[test]
    fn what_cannot_be_spelled_becomes_bytes() {
        let tokenizer = vocabulary(true).build("test").unwrap();
        assert_eq!(spelled(&tokenizer, "é"), [" ", "\\xC3", "\\xA9"]);
        let tokens = tokenizer.encode("a é 😀\n", false).unwrap();
        assert_eq!(tokenizer.text(&tokens), "a é 😀\n");
    }

    #[test]
    fn marks_are_tokens_and_each_part_gets_its_space() {
        let tokenizer = vocabulary(true).build("test").unwrap();
        assert_eq!(spelled(&tokenizer, "<s>a</s>the"), ["<s>", " a", "</s>", " the"]);
        assert_eq!(tokenizer.encode("a", true).unwrap()[0], 1);
        assert!(tokenizer.is_special(2));
        let bare = vocabulary(false).build("test").unwrap();
        assert_eq!(spelled(&bare, "the a"), ["t", "he", " a"]);
        assert_eq!(bare.text(&bare.encode(" a", false).unwrap()), " a");
    }

    #[test]
    fn hostile_scores_and_lengths_do_no_harm() {
        let mut wild = vocabulary(true);
        wild.tokens.push("▁".repeat(100_000));
        wild.kinds.push(TokenKind::Normal);
        wild.tokens.push("the".into()); // Without a score or a kind.
        if let Scheme::SentencePiece { scores, .. } = &mut wild.scheme {
            scores[260] = f32::NAN;
            scores[261] = f32::INFINITY;
        }
        wild.begin = Some(u32::MAX);
        let tokenizer = wild.build("test").unwrap();
        let tokens = tokenizer.encode("the inner heat", true).unwrap();
        assert_eq!(tokenizer.text(&tokens), "the inner heat");
    }
}
