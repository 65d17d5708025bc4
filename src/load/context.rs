//! What every model is loaded with: the settings, the machine, threads, context length and devices.
//! It must not depend on a model's tensors.

use std::cell::Cell;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::Loading;
use super::error::StartError;
use super::files::{ModelFiles, NamedHead};
use super::reason::{LoadReason, Notice};
use super::sizes;
use crate::draft::SmallModel;
use crate::files::cache_folder;
use crate::hardware::{Machine, Memory, adapters};
use crate::kernels::{Format, Pool};
use crate::library::{HeadFiles, PackedWeights, TargetFiles, packed_cache};
use crate::model::head::{DraftPrecision, GpuHead, HeadConfig};
use crate::model::{self, Gpu, GpuDflash, GpuLimits, LoadRequest, Narrowed, WeightSource};
use crate::plan::{
    BUFFER_BYTES, DeviceChoice, DraftBytes, DraftSize, DrafterId, GpuMemory, GpuRoom, Obstacle,
    PlacementForecast, PrefillForecast, Reason, Setting, TargetSize, Throughput, chosen_adapter,
    gpu_room, split_threads,
};
use crate::settings::{ScoredTokens, Settings};

/// A context that is shortened for want of memory is a multiple of this.
const SHORTEST_CONTEXT: usize = 512;

/// Opens the GPU of this number, of which this many bytes may be used.
pub(super) type OpenGpu = fn(usize, u64) -> Result<Arc<Gpu>, String>;

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
pub(super) fn open_gpu(number: usize, room: u64) -> Result<Arc<Gpu>, String> {
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

/// The placement to load.
pub(super) struct Advice {
    /// The placement to use, among those that the settings allow.
    pub(super) best: PlacementForecast,
    /// Every placement that was evaluated; none if this one was requested.
    pub(super) rows: Vec<PlacementForecast>,
    /// How many bytes its draft takes on the GPU, if it goes there.
    pub(super) draft_bytes: u64,
    /// What to expect of prompts on either device, if the target stays on the CPU.
    pub(super) prefill: Option<PrefillForecast>,
    pub(super) reasons: Vec<LoadReason>,
    /// Kept open from the measurement to the load.
    pub(super) _gpu: Option<Arc<Gpu>>,
}

/// The head to load.
#[derive(Default)]
pub(super) struct ChosenHead {
    /// Which of the files' heads, if they have any.
    pub(super) index: usize,
    /// Why, where there was a choice.
    pub(super) reason: Option<Reason>,
}

impl Advice {
    /// Whether a draft of this kind should be on the GPU.
    pub(super) fn puts_on_gpu(&self, kind: DrafterId) -> bool {
        self.best.draft == kind && self.best.draft_on_gpu
    }
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
    open_gpu: OpenGpu,
    /// Set if the requested context is longer than the target was made for.
    pub(super) shortened: Option<Notice>,
    /// Where things should run, if that is left to the plan and could be measured.
    pub(super) advice: Option<Advice>,
    /// The head to load.
    pub(super) chosen_head: ChosenHead,
    /// How many threads the pool has.
    pub(super) threads: usize,
    /// Receives the stages.
    pub(super) progress: Loading<'a>,
}

impl<'a> LoadContext<'a> {
    /// The context, with the threads of `pool` if the target already has some.
    pub(super) fn new(
        settings: &'a Settings,
        machine: &'a Machine,
        files: &'a ModelFiles,
        open_gpu: OpenGpu,
        pool: Option<Arc<Pool>>,
        progress: Loading<'a>,
    ) -> Self {
        let most = files.target.config.max_positions;
        let shortened = settings.context.filter(|&requested| requested > most);
        let shortened = shortened.map(|requested| {
            let target = files.target.name.clone();
            Notice::Context { requested, most, target }
        });
        let threads = machine.cpu.threads(settings.threads);
        Self {
            settings,
            machine,
            files,
            pool: pool.unwrap_or_else(|| {
                machine.cpu.prefer_fast(threads);
                Arc::new(Pool::new(threads))
            }),
            cpu: Throughput::of_cpu(&machine.cpu, threads),
            context: settings.context.unwrap_or(Settings::AUTO_CONTEXT).min(most),
            open_gpu,
            shortened,
            advice: None,
            chosen_head: ChosenHead::default(),
            threads,
            progress,
        }
    }

    /// Shortens the context until its KV cache has room in the memory that is free, next to the
    /// models as they are loaded, their buffers and the program: the cache grows into memory that
    /// the system has not promised, so a conversation would be killed later. Swap does not count.
    /// If a GPU with memory of its own may take the target, or the size of the memory is unknown,
    /// nothing is known.
    ///
    /// # Errors
    /// [`StartError::FreeMemory`] if not even the shortest context fits.
    pub(super) fn fit_context(&mut self) -> Result<(), StartError> {
        let Memory { total, free } = self.machine.memory;
        let elsewhere = |room: GpuRoom| room.memory != GpuMemory::Shared;
        if total == 0 || self.gpu_room().is_ok_and(elsewhere) {
            return Ok(());
        }
        let requested = self.context;
        let needed = |context| self.files.resident(context, self.settings);
        let shortest = SHORTEST_CONTEXT.min(requested);
        if needed(shortest) > free {
            let name = self.files.target.name.clone();
            let (context, needed) = (shortest, needed(shortest));
            return Err(StartError::FreeMemory { name, context, needed, free });
        }
        // Whole steps, so that a start a moment later has the same context.
        let steps = 1..=requested / SHORTEST_CONTEXT;
        let fits = |step: &usize| needed(step * SHORTEST_CONTEXT) <= free;
        if needed(requested) > free {
            let most = steps.rev().find(fits).unwrap_or(1);
            let (used, needed) = (most * SHORTEST_CONTEXT, needed(requested));
            self.shortened = Some(Notice::ContextForMemory { requested, used, needed, free });
            self.context = used;
        }
        Ok(())
    }

    /// The GPU that the settings want and what may be used of it, or why there is none.
    pub(super) fn gpu_room(&self) -> Result<GpuRoom, Obstacle> {
        if !self.files.target.engine().is_own() {
            return Err(Obstacle::Candle);
        }
        gpu_room(self.settings.device, self.machine, self.settings.vram)
    }

    /// What the GPU or the CPU can do.
    pub(super) fn throughput(&self, on_gpu: bool) -> Throughput {
        let adapter = chosen_adapter(self.settings.device, self.machine);
        let bandwidth = adapter.ok().and_then(|adapter| adapter.bandwidth);
        if on_gpu { Throughput::of_gpu(bandwidth) } else { self.cpu }
    }

    /// Whether the user requested a GPU for the drafts.
    pub(super) fn wants_gpu(&self) -> bool {
        matches!(self.settings.device, DeviceChoice::Gpu(_))
    }

    /// Opens this GPU.
    pub(super) fn open(&self, number: usize, room: u64) -> Result<Arc<Gpu>, String> {
        (self.open_gpu)(number, room)
    }

    /// The threads for a draft model of this size, and the reason: the target's threads if they
    /// take turns, its own share of the cores if it works at the same time as the target.
    pub(super) fn draft_pool(
        &self,
        target: TargetSize,
        draft: DraftSize,
        on_gpu: bool,
    ) -> (Arc<Pool>, Reason) {
        let threads = self.threads;
        let (draft, reason) = if on_gpu {
            // One thread is kept free to serve the GPU.
            (1, Reason::ThreadForGpu { threads })
        } else {
            let fixed = self.settings.draft_threads;
            split_threads(&self.machine.cpu, threads, fixed, target, draft)
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
        let wished = self.head_vocab();
        let draft_vocab = own.or(wished.map(|wished| sizes::most_scored(wished, vocab)));
        HeadConfig { draft_vocab, ..head.config.clone() }
    }

    /// The tokens that the user wants a head to score, if not those that it was trained for.
    pub(super) fn head_vocab(&self) -> Option<&ScoredTokens> {
        self.settings.draft_vocab.as_ref().filter(|wished| **wished != ScoredTokens::All)
    }

    /// How many of the first tokens a small model scores; `None` if it scores all tokens.
    pub(super) fn small_vocab(&self) -> Option<Setting> {
        match &self.settings.draft_vocab {
            Some(ScoredTokens::All) => None,
            Some(ScoredTokens::First(first)) => Some(*first),
            Some(ScoredTokens::OfText(_)) | None => Some(Setting::Auto),
        }
    }

    /// The precision of drafts on a GPU or on the CPU. Reading the weights takes most of the time
    /// of a draft's pass, more so on the CPU.
    pub(super) fn draft_precision(&self, on_gpu: bool) -> DraftPrecision {
        let fastest = if on_gpu { DraftPrecision::Eight } else { DraftPrecision::Four };
        self.settings.draft_precision.unwrap_or(fastest)
    }

    /// Bytes per weight of a head there.
    pub(super) fn head_weight(&self, head: &HeadFiles, on_gpu: bool) -> f64 {
        sizes::head_weight(self.draft_precision(on_gpu), head.stored, on_gpu)
    }

    /// The weights of a small model there.
    pub(super) fn small_weights(&'a self, files: &'a TargetFiles, on_gpu: bool) -> Narrowed<'a> {
        let precision = self.draft_precision(on_gpu);
        Narrowed { source: files.weights.as_ref(), precision, pool: &self.pool }
    }

    /// The model there, before it is packed.
    pub(super) fn small_size(&self, files: &TargetFiles, on_gpu: bool) -> DraftSize {
        let narrowed = |&(format, bytes): &(Format, u64)| {
            // A whole number of blocks, as rows have.
            let held = self.draft_precision(on_gpu).format(format, 1 << 10);
            (bytes as f64 * held.bytes_per_weight() / format.bytes_per_weight()) as u64
        };
        let config = &files.config;
        let scored = match self.small_vocab() {
            Some(first) if !on_gpu => SmallModel::scored(config.vocab, first),
            _ => config.vocab,
        };
        sizes::of_small(config, files.formats.iter().map(narrowed).sum(), scored)
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
            let config = self.config_of(&head.files);
            let weight = self.head_weight(&head.files, true);
            let bytes = || sizes::head_on_gpu(&config, weight, self.context) + BUFFER_BYTES;
            GpuHead::unsupported(&config).map_or_else(bytes, |_| 0)
        });
        let dflash = self.dflash_bytes().map_or(0, |bytes| bytes + BUFFER_BYTES);
        let small = self.files.small.as_ref();
        let small = small.map_or(0, |small| sizes::of_draft(small, self.context) + BUFFER_BYTES);
        DraftBytes { draft: head + dflash, small }
    }

    /// How many bytes a DFlash drafter takes on a GPU that can run it.
    pub(super) fn dflash_bytes(&self) -> Option<u64> {
        let files = self.files.dflash.as_ref()?;
        let size = sizes::of_dflash_files(files, self.draft_precision(true), true);
        let body = &files.config.body;
        let cache = body.layers as u64 * sizes::device_cache(body, self.context);
        GpuDflash::unsupported(&files.config).is_none().then(|| size.bytes(0) + cache)
    }

    /// What the target is loaded from: its files, or weights that were packed before.
    pub(super) fn request(&'a self, source: &'a dyn WeightSource) -> LoadRequest<'a> {
        let config = &self.files.target.config;
        LoadRequest::new(config, source, Arc::clone(&self.pool), self.context, self.settings.kv)
    }

    /// Reports the loading of a model percent by percent: more would only redraw the screen.
    pub(super) fn percents(&self, name: &str) -> impl Fn(model::Progress) {
        let stage = format!("loading {name}");
        let last = Cell::new(-1.0);
        move |state: model::Progress| {
            let fraction = state.done as f32 / state.total.max(1) as f32;
            if fraction - last.get() >= 0.01 {
                last.set(fraction);
                (self.progress)(&stage, Some(fraction));
            }
        }
    }

    /// Runs `load` on the weights of `files` as `source` has them, or on those packed at an earlier
    /// start if the settings want packed weights to be stored.
    pub(super) fn with_packed<T, E>(
        &self,
        files: &TargetFiles,
        source: &dyn WeightSource,
        load: impl FnOnce(&dyn WeightSource) -> Result<T, E>,
    ) -> Result<WithPacked<T>, E> {
        let limit = self.settings.pack_cache as u64 * 1_000_000_000;
        let folder = if limit > 0 { cache_folder("packed") } else { None };
        let cache = folder.map(|folder| packed_cache(folder, limit));
        let bytes = files.bytes + if files.repack { files.growth() } else { 0 };
        let packed = cache
            .as_ref()
            .and_then(|cache| PackedWeights::new(source, &files.config, bytes, cache));
        let Some(packed) = packed else {
            return Ok(WithPacked {
                loaded: load(source)?,
                from: PackedFrom::Files,
                not_kept: None,
            });
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
