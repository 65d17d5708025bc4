//! How the tokens of a vocabulary spell bytes. The `tokenizers` library only decodes whole
//! sequences; a label needs a single token, and a character split over tokens needs its bytes.

use tokenizers::DecoderWrapper;

/// The spelling of a vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pieces {
    /// GPT-2's: every byte is one printable character.
    ByteLevel,
    /// SentencePiece's: `▁` is a space, `<0xNN>` a byte.
    SentencePiece {
        /// Whether one leading space of the whole text is dropped.
        strips_first: bool,
    },
}

const SPACE: char = '▁';

impl Pieces {
    /// The spelling that a decoder reverses, or the name of a decoder that reverses another one.
    pub(super) fn of(decoder: Option<&DecoderWrapper>) -> Result<Self, String> {
        match decoder {
            None => Err("none".to_owned()),
            Some(DecoderWrapper::ByteLevel(_)) => Ok(Self::ByteLevel),
            Some(DecoderWrapper::Metaspace(metaspace)) => Ok(Self::SentencePiece {
                strips_first: metaspace.prepend_scheme
                    != tokenizers::pre_tokenizers::metaspace::PrependScheme::Never,
            }),
            Some(DecoderWrapper::Sequence(sequence)) => Self::of_sequence(sequence.get_decoders()),
            Some(other) => Err(name(other)),
        }
    }

    fn of_sequence(decoders: &[DecoderWrapper]) -> Result<Self, String> {
        let mut strips = false;
        let mut spaces = false;
        for decoder in decoders {
            match decoder {
                DecoderWrapper::ByteLevel(_) => return Ok(Self::ByteLevel),
                DecoderWrapper::Metaspace(_) => return Self::of(Some(decoder)),
                DecoderWrapper::Replace(_) => spaces = true,
                DecoderWrapper::ByteFallback(_) | DecoderWrapper::Fuse(_) => {}
                DecoderWrapper::Strip(strip) => strips |= strip.content == ' ' && strip.start > 0,
                other => return Err(name(other)),
            }
        }
        if spaces {
            Ok(Self::SentencePiece { strips_first: strips })
        } else {
            Err("a sequence without `▁`".to_owned())
        }
    }

    /// The bytes of a token of the vocabulary (not of an added one).
    pub(super) fn bytes(self, token: &str) -> Vec<u8> {
        match self {
            Self::ByteLevel => {
                let bytes: Option<Vec<u8>> = token.chars().map(byte_of).collect();
                // As in the library: what is not spelled in bytes represents itself.
                bytes.unwrap_or_else(|| token.as_bytes().to_vec())
            }
            Self::SentencePiece { .. } => match byte_token(token) {
                Some(byte) => vec![byte],
                None => token.replace(SPACE, " ").into_bytes(),
            },
        }
    }
}

fn name(decoder: &DecoderWrapper) -> String {
    let debug = format!("{decoder:?}");
    debug.split('(').next().unwrap_or_default().to_owned()
}

/// `<0xE4>` → 0xE4.
pub(super) fn byte_token(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    let two_digits = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if two_digits { u8::from_str_radix(digits, 16).ok() } else { None }
}

/// Whether GPT-2 spells a byte as itself; the others follow from U+0100 on, in order.
fn is_itself(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF)
}

/// The character that spells a byte.
#[cfg(test)]
pub(in crate::library) fn char_of(byte: u8) -> char {
    if is_itself(byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|&other| !is_itself(other)).count();
    char::from_u32(0x100 + before as u32).unwrap_or_default()
}

/// The byte that a character spells.
fn byte_of(c: char) -> Option<u8> {
    match u8::try_from(c) {
        Ok(byte) => is_itself(byte).then_some(byte),
        Err(_) => {
            let index = usize::try_from(u32::from(c).checked_sub(0x100)?).ok()?;
            (0..=255u8).filter(|&byte| !is_itself(byte)).nth(index)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_one_printable_spelling() {
        for byte in 0..=255u8 {
            assert_eq!(byte_of(char_of(byte)), Some(byte));
        }
        assert_eq!(char_of(b' '), 'Ġ');
        assert_eq!(char_of(b'\n'), 'Ċ');
        assert_eq!(byte_of('€'), None);
    }

    #[test]
    fn byte_tokens_are_two_hex_digits() {
        assert_eq!(byte_token("<0x0A>"), Some(10));
        for other in ["<0x0A", "<0x+1>", "<0x123>", "<0xG0>", "0x0A"] {
            assert_eq!(byte_token(other), None, "{other}");
        }
    }
}
