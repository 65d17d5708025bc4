//! Puts the draft head on its device: the one the plan says, or the CPU if that one fails.

use std::sync::Arc;

use candle_core::{DType, Device};

use super::drafters::{LoadContext, LoadedDrafter};
use crate::draft::FeatureHead;
use crate::kernels::KvFormat;
use crate::library::HeadFiles;
use crate::model::CpuTarget;
use crate::model::head::{
    FusionKind, HeadBackend, HeadError, HeadPrecision, HeadWeights, PackedHead, SharedTables,
    Table, TensorHead,
};
use crate::plan::{DraftDevice, DraftKind, DraftSize, Throughput, place};

/// A head for `target` on the device that `wish` and the machine lead to.
pub(super) fn load(ctx: &LoadContext<'_>, files: &HeadFiles) -> Result<LoadedDrafter, HeadError> {
    let &LoadContext { target, machine, cpu, context, .. } = ctx;
    let wish = ctx.settings.device;
    let config = &files.config;
    let mut weights = HeadWeights::load(config, files.tensors.as_ref())?;
    let shared = SharedTables {
        embedding: Table::Packed(target.embedding()),
        lm_head: Table::Packed(target.lm_head()),
    };
    let capacity = config.capacity(context);
    let kind = weights.kind();
    // Keys and values of one block in half precision; their room grows by doubling.
    let cache = 4 * (config.body.kv_width() * capacity.next_power_of_two()) as u64;
    let placed = place(wish, machine, &size(files, target, kind, HALF), cache);
    let mut reason = placed.reason;
    let mut notice = placed.refused.then(|| reason.clone());

    let on_device = match (ctx.open_device)(placed.device) {
        Ok(None) => None,
        Ok(Some(device)) => match upload(&weights, placed.blocks, &shared, &device) {
            Ok((head, uploaded)) => {
                weights = uploaded;
                Some(head)
            }
            Err(error) => {
                notice = Some(format!("The GPU cannot take the draft ({error})."));
                None
            }
        },
        Err(error) => {
            notice = Some(format!("The GPU cannot be used ({error})."));
            None
        }
    };
    if placed.device != DraftDevice::Cpu && on_device.is_none() {
        reason = "Drafting runs on the CPU: the GPU failed.".to_owned();
    }
    let on_gpu = on_device.is_some();
    let limit = placed.limit.filter(|_| on_gpu);
    // The uploaded part of a head is all of it from here on, also where the card is lost.
    let config = &weights.config.clone();
    let bytes_per_weight = if on_gpu { HALF } else { EIGHT_BITS };
    let (pool, beside) = ctx.pool(size(files, target, kind, bytes_per_weight), on_gpu);
    let cores = Arc::clone(&pool);
    let on_cpu = move || -> Result<Box<dyn HeadBackend>, HeadError> {
        let (precision, kv) = (HeadPrecision::Eight, KvFormat::F16);
        Ok(Box::new(PackedHead::new(&weights, &shared, pool, capacity, precision, kv)?))
    };
    let head: FeatureHead = match on_device {
        Some(head) => {
            FeatureHead::new(config, kind, Box::new(head), context).with_fallback(Box::new(on_cpu))
        }
        None => FeatureHead::new(config, kind, on_cpu()?, context),
    };
    let most = config.blocks();
    Ok(LoadedDrafter {
        kind: DraftKind::Head,
        drafter: Box::new(head.with_cores(cores)),
        on_gpu,
        size: DraftSize { blocks: most, ..size(files, target, kind, bytes_per_weight) },
        throughput: if on_gpu { Throughput::of_gpu(machine.gpu.get()) } else { cpu },
        blocks: (if config.elastic { 1 } else { most }, most),
        limit,
        reason,
        beside: Some(beside),
        notice,
    })
}

/// Bytes of a weight on a GPU.
pub(super) const HALF: f64 = 2.0;
/// Bytes of a weight on the CPU: a code, and its part of a block's scale.
const EIGHT_BITS: f64 = 34.0 / 32.0;

/// What a head takes on a GPU at most, KV cache included.
pub(super) fn most_bytes(files: &HeadFiles, context: usize) -> u64 {
    let body = &files.config.body;
    let (h, i) = (body.hidden as u64, body.intermediate as u64);
    let (q, kv) = (body.q_width() as u64, body.kv_width() as u64);
    let block = 2 * h * q + 2 * h * kv + 3 * h * i;
    let cache = 4 * kv * files.config.capacity(context).next_power_of_two() as u64;
    let blocks = files.config.blocks() as u64;
    let weights = 4 * h * h + 2 * h * body.vocab as u64 + blocks * block;
    (weights as f64 * HALF) as u64 + blocks * cache
}

/// Sizes of a head with its share of the target, as the cost model asks for them (method.md, Draft
/// heads).
fn size(
    files: &HeadFiles,
    target: &CpuTarget,
    kind: FusionKind,
    bytes_per_weight: f64,
) -> DraftSize {
    let body = &files.config.body;
    let (h, i) = (body.hidden as u64, body.intermediate as u64);
    let (q, kv) = (body.q_width() as u64, body.kv_width() as u64);
    let vocabulary = h * body.vocab as u64;
    let fusion = match kind {
        FusionKind::Dgf => 4 * h * h,
        FusionKind::Eagle => 2 * h * h,
    };
    DraftSize {
        fixed: fusion + vocabulary,
        lookup: if target.config().tied_head { 0 } else { vocabulary },
        block: 2 * h * q + 2 * h * kv + 3 * h * i,
        bytes_per_weight,
        blocks: files.config.blocks(),
        elastic: files.config.elastic,
    }
}

/// The first `blocks` blocks of a head on a device, and the weights that went there.
fn upload(
    weights: &HeadWeights,
    blocks: usize,
    shared: &SharedTables,
    device: &Device,
) -> Result<(TensorHead, HeadWeights), HeadError> {
    let planned = weights.first_blocks(blocks);
    Ok((TensorHead::new(&planned, shared, device, DType::F16)?, planned))
}

/// Opens the device of a placement; `None` for the CPU.
pub(super) type OpenDevice = fn(DraftDevice) -> candle_core::Result<Option<Device>>;

/// The candle device; `None` for the CPU. Only what this build was compiled with is ever placed.
pub(super) fn device(kind: DraftDevice) -> candle_core::Result<Option<Device>> {
    match kind {
        DraftDevice::Cpu => Ok(None),
        DraftDevice::Cuda => Device::new_cuda(0).map(Some),
        DraftDevice::Metal => Device::new_metal(0).map(Some),
    }
}
