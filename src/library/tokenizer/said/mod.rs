//! Control tokens in a prompt: those that a message spells are text, and only the template's own
//! count.
//!
//! The library treats every spelling as the token, and skipping one there would also skip what it
//! overlaps. So if a message in a prompt spells one, the prompt goes through the library's steps
//! one by one, with our own search for added tokens; all other prompts use only the library.

use std::collections::HashMap;
use std::ops::Range;

use aho_corasick::AhoCorasick;
use tokenizers::tokenizer::normalizer::Range as Place;
use tokenizers::utils::SysRegex;
use tokenizers::{
    AddedToken, Model, NormalizedString, Normalizer, OffsetType, PreTokenizedString, PreTokenizer,
    Token,
};

use crate::chat::Prompt;

/// Whether a token controls the model: marked as special, or spelled as such tokens are. DeepSeek
/// lists the control tokens of its turns as plain added tokens.
pub(super) fn is_control(added: &AddedToken) -> bool {
    let spelled = added.content.as_str();
    let looks_so = [("<|", "|>"), ("<｜", "｜>")]
        .iter()
        .any(|(begin, end)| spelled.starts_with(begin) && spelled.ends_with(end));
    added.special || (looks_so && spelled.chars().count() > 4)
}

/// Finds added tokens.
pub(super) struct Finder {
    /// Matched in the unchanged text.
    raw: Spellings,
    /// Matched in the normalized text.
    normalized: Spellings,
    controls: Spellings,
}

struct Spellings {
    automaton: AhoCorasick,
    tokens: Vec<(u32, AddedToken)>,
    /// A character of a word, as the library defines it.
    word: SysRegex,
}

/// A token and its bytes.
type Match<'a> = (Range<usize>, u32, &'a AddedToken);

impl Finder {
    /// For the tokens added to a vocabulary.
    pub(super) fn new(
        tokenizer: &tokenizers::Tokenizer,
        added: &HashMap<u32, AddedToken>,
    ) -> tokenizers::Result<Self> {
        let mut raw = Vec::new();
        let mut normalized = Vec::new();
        for (&id, token) in added.iter().filter(|(_, token)| !token.content.is_empty()) {
            if token.normalized {
                let mut spelled = NormalizedString::from(token.content.as_str());
                if let Some(normalizer) = tokenizer.get_normalizer() {
                    normalizer.normalize(&mut spelled)?;
                }
                normalized.push((spelled.get().to_owned(), id, token.clone()));
            } else {
                raw.push((token.content.clone(), id, token.clone()));
            }
        }
        let controls = added.iter().filter(|(_, token)| is_control(token));
        let controls =
            controls.map(|(&id, token)| (token.content.clone(), id, token.clone())).collect();
        Ok(Self {
            raw: Spellings::new(raw)?,
            normalized: Spellings::new(normalized)?,
            controls: Spellings::new(controls)?,
        })
    }

    /// Where a text spells control tokens, ordered by their start.
    pub(super) fn controls_in(&self, text: &str) -> Vec<Range<usize>> {
        self.controls.all(text).into_iter().map(|(place, ..)| place).collect()
    }
}

impl Spellings {
    fn new(mut all: Vec<(String, u32, AddedToken)>) -> tokenizers::Result<Self> {
        all.retain(|(spelled, ..)| !spelled.is_empty());
        let automaton = AhoCorasick::new(all.iter().map(|(spelled, ..)| spelled))?;
        let tokens = all.into_iter().map(|(_, id, token)| (id, token)).collect();
        Ok(Self { automaton, tokens, word: SysRegex::new(r"\w")? })
    }

    /// Every match, the earliest first; of those that begin together, the longest.
    fn all(&self, text: &str) -> Vec<Match<'_>> {
        let found = self.automaton.find_overlapping_iter(text).map(|found| {
            let (id, token) = &self.tokens[found.pattern().as_usize()];
            (found.range(), *id, token)
        });
        let mut found: Vec<_> = found.collect();
        found.sort_by_key(|(place, id, _)| (place.start, usize::MAX - place.end, *id));
        found
    }

    fn is_word(&self, c: Option<char>) -> bool {
        let mut bytes = [0; 4];
        c.is_some_and(|c| self.word.find_iter(c.encode_utf8(&mut bytes)).next().is_some())
    }

    /// The parts of a text, as the library splits it at added tokens; `said` tells which of its
    /// bytes no control token may touch.
    fn cut(
        &self,
        text: NormalizedString,
        said: impl Fn(&NormalizedString, Range<usize>) -> bool,
    ) -> Vec<(NormalizedString, Option<Vec<Token>>)> {
        let whole = text.get();
        let mut cuts: Vec<(Range<usize>, Option<u32>)> = Vec::new();
        let mut from = 0;
        let mut until = 0;
        for (place, id, token) in self.all(whole) {
            if place.start < until || (is_control(token) && said(&text, place.clone())) {
                continue;
            }
            until = place.end;
            let before = &whole[..place.start];
            let after = &whole[place.end..];
            if token.single_word
                && (self.is_word(before.chars().next_back()) || self.is_word(after.chars().next()))
            {
                continue;
            }
            // As in the library, even if one token's white space contains the next token.
            let start = if token.lstrip { before.trim_end().len().max(from) } else { place.start };
            let stripped = if token.rstrip { after.len() - after.trim_start().len() } else { 0 };
            let end = place.end + stripped;
            cuts.push((from..start, None));
            cuts.push((start..end, Some(id)));
            from = end;
        }
        cuts.push((from..whole.len(), None));
        let part = |(place, id): (Range<usize>, Option<u32>)| {
            let slice = text.slice(Place::Normalized(place))?;
            let tokens = id.map(|id| {
                let spelled = slice.get().to_owned();
                let length = spelled.len();
                vec![Token::new(id, spelled, (0, length))]
            });
            Some((slice, tokens))
        };
        cuts.into_iter().filter(|(place, _)| !place.is_empty()).filter_map(part).collect()
    }
}

/// The tokens of a prompt with the bytes that they represent; `begin` as in
/// [`super::Tokenizer::encode`].
pub(super) fn encode(
    tokenizer: &tokenizers::Tokenizer,
    finder: &Finder,
    added: &HashMap<u32, AddedToken>,
    prompt: &Prompt,
    begin: bool,
) -> tokenizers::Result<tokenizers::Encoding> {
    // White space next to a token may belong to either side.
    let said = |part: &NormalizedString, place: Range<usize>| {
        let blank = |c: char| c.is_whitespace() || c == '▁';
        let spelled = &part.get()[place.clone()];
        let start = place.end - spelled.trim_start_matches(blank).len();
        let end = place.start + spelled.trim_end_matches(blank).len();
        let Some(core) = part.convert_offsets(Place::Normalized(start..end.max(start))) else {
            return true;
        };
        let offset = part.offsets_original().0;
        prompt.says(&(core.start + offset..core.end + offset))
    };
    let mut parts = PreTokenizedString::from(prompt.text.as_str());
    parts.split(|_, part| Ok(finder.raw.cut(part, said)))?;
    parts.split(|_, mut part| {
        if let Some(normalizer) = tokenizer.get_normalizer() {
            normalizer.normalize(&mut part)?;
        }
        Ok(finder.normalized.cut(part, said))
    })?;
    if let Some(pre_tokenizer) = tokenizer.get_pre_tokenizer() {
        pre_tokenizer.pre_tokenize(&mut parts)?;
    }
    parts.tokenize(|part| {
        // Some vocabularies contain control tokens as words that a text may happen to spell.
        let forged = |token: &Token, text: &str, at: usize| {
            let named = added.get(&token.id).filter(|added| is_control(added));
            let place = at + token.offsets.0..at + token.offsets.1;
            named.is_some_and(|added| text == added.content) && said(part, place)
        };
        words(tokenizer, part.get(), forged)
    })?;
    let encoding = parts.into_encoding(None, 0, OffsetType::Byte)?;
    tokenizer.post_process(encoding, None, begin)
}

/// The model's tokens of a text; if one is `forged`, the text is cut after its first character.
fn words(
    tokenizer: &tokenizers::Tokenizer,
    text: &str,
    forged: impl Fn(&Token, &str, usize) -> bool,
) -> tokenizers::Result<Vec<Token>> {
    let mut open: Vec<_> = std::iter::once(0..text.len()).collect();
    let mut done = Vec::new();
    while let Some(place) = open.pop() {
        let mut tokens = tokenizer.get_model().tokenize(&text[place.clone()])?;
        let found = tokens.iter().find_map(|token| {
            let spelled = text.get(place.start + token.offsets.0..place.start + token.offsets.1)?;
            let first = spelled.chars().next()?.len_utf8();
            let wrong = spelled.len() > first && forged(token, spelled, place.start);
            wrong.then_some(place.start + token.offsets.0 + first)
        });
        match found {
            Some(cut) => open.extend([cut..place.end, place.start..cut]),
            None => {
                for token in &mut tokens {
                    token.offsets.0 += place.start;
                    token.offsets.1 += place.start;
                }
                done.extend(tokens);
            }
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests;
