//! A small language model on a GPU that drafts: passes over the new rows of a growing tree alone.
//! Must never know what is drafted for.

use std::sync::Arc;

use super::device::Gpu;
use super::model::{GpuModel, Logits};
use crate::kernels::{Matrix, TreeMask};
use crate::model::cpu::packer::Packer;
use crate::model::taps::Taps;
use crate::model::weights::EMBEDDING;
use crate::model::{DraftRow, LoadError, LoadRequest, Progress, SmallLm, TargetError};

/// Cache slots behind the positions, for rows in flight: more than any tree has.
const FLIGHT: usize = 1024;

/// A small language model on a GPU.
pub struct GpuDraft {
    model: GpuModel,
    /// For each row in flight the rows it sees, from the first level down, itself last.
    flight: Vec<Vec<usize>>,
    logits: Vec<f32>,
}

impl GpuDraft {
    /// Puts the model on `gpu` with a KV cache for the request's positions and the rows of a tree.
    /// Its embeddings stay in main memory.
    ///
    /// # Errors
    /// [`LoadError`]; [`LoadError::Device`] if the device has no room or no kernels for it.
    pub fn load(
        gpu: &Arc<Gpu>,
        request: &LoadRequest<'_>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Self, LoadError> {
        let (config, most) = (request.config, request.config.max_positions);
        let capacity = request.capacity;
        if capacity == 0 || capacity > most {
            return Err(LoadError::Capacity { capacity, most });
        }
        let mut packer: Packer<'_, Matrix> =
            Packer::new(request.source, &request.pool, 1, progress);
        let embedding = packer.matrix(EMBEDDING, [config.vocab, config.hidden], None)?;
        drop(packer);
        let model = GpuModel::load(gpu, request, Arc::new(embedding), FLIGHT, progress)?;
        Ok(Self { model, flight: Vec::new(), logits: Vec::new() })
    }

    /// Whether `tokens` can be run with the last of them at position `last`.
    fn check(
        &self,
        tokens: impl IntoIterator<Item = u32>,
        last: Option<usize>,
    ) -> Result<(), TargetError> {
        let vocab = self.vocab();
        if let Some(token) = tokens.into_iter().find(|&token| token as usize >= vocab) {
            return Err(TargetError::Token { token, vocab });
        }
        let needed = last.map_or(0, |position| position + 1);
        if needed > self.capacity() {
            return Err(TargetError::ContextFull { needed, capacity: self.capacity() });
        }
        Ok(())
    }

    /// Runs a row for each of `tokens` on `mask`, which lead behind the committed positions.
    fn pass(&mut self, tokens: &[u32], mask: &TreeMask, logits: Logits) -> Result<(), TargetError> {
        let depth = |row: usize| self.len() + mask.visible(row).len() - 1;
        let positions: Vec<usize> = (0..tokens.len()).map(depth).collect();
        let nothing = (&mut [][..], &mut Taps::none());
        self.logits = self.model.pass(tokens, (&positions, mask), nothing, logits)?;
        Ok(())
    }
}

impl SmallLm for GpuDraft {
    fn describe(&self) -> String {
        format!("{} on {}", self.model.format(), self.model.blocks.gpu().name())
    }

    fn vocab(&self) -> usize {
        self.model.config.vocab
    }

    fn capacity(&self) -> usize {
        self.model.capacity
    }

    fn room(&self) -> usize {
        self.model.blocks.slots() - self.len() - self.flight.len()
    }

    fn len(&self) -> usize {
        self.model.blocks.len()
    }

    fn read(&mut self, tokens: &[u32]) -> Result<&[f32], TargetError> {
        if tokens.is_empty() {
            return Ok(&[]);
        }
        self.check(tokens.iter().copied(), Some(self.len() + tokens.len() - 1))?;
        let count = tokens.len();
        self.pass(tokens, &TreeMask::causal(count), Logits::Last)?;
        self.flight.clear();
        self.model.blocks.commit(&(0..count).collect::<Vec<_>>());
        Ok(&self.logits)
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
            let (capacity, needed) = (self.model.blocks.slots(), self.len() + first + rows.len());
            return Err(TargetError::ContextFull { needed, capacity });
        }
        let mask = TreeMask::level(first, above.iter().copied());
        let number = |(row, path): (usize, &&[usize])| {
            path.iter().copied().chain([first + row]).collect::<Vec<usize>>()
        };
        let flight: Vec<Vec<usize>> = above.iter().enumerate().map(number).collect();
        let tokens: Vec<u32> = rows.iter().map(|row| row.token).collect();
        self.pass(&tokens, &mask, Logits::All)?;
        self.flight.extend(flight);
        Ok(&self.logits)
    }

    fn keep(&mut self, path: &[usize]) -> Vec<usize> {
        let Some(&last) = path.last() else { return (0..self.flight.len()).collect() };
        assert_eq!(self.flight[last], path, "rows from the first level down");
        let below = |row: &usize| *row != last && self.flight[*row].contains(&last);
        let stay: Vec<usize> = (last..self.flight.len()).filter(below).collect();
        // Rows come after their parents, so all of them ascend; what lies behind the path after
        // the move is in flight again.
        let len = self.len() + path.len();
        self.model.blocks.commit(&[path, &stay].concat());
        self.model.blocks.leave_in_flight(len);
        let number = |row: &usize| stay.binary_search(row).ok();
        self.flight =
            stay.iter().map(|&row| self.flight[row].iter().filter_map(number).collect()).collect();
        stay
    }

    fn truncate(&mut self, len: usize) {
        self.model.blocks.truncate(len);
        self.flight.clear();
    }

    fn bytes(&self) -> u64 {
        self.model.bytes()
    }
}
