//! A small language model on the CPU that drafts: the target's own passes, run over the new rows
//! of a growing tree alone. What the rows above them left in the cache is not computed again. Must
//! never know what is drafted for.

use super::CHUNK;
use super::model::CpuModel;
use super::packer::Progress;
use crate::kernels::{Format, TreeMask};
use crate::model::{Config, DraftRow, LoadError, LoadRequest, SmallLm, TargetError};

/// Cache slots behind the positions, for rows in flight: more than any tree has.
const FLIGHT: usize = 1024;

/// A small language model on the CPU.
pub struct CpuDraft {
    model: CpuModel,
    /// For each row in flight the rows it sees, from the first level down, itself last.
    flight: Vec<Vec<usize>>,
    features: Vec<f32>,
    logits: Vec<f32>,
}

impl CpuDraft {
    /// Packs the weights and allocates a KV cache for the request's positions and the rows of a
    /// tree. Calls `progress` after every matrix.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn load(
        request: &LoadRequest<'_>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Self, LoadError> {
        let model = CpuModel::load(request, 0, FLIGHT, progress)?;
        Ok(Self { model, flight: Vec::new(), features: Vec::new(), logits: Vec::new() })
    }

    /// Bytes of weights that one pass reads.
    pub fn pass_bytes(&self) -> u64 {
        self.model.weights.pass_bytes()
    }

    /// Whether `tokens` can be run with the last of them at position `last`.
    fn check(
        &self,
        tokens: impl IntoIterator<Item = u32>,
        last: Option<usize>,
    ) -> Result<(), TargetError> {
        let vocab = self.model.config.vocab;
        if let Some(token) = tokens.into_iter().find(|&token| token as usize >= vocab) {
            return Err(TargetError::Token { token, vocab });
        }
        let needed = last.map_or(0, |position| position + 1);
        if needed > self.model.capacity {
            return Err(TargetError::ContextFull { needed, capacity: self.model.capacity });
        }
        Ok(())
    }

    /// Runs a row for each of `tokens` on `mask`, which lead behind the committed positions.
    fn pass(&mut self, tokens: &[u32], mask: &TreeMask) {
        self.features.resize(tokens.len() * self.model.config.hidden, 0.0);
        let depth = |row: usize| mask.visible(row).len() - 1;
        self.model.pass().run(tokens, depth, mask, &mut self.features);
    }

    /// The LM head on the rows of the last pass from `first` on.
    fn head(&mut self, first: usize) -> &[f32] {
        let Config { hidden, vocab, .. } = self.model.config;
        let features = &self.features[first * hidden..];
        self.logits.resize(features.len() / hidden * vocab, 0.0);
        self.model.pass().head(features, &mut self.logits);
        &self.logits
    }
}

impl SmallLm for CpuDraft {
    fn describe(&self) -> String {
        let format =
            self.model.weights.layers.first().map_or(Format::F32, |layer| layer.typical().format());
        format!("{format} on CPU")
    }

    fn vocab(&self) -> usize {
        self.model.config.vocab
    }

    fn capacity(&self) -> usize {
        self.model.capacity
    }

    fn room(&self) -> usize {
        self.model.cache.capacity() - self.model.cache.len() - self.flight.len()
    }

    fn len(&self) -> usize {
        self.model.cache.len()
    }

    fn read(&mut self, tokens: &[u32]) -> Result<&[f32], TargetError> {
        if tokens.is_empty() {
            return Ok(&[]);
        }
        self.check(tokens.iter().copied(), Some(self.len() + tokens.len() - 1))?;
        self.flight.clear();
        let mut last = 0;
        for chunk in tokens.chunks(CHUNK) {
            self.pass(chunk, &TreeMask::causal(chunk.len()));
            self.model.cache.commit(&self.model.pool, &(0..chunk.len()).collect::<Vec<_>>());
            last = chunk.len() - 1;
        }
        Ok(self.head(last))
    }

    fn grow(&mut self, rows: &[DraftRow]) -> Result<&[f32], TargetError> {
        if rows.is_empty() {
            return Ok(&[]);
        }
        let first = self.flight.len();
        let above: Vec<&[usize]> = rows
            .iter()
            .map(|row| row.parent.map_or(&[][..], |parent| self.flight[parent].as_slice()))
            .collect();
        let deepest = above.iter().map(|path| self.len() + path.len()).max();
        self.check(rows.iter().map(|row| row.token), deepest)?;
        if rows.len() > self.room() {
            let (capacity, needed) = (self.model.cache.capacity(), self.len() + first + rows.len());
            return Err(TargetError::ContextFull { needed, capacity });
        }
        let mask = TreeMask::level(first, above.iter().copied());
        let flight: Vec<Vec<usize>> = above
            .iter()
            .enumerate()
            .map(|(row, path)| path.iter().copied().chain([first + row]).collect())
            .collect();
        self.flight.extend(flight);
        let tokens: Vec<u32> = rows.iter().map(|row| row.token).collect();
        self.pass(&tokens, &mask);
        Ok(self.head(0))
    }

    fn keep(&mut self, path: &[usize]) -> Vec<usize> {
        let Some(&last) = path.last() else { return (0..self.flight.len()).collect() };
        assert_eq!(self.flight[last], path, "rows from the first level down");
        let below = |row: &usize| *row != last && self.flight[*row].contains(&last);
        let stay: Vec<usize> = (last..self.flight.len()).filter(below).collect();
        // Rows come after their parents, so all of them ascend; what lies behind the path after
        // the move is in flight again.
        let len = self.model.cache.len() + path.len();
        self.model.cache.commit(&self.model.pool, &[path, &stay].concat());
        self.model.cache.truncate(len);
        let number = |row: &usize| stay.binary_search(row).ok();
        self.flight =
            stay.iter().map(|&row| self.flight[row].iter().filter_map(number).collect()).collect();
        stay
    }

    fn truncate(&mut self, len: usize) {
        self.model.cache.truncate(len);
        self.flight.clear();
    }

    fn bytes(&self) -> u64 {
        self.model.weights.bytes() + self.model.cache.bytes() as u64
    }
}
