//! The heads of a target that has one for each step of a draft (method.md, MTP heads): each drafts
//! one level of a tree. It must not depend on how a tree is grown.

use super::backend::feature_of;
use super::{Candidates, HeadBackend, HeadError, HeadRequest, PackedHead, Pairs, TREE_ROWS};
use crate::kernels::TreeMask;
use crate::speculate::{BeamRow, Ranking};

/// The heads, the first of which drafts what follows the root.
pub struct ChainedHeads {
    heads: Vec<PackedHead>,
    /// The output of the last pass, and that of the root.
    outputs: Vec<f32>,
    root: Vec<f32>,
    /// The scratch rows so far.
    rows: Vec<ChainedRow>,
}

/// A row of the tree.
struct ChainedRow {
    token: u32,
    /// What the head of the level above handed on.
    feature: Vec<f32>,
    ancestors: Vec<usize>,
    /// What the head of its own level hands on.
    output: Vec<f32>,
}

impl ChainedHeads {
    /// Packs the heads in a target's own file.
    ///
    /// # Errors
    /// [`HeadError`] as for [`PackedHead::new`].
    pub fn new(request: &HeadRequest<'_>) -> Result<Self, HeadError> {
        let count = request.weights.config.levels().unwrap_or(1);
        let head = |block| PackedHead::of_block(request, block);
        let heads = (0..count).map(head).collect::<Result<_, _>>()?;
        Ok(Self { heads, outputs: Vec::new(), root: Vec::new(), rows: Vec::new() })
    }
}

impl HeadBackend for ChainedHeads {
    fn describe(&self) -> String {
        self.heads[0].describe()
    }

    fn extend(&mut self, start: usize, pairs: Pairs<'_>, blocks: usize) -> Result<(), HeadError> {
        self.rows.clear();
        self.heads.iter_mut().try_for_each(|head| head.extend(start, pairs, blocks))
    }

    fn rank_root(&mut self, ranking: &Ranking) -> Result<Vec<(u32, f32)>, HeadError> {
        let ranked = self.heads[0].rank_root(ranking)?;
        self.outputs = self.heads[0].outputs()?;
        self.root.clone_from(&self.outputs);
        Ok(ranked)
    }

    fn step(&mut self, beam: &[BeamRow], ranking: &Ranking) -> Result<Candidates, HeadError> {
        let level = beam.first().map_or(0, |row| row.ancestors.len() + 1);
        let room = TREE_ROWS - self.rows.len().min(TREE_ROWS);
        let Some(head) = self.heads.get_mut(level).filter(|_| beam.len() <= room) else {
            return Ok(Vec::new());
        };
        // Its cache has no rows of the levels above, which other heads drafted.
        let mut above: Vec<usize> = beam.iter().flat_map(|row| row.ancestors.clone()).collect();
        above.sort_unstable();
        above.dedup();
        let mut tokens: Vec<u32> = above.iter().map(|&row| self.rows[row].token).collect();
        let mut features: Vec<f32> =
            above.iter().flat_map(|&row| self.rows[row].feature.clone()).collect();
        let mut new = Vec::with_capacity(beam.len());
        for row in beam {
            let feature = match feature_of(row).checked_sub(1) {
                None => self.root.clone(),
                Some(source) => self.rows[source].output.clone(),
            };
            tokens.push(row.token);
            features.extend_from_slice(&feature);
            let (token, ancestors) = (row.token, row.ancestors.clone());
            new.push(ChainedRow { token, feature, ancestors, output: Vec::new() });
        }
        let paths = above.iter().map(|&row| &self.rows[row]).chain(&new).enumerate();
        let parent = |(at, row): (usize, &ChainedRow)| {
            row.ancestors.last().and_then(|parent| above.binary_search(parent).ok()).unwrap_or(at)
        };
        let mask = TreeMask::tree(paths.map(parent));
        let pairs = Pairs { features: &features, tokens: &tokens };
        let candidates = head.run_tree(pairs, &mask, above.len(), ranking);
        self.outputs = head.outputs()?;
        let width = self.outputs.len() / beam.len();
        for (row, output) in new.iter_mut().zip(self.outputs.chunks_exact(width)) {
            row.output.extend_from_slice(output);
        }
        self.rows.extend(new);
        Ok(candidates)
    }

    fn outputs(&self) -> Result<Vec<f32>, HeadError> {
        Ok(self.outputs.clone())
    }

    fn device_bytes(&self) -> u64 {
        self.heads.iter().map(PackedHead::device_bytes).sum()
    }
}
