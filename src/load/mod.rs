//! From settings to an engine's parts: opens the models, checks that they fit each other and the
//! machine, loads the drafters on their devices, measures for about a second and plans every
//! strategy that can run. A target without its own head drafts by prompt lookup, which costs
//! nothing. It must never generate a token.
//!
//! The steps: `files` opens, `placements` and `place` place, `target`, `head`, `small` and `texts`
//! build, `measure` measures, and `strategies` plans.

mod context;
mod dflash;
mod drafter;
mod error;
mod files;
mod head;
mod measure;
mod place;
mod placements;
mod reason;
mod repack;
mod sampling;
mod setup;
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
use crate::model::Target;
use crate::model::head::HeadKind;
use crate::plan::{
    DrafterId, LevelCost, Obstacle, PlacementForecast, STRATEGIES, Schedule, Strategy,
};
use crate::settings::Settings;
use context::{LoadContext, OpenGpu};
use drafter::LoadedDrafter;
use files::ModelFiles;
use placements::PlacementSource;
use strategies::{Available, planned, uses};
use target::LoadedTarget;

pub use context::PackedFrom;
pub use error::StartError;
pub use measure::FittedCosts;
pub use placements::Placements;
pub use reason::{
    BlocksLimit, HeadMismatch, LoadReason, Missing, Needs, Notice, SharedTokens, WhyLookup,
};
pub use repack::Repacking;
pub use sampling::SampledBy;
pub use setup::{Setup, StrategySetup};
pub use shared_target::SharedTarget;
pub use strategies::{Strategies, StrategyController};

/// Receives the stage of loading and its progress, 0 to 1, if that is known.
pub type Loading<'a> = &'a dyn Fn(&str, Option<f32>);

/// Everything an answer needs.
pub struct LoadedModels {
    /// The target, with nothing committed.
    pub target: Box<dyn Target>,
    /// Its drafters, and what was planned for them.
    pub drafts: LoadedDrafts,
    /// Text to tokens and back.
    pub tokenizer: Tokenizer,
    /// Conversation to text.
    pub template: ChatTemplate,
    /// Tokens that end an answer.
    pub eos: Vec<u32>,
    /// Texts that end an answer: the user's and the template's own.
    pub stop: Vec<String>,
    /// The target's tensor formats with their bytes in its files, the largest first.
    pub formats: Vec<(Format, u64)>,
    /// Whether those of them are repacked that would be expanded in every product.
    pub repacked: bool,
    /// Where the target's packed weights came from.
    pub packed_from: PackedFrom,
    /// Bytes of the target's KV cache in main memory once the context is full; `None` if it is not
    /// only there.
    pub kv_bytes: Option<u64>,
    /// What does not run where the plan has it; `None` if everything does.
    pub misplaced: Option<Notice>,
    /// T_D by M and k of the drafters that were measured during loading.
    pub levels: Vec<(DrafterId, LevelCost)>,
    /// Where KV caches of its conversations are saved; `None` if they cannot or should not be
    /// saved.
    pub snapshots: Option<SnapshotStore>,
}

/// Drafters for a target, and what changes with them.
pub struct LoadedDrafts {
    /// The available drafters, which have observed nothing.
    pub drafters: Vec<Box<dyn Drafter>>,
    /// The strategies that can run with them.
    pub strategies: Strategies,
    /// What was chosen, and why.
    pub setup: Setup,
    /// What other drafters for this target need to be loaded.
    pub shared: SharedTarget,
}

/// What the models are loaded for, which decides what `prefer = "auto"` means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A chat or a race, to watch.
    Chat,
    /// Text for a pipe, or a measurement.
    Text,
}

/// How models are loaded.
#[derive(Clone, Copy)]
struct LoadMode {
    purpose: Purpose,
    placed_by: PlacementSource,
    open_gpu: OpenGpu,
}

impl LoadMode {
    fn new(purpose: Purpose, placed_by: PlacementSource) -> Self {
        Self { purpose, placed_by, open_gpu: context::open_gpu }
    }
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
    progress: Loading<'_>,
) -> Result<LoadedModels, StartError> {
    let mode = LoadMode::new(purpose, PlacementSource::Measured);
    load_files(settings, machine, mode, ModelFiles::open(settings, progress)?, progress)
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
    progress: Loading<'_>,
) -> Result<LoadedModels, StartError> {
    let own = |row: &&Strategy| row.draft == placement.draft && row.is_own_tree();
    let strategy = match placement.beside {
        true => STRATEGIES.iter().find(|row| row.schedule == Schedule::Overlap),
        false => STRATEGIES.iter().find(own),
    };
    let settings = &Settings { strategy, ..settings.clone() };
    let mode = LoadMode::new(Purpose::Text, PlacementSource::Requested(*placement));
    load_files(settings, machine, mode, ModelFiles::open(settings, progress)?, progress)
}

/// [`load`] next to models that are in use.
///
/// # Errors
/// [`StartError`]; [`StartError::NoRoom`] if both do not fit.
pub fn load_beside(
    settings: &Settings,
    machine: &Machine,
    purpose: Purpose,
    progress: Loading<'_>,
) -> Result<LoadedModels, StartError> {
    let files = ModelFiles::open(settings, progress)?;
    files.check_room(settings, machine)?;
    let mode = LoadMode::new(purpose, PlacementSource::Known);
    load_files(settings, machine, mode, files, progress)
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
    progress: Loading<'_>,
) -> Result<LoadedDrafts, StartError> {
    let mut files = ModelFiles::open(settings, progress)?;
    files.check_room_for_drafts(machine)?;
    files.decide_repacking(settings, machine, true);
    let pool = Some(Arc::clone(&target.pool));
    let mut ctx = LoadContext::new(settings, machine, &files, context::open_gpu, pool, progress);
    ctx.advice = placements::advise_drafts(&ctx, target)?;
    ctx.chosen_head = place::choose_head(&ctx);
    let drafters = load_drafters(&ctx, target)?;
    let available = Available::of(&ctx, target, &drafters)?;
    Ok(planned(&ctx, purpose, target.clone(), drafters, available, Vec::new()))
}

/// Places, builds and measures the models in `files`.
fn load_files(
    settings: &Settings,
    machine: &Machine,
    mode: LoadMode,
    mut files: ModelFiles,
    progress: Loading<'_>,
) -> Result<LoadedModels, StartError> {
    files.check_memory(machine)?;
    files.decide_repacking(settings, machine, false);
    let mut ctx = LoadContext::new(settings, machine, &files, mode.open_gpu, None, progress);
    ctx.fit_context()?;
    ctx.advice = placements::advise(&ctx, mode.placed_by);
    ctx.chosen_head = place::choose_head(&ctx);

    let mut target = LoadedTarget::load(&ctx)?;
    let mut shared = SharedTarget::of(&ctx, &target);
    let mut drafters = load_drafters(&ctx, &shared)?;
    let misplaced = placements::misplaced(&ctx, &target, &drafters);
    let available = Available::of(&ctx, &shared, &drafters)?;

    progress("measuring", None);
    let used = drafters.iter_mut().filter(|drafter| uses(available.initial, drafter)).collect();
    let engine = files.target.engine();
    let measured = measure::measure(target.target.as_mut(), used, engine);
    let no_numbers = || StartError::NoNumbers { name: files.target.name.clone() };
    let (measured, levels) = measured.ok_or_else(no_numbers)?;
    shared.measured = measured;
    let mut drafts = planned(&ctx, mode.purpose, shared, drafters, available, levels.clone());
    drafts.setup.notices = notices(&ctx, drafts.setup.notices, &target.notices);

    let packed_from = target.packed_from;
    let snapshots = snapshot_store(&ctx, &target);
    let kv_bytes = target
        .keeps_kv_here()
        .then(|| sizes::kv_bytes(&files.target.config, ctx.context, ctx.settings.kv));
    let target_in_use = target.into_target(&ctx);
    let TargetFiles { tokenizer, template, eos, formats, repack: repacked, .. } = files.target;
    let stop = settings.stop.iter().chain(template.stop_strings()).cloned().collect();
    Ok(LoadedModels {
        target: target_in_use,
        drafts,
        tokenizer,
        template,
        eos,
        stop,
        formats,
        repacked,
        packed_from,
        kv_bytes,
        misplaced,
        levels,
        snapshots,
    })
}

/// Everything that the user should know, in the order of the steps, with what concerns the drafters
/// and the target.
fn notices(ctx: &LoadContext<'_>, of_drafters: Vec<Notice>, of_target: &[Notice]) -> Vec<Notice> {
    let target = &ctx.files.target;
    let mut notices: Vec<Notice> =
        ctx.settings.without_effect().into_iter().map(Notice::Text).collect();
    notices.extend(ctx.files.notices.iter().cloned());
    notices.extend(ctx.shortened.clone());
    if ctx.settings.thinking.is_some() && !target.template.switches_thinking() {
        notices.push(Notice::NoThinking(target.name.clone()));
    }
    if target.embeds {
        notices.push(Notice::Embeds(target.name.clone()));
    }
    if target.template.is_for_base_model() {
        notices.push(Notice::BaseModel(target.name.clone()));
    }
    notices.extend(of_drafters);
    notices.extend(of_target.iter().cloned());
    // The requested device is not used, which one of the parts that would go there may have
    // reported.
    if ctx.wants_gpu()
        && let Err(why) = ctx.gpu_room()
        && !notices.iter().any(|notice| notice.obstacle() == Some(&why))
    {
        notices.push(Notice::AllOnCpu(why));
    }
    notices
}

/// Where KV caches are saved, with a description of everything that determines their numbers. A
/// target on a GPU has its rows there, and a target that does not come from a file cannot be
/// identified.
fn snapshot_store(ctx: &LoadContext<'_>, target: &LoadedTarget) -> Option<SnapshotStore> {
    let folder = ctx.settings.snapshots.clone()?;
    let files = &ctx.files.target;
    let identity = files.weights.identity()?;
    if ctx.settings.kv_disk == 0 || !target.keeps_kv_here() {
        return None;
    }
    let prompts = target.prompts_on().map(|gpu| {
        let adapter = ctx.machine.adapters.iter().find(|adapter| adapter.name == gpu);
        format!("{gpu} {} ", adapter.map_or("", |adapter| adapter.driver.as_str()))
    });
    let of = format!(
        "{} {} {:?} {:?} {} {identity} {}{:?}",
        crate::kernels::NUMERICS,
        std::env::consts::ARCH,
        ctx.pool.isa(),
        ctx.settings.kv,
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
    progress: Loading<'_>,
) -> Result<Result<Placements, Obstacle>, StartError> {
    let files = ModelFiles::open(settings, progress)?;
    files.check_memory(machine)?;
    let ctx = LoadContext::new(settings, machine, &files, context::open_gpu, None, progress);
    let forecast = ctx.gpu_room().and_then(|room| placements::forecast(&ctx, room, true));
    Ok(forecast.map(|forecast| forecast.found))
}

/// Every drafter that the settings make available, each loaded once for all strategies that share
/// it.
fn load_drafters(
    ctx: &LoadContext<'_>,
    target: &SharedTarget,
) -> Result<Vec<LoadedDrafter>, StartError> {
    let mut all = Vec::new();
    if !ctx.files.target.engine().is_own() {
        return Ok(all);
    }
    let mut ignored = None;
    if let (Some(head), Some(tables)) = (ctx.head(), &target.tables) {
        (ctx.progress)("loading the draft head", None);
        match head::load(ctx, target, tables, &head.files) {
            // The user asked for the model, which runs without the head in its file.
            Err(error) if matches!(head.files.config.kind, HeadKind::Mtp(_)) => {
                let why = HeadMismatch::Shape(error.to_string());
                ignored = Some(Notice::HeadIgnored { name: head.files.name.clone(), why });
            }
            loaded => all.push(loaded?),
        }
    }
    if let (Some(files), Some(tables)) = (&ctx.files.dflash, &target.tables) {
        (ctx.progress)("loading the draft head", None);
        all.push(dflash::load(ctx, tables, files)?);
    }
    if let Some(small) = &ctx.files.small {
        all.push(small::load(ctx, target, small)?);
    }
    all.push(LoadedDrafter { notice: ignored, ..texts::lookup(ctx) });
    if let Some(path) = &ctx.settings.rest_text {
        all.push(texts::rest(ctx, path)?);
    }
    all.push(texts::lookahead());
    let kinds = [DrafterId::Suffix, DrafterId::Recycling, DrafterId::Context, DrafterId::Auto];
    let history = texts::history(ctx);
    let ngrams = texts::ngrams(ctx)?;
    all.extend(kinds.map(|kind| texts::context(kind, history.as_ref(), ngrams.as_ref())));
    Ok(all)
}

#[cfg(test)]
mod gpu_tests;
#[cfg(test)]
mod tests;
