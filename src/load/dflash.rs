//! Loads a DFlash drafter, which only the CPU runs. It must never choose a budget.

use std::sync::Arc;

use super::context::LoadContext;
use super::drafter::LoadedDrafter;
use super::error::StartError;
use super::reason::{LoadReason, Notice};
use super::sizes;
use crate::draft::Dflash;
use crate::kernels::KvFormat;
use crate::library::DflashFiles;
use crate::model::head::{HeadError, SharedTables};
use crate::model::{CpuDflash, Narrowed};
use crate::plan::{DrafterId, Obstacle, Reason};

/// The drafter in `files`, next to a target with these tables.
pub(super) fn load(
    ctx: &LoadContext<'_>,
    tables: &SharedTables,
    files: &DflashFiles,
) -> Result<LoadedDrafter, StartError> {
    let config = &files.config;
    let precision = ctx.draft_precision(false);
    let source = Narrowed { source: files.weights.as_ref(), precision, pool: &ctx.pool };
    let (pool, kv) = (Arc::clone(&ctx.pool), KvFormat::F16);
    let model = CpuDflash::load(config, &source, tables, pool, ctx.context, kv);
    let model = model.map_err(|error| StartError::Head {
        origin: files.name.clone(),
        source: HeadError::Device(error.to_string()),
    })?;
    let size = sizes::of_dflash(config, model.bytes());
    let on_cpu = LoadReason::Plan(Reason::DraftOnCpu(Obstacle::OnlyCpu {
        drafter: config.name(),
        with: "a block for all levels",
    }));
    let states = LoadReason::HeadStates { layers: config.states.clone(), from_one: false };
    Ok(LoadedDrafter {
        kind: DrafterId::Dflash,
        on_gpu: false,
        size,
        own_weights: size.fixed,
        limit: None,
        notice: ctx.wants_gpu().then(|| Notice::Reason(on_cpu.clone())),
        reasons: vec![on_cpu, states],
        drafter: Box::new(Dflash::new(model, ctx.context)),
    })
}
