//! Has a GPU read long prompts, if the user wants that or it is expected to pay off, and if there
//! is room. It must never measure.

use std::sync::Arc;

use super::context::{LoadContext, percents};
use super::sizes;
use crate::messages;
use crate::model::{CpuTarget, Gpu, LoadError, LoadRequest, PlacedTarget};
use crate::plan::{DraftDevice, GpuRoom, gpu_room};
use crate::settings::PrefillDevice;

/// A target on the CPU, whose prompts a GPU may read.
pub(super) enum Prefilled {
    /// The GPU reads them.
    There(Box<PlacedTarget>),
    /// The GPU does not; with the reason, in a sentence, if the user has requested it.
    Here(Box<CpuTarget>, Option<String>),
}

/// `cpu` with a GPU that reads its long prompts, if there should be one.
pub(super) fn prefilled(
    ctx: &LoadContext<'_>,
    cpu: CpuTarget,
    progress: &mut dyn FnMut(&str, Option<f32>),
) -> Prefilled {
    let asked = match ctx.settings.prefill {
        PrefillDevice::Cpu => return Prefilled::Here(Box::new(cpu), None),
        PrefillDevice::Gpu => true,
        PrefillDevice::Auto => false,
    };
    let pays = ctx.advice.as_ref().and_then(|advice| advice.prefill).is_some_and(|it| it.pays);
    if !asked && !pays {
        return Prefilled::Here(Box::new(cpu), None);
    }
    let stays = |cpu: CpuTarget, reason: &str| {
        tracing::info!("reading prompts on the CPU: {reason}");
        let told = asked.then(|| format!("The CPU reads the prompts: {reason}."));
        Prefilled::Here(Box::new(cpu), told)
    };
    let (gpu, room) = match device(ctx) {
        Ok(found) => found,
        Err(reason) => return stays(cpu, &reason),
    };
    let files = &ctx.files.target;
    let request = LoadRequest {
        config: &files.config,
        source: files.weights.as_ref(),
        pool: Arc::clone(&ctx.pool),
        capacity: ctx.context,
        kv: ctx.kv(),
    };
    let name = format!("{} for {}", files.name, room.name);
    let mut percent = percents(&name, progress);
    let target = match PlacedTarget::reading_prompts(cpu, &gpu, &request, &mut percent) {
        Ok(target) => target,
        Err(failed) => {
            let (cpu, error) = *failed;
            let reason = match error {
                LoadError::Device { reason, .. } => reason,
                other => other.to_string(),
            };
            return stays(cpu, &reason);
        }
    };
    let draft = ctx.draft_bytes().sum();
    let own = target.device_bytes();
    if own.saturating_add(draft) > room.bytes {
        let reason = format!(
            "reading them on the GPU needs {} MiB in addition to the draft's {} MiB, but {} has \
             {} MiB available",
            own >> 20,
            draft >> 20,
            room.name,
            room.bytes >> 20
        );
        return stays(target.into_cpu(), &reason);
    }
    Prefilled::There(Box::new(target))
}

/// The GPU, if the main memory has room for what is sent there.
fn device(ctx: &LoadContext<'_>) -> Result<(Arc<Gpu>, GpuRoom), String> {
    let (settings, machine) = (ctx.settings, ctx.machine);
    let room = gpu_room(settings.device, machine, settings.vram);
    let room = room.map_err(|why| messages::obstacle(&why))?;
    let files = &ctx.files.target;
    // What was free before the target was loaded must hold it twice.
    let twice = files.bytes + (files.bytes as f64 * sizes::WIDENED) as u64;
    let free = machine.memory.free;
    if machine.memory.total > 0 && twice > free {
        return Err(format!(
            "main memory would hold the target twice, which needs {} MiB, but only {} MiB are free",
            twice >> 20,
            free >> 20
        ));
    }
    match (ctx.open_device)(DraftDevice::Gpu(room.number), room.bytes)? {
        Some(gpu) => Ok((gpu, room)),
        None => Err(format!("cannot open {}", room.name)),
    }
}
