//! Gets the target ready: on the CPU, or with its first blocks on a GPU where the user wants that
//! and they fit.

use std::sync::Arc;

use candle_core::DType;

use super::LoadError;
use super::head::{HALF, OpenDevice, most_bytes};
use crate::hardware::Machine;
use crate::kernels::{KvFormat, Pool};
use crate::library::{HeadFiles, TargetFiles};
use crate::model::{self, CpuTarget, DeviceLayers, SplitTarget, Target};
use crate::plan::{LayerPlacement, LayerSize, Setting, place_layers};
use crate::settings::{KvPrecision, Settings};

/// A target on its devices.
pub(super) enum LoadedTarget {
    /// All of it on the CPU; a notice if the user wanted otherwise.
    Whole(Box<CpuTarget>, Option<String>),
    /// Its first blocks elsewhere, and why so many.
    Split(Box<SplitTarget>, String),
}

/// How many blocks of the target go to the GPU, beside what the draft will take there.
pub(super) fn place(
    settings: &Settings,
    machine: &Machine,
    files: &TargetFiles,
    head: Option<&HeadFiles>,
    context: usize,
) -> LayerPlacement {
    let setting = match (settings.gpu_layers, settings.strategy) {
        (Setting::Fixed(0), Some(strategy)) if strategy.gpu_layers => Setting::Auto,
        (setting, _) => setting,
    };
    let config = &files.config;
    let head_weights = (config.vocab * config.hidden) as u64;
    let block = (config.linear_weights() - head_weights) / config.layers.max(1) as u64;
    // The device's cache holds keys and values in half precision.
    let cache = (4 * config.kv_width() * context.next_power_of_two()) as u64;
    let size = LayerSize {
        layers: config.layers,
        layer: (block as f64 * HALF) as u64 + cache,
        draft: head.map_or(0, |head| most_bytes(head, context)),
    };
    place_layers(setting, machine, &size)
}

/// Why no block of the target is on a GPU, for those who asked for some.
pub(super) fn why_not_placed(placed: &LayerPlacement) -> String {
    if placed.requested {
        return format!("target blocks on a GPU ({})", placed.reason.trim_end_matches('.'));
    }
    "target blocks on a GPU: start with --gpu-layers auto".to_owned()
}

impl LoadedTarget {
    pub(super) fn load(
        settings: &Settings,
        files: &TargetFiles,
        placed: &LayerPlacement,
        pool: Arc<Pool>,
        context: usize,
        open_device: OpenDevice,
        progress: &mut dyn FnMut(&str, Option<f32>),
    ) -> Result<Self, LoadError> {
        let mut tell = percents(&files.name, progress);
        let (config, weights, kv) = (&files.config, files.weights.as_ref(), kv(settings));
        let mut notice = (placed.requested && placed.layers == 0).then(|| placed.reason.clone());
        match open_device(placed.device) {
            Ok(Some(device)) if placed.layers > 0 => {
                let lower = DeviceLayers { layers: placed.layers, device, dtype: DType::F16 };
                let pool = Arc::clone(&pool);
                match SplitTarget::load(&lower, config, weights, pool, context, kv, &mut tell) {
                    Ok(split) => {
                        return Ok(Self::Split(Box::new(split), placed.reason.clone()));
                    }
                    Err(error @ model::LoadError::Device { .. }) => {
                        notice = Some(format!("The whole target stays on the CPU: {error}."));
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            Err(error) => notice = Some(format!("The GPU cannot be used ({error}).")),
            Ok(_) => {}
        }
        let whole = CpuTarget::load(config, weights, pool, context, kv, &mut tell)?;
        Ok(Self::Whole(Box::new(whole), notice))
    }

    /// The part on the CPU, which has embedding and head.
    pub(super) fn cpu(&self) -> &CpuTarget {
        match self {
            Self::Whole(target, _) => target,
            Self::Split(target, ..) => target.cpu(),
        }
    }

    pub(super) fn target(&mut self) -> &mut dyn Target {
        match self {
            Self::Whole(target, _) => target.as_mut(),
            Self::Split(target, ..) => target.as_mut(),
        }
    }

    pub(super) fn into_target(self) -> Box<dyn Target> {
        match self {
            Self::Whole(target, _) => target,
            Self::Split(target, ..) => target,
        }
    }

    /// Bytes on the GPU.
    pub(super) fn device_bytes(&self) -> u64 {
        match self {
            Self::Whole(..) => 0,
            Self::Split(target, ..) => target.device_bytes(),
        }
    }

    /// Where it runs, if that is worth a sentence.
    pub(super) fn reason(&self) -> Option<String> {
        match self {
            Self::Whole(..) => None,
            Self::Split(_, reason) => Some(reason.clone()),
        }
    }

    /// What the user should know beside.
    pub(super) fn notice(&self) -> Option<String> {
        match self {
            Self::Whole(_, notice) => notice.clone(),
            Self::Split(..) => None,
        }
    }
}

/// KV positions to allocate: as many as were asked for, if the model was made for them.
pub(super) fn context(
    settings: &Settings,
    files: &TargetFiles,
    notices: &mut Vec<String>,
) -> usize {
    let most = files.config.max_positions;
    match settings.context {
        Some(asked) if asked > most => {
            notices.push(format!(
                "`context` is {asked}, and {} takes {most} tokens: {most} are used.",
                files.name
            ));
            most
        }
        asked => asked.unwrap_or(most.min(Settings::AUTO_CONTEXT)),
    }
}

/// Refuses a target that can only be run by swapping. Free memory is not asked for: caches are
/// given back, and mapped weights need not be resident twice.
pub(super) fn check_memory(files: &TargetFiles, machine: &Machine) -> Result<(), LoadError> {
    let (needed, total) = (files.bytes, machine.memory.total);
    if total > 0 && needed > total {
        return Err(LoadError::Memory { name: files.name.clone(), needed, total });
    }
    Ok(())
}

/// Elements of a KV cache.
pub(super) fn kv(settings: &Settings) -> KvFormat {
    match settings.kv {
        KvPrecision::F32 => KvFormat::F32,
        KvPrecision::F16 => KvFormat::F16,
    }
}

/// Reports the loading of a model a percent at a time: the screen needs not every matrix.
pub(super) fn percents(
    name: &str,
    progress: &mut dyn FnMut(&str, Option<f32>),
) -> impl FnMut(model::Progress) {
    let stage = format!("reading {name}");
    let mut last = -1.0;
    move |state: model::Progress| {
        let fraction = state.done as f32 / state.total.max(1) as f32;
        if fraction - last >= 0.01 {
            last = fraction;
            progress(&stage, Some(fraction));
        }
    }
}
