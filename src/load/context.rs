//! What every model is loaded with: the settings, the machine, threads, context length and devices.
//! It must not depend on a model's tensors.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::advice::{Advice, ChosenHead};
use super::files::{ModelFiles, NamedHead};
use super::reason::Notice;
use super::sizes::{self, DraftBytes};
use crate::files::cache_folder;
use crate::hardware::{Machine, adapters};
use crate::kernels::{KvFormat, Pool};
use crate::library::{HeadFiles, PackedWeights, TargetFiles, packed_cache};
use crate::model::head::HeadConfig;
use crate::model::{self, Gpu, GpuLimits, LoadRequest, WeightSource};
use crate::plan::{
    BUFFER_BYTES, DraftDevice, DraftSize, Obstacle, Reason, TargetSize, ThreadSplit, Throughput,
    split_threads, split_threads_with_gpu,
};
use crate::settings::{KvPrecision, Settings};

/// Opens the device of a placement, of which this many bytes may be used; `None` for the CPU.
pub(super) type OpenDevice = fn(DraftDevice, u64) -> Result<Option<Arc<Gpu>>, String>;

pub(super) fn open_device(device: DraftDevice, room: u64) -> Result<Option<Arc<Gpu>>, String> {
    match device {
        DraftDevice::Cpu => Ok(None),
        DraftDevice::Gpu(number) => open_gpu(number, room).map(Some),
    }
}

/// GPUs that models are on, by their numbers.
static OPENED: Mutex<Vec<(usize, Weak<Gpu>)>> = Mutex::new(Vec::new());

/// How many bytes the current models hold on the GPU of this number.
pub(super) fn held_on(number: usize) -> u64 {
    let opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    let same = opened.iter().find(|entry| entry.0 == number);
    same.and_then(|(_, gpu)| gpu.upgrade()).map_or(0, |gpu| gpu.held())
}

/// The GPU of this number: one device for all models that are on it at a time, so that their bytes
/// are counted together, within the room with which it was first opened.
fn open_gpu(number: usize, room: u64) -> Result<Arc<Gpu>, String> {
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    // A device that was lost is opened again.
    opened.retain(|(_, gpu)| gpu.upgrade().is_some_and(|gpu| gpu.check().is_ok()));
    let same = |entry: &&(usize, Weak<Gpu>)| entry.0 == number;
    if let Some(gpu) = opened.iter().find(same).and_then(|(_, gpu)| gpu.upgrade()) {
        return Ok(gpu);
    }
    let adapter = adapters().get(number).ok_or_else(|| format!("gpu:{number} does not exist"))?;
    let limits = GpuLimits { room, ..GpuLimits::default() };
    let gpu = Gpu::open(adapter, limits).map_err(|error| error.to_string())?;
    opened.push((number, Arc::downgrade(&gpu)));
    Ok(gpu)
}

/// What models are loaded from and for.
pub(super) struct LoadContext<'a> {
    pub(super) settings: &'a Settings,
    pub(super) machine: &'a Machine,
    pub(super) files: &'a ModelFiles,
    /// The target's compute threads.
    pub(super) pool: Arc<Pool>,
    /// What the CPU can do with them.
    pub(super) cpu: Throughput,
    /// How many KV positions the target has.
    pub(super) context: usize,
    pub(super) open_device: OpenDevice,
    /// Where things should run, if that is left to the plan and could be measured.
    pub(super) advice: Option<Advice>,
    /// The head to load.
    pub(super) chosen_head: ChosenHead,
    threads: usize,
}

impl<'a> LoadContext<'a> {
    /// The context, with the threads of `pool` if the target already has some; and a notice if the
    /// requested length is more than the target was made for.
    pub(super) fn new(
        settings: &'a Settings,
        machine: &'a Machine,
        files: &'a ModelFiles,
        open_device: OpenDevice,
        pool: Option<Arc<Pool>>,
    ) -> (Self, Option<Notice>) {
        let (context, notice) = positions(settings, files);
        let threads = machine.cpu.threads(settings.threads);
        let ctx = Self {
            settings,
            machine,
            files,
            pool: pool.unwrap_or_else(|| {
                machine.cpu.prefer_fast(threads);
                Arc::new(Pool::new(threads))
            }),
            cpu: Throughput::of_cpu(&machine.cpu, threads),
            context,
            open_device,
            advice: None,
            chosen_head: ChosenHead::default(),
            threads,
        };
        (ctx, notice)
    }

    /// The threads for a draft model of this size, and the reason: the target's threads if they
    /// take turns, its own share of the cores if it works at the same time as the target.
    pub(super) fn draft_pool(
        &self,
        target: TargetSize,
        draft: DraftSize,
        on_gpu: bool,
    ) -> (Arc<Pool>, Reason) {
        let ThreadSplit { draft, reason } = if on_gpu {
            split_threads_with_gpu(self.threads)
        } else {
            let held = self.settings.draft_threads;
            split_threads(&self.machine.cpu, self.threads, held, target, draft)
        };
        (Arc::new(Pool::borrowing(Arc::clone(&self.pool), draft)), reason)
    }

    /// Why drafts stay on the CPU even if the GPU has room for them.
    pub(super) fn drafts_on_cpu(&self) -> Option<Obstacle> {
        let alone = self.settings.strategy.is_some_and(|row| row.leaves_gpu_to_target());
        alone.then_some(Obstacle::TargetHasGpu)
    }

    /// The head to load, if there is one.
    pub(super) fn head(&self) -> Option<&NamedHead> {
        self.files.heads.get(self.chosen_head.index)
    }

    /// The configuration with which a head is evaluated: with the draft vocabulary that the user
    /// requested, if it has none of its own.
    pub(super) fn config_of(&self, head: &HeadFiles) -> HeadConfig {
        let own = head.config.draft_vocab;
        let vocab = head.config.body.vocab;
        let wished = self.settings.draft_vocab.as_ref();
        let draft_vocab = own.or(wished.map(|wished| sizes::most_scored(wished, vocab)));
        HeadConfig { draft_vocab, ..head.config.clone() }
    }

    /// How many bytes drafts will take on the GPU: those of the advised draft, or of all that may
    /// go there.
    pub(super) fn draft_bytes(&self) -> DraftBytes {
        if let Some(advice) = &self.advice {
            return DraftBytes { draft: advice.draft_bytes, small: 0 };
        }
        if self.drafts_on_cpu().is_some() {
            return DraftBytes::default();
        }
        let head = self.head().map_or(0, |head| {
            sizes::head_on_gpu(&self.config_of(&head.files), self.context) + BUFFER_BYTES
        });
        let small = self.files.small.as_ref();
        let small = small.map_or(0, |small| sizes::of_draft(small, self.context) + BUFFER_BYTES);
        DraftBytes { draft: head, small }
    }

    /// What the target is loaded from: its files, or weights that were packed before.
    pub(super) fn request(&'a self, source: &'a dyn WeightSource) -> LoadRequest<'a> {
        LoadRequest {
            config: &self.files.target.config,
            source,
            pool: Arc::clone(&self.pool),
            capacity: self.context,
            kv: self.kv(),
        }
    }

    /// Runs `load` on the weights of `files`, or on those packed at an earlier start if the
    /// settings want packed weights to be stored.
    pub(super) fn with_packed<T, E>(
        &self,
        files: &TargetFiles,
        load: impl FnOnce(&dyn WeightSource) -> Result<T, E>,
    ) -> Result<WithPacked<T>, E> {
        let source = files.weights.as_ref();
        let limit = self.settings.pack_cache as u64 * 1_000_000_000;
        let folder = if limit > 0 { cache_folder("packed") } else { None };
        let cache = folder.map(|folder| packed_cache(folder, limit));
        let packed = cache
            .as_ref()
            .and_then(|cache| PackedWeights::new(source, &files.config, files.bytes, cache));
        let Some(packed) = packed else {
            let from = PackedFrom::Files;
            let not_kept = None;
            return Ok(WithPacked { loaded: load(source)?, from, not_kept });
        };
        let loaded = load(&packed)?;
        // Checked after loading, which gives up weights that turn out to be damaged.
        let reads = packed.reads();
        let keeps = packed.keeps();
        let not_kept = packed.finish().map(Notice::Text);
        let from = match (reads, keeps && not_kept.is_none()) {
            (true, _) => PackedFrom::Cache,
            (false, true) => PackedFrom::FilesAndKept,
            (false, false) => PackedFrom::Files,
        };
        Ok(WithPacked { loaded, from, not_kept })
    }

    /// The target's compute threads.
    pub(super) fn threads(&self) -> usize {
        self.threads
    }

    /// The number format of a KV cache.
    pub(super) fn kv(&self) -> KvFormat {
        match self.settings.kv {
            KvPrecision::F32 => KvFormat::F32,
            KvPrecision::F16 => KvFormat::F16,
        }
    }
}

/// Where packed weights came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackedFrom {
    /// The model's files; they are not stored.
    Files,
    /// The model's files, and they are stored for the next start.
    FilesAndKept,
    /// The cache folder, where an earlier start stored them.
    Cache,
}

/// What was loaded, and where its packed weights came from.
pub(super) struct WithPacked<T> {
    pub(super) loaded: T,
    pub(super) from: PackedFrom,
    /// Why they could not be stored, if so.
    pub(super) not_kept: Option<Notice>,
}

/// How many KV positions to allocate: as many as requested, if the model was made for them.
fn positions(settings: &Settings, files: &ModelFiles) -> (usize, Option<Notice>) {
    let most = files.target.config.max_positions;
    match settings.context {
        Some(requested) if requested > most => {
            let target = files.target.name.clone();
            (most, Some(Notice::Context { requested, most, target }))
        }
        requested => (requested.unwrap_or(most.min(Settings::AUTO_CONTEXT)), None),
    }
}

/// Reports the loading of a model percent by percent: more would only redraw the screen.
pub(super) fn percents(
    name: &str,
    progress: &mut dyn FnMut(&str, Option<f32>),
) -> impl FnMut(model::Progress) {
    let stage = format!("loading {name}");
    let mut last = -1.0;
    move |state: model::Progress| {
        let fraction = state.done as f32 / state.total.max(1) as f32;
        if fraction - last >= 0.01 {
            last = fraction;
            progress(&stage, Some(fraction));
        }
    }
}
