//! From settings to an engine's parts: opens the models, checks that they fit each other and the
//! machine, puts the drafts on their devices, measures shortly and plans every strategy that can
//! run. A target without a head of its own drafts by prompt lookup, which costs nothing.
//!
//! From the bottom up: `error`, `files`, `context` and `sizes`; `target`; `drafter` with its makers
//! `head`, `small` and `texts`; `measure`; `strategies`; and [`load`]. No file uses one above it.

mod context;
mod drafter;
mod error;
mod files;
mod head;
mod measure;
mod sampling;
mod sizes;
mod small;
mod strategies;
mod target;
mod texts;

use super::protocol::{Ready, StrategyStatus};
use super::strategy_planner::StrategyPlanner;
use crate::chat::ChatTemplate;
use crate::draft::{Depths, Drafter};
use crate::hardware::Machine;
use crate::library::{TargetFiles, Tokenizer};
use crate::model::Target;
use crate::plan::{Measured, Plan, Prefer, Strategy};
use crate::settings::Settings;
use context::{LoadContext, OpenDevice};
use drafter::{LoadedDrafter, drafter_of};
use files::ModelFiles;
use strategies::PlanInputs;
use target::LoadedTarget;

pub use error::LoadError;
pub use sampling::SampledBy;

/// Everything an answer needs.
pub struct Loaded {
    /// The target, nothing committed.
    pub target: Box<dyn Target>,
    /// The drafters that can be had, nothing observed.
    pub drafters: Vec<Box<dyn Drafter>>,
    /// Text to tokens and back.
    pub tokenizer: Tokenizer,
    /// Conversation to text.
    pub template: ChatTemplate,
    /// Tokens that end an answer.
    pub eos: Vec<u32>,
    /// Texts that end an answer: the user's and the template's own.
    pub stop: Vec<String>,
    /// Chooses each round's tree, under every strategy that can run here.
    pub planning: StrategyPlanner,
    /// For the screen.
    pub ready: Ready,
    /// How tokens are drawn and who says so.
    pub sampling: Vec<SampledBy>,
    /// Notices for the user.
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

/// Loads what `settings` name. `progress` is called with the stage and how far it is, 0 to 1, where
/// that is known.
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
    load_on(settings, machine, purpose, context::open_device, progress)
}

/// [`load`] with devices that `open_device` opens.
fn load_on(
    settings: &Settings,
    machine: &Machine,
    purpose: Purpose,
    open_device: OpenDevice,
    progress: &mut dyn FnMut(&str, Option<f32>),
) -> Result<Loaded, LoadError> {
    let files = ModelFiles::open(settings, progress)?;
    files.check_memory(machine)?;
    let (ctx, shortened) = LoadContext::new(settings, machine, &files, open_device);
    let drawn = sampling::sampling(settings, files.recommended());

    let mut target = LoadedTarget::load(&ctx, progress)?;
    let mut drafters = load_drafters(&ctx, &target, progress)?;

    let statuses = strategies::statuses(&ctx, &target, &drafters);
    let strategy = strategies::initial(settings, &statuses)?;
    let plan_inputs = PlanInputs {
        settings,
        verifier: ctx.cpu,
        target: sizes::of_target(&files.target, target.cpu()),
        measured: measure(&ctx, &mut target, &mut drafters, strategy, progress),
        drafted: strategy.draft,
        prefer: match settings.prefer {
            Prefer::Auto if purpose == Purpose::Chat && files.is_bundled_pair(settings) => {
                Prefer::Show
            }
            Prefer::Auto => Prefer::Speed,
            given => given,
        },
    };
    let controllers = plan_inputs.controllers(&statuses, &drafters);
    let drafter = drafter_of(strategy, &drafters);
    let plan = plan_inputs.plan(strategy, drafter);

    let mut notices = settings.without_effect();
    notices.extend(shortened);
    notices.extend(drawn.notices);
    notices.extend(drafter.and_then(|drafter| strategies::other_blocks(settings, drafter)));
    notices.extend(drafters.iter().filter_map(|drafter| drafter.notice.clone()));
    notices.extend(target.notice.clone());
    let on_gpu = drafters.iter().map(LoadedDrafter::device_bytes).sum::<u64>();
    let preface = drafter.map(LoadedDrafter::preface).unwrap_or_default();
    let ready = Ready {
        context: ctx.context,
        vram_used: on_gpu + target.device_bytes(),
        sampler: Some(drawn.sampler),
        reasons: target.reason().into_iter().chain(preface).chain(plan.reasons.clone()).collect(),
        ..ready(&files.target, strategy, statuses, &plan)
    };
    let TargetFiles { tokenizer, template, eos, .. } = files.target;
    let stop = settings.stop.iter().chain(template.stop_strings()).cloned().collect();
    Ok(Loaded {
        target: target.into_target(),
        drafters: drafters.into_iter().map(|drafter| drafter.drafter).collect(),
        tokenizer,
        template,
        eos,
        stop,
        planning: StrategyPlanner::new(controllers, strategy),
        ready,
        sampling: drawn.origins,
        notices,
    })
}

/// Every drafter that the settings make available, each loaded once for all strategies that share
/// it.
fn load_drafters(
    ctx: &LoadContext<'_>,
    target: &LoadedTarget,
    progress: &mut dyn FnMut(&str, Option<f32>),
) -> Result<Vec<LoadedDrafter>, LoadError> {
    let size = sizes::of_target(&ctx.files.target, target.cpu());
    let mut all = Vec::new();
    if let Some(head) = &ctx.files.head {
        progress("reading the draft head", None);
        all.push(head::load(ctx, target.cpu(), size, head)?);
    }
    if let Some(small) = &ctx.files.small {
        all.push(small::load(ctx, size, small, progress)?);
    }
    all.push(texts::lookup(ctx));
    if let Some(path) = &ctx.settings.rest_text {
        all.push(texts::rest(ctx, path, progress)?);
    }
    all.push(texts::lookahead(ctx));
    Ok(all)
}

/// Times of the target and of the drafter that `strategy` uses.
fn measure(
    ctx: &LoadContext<'_>,
    target: &mut LoadedTarget,
    drafters: &mut [LoadedDrafter],
    strategy: &Strategy,
    progress: &mut dyn FnMut(&str, Option<f32>),
) -> Measured {
    progress("measuring", None);
    let drafter = drafters.iter_mut().find(|drafter| drafter.kind == strategy.draft);
    let drafter =
        drafter.map(|drafter| (drafter.drafter.as_mut() as &mut dyn Drafter, drafter.blocks));
    let found = measure::measure(target.target(), drafter, ctx.context);
    tracing::info!(?found, "measured");
    found
}

/// The models and the first plan as the screen shows them.
fn ready(
    files: &TargetFiles,
    strategy: &Strategy,
    statuses: Vec<StrategyStatus>,
    plan: &Plan,
) -> Ready {
    let budget = plan.budget;
    let status = statuses.iter().find(|status| status.name == strategy.name);
    Ready {
        target: files.name.clone(),
        target_detail: files.detail.clone(),
        draft: status.and_then(|status| status.draft.clone()),
        depths: status.map_or(Depths::Fixed(0), |status| status.depths),
        context: 0,
        most_context: files.config.max_positions,
        gamma: budget.shape.gamma,
        blocks: budget.blocks,
        width: budget.shape.width,
        depth: budget.shape.depth,
        reasons: Vec::new(),
        vram_used: 0,
        strategy: strategy.name.to_owned(),
        strategies: statuses,
        sampler: None,
    }
}

#[cfg(test)]
mod tests;
