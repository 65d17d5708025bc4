//! Loads the target: on the CPU, or with its first blocks on a GPU if the user wants that and they
//! fit. It must not depend on drafters.

use std::sync::Arc;

use super::context::{LoadContext, percents};
use super::error::StartError;
use super::files::ModelFiles;
use super::packed::{PackedFrom, WithPacked, with_packed};
use super::prefill::{Prefilled, prefilled};
use super::sizes::{self, DraftBytes};
use crate::messages;
use crate::model::{
    self, CpuTarget, Gpu, LoadRequest, PlacedTarget, Target, TargetFallback, TargetPlace,
    WeightSource,
};
use crate::plan::{LayerPlacement, LayerSize, Reason, Setting, gpu_room, place_layers};

/// A target on its devices.
pub(super) struct LoadedTarget {
    target: PlacedTarget,
    /// What was planned for its first blocks.
    placed: LayerPlacement,
    /// Whether its blocks were to be streamed.
    streamed: bool,
    /// What is expected of long prompts on a GPU, in a sentence, if that is known.
    expected: Option<String>,
    /// What the user requested and did not get.
    pub(super) notices: Vec<String>,
    /// Where its packed weights came from.
    pub(super) packed_from: PackedFrom,
}

/// A target whose first blocks were put on a GPU: as many as fit.
struct Put {
    target: PlacedTarget,
    /// If fewer fit, how many, the GPU's name and its message.
    fewer: Option<(usize, String, model::LoadError)>,
}

impl From<PlacedTarget> for Put {
    fn from(target: PlacedTarget) -> Self {
        Self { target, fewer: None }
    }
}

impl Put {
    /// Puts the first `layers` blocks on `gpu`, or the whole target if these are all. Blocks that do
    /// not fit stay on the CPU.
    fn load(
        gpu: &Arc<Gpu>,
        (layers, spare, streamed): (usize, u64, bool),
        request: &LoadRequest<'_>,
        progress: &mut dyn FnMut(model::Progress),
    ) -> Result<Self, model::LoadError> {
        if streamed {
            return Ok(PlacedTarget::streamed(gpu, request, progress)?.into());
        }
        let all = request.config.layers;
        let mut whole = None;
        if layers == all {
            match PlacedTarget::on_gpu(gpu, request, progress) {
                Ok(target) => return Ok(target.into()),
                Err(error @ model::LoadError::Device { .. }) if all > 1 => whole = Some(error),
                Err(error) => return Err(error),
            }
        }
        let most = layers.min(all - 1);
        let (target, refused) = PlacedTarget::split_fitting(gpu, (most, spare), request, progress)?;
        let count = target.gpu_layers();
        let fewer = refused.or(whole).map(|error| (count, gpu.name().to_owned(), error));
        Ok(Self { target, fewer })
    }
}

impl LoadedTarget {
    pub(super) fn load(
        ctx: &LoadContext<'_>,
        progress: &mut dyn FnMut(&str, Option<f32>),
    ) -> Result<Self, StartError> {
        let placed = place(ctx);
        if placed.layers > 0 {
            // Blocks that go to another device are not packed for the CPU, so the complete weights
            // could not be stored.
            return Self::load_from(ctx, placed, ctx.files.target.weights.as_ref(), progress);
        }
        let load = |source: &dyn WeightSource| Self::load_from(ctx, placed, source, progress);
        let WithPacked { loaded, from, not_kept } = with_packed(ctx, &ctx.files.target, load)?;
        let notices = not_kept.into_iter().chain(loaded.notices).collect();
        let loaded = Self { notices, packed_from: from, ..loaded };
        Ok(loaded.with_prefill(ctx, progress))
    }

    /// Adds a GPU that reads its long prompts, if there should be one.
    fn with_prefill(
        mut self,
        ctx: &LoadContext<'_>,
        progress: &mut dyn FnMut(&str, Option<f32>),
    ) -> Self {
        if self.target.place() != TargetPlace::Cpu {
            return self;
        }
        self.target = match prefilled(ctx, self.target.into_cpu(), progress) {
            Prefilled::There(target) => {
                let forecast = ctx.advice.as_ref().and_then(|advice| advice.prefill);
                let gpu = target.prompts_on().map_or("", |(gpu, _)| gpu);
                self.expected = forecast.map(|forecast| messages::long_prompt(&forecast, gpu));
                *target
            }
            Prefilled::Here(cpu, notice) => {
                self.notices.extend(notice);
                (*cpu).into()
            }
        };
        self
    }

    fn load_from(
        ctx: &LoadContext<'_>,
        placed: LayerPlacement,
        source: &dyn WeightSource,
        progress: &mut dyn FnMut(&str, Option<f32>),
    ) -> Result<Self, StartError> {
        let files = &ctx.files.target;
        let mut percent = percents(&files.name, progress);
        let request = LoadRequest {
            config: &files.config,
            source,
            pool: Arc::clone(&ctx.pool),
            capacity: ctx.context,
            kv: ctx.kv(),
        };
        let mut notice =
            (placed.requested && placed.layers == 0).then(|| messages::reason(&placed.reason));
        match (ctx.open_device)(placed.device, placed.room) {
            Ok(Some(gpu)) if placed.layers > 0 => {
                let how = (placed.layers, ctx.draft_bytes().sum(), streams(ctx));
                match Put::load(&gpu, how, &request, &mut percent) {
                    Ok(Put { target, fewer }) => {
                        let packed_from = PackedFrom::Files;
                        let mut placed = placed;
                        let notices =
                            fewer.map(|fewer| cut(&mut placed, files.config.layers, fewer));
                        let (streamed, notices) = (streams(ctx), notices.into_iter().collect());
                        let expected = None;
                        return Ok(Self {
                            target,
                            placed,
                            streamed,
                            expected,
                            notices,
                            packed_from,
                        });
                    }
                    Err(error @ model::LoadError::Device { .. }) => {
                        notice = Some(format!("The target runs on the CPU: {error}."));
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            Err(error) => notice = Some(format!("Cannot use the GPU ({error}).")),
            Ok(_) => {}
        }
        let whole = CpuTarget::load(&request, &mut percent)?;
        let notices = notice.into_iter().collect();
        let streamed = streams(ctx);
        let (expected, packed_from) = (None, PackedFrom::Files);
        Ok(Self { target: whole.into(), placed, streamed, expected, notices, packed_from })
    }

    /// The part on the CPU, which has the embedding and the LM head.
    pub(super) fn cpu(&self) -> &CpuTarget {
        self.target.cpu()
    }

    pub(super) fn target(&mut self) -> &mut dyn Target {
        &mut self.target
    }

    /// The target for decoding. Parts on a GPU can return to the CPU.
    pub(super) fn into_target(self, ctx: &LoadContext<'_>) -> Box<dyn Target> {
        match self.target.place() {
            TargetPlace::Cpu | TargetPlace::Prompts => Box::new(self.target),
            TargetPlace::Split | TargetPlace::Gpu | TargetPlace::Streamed => {
                Box::new(self.target.with_fallback(way_back(ctx)))
            }
        }
    }

    /// Bytes on the GPU.
    pub(super) fn device_bytes(&self) -> u64 {
        self.target.device_bytes()
    }

    /// How many blocks are computed on a GPU.
    pub(super) fn gpu_layers(&self) -> usize {
        self.target.gpu_layers()
    }

    /// Whether its KV cache is only in main memory.
    pub(super) fn keeps_kv_here(&self) -> bool {
        matches!(self.target.place(), TargetPlace::Cpu | TargetPlace::Prompts)
    }

    /// The GPU that reads its long prompts, if that is all that it does for the target.
    pub(super) fn prompts_on(&self) -> Option<&str> {
        self.target.prompts_on().map(|(gpu, _)| gpu)
    }

    /// Whether the CPU computes no part of it.
    pub(super) fn is_on_gpu(&self) -> bool {
        matches!(self.target.place(), TargetPlace::Gpu | TargetPlace::Streamed)
    }

    /// Where it runs, if that is worth a sentence.
    pub(super) fn reason(&self) -> Option<String> {
        let streamed = self.target.streamed_bytes() >> 20;
        match self.target.place() {
            TargetPlace::Cpu => None,
            TargetPlace::Prompts => {
                let (gpu, rows) = self.target.prompts_on()?;
                let expected = self.expected.as_ref().map(|told| format!(" {told}"));
                Some(format!(
                    "{gpu} reads long prompts in slices of {rows} rows and receives {streamed} MiB \
                     for each slice; the CPU computes the answers.{}",
                    expected.unwrap_or_default()
                ))
            }
            TargetPlace::Split | TargetPlace::Gpu => Some(messages::reason(&self.placed.reason)),
            TargetPlace::Streamed => Some(format!(
                "{} Each pass transfers {streamed} MiB.",
                messages::reason(&self.placed.reason)
            )),
        }
    }

    /// Why nothing of it is on a GPU, a clause.
    fn why_not_placed(&self) -> String {
        match (&self.placed.reason, self.notices.first()) {
            (Reason::TargetOnCpu(why), _) => messages::obstacle(why),
            (_, Some(failed)) => failed.trim_end_matches('.').to_owned(),
            (other, None) => messages::reason(other).trim_end_matches('.').to_owned(),
        }
    }

    /// What is missing for a strategy that needs blocks of the target on a GPU, and what to do.
    pub(super) fn missing_gpu_layers(&self) -> Option<String> {
        match self.target.place() {
            TargetPlace::Split | TargetPlace::Gpu => None,
            TargetPlace::Cpu | TargetPlace::Prompts if self.placed.requested => {
                Some(format!("target blocks on a GPU: {}", self.why_not_placed()))
            }
            TargetPlace::Cpu | TargetPlace::Prompts | TargetPlace::Streamed => {
                Some("target blocks on a GPU: start with --gpu-layers auto".to_owned())
            }
        }
    }

    /// What is missing for a strategy that needs the target's blocks streamed to a GPU, and what to
    /// do.
    pub(super) fn missing_streaming(&self) -> Option<String> {
        match self.target.place() {
            TargetPlace::Streamed => None,
            TargetPlace::Cpu if self.streamed => {
                Some(format!("a GPU to stream to: {}", self.why_not_placed()))
            }
            _ => {
                Some("a target that is streamed to a GPU: start with --strategy offload".to_owned())
            }
        }
    }
}

/// Notes and reports that fewer blocks fit on a device than were placed there.
fn cut(
    placed: &mut LayerPlacement,
    of: usize,
    (count, gpu, error): (usize, String, model::LoadError),
) -> String {
    let asked = placed.layers;
    *placed = placed.cut_to(count, of, &gpu);
    let reason = match error {
        model::LoadError::Device { reason, .. } => reason,
        other => other.to_string(),
    };
    format!(
        "Only {count} of the {asked} target blocks planned for {gpu} run there, and the others on \
         the CPU: {reason}."
    )
}

/// Loads the same target on the CPU from its files, which are opened again: they are needed only if
/// a device fails, so nothing is held for that.
fn way_back(ctx: &LoadContext<'_>) -> TargetFallback {
    let (settings, pool) = (ctx.settings.clone(), Arc::clone(&ctx.pool));
    let (capacity, kv) = (ctx.context, ctx.kv());
    Box::new(move || {
        let files = ModelFiles::open_target(&settings).map_err(|error| error.to_string())?;
        let (config, source) = (&files.config, files.weights.as_ref());
        let request = LoadRequest { config, source, pool, capacity, kv };
        CpuTarget::load(&request, &mut |_| {}).map_err(|error| error.to_string())
    })
}

/// Whether the target's blocks are to be streamed to the GPU.
fn streams(ctx: &LoadContext<'_>) -> bool {
    ctx.settings.strategy.is_some_and(|row| row.streamed)
}

/// How many blocks of the target go to the GPU, next to what the draft will take there.
fn place(ctx: &LoadContext<'_>) -> LayerPlacement {
    let files = ctx.files;
    let settings = ctx.settings;
    if streams(ctx) {
        let room = gpu_room(settings.device, ctx.machine, settings.vram);
        return LayerPlacement::streamed(room, files.target.config.layers);
    }
    let DraftBytes { draft, small } = ctx.draft_bytes();
    let size = LayerSize { draft, small, ..sizes::of_layers(&files.target, ctx.context) };
    if let Some(advice) = &ctx.advice {
        let setting = Setting::Fixed(advice.best.layers);
        return place_layers(setting, (settings.device, settings.vram), ctx.machine, size);
    }
    let needs_some = settings.strategy.is_some_and(|row| row.gpu_layers);
    let setting = match settings.gpu_layers {
        Setting::Fixed(0) if needs_some => Setting::Auto,
        // None were requested, and nothing says that they pay off.
        Setting::Auto if !needs_some && !settings.given.contains_key("gpu_layers") => {
            Setting::Fixed(0)
        }
        setting => setting,
    };
    place_layers(setting, (settings.device, settings.vram), ctx.machine, size)
}
