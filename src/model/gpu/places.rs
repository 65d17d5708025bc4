//! The positions of the rows of a pass and what they see, in the form that the kernels read. It
//! must not depend on the rows' contents.

use super::buffer::GpuBuffer;
use super::device::{Gpu, bytes_of, bytes_of_words};
use super::error::GpuError;
use crate::kernels::TreeMask;
use crate::model::rope::Rotations;
use crate::model::{Config, RopeTable};

/// How many rows in flight a row may see, on average over a pass.
const PATH: usize = 512;

/// Some rows of a pass, which run at a time. A row's position comes after those that it sees.
#[derive(Clone, Copy)]
pub(in crate::model) struct PassRows<'a> {
    /// The mask of all rows of the pass.
    pub(in crate::model) mask: &'a TreeMask,
    /// First row of the slice.
    pub(in crate::model) first: usize,
    /// How many rows the slice has.
    pub(in crate::model) count: usize,
}

impl<'a> PassRows<'a> {
    /// All rows at once.
    pub(in crate::model) fn all(mask: &'a TreeMask) -> Self {
        Self { mask, first: 0, count: mask.len() }
    }
}

/// Rotary angles and paths of a pass's rows.
pub(super) struct Places {
    /// For each rope table, cosine and sine of each pair, `[rows, rotary / 2]`.
    pub(super) angles: Vec<GpuBuffer>,
    /// `[rows]` of how many positions are seen contiguously, the begin and length of the list, and
    /// the position after the row's own; then the lists.
    pub(super) paths: GpuBuffer,
    most_words: usize,
    tables: Vec<RopeTable>,
    rotary: usize,
    rotations: Rotations,
}

impl Places {
    /// Room for `rows` rows.
    pub(super) fn new(
        gpu: &Gpu,
        config: &Config,
        tables: Vec<RopeTable>,
        rows: usize,
    ) -> Result<Self, GpuError> {
        let rotary = config.rotary_dim();
        let most_words = rows * (4 + PATH);
        let angles = tables.iter().map(|_| gpu.buffer((4 * rows * rotary) as u64));
        Ok(Self {
            angles: angles.collect::<Result<_, _>>()?,
            paths: gpu.buffer(4 * most_words as u64)?,
            most_words,
            tables,
            rotary,
            rotations: Rotations::default(),
        })
    }

    /// Sends the positions and paths of a slice's rows, which follow `committed` positions.
    pub(super) fn send(
        &mut self,
        gpu: &Gpu,
        rows: PassRows<'_>,
        committed: usize,
    ) -> Result<(), GpuError> {
        let Self { angles, tables, rotations, rotary, .. } = self;
        for (table, buffer) in tables.iter().zip(angles) {
            rotations.fit(rows.count, *rotary);
            for row in 0..rows.count {
                rotations.set(row, committed + rows.mask.depth(rows.first + row), table);
            }
            let (cos, sin) = rotations.rows();
            let both: Vec<f32> = cos.iter().zip(sin).flat_map(|(&c, &s)| [c, s]).collect();
            gpu.write(buffer, 0, &bytes_of(&both));
        }
        let words = paths(rows, committed);
        if words.len() > self.most_words {
            let told = format!("a tree whose rows see {} others", words.len());
            return Err(GpuError(told));
        }
        gpu.write(&self.paths, 0, &bytes_of_words(&words));
        Ok(())
    }

    pub(super) fn bytes(&self) -> u64 {
        self.angles.iter().map(GpuBuffer::bytes).sum::<u64>() + self.paths.bytes()
    }
}

/// The words of [`Places::paths`]. If a row sees the rows in flight in order from the first on,
/// they come after the committed positions as if they were committed.
fn paths(rows: PassRows<'_>, committed: usize) -> Vec<u32> {
    let count = rows.count;
    let mut heads = Vec::with_capacity(4 * count);
    let mut lists = Vec::new();
    for row in rows.first..rows.first + count {
        let seen = rows.mask.visible(row);
        let straight = (0u32..).zip(seen).take_while(|&(i, &slot)| i == slot).count();
        let list = &seen[straight..];
        let begin = (4 * count + lists.len()) as u32;
        let end = committed + rows.mask.depth(row) + 1;
        heads.extend([(committed + straight) as u32, begin, list.len() as u32, end as u32]);
        lists.extend_from_slice(list);
    }
    heads.extend(lists);
    heads
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_needs_no_lists() {
        let mask = TreeMask::causal(3);
        assert_eq!(paths(PassRows::all(&mask), 5), [6, 12, 0, 6, 7, 12, 0, 7, 8, 12, 0, 8]);
    }

    #[test]
    fn a_branch_lists_what_lies_behind_its_first_gap() {
        let mask = TreeMask::tree([0, 0, 0, 2]);
        let words = paths(PassRows::all(&mask), 4);
        assert_eq!(words[..16], [5, 16, 0, 5, 6, 16, 0, 6, 5, 16, 1, 6, 5, 17, 2, 7]);
        assert_eq!(words[16..], [2, 2, 3]);
        let slice = PassRows { mask: &mask, first: 2, count: 2 };
        assert_eq!(paths(slice, 4), [5, 8, 1, 6, 5, 9, 2, 7, 2, 2, 3]);
        // With rows that see the later ones too, windows still end before the rows themselves.
        let both = TreeMask::both_ways(2);
        assert_eq!(paths(PassRows::all(&both), 4), [6, 8, 0, 5, 6, 8, 0, 6]);
    }
}
