//! A GPU that reads the long prompts of a target on the CPU: the blocks are streamed to it, the
//! prompt's keys and values come back to main memory, and every token of an answer is computed on
//! the CPU. It must not depend on why prompts go there.
//!
//! A row computed on the GPU does not have the CPU's bits. So which rows go there depends only on
//! the prompt, not on what was decoded before or how: it is the same part of each run that comes
//! from the user or the system and not from an answer. Rows that were computed on another device
//! than this prompt requires are read again. The text is therefore the same with and without
//! speculation, and in every run.

use std::ops::Range;
use std::sync::Arc;

use super::gpu::{Gpu, GpuBlocks, STREAMED_SLICE, stream_blocks};
use super::{CpuTarget, LoadError, LoadRequest, Target, TargetError, TrafficMeter, Verified};

/// The shortest part of a run for which it is worth sending all blocks to the GPU.
pub const LEAST_PROMPT: usize = 128;
/// The most rows in a slice, on devices with room for such buffers.
pub const MOST_PROMPT_ROWS: usize = STREAMED_SLICE;
/// The GPU's part of a run is a multiple of this. It then seldom changes where a template writes
/// the end of a run differently once an answer follows.
const GRAIN: usize = 64;
/// How many rows at the end of a run stay on the CPU, because the last ones are read again for
/// another answer.
const TAIL: usize = 16;

/// Which rows a GPU reads for a target on the CPU.
pub(super) struct PromptReader {
    /// `None` once it has failed.
    pub(super) gpu: Option<GpuBlocks>,
    pub(super) meter: TrafficMeter,
    /// The rows of the current prompt that go to the GPU, ascending.
    planned: Vec<Range<usize>>,
    /// The committed rows that the GPU computed, ascending.
    pub(super) computed: Vec<Range<usize>>,
}

impl PromptReader {
    /// Encodes all blocks for `gpu`, in main memory.
    ///
    /// # Errors
    /// [`LoadError::Device`] if the device has no room or no kernels for such blocks.
    pub(super) fn load(gpu: &Arc<Gpu>, request: &LoadRequest<'_>) -> Result<Self, LoadError> {
        let meter = gpu.traffic_meter();
        let blocks = stream_blocks(gpu, 1, request)?;
        Ok(Self { gpu: Some(blocks), meter, planned: Vec::new(), computed: Vec::new() })
    }

    pub(super) fn begin_prompt(&mut self, asked: &[Range<usize>], common: usize) -> usize {
        self.planned.clear();
        if self.gpu.is_some() {
            self.planned.extend(asked.iter().filter_map(part_of));
        }
        alike(&self.planned, &self.computed, common)
    }

    /// Whether row `at` goes to the GPU, and how many rows stay on the same device.
    fn part_at(&self, at: usize) -> (bool, usize) {
        let slice = self.gpu.as_ref().map_or(0, |gpu| gpu.rows);
        match self.planned.iter().find(|part| part.end > at) {
            Some(part) if part.start <= at => (true, (part.end - at).min(slice)),
            Some(part) => (false, part.start - at),
            None => (false, usize::MAX),
        }
    }

    /// How many rows to read next in one go after `at` positions, for a caller that would read
    /// `rows`.
    pub(super) fn next_rows(&self, at: usize, rows: usize) -> usize {
        match self.part_at(at) {
            (true, slice) => slice,
            (false, left) => left.min(rows),
        }
    }

    pub(super) fn prefill(
        &mut self,
        cpu: &mut CpuTarget,
        tokens: &[u32],
    ) -> Result<Verified, TargetError> {
        let begin = cpu.len();
        cpu.check(tokens.iter().copied(), tokens.len())?;
        let mut all = Verified::default();
        let mut rest = tokens;
        while !rest.is_empty() {
            let (on_gpu, rows) = self.part_at(cpu.len());
            let (part, later) = rest.split_at(rows.min(rest.len()));
            match self.read(cpu, part, on_gpu) {
                Ok(read) => {
                    all.features.extend(read.features);
                    all.logits = read.logits;
                }
                Err(error) => {
                    cpu.truncate(begin);
                    self.truncate(begin);
                    return Err(error);
                }
            }
            rest = later;
        }
        Ok(all)
    }

    /// Reads tokens that all belong to one device.
    fn read(
        &mut self,
        cpu: &mut CpuTarget,
        tokens: &[u32],
        on_gpu: bool,
    ) -> Result<Verified, TargetError> {
        let gpu = match &mut self.gpu {
            Some(gpu) if on_gpu => gpu,
            _ => return cpu.prefill(tokens),
        };
        let begin = cpu.len();
        let read = cpu.prefill_by(tokens, &mut |stream, cache, pool, taps| {
            Ok(gpu.prefill(stream, cache, pool, taps)?)
        })?;
        let end = begin + tokens.len();
        match self.computed.last_mut() {
            Some(last) if last.end == begin => last.end = end,
            _ => self.computed.push(begin..end),
        }
        Ok(read)
    }

    pub(super) fn truncate(&mut self, len: usize) {
        self.computed.retain_mut(|part| {
            part.end = part.end.min(len);
            part.start < part.end
        });
    }

    /// Leaves all prompts to the CPU; false if it has them already. The caller must truncate to
    /// nothing: from then on the CPU computes everything, as if the GPU had never been there.
    pub(super) fn give_up(&mut self) -> bool {
        self.planned.clear();
        self.gpu.take().is_some()
    }

    pub(super) fn saved_kv(&self, cpu: &CpuTarget, most: usize) -> Option<Vec<u8>> {
        let tail = tail_bytes(&self.computed);
        let mut bytes = cpu.saved_kv(most.checked_sub(tail.len())?)?;
        bytes.extend(tail);
        Some(bytes)
    }

    pub(super) fn restore_kv(&mut self, cpu: &mut CpuTarget, len: usize, bytes: &[u8]) -> bool {
        let Some((rows, computed)) = parted(bytes, len) else { return false };
        if !cpu.restore_kv(len, rows) {
            return false;
        }
        self.computed = computed;
        true
    }
}

/// The part of a run that goes to the GPU.
fn part_of(run: &Range<usize>) -> Option<Range<usize>> {
    let rows = run.len().saturating_sub(TAIL) / GRAIN * GRAIN;
    (rows >= LEAST_PROMPT).then(|| run.start..run.start + rows)
}

/// How many of the first `most` rows both lists assign to the same device.
fn alike(a: &[Range<usize>], b: &[Range<usize>], most: usize) -> usize {
    let ends = a.iter().chain(b).flat_map(|part| [part.start, part.end]);
    let mut ends: Vec<usize> = ends.filter(|&at| at < most).collect();
    ends.sort_unstable();
    let within = |parts: &[Range<usize>], at: usize| parts.iter().any(|part| part.contains(&at));
    ends.into_iter().find(|&at| within(a, at) != within(b, at)).unwrap_or(most)
}

/// Encodes parts as numbers of eight bytes, with their count at the end.
fn tail_bytes(parts: &[Range<usize>]) -> Vec<u8> {
    let numbers = parts.iter().flat_map(|part| [part.start, part.end]).chain([parts.len()]);
    numbers.flat_map(|number| (number as u64).to_le_bytes()).collect()
}

/// Decodes what [`tail_bytes`] appended after rows of `len` positions; `None` if there is no such
/// tail.
fn parted(bytes: &[u8], len: usize) -> Option<(&[u8], Vec<Range<usize>>)> {
    let (rest, count) = bytes.split_last_chunk::<8>()?;
    let count = usize::try_from(u64::from_le_bytes(*count)).ok()?;
    let rows = rest.len().checked_sub(count.checked_mul(16)?)?;
    let (rows, numbers) = rest.split_at(rows);
    let numbers = numbers.as_chunks().0.iter().map(|&number| u64::from_le_bytes(number));
    let numbers: Vec<u64> = numbers.collect();
    let ascend = numbers.windows(2).all(|pair| pair[0] <= pair[1]);
    let sound = ascend && numbers.last().is_none_or(|&last| last <= len as u64);
    let parts = numbers.as_chunks().0.iter().map(|&[start, end]| start as usize..end as usize);
    sound.then(|| (rows, parts.collect()))
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "lists of one run are meant")]
mod tests {
    use super::*;

    #[test]
    fn a_run_goes_to_the_gpu_in_whole_grains_but_for_its_end() {
        for (run, part) in [
            (0..143, None),
            (0..144, Some(0..128)),
            (7..207, Some(7..135)),
            (7..215, Some(7..199)),
            (0..600, Some(0..576)),
        ] {
            assert_eq!(part_of(&run), part, "{run:?}");
        }
    }

    #[test]
    fn rows_are_alike_up_to_the_first_that_one_device_has_and_not_the_other() {
        let one = &[0..128][..];
        let none = &[][..];
        for (a, b, most, found) in [
            (none, none, 50, 50),
            (one, one, 300, 300),
            (one, none, 300, 0),
            (one, &[0..192], 300, 128),
            (one, &[0..128, 200..400], 300, 200),
            (one, &[0..128, 200..400], 150, 150),
            (&[10..138], &[11..139], 300, 10),
        ] {
            assert_eq!(alike(a, b, most), found, "{a:?} {b:?} {most}");
            assert_eq!(alike(b, a, most), found, "{a:?} {b:?} {most}");
        }
    }

    #[test]
    fn parts_are_kept_behind_the_rows_and_anything_else_is_refused() {
        let rows = [7u8; 40];
        for parts in [vec![], vec![0..128], vec![0..128, 200..328]] {
            let bytes = [&rows[..], &tail_bytes(&parts)].concat();
            assert_eq!(parted(&bytes, 400), Some((&rows[..], parts.clone())));
            if let Some(last) = parts.last() {
                assert_eq!(parted(&bytes, last.end - 1), None, "past the end of the text");
            }
        }
        let huge = [&rows[..], &u64::MAX.to_le_bytes()].concat();
        let backwards = [5u64, 3, 1].map(u64::to_le_bytes).concat();
        for bytes in [&rows[..3], &huge, &backwards] {
            assert_eq!(parted(bytes, 400), None);
        }
    }
}
