//! Measures both devices with some of the target's own blocks, once for a machine and a model, and
//! lets the plan decide where target and drafts should run. It must never place anything itself.

use std::sync::Arc;

use super::context::{Advice, LoadContext, held_on};
use super::drafter::LoadedDrafter;
use super::error::StartError;
use super::files::NamedHead;
use super::measure::verify_times;
use super::place;
use super::reason::{LoadReason, Needs, Notice};
use super::shared_target::SharedTarget;
use super::target::LoadedTarget;
use crate::files::{Cached, CachedValue};
use crate::model::{
    CpuTarget, Gpu, GpuError, LEAST_PROMPT, LoadError, LoadRequest, MOST_PROMPT_ROWS, PlacedTarget,
    Target,
};
use crate::plan::{
    BlockTime, DeviceTimes, DrafterId, GpuRoom, Obstacle, PlacementForecast, PlacementInputs,
    PrefillForecast, Reason, Schedule, Strategy, best_placement, is_worth_moving_for,
    placement_reasons,
};

/// The values of γ that are measured, in the order of their importance.
const GAMMAS: [usize; 4] = [1, 16, 4, 32];
/// The time in milliseconds for the passes of one target.
const LIMIT_MS: u64 = 350;
/// Positions of its cache.
const CONTEXT: usize = 96;
/// Committed positions before the measured passes.
const PREFIX: usize = 16;
/// If a block has more bytes than this, two blocks are measured; if less, more of them.
const LARGE_BLOCK: u64 = 64 << 20;

/// What to expect of every placement of target and drafts on a GPU.
#[derive(Clone, Debug)]
pub struct Placements {
    /// The GPU's name.
    pub gpu: String,
    /// What was measured.
    pub times: DeviceTimes,
    /// Every placement that fits.
    pub rows: Vec<PlacementForecast>,
    /// The target alone with more and more of its blocks on the GPU.
    pub by_layers: Vec<PlacementForecast>,
    /// The best of those that fit the settings' strategy.
    pub best: PlacementForecast,
    /// What to expect of reading prompts on either device.
    pub prefill: Option<PrefillForecast>,
    /// Why.
    pub reasons: Vec<LoadReason>,
}

/// Who decides where things run.
#[derive(Clone, Copy, Debug)]
pub(super) enum PlacementSource {
    /// The plan, which may measure because no other models are working.
    Measured,
    /// The plan, using times that are already known.
    Known,
    /// The caller, who requests this placement.
    Requested(PlacementForecast),
}

/// The advice for a load in which the user has left open where things run; `None` if they have not,
/// if there is no GPU, or if it cannot be measured.
pub(super) fn advise(ctx: &LoadContext<'_>, source: PlacementSource) -> Option<Advice> {
    if let PlacementSource::Requested(best) = source {
        let bytes = |room: GpuRoom| draft_bytes(&place::inputs(ctx, room.bytes), &best);
        let draft_bytes = ctx.gpu_room().map_or(0, bytes);
        let rows = Vec::new();
        let reasons = Vec::new();
        return Some(Advice { best, rows, draft_bytes, prefill: None, reasons, _gpu: None });
    }
    if !ctx.settings.leaves_placement_open() {
        return None;
    }
    let alone = matches!(source, PlacementSource::Measured);
    let found = ctx.gpu_room().and_then(|room| forecast(ctx, room, alone));
    let found = found.inspect_err(|why| tracing::info!(?why, "cannot measure placements"));
    let MeasuredPlacements { found, inputs, gpu } = found.ok()?;
    let Placements { best, rows, prefill, reasons, .. } = found;
    let draft_bytes = draft_bytes(&inputs, &best);
    let prefill = if best.layers == 0 { prefill } else { None };
    Some(Advice { best, rows, draft_bytes, prefill, reasons, _gpu: gpu })
}

/// [`advise`] for other drafts of the current target: where they should run while it stays where it
/// is.
///
/// # Errors
/// [`StartError::Moves`] if another placement of the target is worth loading it again for, and
/// [`StartError::NoRoom`] if the current drafts take the room that the others need.
pub(super) fn advise_drafts(
    ctx: &LoadContext<'_>,
    target: &SharedTarget,
) -> Result<Option<Advice>, StartError> {
    let settings = ctx.settings;
    if !(target.left_open && settings.leaves_placement_open()) {
        return Ok(None);
    }
    let Ok(room) = ctx.gpu_room() else { return Ok(None) };
    // What we hold there will belong to the target and the new drafts; `vram` includes it.
    let held = held_on(room.number);
    let (free, bytes) = match settings.vram {
        Some(vram) => (vram.saturating_sub(held), vram),
        None => (room.bytes, room.bytes.saturating_add(held)),
    };
    let found = forecast(ctx, GpuRoom { bytes, ..room }, false);
    let found = found.inspect_err(|why| tracing::info!(?why, "cannot compare placements"));
    let Ok(MeasuredPlacements { found, inputs, gpu }) = found else { return Ok(None) };
    let mut rows = inputs.forecasts(&found.times, Some(target.blocks()));
    rows.retain(|row| is_open(row, settings.strategy));
    let Some(&best) = best_placement(&rows) else { return Ok(None) };
    if is_worth_moving_for(&found.best, &best) {
        return Err(StartError::Moves {
            layers: found.best.layers,
            of: found.best.of,
            gpu: found.gpu,
            before: target.gpu_layers,
        });
    }
    let draft_bytes = draft_bytes(&inputs, &best);
    if draft_bytes > free {
        let what = Needs::DraftOn(found.gpu);
        return Err(StartError::NoRoom { what, needed: draft_bytes, free });
    }
    let reasons = placement_reasons(&inputs, &found.times, &rows, &best, &found.gpu);
    let reasons = with_numbers(reasons, &ctx.files.heads);
    Ok(Some(Advice { best, rows, draft_bytes, prefill: None, reasons, _gpu: gpu }))
}

/// What to expect of placements, and what that is based on.
pub(super) struct MeasuredPlacements {
    pub(super) found: Placements,
    inputs: PlacementInputs,
    /// The GPU, if it was opened.
    gpu: Option<Arc<Gpu>>,
}

/// What to expect of every placement on the GPU with this room. `alone` means that no other models
/// are working, so that times are meaningful.
///
/// # Errors
/// Why none can be measured.
pub(super) fn forecast(
    ctx: &LoadContext<'_>,
    room: GpuRoom,
    alone: bool,
) -> Result<MeasuredPlacements, Obstacle> {
    let mut file = stored(ctx, &room);
    let stored = file.as_mut().and_then(CachedValue::read);
    let (times, gpu) = match stored {
        Some(times) => (times, None),
        None if !alone => return Err(Obstacle::ModelsInUse),
        None => {
            (ctx.progress)("measuring the CPU and the GPU", None);
            let gpu = ctx.open(room.number, room.bytes).map_err(Obstacle::Error)?;
            let times = measure(ctx, &gpu)?;
            if let Some(file) = &mut file {
                file.write(times.clone());
            }
            (times, Some(gpu))
        }
    };
    let inputs = place::inputs(ctx, room.bytes);
    let rows = inputs.forecasts(&times, None);
    let mut open = rows.clone();
    open.retain(|row| is_open(row, ctx.settings.strategy));
    let best = *best_placement(&open).ok_or(Obstacle::NoPlacement)?;
    let reasons = placement_reasons(&inputs, &times, &open, &best, &room.name);
    let reasons = with_numbers(reasons, &ctx.files.heads);
    let by_layers = inputs.by_layers(&times);
    let prefill = inputs.prefill(&times, LEAST_PROMPT, MOST_PROMPT_ROWS);
    let found = Placements { gpu: room.name, times, rows, by_layers, best, prefill, reasons };
    Ok(MeasuredPlacements { found, inputs, gpu })
}

/// The plan's reasons; and which numbers heads have in the names of placements, if there are
/// several.
fn with_numbers(reasons: Vec<Reason>, heads: &[NamedHead]) -> Vec<LoadReason> {
    let numbered =
        heads.iter().map(|head| (head.called().to_owned(), head.files.config.blocks())).collect();
    let numbers = (heads.len() > 1).then_some(LoadReason::HeadNumbers(numbered));
    reasons.into_iter().map(LoadReason::Plan).chain(numbers).collect()
}

/// How many bytes a placement's draft takes on the GPU, if it goes there.
fn draft_bytes(inputs: &PlacementInputs, placement: &PlacementForecast) -> u64 {
    let mut drafts = inputs.drafts.iter();
    let own = drafts.find(|draft| (draft.kind, draft.head) == (placement.draft, placement.head));
    if placement.draft_on_gpu { own.map_or(0, |draft| draft.bytes) } else { 0 }
}

/// Whether a placement fits the requested strategy.
fn is_open(row: &PlacementForecast, strategy: Option<&'static Strategy>) -> bool {
    let Some(strategy) = strategy else { return true };
    let beside = strategy.schedule == Schedule::Overlap;
    match strategy.draft {
        DrafterId::Auto => !row.beside,
        DrafterId::Head | DrafterId::Dflash => row.draft == strategy.draft,
        DrafterId::SmallModel => row.draft == DrafterId::SmallModel && row.beside == beside,
        _ => row.draft == DrafterId::None,
    }
}

/// What does not run where the advice has it.
pub(super) fn misplaced(
    ctx: &LoadContext<'_>,
    target: &LoadedTarget,
    drafters: &[LoadedDrafter],
) -> Option<Notice> {
    let planned = &ctx.advice.as_ref()?.best;
    let layers = target.target.own()?.gpu_layers();
    if layers != planned.layers {
        let misplaced = Notice::Misplaced { layers, of: planned.of, planned: planned.layers };
        return Some(target.notices.first().cloned().unwrap_or(misplaced));
    }
    let draft = drafters.iter().find(|drafter| drafter.kind == planned.draft)?;
    let is_elsewhere = draft.kind.is_model() && draft.on_gpu != planned.draft_on_gpu;
    let reason = || draft.reasons.first().cloned().map(Notice::Reason);
    if is_elsewhere { draft.notice.clone().or_else(reason) } else { None }
}

/// Where the times of this machine and target are stored, if they are.
fn stored(ctx: &LoadContext<'_>, room: &GpuRoom) -> Option<CachedValue<DeviceTimes>> {
    let folder = ctx.settings.learned.as_ref()?;
    let adapter = ctx.machine.adapters.get(room.number)?;
    let target = &ctx.files.target;
    let of = format!(
        "devices: {}, {} threads; {}, {}; {}, {}, {} bytes",
        ctx.machine.cpu.name,
        ctx.threads,
        adapter.name,
        adapter.driver,
        target.name,
        target.detail,
        target.bytes
    );
    Some(CachedValue::new(folder, of))
}

/// Times of a block on both devices, from passes over one block and over several.
fn measure(ctx: &LoadContext<'_>, gpu: &Arc<Gpu>) -> Result<DeviceTimes, Obstacle> {
    let files = &ctx.files.target;
    let block_bytes = files.bytes / files.config.layers.max(1) as u64;
    let more = if block_bytes > LARGE_BLOCK { 2 } else { 5 }.min(files.config.layers);
    if more < 2 {
        return Err(Obstacle::OneBlock);
    }
    let on = |gpu: Option<&Arc<Gpu>>| -> Result<Vec<BlockTime>, Obstacle> {
        let failed = |error: LoadError| Obstacle::Error(error.to_string());
        let times = |layers| passes(ctx, layers, gpu).map_err(failed);
        Ok(parted(&times(1)?, &times(more)?, more))
    };
    let failed = |error: GpuError| Obstacle::Error(error.to_string());
    let mut cpu = on(None)?;
    let mut card = on(Some(gpu))?;
    let has = |times: &[BlockTime], gamma| times.iter().any(|at| at.gamma == gamma);
    cpu.retain(|at| has(&card, at.gamma));
    card.retain(|at| has(&cpu, at.gamma));
    let trip_ms = gpu.measure_trip().map_err(failed)?;
    let transfer = gpu.measure_transfer().map_err(failed)?;
    let times = DeviceTimes { cpu, gpu: card, transfer, trip_ms };
    tracing::info!(?times, "measured the CPU and the GPU");
    if times.is_sound() { Ok(times) } else { Err(Obstacle::NoTime) }
}

/// T_V of the target with only its first `layers` blocks, on the GPU if one is given.
fn passes(
    ctx: &LoadContext<'_>,
    layers: usize,
    gpu: Option<&Arc<Gpu>>,
) -> Result<Vec<(usize, f64)>, LoadError> {
    let files = &ctx.files.target;
    let config = &files.config.with_layers(layers);
    let capacity = CONTEXT.min(config.max_positions);
    let pool = Arc::clone(&ctx.pool);
    let kv = ctx.settings.kv;
    let source = &files.source();
    let request = LoadRequest::new(config, source, pool, capacity, kv);
    let mut target: Box<dyn Target> = match gpu {
        Some(gpu) => Box::new(PlacedTarget::on_gpu(gpu, &request)?),
        None => Box::new(CpuTarget::load(&request)?),
    };
    let token = 1.min(config.vocab.saturating_sub(1)) as u32;
    if let Err(error) = target.prefill(&[token; PREFIX]) {
        return Err(LoadError::Device(error.to_string()));
    }
    let limit = std::time::Duration::from_millis(LIMIT_MS);
    Ok(verify_times(target.as_mut(), token, &GAMMAS, limit))
}

/// How long a block takes and how long the rest, from passes through one block and through `more`
/// blocks.
fn parted(one: &[(usize, f64)], many: &[(usize, f64)], more: usize) -> Vec<BlockTime> {
    let at = |gamma: usize| one.iter().find(|(g, _)| *g == gamma).map(|(_, ms)| *ms);
    let both = many.iter().filter_map(|&(gamma, many)| Some((gamma, at(gamma)?, many)));
    let mut times: Vec<BlockTime> = both
        .map(|(gamma, one, many)| {
            // Noise may make the longer pass the shorter one, so a block takes at least some part
            // of it.
            let least = many / (20 * more) as f64;
            let block_ms = ((many - one) / (more - 1) as f64).max(least);
            BlockTime { gamma, block_ms, rest_ms: (one - block_ms).max(0.0) }
        })
        .collect();
    times.sort_by_key(|at| at.gamma);
    times
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::speculate::{Budget, Shape};

    #[test]
    fn a_pass_is_parted_into_blocks_and_the_rest() {
        let one = [(1, 3.0), (16, 7.0)];
        let five = [(1, 11.0), (4, 12.0), (16, 6.0)];
        let times = parted(&one, &five, 5);
        assert_eq!(times[0], BlockTime { gamma: 1, block_ms: 2.0, rest_ms: 1.0 });
        assert_eq!(times.len(), 2, "γ = 4 was measured once only");
        assert!(times[1].block_ms > 0.0 && times[1].rest_ms >= 0.0, "{times:?}");
    }

    #[test]
    fn a_strategy_that_was_asked_for_leaves_its_own_placements() {
        let row = |draft, beside| PlacementForecast {
            streamed: false,
            draft,
            head: None,
            beside,
            draft_on_gpu: false,
            layers: 0,
            of: 1,
            budget: Budget::new(Shape { gamma: 1, width: 1, depth: 0 }, 0),
            verify_ms: 1.0,
            draft_ms: 0.0,
            omega: 1.0,
            rate: 1.0,
        };
        let all = [
            row(DrafterId::None, false),
            row(DrafterId::Head, false),
            row(DrafterId::SmallModel, false),
            row(DrafterId::SmallModel, true),
        ];
        for (name, expected) in [
            ("plain", [true, false, false, false]),
            ("pld", [true, false, false, false]),
            ("auto", [true, true, true, false]),
            ("dovetail", [false, true, false, false]),
            ("sps", [false, false, true, false]),
            ("duo", [false, false, false, true]),
        ] {
            let open = all.map(|row| is_open(&row, Strategy::named(name)));
            assert_eq!(open, expected, "{name}");
        }
        assert!(all.iter().all(|row| is_open(row, None)));
    }
}
