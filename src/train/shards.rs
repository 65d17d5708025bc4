//! Texts with the target's features on disk: shards of bounded size in the safetensors format, each
//! written completely or not at all, and read through memory maps. It must not depend on chats or
//! the target.
//!
//! A shard holds `lengths` `[n]` u32 and, for its n texts one after the other, `tokens` `[T]` u32,
//! `mask` `[T]` u8 and `features` `[T, H]` f16.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use half::f16;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};

use super::files::{whole, write_tensors};
use super::render::Text;
use super::{Example, Examples, Result, TrainError};
use crate::library::Blob;

/// The number of bytes after which a shard is closed: this makes few files even for a large data
/// set, and little has to be repeated after an interruption.
const SHARD: usize = 64 << 20;

/// Bytes on disk of `tokens` tokens with features of `hidden` components.
pub fn bytes(tokens: usize, hidden: usize) -> u64 {
    (tokens * (2 * hidden + size_of::<u32>() + 1)) as u64
}

/// Writes shards; [`Self::finish`] closes the last one.
pub struct ShardWriter {
    folder: PathBuf,
    hidden: usize,
    limit: usize,
    next: usize,
    open: Buffer,
}

#[derive(Default)]
struct Buffer {
    lengths: Vec<u8>,
    tokens: Vec<u8>,
    mask: Vec<u8>,
    features: Vec<u8>,
}

impl ShardWriter {
    /// Continues after the `have` shards that are already in `folder`.
    pub fn new(folder: &Path, hidden: usize, have: usize) -> Self {
        let folder = folder.to_owned();
        let open = Buffer::default();
        Self { folder, hidden, limit: SHARD, next: have, open }
    }

    /// Adds a text with its features, `[L, hidden]`.
    ///
    /// # Errors
    /// [`TrainError`]; shards closed before are safe.
    pub fn push(&mut self, text: &Text, features: &[f32]) -> Result<()> {
        debug_assert_eq!(features.len(), text.tokens.len() * self.hidden);
        let open = &mut self.open;
        open.lengths.extend((text.tokens.len() as u32).to_le_bytes());
        open.tokens.extend(text.tokens.iter().flat_map(|token| token.to_le_bytes()));
        open.mask.extend(text.mask().into_iter().map(u8::from));
        // The output of a norm fits in half precision; an outlier is clamped, because it must not
        // become infinite.
        let half = |&x: &f32| f16::from_f32(x.clamp(f16::MIN.to_f32(), f16::MAX.to_f32()));
        open.features.extend(features.iter().flat_map(|x| half(x).to_le_bytes()));
        if open.features.len() >= self.limit { self.close() } else { Ok(()) }
    }

    /// Closes the last shard.
    ///
    /// # Errors
    /// [`TrainError`].
    pub fn finish(&mut self) -> Result<()> {
        if self.open.lengths.is_empty() { Ok(()) } else { self.close() }
    }

    fn close(&mut self) -> Result<()> {
        let path = self.folder.join(name(self.next));
        let open = &self.open;
        let tokens = open.mask.len();
        let parts = [
            ("features", Dtype::F16, vec![tokens, self.hidden], &open.features),
            ("lengths", Dtype::U32, vec![open.lengths.len() / 4], &open.lengths),
            ("mask", Dtype::U8, vec![tokens], &open.mask),
            ("tokens", Dtype::U32, vec![tokens], &open.tokens),
        ];
        let views = parts.into_iter().map(|(name, dtype, shape, data)| {
            TensorView::new(dtype, shape, data).map(|view| (name, view))
        });
        let views: Result<Vec<_>, _> = views.collect();
        whole(&path, |file| write_tensors(file, views.map_err(io::Error::other)?, None))?;
        self.next += 1;
        self.open = Buffer::default();
        Ok(())
    }
}

fn name(shard: usize) -> String {
    format!("features-{shard:05}.safetensors")
}

/// All shards of a folder, mapped.
#[derive(Debug)]
pub struct Shards {
    hidden: usize,
    files: Vec<Shard>,
    /// For every text, its shard and the range of its tokens there.
    texts: Vec<(usize, Range<usize>)>,
}

#[derive(Debug)]
struct Shard {
    blob: Blob,
    tokens: Range<usize>,
    mask: Range<usize>,
    features: Range<usize>,
}

impl Shards {
    /// Maps the existing shards.
    ///
    /// # Errors
    /// [`TrainError`] if the contents of a shard differ from what was written.
    pub fn open(folder: &Path, hidden: usize) -> Result<Self> {
        let mut all = Self { hidden, files: Vec::new(), texts: Vec::new() };
        loop {
            let path = folder.join(name(all.files.len()));
            if !path.exists() {
                return Ok(all);
            }
            all.add(&path).map_err(|reason| TrainError::damaged(&path, reason))?;
        }
    }

    fn add(&mut self, path: &Path) -> Result<(), String> {
        let blob = Blob::open(path).map_err(|error| error.to_string())?;
        let file = SafeTensors::deserialize(&blob).map_err(|error| error.to_string())?;
        let part = |name: &str, dtype, width: Option<usize>| {
            let part = file.tensor(name).map_err(|error| error.to_string())?;
            let fits = part.dtype() == dtype && part.shape().get(1).copied() == width;
            let start = part.data().as_ptr().addr() - blob.as_ptr().addr();
            let rows = part.shape().first().copied().unwrap_or(0);
            if fits {
                Ok((rows, start..start + part.data().len()))
            } else {
                Err(format!("`{name}` is {:?} {:?}", part.dtype(), part.shape()))
            }
        };
        let (_, lengths) = part("lengths", Dtype::U32, None)?;
        let (count, tokens) = part("tokens", Dtype::U32, None)?;
        let (masked, mask) = part("mask", Dtype::U8, None)?;
        let (rows, features) = part("features", Dtype::F16, Some(self.hidden))?;
        let mut end = 0;
        for length in words(&blob[lengths]) {
            let start = end;
            end += length as usize;
            self.texts.push((self.files.len(), start..end));
        }
        if [masked, rows, end] != [count; 3] {
            return Err(format!("{count} tokens, {masked} marks, {rows} features, {end} in texts"));
        }
        self.files.push(Shard { blob, tokens, mask, features });
        Ok(())
    }

    /// How many shards there are.
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// How many texts all shards have.
    pub fn texts(&self) -> usize {
        self.texts.len()
    }

    /// The examples of some texts, in order.
    pub fn part(&self, texts: Range<usize>) -> Slice<'_> {
        Slice { shards: self, texts }
    }

    fn read(&self, text: usize) -> Example {
        let (shard, at) = &self.texts[text];
        let shard = &self.files[*shard];
        let bytes = |of: &Range<usize>, width: usize| {
            &shard.blob[of.start + at.start * width..of.start + at.end * width]
        };
        let halves = bytes(&shard.features, 2 * self.hidden).chunks_exact(2);
        Example {
            tokens: words(bytes(&shard.tokens, 4)).collect(),
            features: halves.map(|pair| f16::from_le_bytes([pair[0], pair[1]])).collect(),
            mask: bytes(&shard.mask, 1).iter().map(|&mark| mark != 0).collect(),
        }
    }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.chunks_exact(4).map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]]))
}

/// A run of the texts in [`Shards`].
#[derive(Clone, Debug)]
pub struct Slice<'a> {
    shards: &'a Shards,
    texts: Range<usize>,
}

impl Examples for Slice<'_> {
    fn len(&self) -> usize {
        self.texts.len()
    }

    fn tokens(&self, index: usize) -> usize {
        self.shards.texts[self.texts.start + index].1.len()
    }

    fn get(&self, index: usize) -> Result<Example> {
        if index < self.texts.len() {
            Ok(self.shards.read(self.texts.start + index))
        } else {
            Err(TrainError::Example(index, format!("there are only {}", self.texts.len())))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use proptest::prelude::*;

    const HIDDEN: usize = 3;

    fn text(length: usize, seed: u32) -> (Text, Vec<f32>) {
        let tokens = (0..length as u32).map(|i| i * 7 + seed).collect();
        let answers = std::iter::once(length / 3..length).collect();
        let features = (0..length * HIDDEN).map(|i| i as f32 * 0.25 - seed as f32).collect();
        (Text { line: 1, tokens, answers, cut: false }, features)
    }

    fn written(folder: &Path, lengths: &[usize], limit: usize) -> Vec<(Text, Vec<f32>)> {
        let texts: Vec<_> =
            lengths.iter().enumerate().map(|(seed, &length)| text(length, seed as u32)).collect();
        let mut writer = ShardWriter { limit, ..ShardWriter::new(folder, HIDDEN, 0) };
        for (text, features) in &texts {
            writer.push(text, features).unwrap();
        }
        writer.finish().unwrap();
        texts
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn shards_are_read_as_they_were_written(
            lengths in prop::collection::vec(1usize..40, 0..12),
            limit in 1usize..400,
        ) {
            let folder = tempfile::tempdir().unwrap();
            let texts = written(folder.path(), &lengths, limit);
            let shards = Shards::open(folder.path(), HIDDEN).unwrap();
            prop_assert_eq!(shards.texts(), texts.len());
            let all = shards.part(0..texts.len());
            let mut tokens = 0;
            for (index, (text, features)) in texts.iter().enumerate() {
                let example = all.get(index).unwrap();
                prop_assert_eq!(all.tokens(index), text.tokens.len());
                prop_assert_eq!(&example.tokens, &text.tokens);
                prop_assert_eq!(example.mask, text.mask());
                let read: Vec<f32> = example.features.iter().map(|x| x.to_f32()).collect();
                prop_assert_eq!(&read, features);
                tokens += text.tokens.len();
            }
            let files = std::fs::read_dir(folder.path()).unwrap();
            let on_disk: u64 = files.map(|file| file.unwrap().metadata().unwrap().len()).sum();
            // The size given in advance does not include the headers and the lengths of the texts.
            let beside = on_disk - bytes(tokens, HIDDEN);
            prop_assert!(beside <= (4 * texts.len() + 400 * shards.files()) as u64);
        }
    }

    #[test]
    fn writing_goes_on_behind_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        written(folder.path(), &[5, 6], 1);
        let have = Shards::open(folder.path(), HIDDEN).unwrap();
        assert_eq!((have.files(), have.texts()), (2, 2));
        let mut writer = ShardWriter::new(folder.path(), HIDDEN, have.files());
        let (more, features) = text(9, 40);
        writer.push(&more, &features).unwrap();
        // An open shard is not on the disk yet.
        assert_eq!(Shards::open(folder.path(), HIDDEN).unwrap().texts(), 2);
        writer.finish().unwrap();
        let shards = Shards::open(folder.path(), HIDDEN).unwrap();
        assert_eq!(shards.part(2..3).get(0).unwrap().tokens, more.tokens);
        assert!(shards.part(2..3).get(1).is_err());
    }

    #[test]
    fn a_damaged_shard_is_named() {
        let folder = tempfile::tempdir().unwrap();
        written(folder.path(), &[5], 1);
        let path = folder.path().join(name(0));
        let error = Shards::open(folder.path(), HIDDEN + 1).unwrap_err().to_string();
        assert!(error.contains("features-00000") && error.contains("F16 [5, 3]"), "{error}");
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        let error = Shards::open(folder.path(), HIDDEN).unwrap_err().to_string();
        assert!(error.contains("features-00000") && error.contains("--resume"), "{error}");
    }
}
