//! How keys and values are stored, and the heads that a layer has of them. It must not depend on
//! where they are.

use super::lanes::element::{Element, F16, F32, I8};

/// The number format of cached keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KvFormat {
    /// 32-bit floats: exact.
    F32,
    /// 16-bit floats: half the memory; each number is rounded once, when it is written.
    F16,
    /// 8-bit integers with 32-bit scales, one for each value and one for every 32 dimensions of
    /// each key, which is stored as its difference from the first key: 55 % of the memory of
    /// [`KvFormat::F16`].
    Q8,
}

impl KvFormat {
    /// Every format.
    pub const ALL: [Self; 3] = [Self::F32, Self::F16, Self::Q8];

    /// The name in settings and results.
    pub const fn name(self) -> &'static str {
        match self {
            KvFormat::F16 => "f16",
            KvFormat::F32 => "f32",
            KvFormat::Q8 => "q8",
        }
    }

    /// The format of a cache on another device for a cache of this format. Devices have no 8-bit
    /// caches; theirs are [`KvFormat::F16`] instead.
    pub fn on_device(self) -> Self {
        match self {
            KvFormat::F16 | KvFormat::Q8 => KvFormat::F16,
            KvFormat::F32 => KvFormat::F32,
        }
    }

    /// Bytes per number.
    pub fn size(self) -> usize {
        match self {
            KvFormat::F16 => F16::SIZE,
            KvFormat::F32 => F32::SIZE,
            KvFormat::Q8 => I8::SIZE,
        }
    }

    /// Whether each key and each value has a scale.
    pub(super) fn has_scales(self) -> bool {
        match self {
            KvFormat::F16 => F16::HAS_SCALE,
            KvFormat::F32 => F32::HAS_SCALE,
            KvFormat::Q8 => I8::HAS_SCALE,
        }
    }

    /// Numbers as [`KvCache::slots`](super::KvCache::slots) has them for a cache of this format.
    pub fn numbers(self, bytes: &[u8]) -> Vec<f32> {
        match self.on_device() {
            KvFormat::F32 => {
                bytes.as_chunks().0.iter().map(|&word| f32::from_ne_bytes(word)).collect()
            }
            _ => {
                let halves = bytes.as_chunks().0.iter();
                halves.map(|&half| half::f16::from_ne_bytes(half).to_f32()).collect()
            }
        }
    }
}

/// The key and value heads of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvShape {
    /// How many heads there are; a layer without heads has no keys and values of its own.
    pub heads: usize,
    /// How many dimensions a key has.
    pub key_dim: usize,
    /// How many dimensions a value has.
    pub value_dim: usize,
}

impl KvShape {
    /// Keys and values of the same width.
    pub fn square(heads: usize, head_dim: usize) -> Self {
        Self { heads, key_dim: head_dim, value_dim: head_dim }
    }

    /// How many numbers the keys of a position have.
    pub fn keys(&self) -> usize {
        self.heads * self.key_dim
    }

    /// How many numbers the values of a position have.
    pub fn values(&self) -> usize {
        self.heads * self.value_dim
    }

    pub(super) fn dims(&self) -> [usize; 2] {
        [self.key_dim, self.value_dim]
    }
}
