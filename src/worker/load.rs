//! From settings to an engine's parts: opens the models, checks that they fit each other and the
//! machine, puts the draft on its device, measures shortly and plans. A target without a head of
//! its own drafts by prompt lookup, which costs nothing.

mod head;
mod measure;

use std::sync::Arc;

use super::Ready;
use crate::chat::ChatTemplate;
use crate::draft::Drafter;
use crate::hardware::Machine;
use crate::kernels::{KvFormat, Pool};
use crate::library::{self, LibraryError, Spec, TargetFiles, Tokenizer};
use crate::model::head::HeadError;
use crate::model::{self, CpuTarget, Target};
use crate::plan::{Controller, Facts, Plan, Power, Prefer, Space, TargetSize, choose, correct};
use crate::settings::{KvPrecision, Settings};

/// What `draft` names instead of a head to draft from the conversation itself.
const LOOKUP: &str = "lookup";

/// Everything an answer needs.
pub struct Loaded {
    /// The target, nothing committed.
    pub target: Box<dyn Target>,
    /// The drafter, nothing observed; `None` when there is no draft.
    pub drafter: Option<Box<dyn Drafter>>,
    /// Text to tokens and back.
    pub tokenizer: Tokenizer,
    /// Conversation to text.
    pub template: ChatTemplate,
    /// Tokens that end an answer.
    pub eos: Vec<u32>,
    /// Texts that end an answer: the user's and the template's own.
    pub stop: Vec<String>,
    /// Chooses each round's tree.
    pub controller: Controller,
    /// For the screen.
    pub ready: Ready,
    /// What the user should be told beside.
    pub notices: Vec<String>,
}

/// Who asks, which decides what `prefer = "auto"` means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A chat on the screen.
    Chat,
    /// Text for a pipe, or a measurement.
    Text,
}

/// Why the models cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file, or target and head that do not belong together.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The target.
    #[error(transparent)]
    Target(#[from] model::LoadError),
    /// The draft head.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// The target is larger than the machine.
    #[error(
        "{name} needs {} MiB of memory and this machine has {}; take a smaller model or one with fewer bits a weight",
        needed >> 20,
        total >> 20
    )]
    Memory {
        /// The target.
        name: String,
        /// Bytes it needs.
        needed: u64,
        /// Bytes there are.
        total: u64,
    },
}

/// Loads what `settings` name. `progress` is told the stage and how far it is, 0 to 1, where that
/// is known.
///
/// # Errors
/// [`LoadError`]. A draft that cannot go on the GPU is no error: it goes on the CPU and `notices`
/// says why.
pub fn load(
    settings: &Settings,
    machine: &Machine,
    purpose: Purpose,
    progress: &mut dyn FnMut(&str, Option<f32>),
) -> Result<Loaded, LoadError> {
    progress("opening the target", None);
    let spec = settings.target.as_deref().map_or(Ok(Spec::Bundled), Spec::parse)?;
    let mut fetching =
        |report: &library::Progress| progress(&report.to_string(), Some(report.fraction()));
    let files = library::open_target(&spec, &mut fetching)?;
    let head = match (settings.draft.as_deref(), &spec) {
        (Some(LOOKUP), _) => None,
        (Some(draft), _) => Some(library::open_head(&Spec::parse(draft)?, &mut fetching)?),
        (None, Spec::Bundled) => Some(library::open_head(&Spec::Bundled, &mut fetching)?),
        (None, _) => None,
    };
    if let Some(head) = &head {
        library::check_fit(&files.config, &head.config)?;
    }
    let context = context(settings, &files);
    check_memory(&files, machine)?;

    let threads = settings.threads.unwrap_or(machine.cpu.physical).max(1);
    let pool = Arc::new(Pool::new(threads));
    let mut target = target(settings, &files, pool, context, progress)?;
    let verifier = Power::of_cpu(&machine.cpu, threads);
    let put = match &head {
        Some(head) => {
            progress("reading the draft head", None);
            head::put(head, &target, settings.device, machine, verifier, context)?
        }
        None => head::lookup(settings.draft.is_some(), verifier, context),
    };

    let facts = Facts {
        verifier,
        target: TargetSize {
            weights: files.config.linear_weights(),
            bytes: target.pass_bytes(),
            layers: files.config.layers,
        },
        draft: Some((put.size, put.power)),
    };
    let bundled = spec == Spec::Bundled && settings.draft.is_none();
    let space = Space {
        wishes: settings.controls,
        blocks: Some(put.blocks),
        prefer: match settings.prefer {
            Prefer::Auto if bundled && purpose == Purpose::Chat => Prefer::Show,
            Prefer::Auto => Prefer::Speed,
            given => given,
        },
    };
    progress("measuring", None);
    let head::Put { mut drafter, on_gpu, reason, notice, .. } = put;
    let found = measure::measure(&mut target, drafter.as_mut(), put.blocks, context);
    tracing::info!(?found, "measured");
    let plan = correct(choose(&facts, &space), &found, &space);
    let preface = vec![reason];
    let reasons = [preface.clone(), plan.reasons.clone()].concat();
    let vram_used = if on_gpu { drafter.device_bytes() } else { 0 };
    let ready = Ready { vram_used, ..ready(&files, drafter.as_ref(), context, &plan, reasons) };
    let stop = settings.stop.iter().chain(files.template.stop_strings()).cloned().collect();
    Ok(Loaded {
        target: Box::new(target),
        drafter: Some(drafter),
        tokenizer: files.tokenizer,
        template: files.template,
        eos: files.eos,
        stop,
        controller: Controller::new(&plan, space, preface),
        ready,
        notices: notice.into_iter().collect(),
    })
}

/// KV positions to allocate. What was asked for is passed on as it is: the target says what it
/// takes.
fn context(settings: &Settings, files: &TargetFiles) -> usize {
    settings.context.unwrap_or(files.config.max_positions.min(Settings::AUTO_CONTEXT))
}

/// Refuses a target that can only be run by swapping. Free memory is not asked for: caches are
/// given back, and mapped weights need not be resident twice.
fn check_memory(files: &TargetFiles, machine: &Machine) -> Result<(), LoadError> {
    let (needed, total) = (files.bytes, machine.memory.total);
    if total > 0 && needed > total {
        return Err(LoadError::Memory { name: files.name.clone(), needed, total });
    }
    Ok(())
}

fn target(
    settings: &Settings,
    files: &TargetFiles,
    pool: Arc<Pool>,
    context: usize,
    progress: &mut dyn FnMut(&str, Option<f32>),
) -> Result<CpuTarget, LoadError> {
    let kv = match settings.kv {
        KvPrecision::F32 => KvFormat::F32,
        KvPrecision::F16 => KvFormat::F16,
    };
    let stage = format!("reading {}", files.name);
    let mut last = -1.0;
    let mut tell = |state: model::Progress| {
        let fraction = state.done as f32 / state.total.max(1) as f32;
        // A percent at a time: the screen need not hear of every matrix.
        if fraction - last >= 0.01 {
            last = fraction;
            progress(&stage, Some(fraction));
        }
    };
    Ok(CpuTarget::load(&files.config, files.weights.as_ref(), pool, context, kv, &mut tell)?)
}

fn ready(
    files: &TargetFiles,
    drafter: &dyn Drafter,
    context: usize,
    plan: &Plan,
    reasons: Vec<String>,
) -> Ready {
    let pick = plan.pick;
    Ready {
        target: files.name.clone(),
        target_detail: files.detail.clone(),
        draft: Some(drafter.describe()),
        depths: drafter.depths(),
        context,
        gamma: pick.shape.gamma,
        blocks: pick.blocks,
        width: pick.shape.width,
        depth: pick.shape.depth,
        reasons,
        vram_used: 0,
    }
}

#[cfg(test)]
mod tests;
