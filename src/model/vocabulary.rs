//! What two vocabularies have in common, token by token, so that a small model can draft for a
//! target. Two tokens are the same if they spell the same bytes, even with different ids.
//!
//! A drafted token without a counterpart is never proposed. A committed token without a counterpart
//! is spelled in the small model's own tokens, the longest first, so that the model still reads the
//! text. A control token (such as `<|im_start|>`) that the small model does not have cannot be
//! spelled and is left out.

use std::collections::HashMap;

use crate::speculate::Ranking;

/// How a token is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PieceKind {
    /// Text.
    Text,
    /// One byte, for what the vocabulary can only spell byte by byte.
    Byte,
    /// A control token, identified by its name.
    Special,
}

/// What a token means.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Piece {
    /// Whether it is text, a byte or a control token.
    pub kind: PieceKind,
    /// The bytes of its text, or its name.
    pub bytes: Vec<u8>,
}

/// A target's vocabulary compared with a small model's.
#[derive(Clone, Debug)]
pub struct SharedVocabulary {
    /// The small model's token for each target id.
    counterparts: Vec<Option<u32>>,
    /// (small model's id, target's id) of every token that may be proposed.
    pairs: Vec<(u32, u32)>,
    /// Whether the first n ids of both are the same tokens, and there are no others.
    identical: bool,
    /// The bytes of each target token that has no counterpart; empty for the rest.
    strange: HashMap<u32, Vec<u8>>,
    /// The small model's text tokens by their bytes.
    spellings: HashMap<Vec<u8>, u32>,
    /// The length in bytes of the longest spelling.
    longest: usize,
}

impl SharedVocabulary {
    /// Two models with the same `tokens` tokens.
    pub fn identical(tokens: usize) -> Self {
        let ids = 0..tokens as u32;
        Self {
            counterparts: ids.clone().map(Some).collect(),
            pairs: ids.map(|id| (id, id)).collect(),
            identical: true,
            strange: HashMap::new(),
            spellings: HashMap::new(),
            longest: 0,
        }
    }

    /// Compares two vocabularies; `None` is an id without a token. A token is matched with a token
    /// of the same piece. If there are several, it is the one with the same id, otherwise the
    /// first. A byte and a text of one byte match if nothing else does.
    pub fn new(target: &[Option<Piece>], small: &[Option<Piece>]) -> Self {
        let counterparts = counterparts(target, small);
        let pairs = pairs(&counterparts);
        let tokens = pairs.len();
        let all = |pieces: &[Option<Piece>]| pieces.iter().flatten().count() == tokens;
        let in_place = pairs.iter().zip(0..).all(|(&pair, id)| pair == (id, id));
        if in_place && all(target) && all(small) {
            return Self::identical(tokens);
        }
        let is_strange = |id: u32| counterparts[id as usize].is_none();
        let strange = texts(target).filter(|&(id, _)| is_strange(id));
        let strange = strange.map(|(id, piece)| (id, piece.bytes.clone())).collect();
        let mut spellings: HashMap<Vec<u8>, (PieceKind, u32)> = HashMap::new();
        for (id, piece) in texts(small) {
            let known = spellings.entry(piece.bytes.clone()).or_insert((piece.kind, id));
            if known.0 == PieceKind::Byte && piece.kind == PieceKind::Text {
                *known = (piece.kind, id);
            }
        }
        Self {
            longest: spellings.keys().map(Vec::len).max().unwrap_or(0),
            spellings: spellings.into_iter().map(|(bytes, (_, id))| (bytes, id)).collect(),
            counterparts,
            pairs,
            identical: false,
            strange,
        }
    }

    /// Makes the small model read the target's `token` as its `own` token if it has no counterpart:
    /// for control tokens that do the same under other names. Neither is proposed for the other.
    pub(crate) fn read_as(&mut self, token: u32, own: u32) {
        if let Some(none @ None) = self.counterparts.get_mut(token as usize) {
            *none = Some(own);
        }
    }

    /// How many of the target's tokens can be proposed.
    pub fn shared(&self) -> usize {
        self.pairs.len()
    }

    /// The small model's tokens that can be proposed.
    pub fn proposed(&self) -> impl Iterator<Item = u32> + '_ {
        self.pairs.iter().map(|&(own, _)| own)
    }

    /// Whether every id means the same token in both vocabularies.
    pub fn is_identical(&self) -> bool {
        self.identical
    }

    /// The small model's token for a token of the target.
    pub fn counterpart(&self, token: u32) -> Option<u32> {
        self.counterparts.get(token as usize).copied().flatten()
    }

    /// Appends a token of the target as the small model reads it: its counterpart, or the tokens
    /// that spell it. It appends nothing for control tokens that the small model does not have, or
    /// for bytes that it cannot spell.
    pub fn translate(&self, token: u32, to: &mut Vec<u32>) {
        if let Some(counterpart) = self.counterpart(token) {
            to.push(counterpart);
            return;
        }
        let mut rest = self.strange.get(&token).map_or(&[][..], Vec::as_slice);
        while !rest.is_empty() {
            let known = |&length: &usize| self.spellings.contains_key(&rest[..length]);
            let length = (1..=self.longest.min(rest.len())).rev().find(known);
            let (piece, behind) = rest.split_at(length.unwrap_or(1));
            to.extend(self.spellings.get(piece));
            rest = behind;
        }
    }

    /// The candidates of a row of the small model's logits, as tokens of the target. Logit i is
    /// that of the small model's token `own(i)`, which rises with i. `room` is overwritten if the
    /// orders differ.
    pub fn candidates(
        &self,
        ranking: &Ranking,
        row: &[f32],
        own: impl Fn(u32) -> u32,
        room: &mut Vec<f32>,
    ) -> Vec<(u32, f32)> {
        if self.identical {
            // The last rows may be those of no token.
            let is_token = |&i: &u32| (own(i) as usize) < self.pairs.len();
            let padding = (0..row.len() as u32).rev().take_while(|i| !is_token(i)).count();
            return ranking.candidates_among(&row[..row.len() - padding], own);
        }
        room.clear();
        room.resize(self.counterparts.len(), f32::NEG_INFINITY);
        let mut scored = (0..).zip(row).map(|(i, &logit)| (own(i), logit)).peekable();
        for &(token, theirs) in &self.pairs {
            while scored.next_if(|&(own, _)| own < token).is_some() {}
            if let Some((_, logit)) = scored.next_if(|&(own, _)| own == token) {
                room[theirs as usize] = logit;
            }
        }
        ranking.candidates(room)
    }
}

/// For each target id, the same token of the small model.
fn counterparts(target: &[Option<Piece>], small: &[Option<Piece>]) -> Vec<Option<u32>> {
    let mut by_piece: HashMap<&Piece, u32> = HashMap::with_capacity(small.len());
    for (id, piece) in (0..).zip(small) {
        if let Some(piece) = piece {
            by_piece.entry(piece).or_insert(id);
        }
    }
    let find = |(id, piece): (u32, &Option<Piece>)| {
        let piece = piece.as_ref()?;
        if small.get(id as usize).and_then(Option::as_ref) == Some(piece) {
            return Some(id);
        }
        let kind = match piece.kind {
            PieceKind::Text if piece.bytes.len() == 1 => PieceKind::Byte,
            PieceKind::Byte => PieceKind::Text,
            kind => kind,
        };
        let other = Piece { kind, bytes: piece.bytes.clone() };
        by_piece.get(piece).or_else(|| by_piece.get(&other)).copied()
    };
    (0..).zip(target).map(find).collect()
}

/// (small model's id, target's id), sorted by the small model's id. Several of the target's tokens
/// may have the same counterpart; it is then proposed as the one with its own id, otherwise as the
/// first.
fn pairs(counterparts: &[Option<u32>]) -> Vec<(u32, u32)> {
    let mut claims: HashMap<u32, u32> = HashMap::with_capacity(counterparts.len());
    for (id, counterpart) in (0..).zip(counterparts) {
        if let Some(counterpart) = *counterpart {
            let claim = claims.entry(counterpart).or_insert(id);
            if counterpart == id {
                *claim = id;
            }
        }
    }
    let mut pairs: Vec<(u32, u32)> = claims.into_iter().collect();
    pairs.sort_unstable();
    pairs
}

/// The tokens that are not control tokens.
fn texts(pieces: &[Option<Piece>]) -> impl Iterator<Item = (u32, &Piece)> {
    let all = (0..).zip(pieces).filter_map(|(id, piece)| Some((id, piece.as_ref()?)));
    all.filter(|(_, piece)| piece.kind != PieceKind::Special)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn translated(shared: &SharedVocabulary, token: u32) -> Vec<u32> {
        let mut out = Vec::new();
        shared.translate(token, &mut out);
        out
    }

    /// Vocabularies over few letters, so that many tokens are shared, repeated or composed.
    fn vocabulary() -> impl Strategy<Value = Vec<Option<Piece>>> {
        let bytes = prop::collection::vec(b'a'..b'd', 1..4);
        let piece = prop_oneof![
            8 => bytes.clone().prop_map(|bytes| Some(Piece { kind: PieceKind::Text, bytes })),
            1 => (b'a'..b'd').prop_map(|b| Some(Piece { kind: PieceKind::Byte, bytes: vec![b] })),
            1 => bytes.prop_map(|bytes| Some(Piece { kind: PieceKind::Special, bytes })),
            1 => Just(None),
        ];
        prop::collection::vec(piece, 0..30)
    }

    proptest! {
        #[test]
        fn only_what_means_the_same_is_shared(target in vocabulary(), small in vocabulary()) {
            let shared = SharedVocabulary::new(&target, &small);
            let alike = |a: &Piece, b: &Piece| {
                let special = |piece: &Piece| piece.kind == PieceKind::Special;
                a.bytes == b.bytes && special(a) == special(b)
            };
            for (id, piece) in (0..).zip(&target) {
                let known = |piece: &Piece| small.iter().flatten().any(|other| alike(piece, other));
                prop_assert_eq!(
                    shared.counterpart(id).is_some(),
                    piece.as_ref().is_some_and(known)
                );
                if let (Some(counterpart), Some(piece)) = (shared.counterpart(id), piece) {
                    let other = small[counterpart as usize].as_ref().unwrap();
                    prop_assert!(alike(piece, other));
                    // The same id is preferred to any other.
                    if small.get(id as usize) == Some(&Some(piece.clone())) {
                        prop_assert_eq!(counterpart, id);
                    }
                }
            }
            // Every proposed token is mapped back to the token that proposed it.
            let logits: Vec<f32> = (0..small.len()).map(|id| id as f32).collect();
            let mut room = Vec::new();
            let ranking = Ranking::new(small.len());
            let best = shared.candidates(&ranking, &logits, |id| id, &mut room);
            prop_assert_eq!(best.len(), shared.shared());
            let falls = |a: &(u32, f32), b: &(u32, f32)| {
                shared.counterpart(a.0) > shared.counterpart(b.0)
            };
            prop_assert!(best.is_sorted_by(falls));
            // Tokens that are not scored are not proposed, and the others as before.
            let odd: Vec<f32> = logits.iter().copied().skip(1).step_by(2).collect();
            let some = shared.candidates(&ranking, &odd, |i| 2 * i + 1, &mut room);
            let is_odd = |id: &u32| shared.counterpart(*id).is_some_and(|own| own % 2 == 1);
            let expected: Vec<u32> = best.iter().map(|best| best.0).filter(is_odd).collect();
            prop_assert_eq!(some.iter().map(|some| some.0).collect::<Vec<_>>(), expected);
        }

        #[test]
        fn what_is_spelled_out_is_the_same_text(target in vocabulary(), small in vocabulary()) {
            let shared = SharedVocabulary::new(&target, &small);
            let single = |byte: u8| small.iter().flatten().any(|piece| {
                piece.kind != PieceKind::Special && piece.bytes == [byte]
            });
            let spells_all = (b'a'..b'd').all(single);
            for (id, piece) in (0..).zip(&target) {
                let Some(piece) = piece else { continue };
                let tokens = translated(&shared, id);
                let bytes: Vec<u8> =
                    tokens.iter().flat_map(|&t| small[t as usize].clone().unwrap().bytes).collect();
                match piece.kind {
                    PieceKind::Special if shared.counterpart(id).is_none() => {
                        prop_assert!(tokens.is_empty());
                    }
                    _ if spells_all => prop_assert_eq!(&bytes, &piece.bytes),
                    _ => prop_assert!(bytes.len() <= piece.bytes.len()),
                }
            }
        }

        #[test]
        fn a_vocabulary_is_identical_to_itself(pieces in vocabulary()) {
            let shared = SharedVocabulary::new(&pieces, &pieces);
            for (id, piece) in (0..).zip(&pieces) {
                prop_assert_eq!(shared.counterpart(id), piece.as_ref().map(|_| id));
            }
            let dense = pieces.iter().all(Option::is_some);
            prop_assert!(shared.is_identical() || !dense);
            // Rows without tokens do not make vocabularies differ.
            let padded = [&pieces[..], &[None, None]].concat();
            let with_padding = SharedVocabulary::new(&pieces, &padded);
            prop_assert_eq!(with_padding.is_identical(), shared.is_identical());
            if shared.is_identical() {
                let logits: Vec<f32> = (0..padded.len()).map(|id| id as f32).collect();
                let mut room = Vec::new();
                let ranking = Ranking::new(padded.len());
                let best = with_padding.candidates(&ranking, &logits, |id| id, &mut room);
                prop_assert_eq!(best.len(), shared.shared());
                prop_assert!(best.iter().all(|best| (best.0 as usize) < shared.shared()));
            }
        }
    }
}
