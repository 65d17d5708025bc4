//! Size and format of a model, in numbers and in words. It must not depend on how files are read.

use std::collections::HashMap;

use crate::kernels::Format;
use crate::model::{Config, WeightSource, weights};
use crate::printable::{bytes, count};

/// One tensor's contribution.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weight {
    pub(super) format: Format,
    pub(super) elements: u64,
    pub(super) bytes: u64,
}

/// The whole model's size.
#[derive(Clone, Debug, Default)]
pub(super) struct Size {
    pub(super) parameters: u64,
    pub(super) bytes: u64,
    /// Every format with its bytes, the largest first.
    pub(super) formats: Vec<(Format, u64)>,
}

pub(super) fn of(weights: impl Iterator<Item = Weight>) -> Size {
    let mut size = Size::default();
    let mut by_format: HashMap<Format, u64> = HashMap::new();
    for weight in weights {
        size.parameters += weight.elements;
        size.bytes += weight.bytes;
        *by_format.entry(weight.format).or_default() += weight.bytes;
    }
    size.formats = by_format.into_iter().collect();
    size.formats.sort_by_key(|&(format, bytes)| (std::cmp::Reverse(bytes), format as usize));
    size
}

/// Bytes of weights that a pass over one row reads: those of the products, as stored in the files.
/// In a mixture of experts a row uses only some experts, which count with the mean bytes per
/// weight.
pub(super) fn pass_bytes(config: &Config, source: &dyn WeightSource, size: &Size) -> u64 {
    let looked_up = if config.tied_head { None } else { source.tensor(weights::EMBEDDING) };
    let (count, bytes) = looked_up.map_or((0, 0), |table| {
        (table.shape.iter().map(|&n| n as u64).product(), table.bytes.len() as u64)
    });
    let count = size.parameters.saturating_sub(count);
    let bytes = size.bytes.saturating_sub(bytes);
    (config.linear_weights() as f64 * bytes as f64 / count.max(1) as f64) as u64
}

impl Size {
    /// The format with the most bytes.
    pub(super) fn format(&self) -> Option<Format> {
        self.formats.first().map(|&(format, _)| format)
    }

    /// Bytes of all weights in 32 bits.
    pub(super) fn widened(&self) -> u64 {
        self.parameters.saturating_mul(4)
    }

    /// E.g. `6M`.
    pub(super) fn short(&self) -> String {
        match self.parameters {
            n @ 0..1_000_000 => format!("{}K", n / 1_000),
            n @ 1_000_000..950_000_000 => format!("{:.0}M", n as f64 / 1e6),
            n => format!("{:.1}B", n as f64 / 1e9),
        }
    }

    /// E.g. `6.1 M parameters, BF16, 12 MB`.
    pub(super) fn detail(&self) -> String {
        let parameters = count(self.parameters);
        let format = self.format().map_or("empty", Format::name);
        format!("{parameters} parameters, {format}, {}", bytes(self.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_people_say_them() {
        let weight = |format, elements, bytes| Weight { format, elements, bytes };
        let demo =
            [weight(Format::BF16, 5_770_000, 11_540_000), weight(Format::F32, 3_328, 13_312)];
        let demo = of(demo.into_iter());
        assert_eq!(demo.formats, [(Format::BF16, 11_540_000), (Format::F32, 13_312)]);
        assert_eq!(demo.short(), "6M");
        assert_eq!(demo.detail(), "5.8 M parameters, BF16, 12 MB");
        let llama = of([weight(Format::Q4K, 6_738_415_616, 4_081_004_224)].into_iter());
        assert_eq!(llama.short(), "6.7B");
        assert_eq!(llama.detail(), "6.7 B parameters, Q4_K, 4.1 GB");
        let small = of([weight(Format::Iq2Xs, 6_738_415_616, 1_948_000_000)].into_iter());
        assert_eq!(small.detail(), "6.7 B parameters, IQ2_XS, 1.9 GB");
    }
}
