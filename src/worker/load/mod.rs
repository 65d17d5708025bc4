//! From settings to an engine's parts: opens the models, checks that they fit each other and the
//! machine, puts the drafts on their devices, measures shortly and plans every strategy that can
//! run. A target without a head of its own drafts by prompt lookup, which costs nothing.

mod drafters;
mod head;
mod measure;
mod sampling;
mod small;
mod target;

use std::sync::Arc;

use super::{Ready, StrategyController, StrategyPlanner, StrategyStatus};
use crate::chat::ChatTemplate;
use crate::draft::{Depths, Drafter};
use crate::hardware::Machine;
use crate::kernels::Pool;
use crate::library::{self, LibraryError, Spec, TargetFiles, Tokenizer};
use crate::model::head::HeadError;
use crate::model::{self, Target};
use crate::plan::{
    BudgetController, CostInputs, DraftKind, LayerPlacement, Measured, Plan, Prefer, STRATEGIES,
    SearchSpace, Setting, Strategy, TargetSize, Throughput, choose, correct,
};
use crate::settings::{LOOKUP, Settings};
use crate::speculate::Method;
use drafters::{LoadContext, LoadedDrafter};
use head::OpenDevice;
pub use sampling::SampledBy;
use target::LoadedTarget;

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
    /// The strategy asked for cannot run.
    #[error("the strategy `{name}` needs {missing}; or take one of {available}")]
    Strategy {
        /// The strategy.
        name: &'static str,
        /// What it lacks, with the remedy.
        missing: String,
        /// Strategies that can run.
        available: String,
    },
    /// The target is larger than the machine.
    #[error(
        "{name} needs {} MiB of memory and this machine has {}; take a smaller model or one with \
         fewer bits a weight",
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
    load_on(settings, machine, purpose, head::device, progress)
}

/// [`load`] with devices that `open_device` opens.
fn load_on(
    settings: &Settings,
    machine: &Machine,
    purpose: Purpose,
    open_device: OpenDevice,
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
    let small = match (settings.draft_model.as_deref(), &spec) {
        (Some(model), _) => Some(Spec::parse(model)?),
        (None, Spec::Bundled) => Some(Spec::Bundled),
        (None, _) => None,
    };
    let small = small.map(|spec| library::open_small(&spec, &mut fetching)).transpose()?;
    let mut notices = settings.without_effect();
    let context = target::context(settings, &files, &mut notices);
    let recommended = (spec != Spec::Bundled).then_some(&files.sampling);
    let drawn = sampling::sampling(settings, recommended);
    notices.extend(drawn.notices);
    for files in small.iter().chain([&files]) {
        target::check_memory(files, machine)?;
    }

    let threads = settings.threads.unwrap_or(machine.cpu.physical).max(1);
    let pool = Arc::new(Pool::new(threads));
    let placed = target::place(settings, machine, &files, head.as_ref(), context);
    let mut loaded_target =
        LoadedTarget::load(settings, &files, &placed, pool, context, open_device, progress)?;
    let target = loaded_target.cpu();
    let verifier = Throughput::of_cpu(&machine.cpu, threads);
    let ctx = LoadContext {
        settings,
        machine,
        files: &files,
        target,
        head: head.as_ref(),
        small: small.as_ref(),
        cpu: verifier,
        threads,
        context,
        open_device,
    };
    let mut drafters = ctx.drafters(progress)?;
    let (statuses, target_size) = (statuses(&ctx, &drafters, &placed), ctx.target_size());
    let strategy = initial_strategy(settings, &statuses)?;
    notices.extend(drafter_of(strategy, &drafters).and_then(|it| other_blocks(settings, it)));
    notices.extend(drafters.iter().filter_map(|drafter| drafter.notice.clone()));
    notices.extend(loaded_target.notice());

    progress("measuring", None);
    let drafter = drafters.iter_mut().find(|drafter| drafter.kind == strategy.draft);
    let drafter =
        drafter.map(|drafter| (drafter.drafter.as_mut() as &mut dyn Drafter, drafter.blocks));
    let found = measure::measure(loaded_target.target(), drafter, context);
    tracing::info!(?found, "measured");
    let bundled = spec == Spec::Bundled && settings.draft.is_none();
    let plan_inputs = PlanInputs {
        settings,
        verifier,
        target: target_size,
        found,
        drafted: strategy.draft,
        prefer: match settings.prefer {
            Prefer::Auto if bundled && purpose == Purpose::Chat => Prefer::Show,
            Prefer::Auto => Prefer::Speed,
            given => given,
        },
    };
    let rows = STRATEGIES.iter().zip(&statuses).filter(|(_, status)| status.missing.is_none());
    let controllers: Vec<StrategyController> =
        rows.map(|(row, _)| plan_inputs.controller(row, &drafters)).collect();
    let plan = plan_inputs.plan(strategy, drafter_of(strategy, &drafters)).0;
    let preface = drafter_of(strategy, &drafters).map(LoadedDrafter::preface).unwrap_or_default();
    let vram = drafters
        .iter()
        .filter(|drafter| drafter.on_gpu)
        .map(|drafter| drafter.drafter.device_bytes());
    let vram_used = vram.sum::<u64>() + loaded_target.device_bytes();
    let ready = Ready { vram_used, ..ready(&files, strategy, statuses, &plan) };
    let reasons = loaded_target.reason().into_iter().chain(preface).chain(plan.reasons).collect();
    let stop = settings.stop.iter().chain(files.template.stop_strings()).cloned().collect();
    Ok(Loaded {
        target: loaded_target.into_target(),
        drafters: drafters.into_iter().map(|drafter| drafter.drafter).collect(),
        tokenizer: files.tokenizer,
        template: files.template,
        eos: files.eos,
        stop,
        planning: StrategyPlanner::new(controllers, strategy),
        ready: Ready { context, reasons, sampler: Some(drawn.sampler), ..ready },
        sampling: drawn.origins,
        notices,
    })
}

/// The drafter of a strategy.
fn drafter_of<'a>(strategy: &Strategy, drafters: &'a [LoadedDrafter]) -> Option<&'a LoadedDrafter> {
    drafters.iter().find(|drafter| drafter.kind == strategy.draft)
}

/// Every strategy, with what it lacks where it cannot run.
fn statuses(
    ctx: &LoadContext<'_>,
    drafters: &[LoadedDrafter],
    placed: &LayerPlacement,
) -> Vec<StrategyStatus> {
    let status = |row: &Strategy| {
        let drafter = drafter_of(row, drafters);
        let undrafted = drafter.is_none() && row.draft != DraftKind::None;
        let missing = if undrafted {
            Some(ctx.missing(row.draft))
        } else if row.gpu_layers && ctx.target.layers() == ctx.files.config.layers {
            Some(target::why_not_placed(placed))
        } else {
            None
        };
        StrategyStatus {
            name: row.name.to_owned(),
            draft: drafter.map(|drafter| drafter.drafter.describe()),
            depths: drafter.map_or(Depths::Fixed(0), |drafter| drafter.drafter.depths()),
            limit: drafter.and_then(|drafter| drafter.limit.clone()),
            missing,
        }
    };
    STRATEGIES.iter().map(status).collect()
}

/// What is said where other blocks were asked for than the head can run with.
fn other_blocks(settings: &Settings, head: &LoadedDrafter) -> Option<String> {
    let Setting::Fixed(blocks) = settings.controls.blocks else { return None };
    let (least, most) = head.blocks;
    let used = blocks.clamp(least, most);
    (head.kind == DraftKind::Head && used != blocks).then(|| {
        let why = match &head.limit {
            Some(limit) => limit.clone(),
            None if least == most => format!("this head runs with all of its {most}"),
            None => format!("this head has {most}"),
        };
        format!("`blocks` is {blocks}, and {why}: {used} are used.")
    })
}

/// The strategy to begin with, if it can run.
fn initial_strategy(
    settings: &Settings,
    statuses: &[StrategyStatus],
) -> Result<&'static Strategy, LoadError> {
    let strategy = settings.initial_strategy();
    let named = statuses.iter().find(|status| status.name == strategy.name);
    let Some(missing) = named.and_then(|status| status.missing.clone()) else {
        return Ok(strategy);
    };
    let available: Vec<&str> = statuses
        .iter()
        .filter(|status| status.missing.is_none())
        .map(|status| status.name.as_str())
        .collect();
    let available = available.join(", ");
    Err(LoadError::Strategy { name: strategy.name, missing, available })
}

/// What strategies are planned from.
struct PlanInputs<'a> {
    settings: &'a Settings,
    verifier: Throughput,
    target: TargetSize,
    found: Measured,
    /// The drafter that was measured.
    drafted: DraftKind,
    prefer: Prefer,
}

impl PlanInputs<'_> {
    /// A strategy ready to run. Only one drafter is measured: the others' times are estimated
    /// until their first rounds are measured.
    fn controller(
        &self,
        strategy: &'static Strategy,
        drafters: &[LoadedDrafter],
    ) -> StrategyController {
        let drafter = drafter_of(strategy, drafters);
        let (plan, space) = self.plan(strategy, drafter);
        let preface = drafter.map(LoadedDrafter::preface).unwrap_or_default();
        let drafter = drafters.iter().position(|drafter| drafter.kind == strategy.draft);
        let budgets = BudgetController::new(strategy.method, &plan, space, preface);
        StrategyController { strategy, drafter, budgets }
    }

    fn plan(&self, strategy: &Strategy, drafter: Option<&LoadedDrafter>) -> (Plan, SearchSpace) {
        let inputs = CostInputs {
            verifier: self.verifier,
            target: self.target,
            draft: drafter.map(|drafter| (drafter.size, drafter.throughput)),
        };
        let space = SearchSpace {
            overrides: strategy.overrides(&self.settings.controls),
            blocks: drafter.map(|drafter| drafter.blocks),
            prefer: self.prefer,
        };
        let mut found = self.found.clone();
        found.level = found.level.filter(|_| strategy.draft == self.drafted);
        let mut plan = correct(choose(&inputs, &space), &found, &space);
        if let Method::Sequences { .. } = strategy.method {
            let mut budgets = BudgetController::new(strategy.method, &plan, space, Vec::new());
            plan.budget = budgets.budget(&space.overrides);
            plan.reasons = budgets.reasons();
        }
        (plan, space)
    }
}

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
