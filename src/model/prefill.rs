//! A target on the CPU whose long prompts are read on a GPU, to which the blocks are streamed. The
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

use super::gpu::{Gpu, GpuPrefill, STREAMED_SLICE};
use super::target::count_runnable;
use super::{
    CpuTarget, FeatureSource, LoadError, LoadRequest, Progress, Target, TargetError, TrafficMeter,
    Verified,
};
use crate::speculate::Tree;

/// The shortest part of a run for which it is worth sending all blocks to the GPU.
const LEAST: usize = 128;
/// The GPU's part of a run is a multiple of this. It then seldom changes where a template writes
/// the end of a run differently once an answer follows.
const GRAIN: usize = 64;
/// How many rows at the end of a run stay on the CPU, because the last ones are read again for
/// another answer.
const TAIL: usize = 16;

/// A target on the CPU that reads long prompts on a GPU.
pub struct PrefillTarget {
    cpu: CpuTarget,
    /// `None` once it has failed.
    gpu: Option<GpuPrefill>,
    meter: TrafficMeter,
    /// The rows of the current prompt that go to the GPU, ascending.
    planned: Vec<Range<usize>>,
    /// The committed rows that the GPU computed, ascending.
    computed: Vec<Range<usize>>,
}

impl PrefillTarget {
    /// The shortest part of a prompt that goes to the GPU.
    pub const LEAST: usize = LEAST;
    /// The most rows in a slice, on devices with room for such buffers.
    pub const MOST_ROWS: usize = STREAMED_SLICE;

    /// The length in tokens of the shortest prompt for which `rows` rows, a multiple of 64, go to
    /// the GPU.
    pub const fn tokens_for(rows: usize) -> usize {
        rows + TAIL
    }

    /// Wraps `cpu` and also encodes all its blocks for `gpu`, in main memory; `request` is the one
    /// that `cpu` was loaded with.
    ///
    /// # Errors
    /// [`LoadError::Device`] if the device has no room or no kernels for such blocks; the target is
    /// returned unchanged.
    pub fn load(
        cpu: CpuTarget,
        gpu: &Arc<Gpu>,
        request: &LoadRequest<'_>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Self, Box<(CpuTarget, LoadError)>> {
        match GpuPrefill::load(gpu, request, progress) {
            Ok(gpu) => {
                let (meter, gpu) = (gpu.traffic(), Some(gpu));
                Ok(Self { cpu, gpu, meter, planned: Vec::new(), computed: Vec::new() })
            }
            Err(error) => Err(Box::new((cpu, error))),
        }
    }

    /// The target.
    pub fn cpu(&self) -> &CpuTarget {
        &self.cpu
    }

    /// The target, for measuring it.
    pub fn cpu_mut(&mut self) -> &mut CpuTarget {
        &mut self.cpu
    }

    /// The target without the GPU.
    pub fn into_cpu(self) -> CpuTarget {
        self.cpu
    }

    /// The name of the GPU.
    pub fn gpu_name(&self) -> Option<&str> {
        self.gpu.as_ref().map(|gpu| gpu.gpu().name())
    }

    /// The most rows in a slice.
    pub fn slice_rows(&self) -> usize {
        self.gpu.as_ref().map_or(0, GpuPrefill::rows)
    }

    /// Bytes held on the GPU.
    pub fn device_bytes(&self) -> u64 {
        self.gpu.as_ref().map_or(0, GpuPrefill::bytes)
    }

    /// Bytes of blocks that each slice sends to the GPU.
    pub fn streamed_bytes(&self) -> u64 {
        self.gpu.as_ref().map_or(0, GpuPrefill::host_bytes)
    }

    /// The committed rows that the GPU computed, ascending.
    pub fn computed_there(&self) -> &[Range<usize>] {
        &self.computed
    }

    /// Reads tokens that all belong to one device.
    fn read(&mut self, tokens: &[u32], on_gpu: bool) -> Result<Verified, TargetError> {
        let Some(gpu) = self.gpu.as_mut().filter(|_| on_gpu) else {
            return self.cpu.prefill(tokens);
        };
        let begin = self.cpu.len();
        let read = self.cpu.prefill_by(tokens, &mut |stream, begin, rows, taps| {
            Ok(gpu.pass(stream, begin, rows, taps)?)
        })?;
        let end = begin + tokens.len();
        match self.computed.last_mut().filter(|last| last.end == begin) {
            Some(last) => last.end = end,
            None => self.computed.push(begin..end),
        }
        Ok(read)
    }

    /// Whether the next row goes to the GPU, and how many rows stay on the same device.
    fn next_part(&self) -> (bool, usize) {
        let at = self.cpu.len();
        match self.planned.iter().find(|part| part.end > at) {
            Some(part) if part.start <= at => (true, (part.end - at).min(self.slice_rows())),
            Some(part) => (false, part.start - at),
            None => (false, usize::MAX),
        }
    }
}

/// The part of a run that goes to the GPU.
fn part_of(run: &Range<usize>) -> Option<Range<usize>> {
    let rows = run.len().saturating_sub(TAIL) / GRAIN * GRAIN;
    (rows >= LEAST).then(|| run.start..run.start + rows)
}

/// How many of the first `most` rows both lists assign to the same device.
fn alike(a: &[Range<usize>], b: &[Range<usize>], most: usize) -> usize {
    let ends = a.iter().chain(b).flat_map(|part| [part.start, part.end]);
    let mut ends: Vec<usize> = ends.filter(|&at| at < most).collect();
    ends.sort_unstable();
    let within = |parts: &[Range<usize>], at: usize| parts.iter().any(|part| part.contains(&at));
    ends.into_iter().find(|&at| within(a, at) != within(b, at)).unwrap_or(most)
}

impl Target for PrefillTarget {
    fn vocab(&self) -> usize {
        self.cpu.vocab()
    }

    fn hidden(&self) -> usize {
        self.cpu.hidden()
    }

    fn set_features(&mut self, source: FeatureSource) {
        self.cpu.set_features(source);
    }

    fn feature_width(&self) -> usize {
        self.cpu.feature_width()
    }

    fn capacity(&self) -> usize {
        self.cpu.capacity()
    }

    fn len(&self) -> usize {
        self.cpu.len()
    }

    fn splits_prompts(&self) -> bool {
        self.gpu.is_some()
    }

    fn begin_prompt(&mut self, asked: &[Range<usize>], common: usize) -> usize {
        let asked = asked.iter().filter(|_| self.gpu.is_some());
        self.planned = asked.filter_map(part_of).collect();
        alike(&self.planned, &self.computed, common)
    }

    fn next_rows(&self, rows: usize) -> usize {
        match self.next_part() {
            (true, slice) => slice,
            (false, left) => left.min(rows),
        }
    }

    fn prefill(&mut self, tokens: &[u32]) -> Result<Verified, TargetError> {
        let begin = self.len();
        count_runnable(tokens.iter().copied(), self.vocab(), (begin, self.capacity()))?;
        let (mut all, mut rest) = (Verified::default(), tokens);
        while !rest.is_empty() {
            let (on_gpu, rows) = self.next_part();
            let (part, behind) = rest.split_at(rows.min(rest.len()));
            let read = self.read(part, on_gpu).inspect_err(|_| self.truncate(begin))?;
            all.features.extend(read.features);
            all.logits = read.logits;
            rest = behind;
        }
        Ok(all)
    }

    fn verify(&mut self, tree: &Tree) -> Result<Verified, TargetError> {
        self.cpu.verify(tree)
    }

    fn commit(&mut self, path: &[usize]) {
        self.cpu.commit(path);
    }

    fn truncate(&mut self, len: usize) {
        self.cpu.truncate(len);
        self.computed.retain_mut(|part| {
            part.end = part.end.min(len);
            part.start < part.end
        });
    }

    fn fall_back(&mut self) -> Result<&'static str, TargetError> {
        if self.gpu.take().is_none() {
            return Err(TargetError::Device("the target has no other device to run on".to_owned()));
        }
        // From here on the CPU computes everything, as if the GPU had never been there.
        self.planned.clear();
        self.truncate(0);
        Ok("from now on the CPU reads the prompts")
    }

    fn saved_kv(&self, most: usize) -> Option<Vec<u8>> {
        let tail = tail_bytes(&self.computed);
        let mut bytes = self.cpu.saved_kv(most.checked_sub(tail.len())?)?;
        bytes.extend(tail);
        Some(bytes)
    }

    fn restore_kv(&mut self, len: usize, bytes: &[u8]) -> bool {
        let Some((rows, computed)) = parted(bytes, len) else { return false };
        if !self.cpu.restore_kv(len, rows) {
            return false;
        }
        self.computed = computed;
        true
    }

    fn traffic(&self) -> Option<TrafficMeter> {
        Some(self.meter.clone())
    }
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
        let (one, none) = (&[0..128][..], &[][..]);
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
