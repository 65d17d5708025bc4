//! What every model is loaded with: the settings, the machine, threads, context length and devices.
//! It must not depend on a model's tensors.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::advice::{Advice, TakenHead};
use super::files::{ModelFiles, NamedHead};
use super::scored_tokens::most_scored;
use super::sizes::{self, DraftBytes};
use crate::hardware::{Machine, adapters};
use crate::kernels::{KvFormat, Pool};
use crate::library::HeadFiles;
use crate::messages;
use crate::model::head::HeadConfig;
use crate::model::{self, Gpu, GpuLimits};
use crate::plan::{
    BUFFER_BYTES, DraftDevice, DraftSize, Obstacle, TargetSize, ThreadSplit, Throughput,
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
    pub(super) taken: TakenHead,
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
    ) -> (Self, Option<String>) {
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
            taken: TakenHead::default(),
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
    ) -> (Arc<Pool>, String) {
        let ThreadSplit { draft, reason } = if on_gpu {
            split_threads_with_gpu(self.threads)
        } else {
            let held = self.settings.draft_threads;
            split_threads(&self.machine.cpu, self.threads, held, target, draft)
        };
        (Arc::new(Pool::borrowing(Arc::clone(&self.pool), draft)), messages::reason(&reason))
    }

    /// Why drafts stay on the CPU whatever the GPU has room for.
    pub(super) fn drafts_on_cpu(&self) -> Option<Obstacle> {
        let alone = self.settings.strategy.is_some_and(|row| row.leaves_gpu_to_target());
        alone.then_some(Obstacle::TargetHasGpu)
    }

    /// The head to load, if there is one.
    pub(super) fn head(&self) -> Option<&NamedHead> {
        self.files.heads.get(self.taken.index)
    }

    /// The configuration with which a head is evaluated: with the draft vocabulary that the user
    /// requested, if it has none of its own.
    pub(super) fn config_of(&self, head: &HeadFiles) -> HeadConfig {
        let (own, vocab) = (head.config.draft_vocab, head.config.body.vocab);
        let wished = self.settings.draft_vocab.as_ref();
        let draft_vocab = own.or(wished.map(|wished| most_scored(wished, vocab)));
        HeadConfig { draft_vocab, ..head.config.clone() }
    }

    /// How many bytes drafts will take on the GPU: those of the advised draft, or of all that may go
    /// there.
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

/// How many KV positions to allocate: as many as requested, if the model was made for them.
fn positions(settings: &Settings, files: &ModelFiles) -> (usize, Option<String>) {
    let most = files.target.config.max_positions;
    match settings.context {
        Some(asked) if asked > most => {
            let name = &files.target.name;
            let notice =
                format!("`context` is {asked}, but {name} supports {most} tokens; using {most}.");
            (most, Some(notice))
        }
        asked => (asked.unwrap_or(most.min(Settings::AUTO_CONTEXT)), None),
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
