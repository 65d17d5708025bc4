//! Which strategies can run with what was loaded, and the plan of each. It must never load.

use std::path::PathBuf;

use super::Purpose;
use super::context::LoadContext;
use super::drafter::LoadedDrafter;
use super::error::StartError;
use super::reason::{BlocksLimit, LoadReason, Missing, Notice};
use super::sampling::sampling;
use super::setup::{Setup, StrategySetup};
use super::shared_target::SharedTarget;
use crate::chat::ModelChoice;
use crate::draft::Depths;
use crate::files::CachedValue;
use crate::library::TargetFiles;
use crate::plan::{
    Controller, CostInputs, DrafterId, Learned, LevelCost, Measured, ModelArm, Plan, Prefer,
    STRATEGIES, Schedule, SearchSpace, Setting, Sizing, Strategy, TargetSize, Throughput,
    VerifyTimes, choose, correct,
};
use crate::settings::Settings;
use crate::speculate::Method;

/// Every strategy, with what is missing if it cannot run.
fn rows(
    ctx: &LoadContext<'_>,
    target: &SharedTarget,
    drafters: &[LoadedDrafter],
) -> Vec<StrategySetup> {
    let of = |row: &'static Strategy| {
        let drafter = drafter_of(row, drafters);
        let missing = if drafter.is_none() && row.draft != DrafterId::None {
            let lacks = ctx.settings.lacks(row.draft);
            Some(lacks.map_or(Missing::NotBuilt, Missing::Drafter))
        } else if row.streamed {
            target.missing_streaming.clone()
        } else if row.gpu_layers {
            target.missing_gpu_layers.clone()
        } else {
            None
        };
        let used = drafters_of(row, drafters);
        let names: Vec<String> = used.iter().map(|drafter| drafter.drafter.describe()).collect();
        StrategySetup {
            strategy: row,
            draft: (!names.is_empty()).then(|| names.join("; ")),
            depths: used.first().map_or(Depths::Fixed(0), |drafter| drafter.drafter.depths()),
            limit: used.first().and_then(|drafter| drafter.limit.clone()),
            parameters: drafter.map_or_else(Vec::new, LoadedDrafter::parameters),
            missing,
        }
    };
    STRATEGIES.iter().map(of).collect()
}

/// Every strategy, and the initial one.
pub(super) struct Available {
    pub(super) rows: Vec<StrategySetup>,
    pub(super) initial: &'static Strategy,
}

impl Available {
    /// Of what was loaded.
    ///
    /// # Errors
    /// [`StartError::Strategy`] if the requested one cannot run.
    pub(super) fn of(
        ctx: &LoadContext<'_>,
        target: &SharedTarget,
        drafters: &[LoadedDrafter],
    ) -> Result<Self, StartError> {
        let rows = rows(ctx, target, drafters);
        let strategy = requested(ctx.settings, &rows)?;
        // Drafting at the same time as the target is a separate strategy.
        let beside = ctx.advice.as_ref().is_some_and(|advice| advice.best.beside);
        let overlaps = beside && strategy.draft == DrafterId::Auto;
        let duo = STRATEGIES.iter().find(|row| overlaps && row.schedule == Schedule::Overlap);
        Ok(Self { rows, initial: duo.unwrap_or(strategy) })
    }
}

/// The requested strategy, or the default one, if it can run.
fn requested(settings: &Settings, rows: &[StrategySetup]) -> Result<&'static Strategy, StartError> {
    let strategy = settings.initial_strategy();
    let own = rows.iter().find(|row| row.strategy.name == strategy.name);
    let Some(missing) = own.and_then(|row| row.missing.clone()) else { return Ok(strategy) };
    let available = rows.iter().filter(|row| row.missing.is_none());
    let available = available.map(|row| row.strategy.name).collect();
    Err(StartError::Strategy { name: strategy.name, missing, available })
}

/// The notice if the user fixed a number of blocks with which the head cannot run.
fn other_blocks(settings: &Settings, head: &LoadedDrafter) -> Option<Notice> {
    let Setting::Fixed(requested) = settings.controls.blocks else { return None };
    let (least, most) = head.blocks;
    let used = requested.clamp(least, most);
    if head.kind != DrafterId::Head || used == requested {
        return None;
    }
    let why = match &head.limit {
        Some(limit) => BlocksLimit::Room(limit.clone()),
        None if least == most => BlocksLimit::Always(most),
        None => BlocksLimit::Most(most),
    };
    Some(Notice::Blocks { requested, used, why })
}

/// The strategies that can run with a target and its drafters.
pub struct Strategies {
    /// One for each, with its costs. There is at least one.
    pub controllers: Vec<StrategyController>,
    /// The engine's drafters, in order.
    pub drafters: Vec<DrafterId>,
    /// The strategy used if none is requested.
    pub default: &'static Strategy,
    /// T_V, estimated or measured.
    pub times: VerifyTimes,
    /// Where to store what is learned from rounds; `None` if it is not stored.
    pub(crate) learned: Option<CachedValue<Learned>>,
}

/// A plan for every strategy, and what was chosen.
pub(super) struct Planned {
    pub(super) strategies: Strategies,
    pub(super) setup: Setup,
}

/// Plans for `drafters` of `target`, of which `levels` were measured. The setup has their
/// notices.
pub(super) fn planned(
    ctx: &LoadContext<'_>,
    purpose: Purpose,
    target: &SharedTarget,
    drafters: &[LoadedDrafter],
    available: Available,
    levels: Vec<(DrafterId, LevelCost)>,
) -> Planned {
    let LoadContext { settings, files, .. } = ctx;
    let Available { rows, initial } = available;
    let plan_inputs = PlanInputs {
        settings,
        verifier: ctx.cpu,
        target: target.size,
        measured: target.measured.clone(),
        levels,
        prefer: match settings.prefer {
            Prefer::Auto if purpose == Purpose::Chat && files.is_bundled_pair(settings) => {
                Prefer::Show
            }
            Prefer::Auto => Prefer::Speed,
            given => given,
        },
    };
    let sampling = sampling(settings, files.recommended());
    let controllers = plan_inputs.controllers(&rows, drafters);
    let plan = plan_inputs.plan(initial, drafters);
    let used = drafters_of(initial, drafters);
    let advised = ctx.advice.iter().flat_map(|advice| advice.reasons.iter().cloned());
    let reasons = advised
        .chain(target.reasons.iter().cloned())
        .chain(used.iter().flat_map(|drafter| drafter.reasons.iter().cloned()))
        .chain(plan.reasons.into_iter().map(LoadReason::Plan));
    let other_blocks = used.iter().find_map(|drafter| other_blocks(settings, drafter));
    let refused = drafters.iter().filter_map(|drafter| drafter.notice.clone());
    let on_gpu = drafters.iter().map(LoadedDrafter::device_bytes).sum::<u64>();
    let setup = Setup {
        target: files.target.name.clone(),
        target_detail: files.target.detail.clone(),
        models: ModelChoice {
            target: settings.target.clone(),
            draft: draft_name(ctx),
            draft_model: settings.draft_model.clone(),
        },
        context: ctx.context,
        most_context: files.target.config.max_positions,
        strategy: initial,
        strategies: rows,
        budget: plan.budget,
        for_show: plan_inputs.prefer == Prefer::Show,
        verify_times: target.measured.verify.clone(),
        device_bytes: on_gpu + target.device_bytes,
        prompts_on: target.prompts_on.clone(),
        sampler: sampling.sampler,
        sampling: sampling.origins,
        switches_thinking: files.target.template.switches_thinking(),
        reasons: reasons.collect(),
        notices: sampling.notices.into_iter().chain(other_blocks).chain(refused).collect(),
    };
    let learned = |folder: &PathBuf| CachedValue::new(folder, learned_of(ctx, target, drafters));
    let strategies = Strategies {
        controllers,
        drafters: drafters.iter().map(|drafter| drafter.kind).collect(),
        default: initial,
        times: *plan.costs.verify_times(),
        learned: settings.learned.as_ref().map(learned),
    };
    Planned { strategies, setup }
}

/// The current draft as flags name it; of several heads, the one in use.
fn draft_name(ctx: &LoadContext<'_>) -> Option<String> {
    let given = ctx.head().and_then(|head| head.given.as_deref());
    given.or(ctx.settings.draft.name()).map(str::to_owned)
}

/// Everything that determines how fast rounds are: what was learned about other models cannot be
/// used.
fn learned_of(ctx: &LoadContext<'_>, target: &SharedTarget, drafters: &[LoadedDrafter]) -> String {
    let TargetFiles { name, detail, bytes, tokenizer, .. } = &ctx.files.target;
    let cpu = &ctx.machine.cpu.name;
    let threads = ctx.threads();
    let vocabulary = tokenizer.fingerprint();
    let models = drafters.iter().filter(|drafter| drafter.is_model());
    let models: Vec<String> = models.map(|drafter| drafter.drafter.describe()).collect();
    let models = format!("{} {:?}", models.join("; "), ctx.settings.draft_vocab);
    let models = format!("{models} {:?}", ctx.settings.ngrams);
    // What is expected of long prompts changes no round.
    let place = target.reasons.first();
    format!(
        "{cpu}, {threads} threads: {name}, {detail}, {bytes} bytes, {vocabulary:x}; \
         {models} {place:?}"
    )
}

/// A strategy that can run here.
#[derive(Debug)]
pub struct StrategyController {
    /// The row of the table.
    pub strategy: &'static Strategy,
    /// The index of its drafter in the engine; `None` for the target alone.
    pub drafter: Option<usize>,
    /// Chooses its budgets.
    pub controller: Box<dyn Controller>,
    /// What is true of every choice: where the draft runs, for one.
    pub preface: Vec<LoadReason>,
}

/// The inputs of every strategy's plan.
struct PlanInputs<'a> {
    settings: &'a Settings,
    verifier: Throughput,
    target: TargetSize,
    measured: Measured,
    /// T_D of the drafters that were measured.
    levels: Vec<(DrafterId, LevelCost)>,
    prefer: Prefer,
}

impl PlanInputs<'_> {
    /// Every strategy that can run, with its controller.
    fn controllers(
        &self,
        rows: &[StrategySetup],
        drafters: &[LoadedDrafter],
    ) -> Vec<StrategyController> {
        let rows = rows.iter().filter(|row| row.missing.is_none());
        rows.map(|row| self.controller(row.strategy, drafters)).collect()
    }

    /// A strategy with its controller. Only the drafters of the first are measured: the others'
    /// times are estimated until their first rounds are measured.
    fn controller(
        &self,
        strategy: &'static Strategy,
        drafters: &[LoadedDrafter],
    ) -> StrategyController {
        let (controller, _) = self.planned(strategy, drafters);
        let drafter = drafters.iter().position(|drafter| drafter.kind == strategy.draft);
        let used = drafters_of(strategy, drafters);
        let preface = used.iter().flat_map(|drafter| drafter.reasons.iter().cloned()).collect();
        StrategyController { strategy, drafter, controller, preface }
    }

    /// The controller of a strategy, with the plan from which it starts.
    fn planned(
        &self,
        strategy: &Strategy,
        drafters: &[LoadedDrafter],
    ) -> (Box<dyn Controller>, Plan) {
        let (plan, space) = self.plan_in_space(strategy, drafter_of(strategy, drafters), false);
        let used = drafters_of(strategy, drafters);
        let models = used.iter().filter(|drafter| drafter.kind != strategy.draft);
        let arms = models.filter_map(|drafter| {
            let own = |row: &&Strategy| row.draft == drafter.kind && row.is_own_tree();
            let row = STRATEGIES.iter().find(own)?;
            let (plan, space) = self.plan_in_space(row, Some(drafter), true);
            Some(ModelArm::new(drafter.kind, &plan, space))
        });
        (strategy.controller(&plan, space, arms.collect()), plan)
    }

    /// The first budget of a strategy and why.
    fn plan(&self, strategy: &Strategy, drafters: &[LoadedDrafter]) -> Plan {
        let (controller, plan) = self.planned(strategy, drafters);
        let sequences = matches!(strategy.method, Method::Sequences { .. });
        if sequences || strategy.sizing == Sizing::After {
            // The basis of the times comes last.
            let basis = plan.reasons.last().cloned();
            let reasons = controller.reasons().into_iter().chain(basis).collect();
            return Plan { budget: controller.current().0, reasons, ..plan };
        }
        plan
    }

    fn plan_in_space(
        &self,
        strategy: &Strategy,
        drafter: Option<&LoadedDrafter>,
        always: bool,
    ) -> (Plan, SearchSpace) {
        let inputs = CostInputs {
            verifier: self.verifier,
            target: self.target,
            draft: drafter.map(|drafter| (drafter.size, drafter.throughput)),
        };
        let space = SearchSpace {
            overrides: strategy.overrides(&self.settings.controls),
            blocks: drafter.map(|drafter| drafter.blocks),
            prefer: self.prefer,
            always,
        };
        let level = self.levels.iter().find(|(kind, _)| *kind == strategy.draft);
        let level = level.map(|(_, level)| level.clone());
        let measured = Measured { level, ..self.measured.clone() };
        (correct(choose(&inputs, &space), &measured, &space), space)
    }
}

/// The drafters that a strategy uses: its own, or all that `auto` chooses from, with its own last.
fn drafters_of<'a>(strategy: &Strategy, drafters: &'a [LoadedDrafter]) -> Vec<&'a LoadedDrafter> {
    let auto = strategy.draft == DrafterId::Auto;
    let models = drafters.iter().filter(|drafter| auto && drafter.is_model());
    models.chain(drafter_of(strategy, drafters)).collect()
}

/// The drafter of a strategy.
fn drafter_of<'a>(strategy: &Strategy, drafters: &'a [LoadedDrafter]) -> Option<&'a LoadedDrafter> {
    drafters.iter().find(|drafter| drafter.kind == strategy.draft)
}
