//! Chooses one of several draft heads: the best, according to the plan, of those that have room
//! where drafts run. It must never load a weight.

use super::advice::TakenHead;
use super::context::LoadContext;
use super::files::NamedHead;
use super::sizes::{self, CODES, FOUR_BITS};
use super::{head, placements};
use crate::model::head::FusionKind;
use crate::plan::{
    self, CostInputs, DraftDevice, DrafterId, HeadForecast, Obstacle, Placement, Prefer, Reason,
    SearchSpace, Throughput, best_head,
};

/// The head to use, of those that fit the target: where the advice has drafts run or, without any
/// advice, where the settings have them run.
pub(super) fn taken(ctx: &LoadContext<'_>) -> TakenHead {
    let heads = &ctx.files.heads;
    if let [only] = heads.as_slice() {
        let alone = ctx.files.refused_heads > 0;
        let reason = alone.then(|| Reason::OnlyHead(only.called().to_owned()));
        return TakenHead { index: 0, reason };
    }
    let advice = ctx.advice.as_ref();
    if let Some(given) = advice.filter(|advice| advice.rows.is_empty()) {
        // A requested placement includes its head.
        return TakenHead { index: given.best.head.unwrap_or(0), reason: None };
    }
    let placed: Vec<Placement> = heads.iter().map(|head| room_for(ctx, head)).collect();
    let wants_gpu = match advice {
        Some(advice) => advice.puts_on_gpu(DrafterId::Head),
        None => ctx.drafts_on_cpu().is_none(),
    };
    let on_gpu = wants_gpu && placed.iter().any(|placed| placed.device != DraftDevice::Cpu);
    let mut forecasts: Vec<HeadForecast> = heads
        .iter()
        .zip(&placed)
        .enumerate()
        .map(|(index, head)| forecast(ctx, index, head, on_gpu))
        .collect();
    if forecasts.iter().all(|head| head.rate.is_err()) {
        // If none has room in main memory, loading will show whether that is true.
        let weighed = heads.iter().zip(&placed).zip(&mut forecasts);
        for (index, ((head, placed), forecast)) in weighed.enumerate() {
            forecast.rate = rate(ctx, index, (head, placed), on_gpu);
        }
    }
    match best_head(&forecasts, on_gpu) {
        Some((index, reason)) => TakenHead { index, reason: Some(reason) },
        None => TakenHead::default(),
    }
}

/// Where a head would go according to the available room.
fn room_for(ctx: &LoadContext<'_>, head: &NamedHead) -> Placement {
    let tied_head = ctx.files.target.config.tied_head;
    head::room_for(ctx, &ctx.config_of(&head.files), (kind(head), tied_head))
}

fn kind(head: &NamedHead) -> FusionKind {
    let names = head.files.tensors.names();
    FusionKind::of(names.iter().map(String::as_str)).unwrap_or(FusionKind::Dgf)
}

/// What to expect of a head on the GPU or the CPU, if it has room there.
fn forecast(
    ctx: &LoadContext<'_>,
    index: usize,
    (head, placed): (&NamedHead, &Placement),
    on_gpu: bool,
) -> HeadForecast {
    let config = &ctx.config_of(&head.files);
    let free = ctx.machine.memory.free;
    let needed = sizes::head_on_cpu(config, ctx.context);
    let refused = if on_gpu {
        placed.why_on_cpu().cloned()
    } else if ctx.machine.memory.total > 0 && needed > free {
        Some(Obstacle::MainMemory { needed, free })
    } else {
        None
    };
    HeadForecast {
        name: head.called().to_owned(),
        blocks: if on_gpu { placed.blocks } else { config.blocks() },
        rate: refused.map_or_else(|| rate(ctx, index, (head, placed), on_gpu), Err),
    }
}

/// Tokens per second: from the advice's own times if there are any, otherwise from the machine's
/// description.
fn rate(
    ctx: &LoadContext<'_>,
    index: usize,
    (head, placed): (&NamedHead, &Placement),
    on_gpu: bool,
) -> Result<f64, Obstacle> {
    if let Some(advice) = &ctx.advice {
        let best = &advice.best;
        let alike = advice.rows.iter().filter(|row| {
            let own = row.draft == DrafterId::Head && row.head == Some(index);
            own && row.draft_on_gpu == on_gpu && (row.layers == 0) == (best.layers == 0)
        });
        let rates = alike.map(|row| row.rate);
        return rates.max_by(f64::total_cmp).ok_or(Obstacle::NoRoomNextToTarget);
    }
    let config = &ctx.config_of(&head.files);
    let most = if on_gpu { placed.blocks } else { config.blocks() };
    let (bytes_per_weight, throughput) = if on_gpu {
        (CODES, Throughput::of_gpu(ctx.machine.gpu.get()))
    } else {
        (FOUR_BITS, ctx.cpu)
    };
    let tied_head = ctx.files.target.config.tied_head;
    let size = sizes::of_head(config, kind(head), tied_head, bytes_per_weight);
    let target = placements::target_size(ctx);
    let inputs = CostInputs { verifier: ctx.cpu, target, draft: Some((size, throughput)) };
    let space = SearchSpace {
        overrides: ctx.settings.controls,
        blocks: Some((if config.elastic { 1 } else { most }, most)),
        prefer: Prefer::Speed,
        always: true,
    };
    Ok(plan::choose(&inputs, &space).expected)
}
