//! Loads a DFlash drafter on its device: the planned one, or the CPU if that fails. It must never
//! choose the device or a budget.

use std::sync::Arc;

use super::context::LoadContext;
use super::drafter::LoadedDrafter;
use super::error::StartError;
use super::place;
use super::reason::{LoadReason, Notice};
use super::sizes;
use crate::draft::Dflash;
use crate::kernels::KvFormat;
use crate::library::DflashFiles;
use crate::model::head::{DraftPrecision, HeadError, SharedTables};
use crate::model::{CpuDflash, GpuDflash, LoadRequest, Narrowed};
use crate::plan::{DrafterId, Obstacle, Reason};

/// The drafter in `files`, next to a target with these tables.
pub(super) fn load(
    ctx: &LoadContext<'_>,
    tables: &SharedTables,
    files: &DflashFiles,
) -> Result<LoadedDrafter, StartError> {
    let config = &files.config;
    let placed = place::dflash(ctx, files);
    let mut why = placed.reason.clone();
    let mut notice = placed.refused().map(|reason| Notice::Reason(reason.clone().into()));
    let mut on_gpu = None;
    if let Some(number) = placed.gpu {
        let loaded = ctx.open(number, placed.room).map_err(Notice::GpuFailed).and_then(|gpu| {
            let failed = |error: HeadError| Notice::HeadFailed(error.to_string());
            let of_gpu = |request: &LoadRequest<'_>, precision| {
                GpuDflash::load(&gpu, config, request, tables, precision)
            };
            with_request(ctx, files, true, of_gpu).map_err(failed)
        });
        match loaded {
            Ok(model) => on_gpu = Some(model),
            Err(failed) => {
                why = Reason::DraftOnCpu(Obstacle::Failed);
                notice = Some(failed);
            }
        }
    }
    let is_on_gpu = on_gpu.is_some();
    let model = match on_gpu {
        Some(model) => model,
        None => {
            let of_cpu = |request: &LoadRequest<'_>, _| CpuDflash::load(config, request, tables);
            with_request(ctx, files, false, of_cpu).map_err(|error| StartError::Head {
                origin: files.name.clone(),
                source: HeadError::Device(error.to_string()),
            })?
        }
    };
    let size = sizes::of_dflash(config, model.bytes());
    let states = LoadReason::HeadStates { layers: config.states.clone(), from_one: false };
    Ok(LoadedDrafter {
        kind: DrafterId::Dflash,
        on_gpu: is_on_gpu,
        size,
        own_weights: size.fixed,
        limit: None,
        notice,
        reasons: vec![why.into(), states],
        drafter: Box::new(Dflash::new(model, ctx.context)),
    })
}

/// Runs `load` on the drafter's weights in the precision for its device.
fn with_request<T>(
    ctx: &LoadContext<'_>,
    files: &DflashFiles,
    on_gpu: bool,
    load: impl FnOnce(&LoadRequest<'_>, DraftPrecision) -> T,
) -> T {
    let precision = ctx.draft_precision(on_gpu);
    let source = &Narrowed { source: files.weights.as_ref(), precision, pool: &ctx.pool };
    let (config, capacity, kv) = (&files.config.body, ctx.context, KvFormat::F16);
    load(&LoadRequest::new(config, source, Arc::clone(&ctx.pool), capacity, kv), precision)
}
