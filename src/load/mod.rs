//! From settings to an engine's parts: opens the models, checks that they fit each other and the
//! machine, loads the drafters on their devices, measures for about a second and plans every
//! strategy that can run. A target without its own head drafts by prompt lookup, which costs
//! nothing. It must never generate a token.
//!
//! From the bottom up: `error`, `files`, `advice`, `scored_tokens`, `context`, `sizes` and
//! `packed`; `prefill`; `target` and `shared_target`; `drafter`, with its makers `head`, `small`,
//! `texts` and the `history` that these use; `measure`; `placements`; `heads`; `strategies`;
//! `planned`; and [`load`]. No file uses one that is listed after it.

mod advice;
mod context;
mod drafter;
mod error;
mod files;
mod head;
mod heads;
mod history;
mod measure;
mod packed;
mod placements;
mod planned;
mod prefill;
mod ready;
mod sampling;
mod scored_tokens;
mod shared_target;
pub(crate) mod sizes;
mod small;
mod strategies;
mod target;
mod texts;

use std::sync::Arc;

use crate::chat::ChatTemplate;
use crate::decode::SnapshotStore;
use crate::draft::Drafter;
use crate::hardware::Machine;
use crate::kernels::Format;
use crate::library::{TargetFiles, Tokenizer};
use crate::messages;
use crate::model::Target;
use crate::plan::{
    self, DrafterId, LevelCost, Measured, PlacementForecast, STRATEGIES, Schedule, Strategy,
};
use crate::settings::Settings;
use context::{LoadContext, OpenDevice};
use drafter::LoadedDrafter;
use files::ModelFiles;
use planned::planned;
use target::LoadedTarget;

pub use error::StartError;
pub use packed::PackedFrom;
pub use placements::Placements;
use placements::Placing;
pub use planned::Strategies;
pub use ready::{Ready, StrategyStatus};
pub use sampling::SampledBy;
pub use shared_target::SharedTarget;
pub use strategies::StrategyController;

/// Everything an answer needs.
pub struct Loaded {
    /// The target, with nothing committed.
    pub target: Box<dyn Target>,
    /// The available drafters, which have observed nothing.
    pub drafters: Vec<Box<dyn Drafter>>,
    /// Text to tokens and back.
    pub tokenizer: Tokenizer,
    /// Conversation to text.
    pub template: ChatTemplate,
    /// Tokens that end an answer.
    pub eos: Vec<u32>,
    /// Texts that end an answer: the user's and the template's own.
    pub stop: Vec<String>,
    /// The strategies that can run here.
    pub strategies: Strategies,
    /// What the screen shows.
    pub ready: Ready,
    /// The target's tensor formats with their bytes in its files, the largest first.
    pub formats: Vec<(Format, u64)>,
    /// Where the target's packed weights came from.
    pub packed_from: PackedFrom,
    /// How tokens are sampled, with the origin of each value.
    pub sampling: Vec<SampledBy>,
    /// Notices for the user.
    pub notices: Vec<String>,
    /// What does not run where the plan has it, in a sentence; `None` if everything does.
    pub misplaced: Option<String>,
    /// T_V by γ, ms, as measured during loading; empty if that failed.
    pub verify_times: Vec<(usize, f64)>,
    /// T_D by M and k of the drafters that were measured during loading.
    pub levels: Vec<(DrafterId, LevelCost)>,
    /// What other drafters for this target need to be loaded.
    pub shared: SharedTarget,
    /// Where KV caches of its conversations are saved; `None` if they cannot or should not be
    /// saved.
    pub snapshots: Option<SnapshotStore>,
}

/// Other drafters for the current target, and what changes with them.
pub struct LoadedDrafts {
    /// The available drafters, which have observed nothing.
    pub drafters: Vec<Box<dyn Drafter>>,
    /// The strategies that can run with them.
    pub strategies: Strategies,
    /// What the screen shows.
    pub ready: Ready,
    /// Notices for the user.
    pub notices: Vec<String>,
    /// The target as it was passed in, with its current name.
    pub shared: SharedTarget,
}

/// What the models are loaded for, which decides what `prefer = "auto"` means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A chat on the screen.
    Chat,
    /// Text for a pipe, or a measurement.
    Text,
}

/// Loads what `settings` name. `progress` is called with the stage and its progress, 0 to 1, if
/// that is known.
///
/// # Errors
/// [`StartError`]. A draft that cannot go on the GPU is not an error: it goes on the CPU and
/// `notices` says why.
pub fn load(
    settings: &Settings,
    machine: &Machine,
    purpose: Purpose,
    progress: &mut dyn FnMut(&str, Option<f32>),
) -> Result<Loaded, StartError> {
    load_on(settings, machine, purpose, context::open_device, progress)
}

/// [`load`] with target and draft where `placement` has them, and with its drafting: for measuring
/// what is expected of it.
///
/// # Errors
/// As for [`load`].
pub fn load_placed(
    settings: &Settings,
    machine: &Machine,
    placement: &PlacementForecast,
    progress: &mut dyn FnMut(&str, Option<f32>),
) -> Result<Loaded, StartError> {
    let own = |row: &&Strategy| row.draft == placement.draft && row.is_own_tree();
    let strategy = match placement.beside {
        true => STRATEGIES.iter().find(|row| row.schedule == Schedule::Overlap),
        false => STRATEGIES.iter().find(own),
    };
    let settings = &Settings { strategy, ..settings.clone() };
    let files = ModelFiles::open(settings, progress)?;
    let how = (Purpose::Text, Placing::Given(*placement));
    load_files(settings, machine, how, files, context::open_device, progress)
}

/// [`load`] next to models that are in use.
///
/// # Errors
/// [`StartError`]; [`StartError::NoRoom`] if both do not fit.
pub fn load_beside(
    settings: &Settings,
    machine: &Machine,
    purpose: Purpose,
    progress: &mut dyn FnMut(&str, Option<f32>),
) -> Result<Loaded, StartError> {
    let files = ModelFiles::open(settings, progress)?;
    files.check_room(settings, machine)?;
    load_files(settings, machine, (purpose, Placing::Known), files, context::open_device, progress)
}

/// Loads other drafters for `target`, which is in use and is the one that `settings` name. Nothing
/// is measured, because the target is working; the times of its drafter become known in the first
/// rounds.
///
/// # Errors
/// As for [`load_beside`]; [`StartError::Moves`] if the target should move to another placement for
/// them.
pub fn load_drafts(
    settings: &Settings,
    machine: &Machine,
    purpose: Purpose,
    target: &SharedTarget,
    progress: &mut dyn FnMut(&str, Option<f32>),
) -> Result<LoadedDrafts, StartError> {
    let files = ModelFiles::open(settings, progress)?;
    files.check_room_for_drafts(machine)?;
    let pool = Some(Arc::clone(&target.pool));
    let (mut ctx, _) = LoadContext::new(settings, machine, &files, context::open_device, pool);
    ctx.advice = placements::advise_drafts(&ctx, target, progress)?;
    ctx.taken = heads::taken(&ctx);
    let sampled = sampling::sampling(settings, files.recommended());
    let drafters = load_drafters(&ctx, target, progress)?;
    let (statuses, strategy) = strategies::available(&ctx, target, &drafters)?;
    let planned = planned(&ctx, purpose, target, &drafters, statuses, strategy, Vec::new());
    Ok(LoadedDrafts {
        drafters: drafters.into_iter().map(|drafter| drafter.drafter).collect(),
        strategies: planned.strategies,
        ready: Ready { sampler: Some(sampled.sampler), ..planned.ready },
        notices: planned.notices,
        shared: target.clone(),
    })
}

/// [`load`] with devices opened by `open_device`.
fn load_on(
    settings: &Settings,
    machine: &Machine,
    purpose: Purpose,
    open_device: OpenDevice,
    progress: &mut dyn FnMut(&str, Option<f32>),
) -> Result<Loaded, StartError> {
    let files = ModelFiles::open(settings, progress)?;
    load_files(settings, machine, (purpose, Placing::Measured), files, open_device, progress)
}

/// [`load_on`] of opened files.
fn load_files(
    settings: &Settings,
    machine: &Machine,
    (purpose, placing): (Purpose, Placing),
    files: ModelFiles,
    open_device: OpenDevice,
    progress: &mut dyn FnMut(&str, Option<f32>),
) -> Result<Loaded, StartError> {
    files.check_memory(machine)?;
    let (mut ctx, shortened) = LoadContext::new(settings, machine, &files, open_device, None);
    ctx.advice = placements::advise(&ctx, placing, progress);
    ctx.taken = heads::taken(&ctx);
    let sampled = sampling::sampling(settings, files.recommended());

    let mut target = LoadedTarget::load(&ctx, progress)?;
    let mut shared = SharedTarget::of(&ctx, &target);
    let mut drafters = load_drafters(&ctx, &shared, progress)?;
    let misplaced = placements::misplaced(&ctx, &target, &drafters);
    let (statuses, strategy) = strategies::available(&ctx, &shared, &drafters)?;
    let (measured, levels) = measure(&ctx, &mut target, &mut drafters, strategy, progress);
    let verify_times = measured.verify.clone();
    shared.measured = measured;
    let planned = planned(&ctx, purpose, &shared, &drafters, statuses, strategy, levels.clone());

    let mut notices = settings.without_effect();
    notices.extend(files.notices.iter().cloned());
    notices.extend(shortened);
    let switches_thinking = files.target.template.switches_thinking();
    if settings.thinking.is_some() && !switches_thinking {
        notices.push(format!(
            "`thinking` has no effect: the chat template of {} cannot switch it",
            files.target.name
        ));
    }
    if files.target.template.is_for_base_model() {
        notices.push(format!(
            "{} is probably a base model (it has no chat template): it continues text instead of \
             answering. For a chat, use an instruct model.",
            files.target.name
        ));
    }
    notices.extend(sampled.notices);
    notices.extend(planned.notices);
    notices.extend(target.notices.iter().cloned());
    notices.extend(refused_device(&ctx, &notices));
    let packed_from = target.packed_from;
    let snapshots = snapshot_store(&ctx, &target);
    let target_in_use = target.into_target(&ctx);
    let TargetFiles { tokenizer, template, eos, formats, .. } = files.target;
    let stop = settings.stop.iter().chain(template.stop_strings()).cloned().collect();
    Ok(Loaded {
        target: target_in_use,
        drafters: drafters.into_iter().map(|drafter| drafter.drafter).collect(),
        tokenizer,
        template,
        eos,
        stop,
        strategies: planned.strategies,
        ready: Ready { sampler: Some(sampled.sampler), ..planned.ready },
        formats,
        packed_from,
        sampling: sampled.origins,
        notices,
        misplaced,
        verify_times,
        levels,
        shared,
        snapshots,
    })
}

/// Where KV caches are saved, with a description of everything that determines their numbers. A
/// target on a GPU has its rows there, and a target that does not come from a file cannot be
/// identified.
fn snapshot_store(ctx: &LoadContext<'_>, target: &LoadedTarget) -> Option<SnapshotStore> {
    let folder = ctx.settings.snapshots.clone().filter(|_| ctx.settings.kv_disk > 0)?;
    let files = &ctx.files.target;
    let identity = files.weights.identity().filter(|_| target.keeps_kv_here())?;
    let prompts = target.prompts_on().map(|gpu| {
        let adapter = ctx.machine.adapters.iter().find(|adapter| adapter.name == gpu);
        format!("{gpu} {} ", adapter.map_or("", |adapter| adapter.driver.as_str()))
    });
    let of = format!(
        "{} {} {:?} {:?} {} {identity} {}{:?}",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::ARCH,
        ctx.pool.isa(),
        ctx.kv(),
        ctx.context,
        prompts.unwrap_or_default(),
        files.config
    );
    Some(SnapshotStore::new(folder, of, ctx.settings.kv_disk as u64 * 1_000_000_000))
}

/// Measures both devices with some of the target's blocks, or reads an earlier measurement from the
/// folder that the settings have for it. It loads no model. The inner error says why nothing can be
/// placed.
///
/// # Errors
/// [`StartError`].
pub fn placements(
    settings: &Settings,
    machine: &Machine,
    progress: &mut dyn FnMut(&str, Option<f32>),
) -> Result<Result<Placements, String>, StartError> {
    let files = ModelFiles::open(settings, progress)?;
    files.check_memory(machine)?;
    let (ctx, _) = LoadContext::new(settings, machine, &files, context::open_device, None);
    let room = plan::gpu_room(settings.device, machine, settings.vram);
    let room = room.map_err(|why| messages::obstacle(&why));
    let found = room.and_then(|room| placements::forecast(&ctx, room, true, progress));
    Ok(found.map(|(found, ..)| found))
}

/// The notice that the requested device is not used, unless one of the parts that would go there
/// has already said so.
fn refused_device(ctx: &LoadContext<'_>, said: &[String]) -> Option<String> {
    let settings = ctx.settings;
    let why = plan::refused_device(settings.device, ctx.machine, settings.vram)?;
    let why = messages::obstacle(&why);
    // A notice may begin with the reason.
    let says = |notice: &String| notice.to_lowercase().contains(&why.to_lowercase());
    (!said.iter().any(says)).then(|| format!("Everything runs on the CPU: {why}."))
}

/// Every drafter that the settings make available, each loaded once for all strategies that share
/// it.
fn load_drafters(
    ctx: &LoadContext<'_>,
    target: &SharedTarget,
    progress: &mut dyn FnMut(&str, Option<f32>),
) -> Result<Vec<LoadedDrafter>, StartError> {
    let mut all = Vec::new();
    if let Some(head) = ctx.head() {
        progress("loading the draft head", None);
        all.push(head::load(ctx, target, &head.files)?);
    }
    if let Some(small) = &ctx.files.small {
        all.push(small::load(ctx, target, small, progress)?);
    }
    all.push(texts::lookup(ctx));
    if let Some(path) = &ctx.settings.rest_text {
        all.push(texts::rest(ctx, path, progress)?);
    }
    all.push(texts::lookahead(ctx));
    let kinds = [DrafterId::Suffix, DrafterId::Recycling, DrafterId::Context, DrafterId::Auto];
    let history = history::history(ctx, progress);
    let ngrams = texts::ngrams(ctx, progress)?;
    all.extend(kinds.map(|kind| texts::context(ctx, kind, history.as_ref(), ngrams.as_ref())));
    Ok(all)
}

/// Times of the target and of the drafters that `strategy` uses, if they take any.
fn measure(
    ctx: &LoadContext<'_>,
    target: &mut LoadedTarget,
    drafters: &mut [LoadedDrafter],
    strategy: &Strategy,
    progress: &mut dyn FnMut(&str, Option<f32>),
) -> (Measured, Vec<(DrafterId, LevelCost)>) {
    progress("measuring", None);
    let used = drafters.iter_mut().filter(|drafter| {
        let of_auto = strategy.draft == DrafterId::Auto && drafter.is_model();
        of_auto || drafter.kind == strategy.draft
    });
    let used: Vec<_> = used.collect();
    let mut kinds: Vec<DrafterId> = Vec::new();
    let used = used.into_iter().map(|drafter| {
        kinds.push(drafter.kind);
        (drafter.drafter.as_mut() as &mut dyn Drafter, drafter.blocks)
    });
    let used: Vec<_> = used.collect();
    let (found, levels) = measure::measure(target.target(), used, ctx.context);
    let levels = kinds.into_iter().zip(levels).filter_map(|(kind, level)| Some((kind, level?)));
    let levels = levels.collect();
    tracing::info!(?found, ?levels, "measured");
    (found, levels)
}

#[cfg(test)]
mod gpu_tests;
#[cfg(test)]
mod tests;
