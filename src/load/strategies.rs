//! Which strategies can run with what was loaded, and the plan of each. It must never load.

use std::path::PathBuf;

use super::context::LoadContext;
use super::drafter::LoadedDrafter;
use super::error::StartError;
use super::reason::{BlocksLimit, LoadReason, Missing, Notice};
use super::sampling::sampling;
use super::setup::{Setup, StrategySetup};
use super::shared_target::SharedTarget;
use super::{LoadedDrafts, Purpose};
use crate::chat::ModelChoice;
use crate::draft::Depths;
use crate::files::CachedValue;
use crate::library::TargetFiles;
use crate::model::ModelEngine;
use crate::plan::{
    Controller, CostInputs, DrafterId, Learned, LevelCost, Measured, ModelArm, Plan, Prefer,
    STRATEGIES, Schedule, SearchSpace, Setting, Sizing, Strategy, VerifyTimes, choose,
};
use crate::settings::Settings;
use crate::speculate::Method;

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
        let row = |strategy| row(ctx, target, drafters, strategy);
        let rows: Vec<StrategySetup> = STRATEGIES.iter().map(row).collect();
        let chooses = ctx.settings.strategy.is_none_or(|row| row.draft == DrafterId::Auto);
        let strategy = match ctx.files.target.engine() {
            ModelEngine::Candle if chooses => Strategy::first_with(DrafterId::None),
            _ => ctx.settings.initial_strategy(),
        };
        let own = rows.iter().find(|row| row.strategy.name == strategy.name);
        if let Some(missing) = own.and_then(|row| row.missing.clone()) {
            let available = rows.iter().filter(|row| row.missing.is_none());
            let available = available.map(|row| row.strategy.name).collect();
            return Err(StartError::Strategy { name: strategy.name, missing, available });
        }
        // Drafting at the same time as the target is a separate strategy.
        let beside = ctx.advice.as_ref().is_some_and(|advice| advice.best.beside);
        let overlaps = beside && strategy.draft == DrafterId::Auto;
        let duo = STRATEGIES.iter().find(|row| overlaps && row.schedule == Schedule::Overlap);
        Ok(Self { rows, initial: duo.unwrap_or(strategy) })
    }
}

/// A strategy, with what is missing if it cannot run.
fn row(
    ctx: &LoadContext<'_>,
    target: &SharedTarget,
    drafters: &[LoadedDrafter],
    strategy: &'static Strategy,
) -> StrategySetup {
    let drafter = drafter_of(strategy, drafters);
    let missing = if strategy.draft != DrafterId::None && !ctx.files.target.engine().is_own() {
        Some(Missing::Trees)
    } else if drafter.is_none() && strategy.draft != DrafterId::None {
        // `--draft` may name the other kind.
        let other = match strategy.draft {
            DrafterId::Head => Some("a draft head; name one with --draft"),
            DrafterId::Dflash => Some("a DFlash drafter; name one with --draft"),
            _ => None,
        };
        let lacks = ctx.settings.lacks(strategy.draft).or(other);
        Some(lacks.map_or(Missing::NotBuilt, Missing::Drafter))
    } else if strategy.streamed {
        target.missing_streaming.clone()
    } else if strategy.gpu_layers {
        target.missing_gpu_layers.clone()
    } else {
        None
    };
    let used = drafters_of(strategy, drafters);
    let names: Vec<String> = used.iter().map(|drafter| drafter.drafter.describe()).collect();
    StrategySetup {
        strategy,
        draft: (!names.is_empty()).then(|| names.join("; ")),
        depths: used.first().map_or(Depths::Fixed(0), |drafter| drafter.drafter.depths()),
        limit: used.first().and_then(|drafter| drafter.limit.clone()),
        parameters: drafter.map_or_else(Vec::new, LoadedDrafter::parameters),
        missing,
    }
}

/// The notice if the user fixed a number of blocks with which the head cannot run.
fn other_blocks(settings: &Settings, head: &LoadedDrafter) -> Option<Notice> {
    let Setting::Fixed(requested) = settings.controls.blocks else { return None };
    let (least, most) = head.size.range();
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
#[derive(Debug)]
pub struct Strategies {
    /// One for each, with its costs. There is at least one.
    pub controllers: Vec<StrategyController>,
    /// The engine's drafters, in order.
    pub drafters: Vec<DrafterId>,
    /// The strategy used if none is requested.
    pub default: &'static Strategy,
    /// T_V, estimated or measured: of passes alone, and of those during which a model drafts.
    pub times: [VerifyTimes; 2],
    /// Where to store what is learned from rounds; `None` if it is not stored.
    pub(crate) learned: Option<CachedValue<Learned>>,
}

/// Plans for `drafters` of `target`, of which `levels` were measured. The setup has their
/// notices.
pub(super) fn planned(
    ctx: &LoadContext<'_>,
    purpose: Purpose,
    target: SharedTarget,
    drafters: Vec<LoadedDrafter>,
    available: Available,
    levels: Vec<(DrafterId, LevelCost)>,
) -> LoadedDrafts {
    let LoadContext { settings, files, .. } = ctx;
    let Available { rows, initial } = available;
    let prefer = match settings.prefer {
        Prefer::Auto if purpose == Purpose::Chat && files.is_bundled_pair(settings) => Prefer::Show,
        Prefer::Auto => Prefer::Speed,
        given => given,
    };
    let inputs = PlanInputs { ctx, target: &target, drafters: &drafters, levels, prefer };
    let runnable = rows.iter().filter(|row| row.missing.is_none());
    let controllers = runnable.map(|row| inputs.controller(row.strategy).0).collect();
    let (StrategyController { controller, preface, .. }, plan) = inputs.controller(initial);
    let mut budget = plan.budget;
    let mut reasons = plan.reasons;
    if matches!(initial.method, Method::Sequences { .. }) || initial.sizing == Sizing::After {
        budget = controller.current().0;
        // The basis of the times comes last.
        let basis = reasons.pop();
        reasons = controller.reasons().into_iter().chain(basis).collect();
    }
    let sampling = sampling(settings, files.recommended());
    let advised = ctx.advice.iter().flat_map(|advice| advice.reasons.iter().cloned());
    let reasons = advised
        .chain(target.reasons.iter().cloned())
        .chain(preface)
        .chain(reasons.into_iter().map(LoadReason::Plan));
    let used = drafters_of(initial, &drafters);
    let other_blocks = used.iter().find_map(|drafter| other_blocks(settings, drafter));
    let refused = drafters.iter().filter_map(|drafter| drafter.notice.clone());
    let on_gpu = drafters.iter().map(LoadedDrafter::device_bytes).sum::<u64>();
    let setup = Setup {
        target: files.target.name.clone(),
        target_detail: files.target.detail.clone(),
        engine: files.target.engine(),
        models: ModelChoice {
            target: settings.target.clone(),
            draft: draft_name(ctx),
            draft_model: settings.draft_model.clone(),
        },
        context: ctx.context,
        most_context: files.target.config.max_positions,
        strategy: initial,
        strategies: rows,
        budget,
        for_show: prefer == Prefer::Show,
        verify_times: target.measured.verify.clone(),
        device_bytes: on_gpu + target.device_bytes,
        prompts_on: target.prompts_on.clone(),
        sampler: sampling.sampler,
        sampling: sampling.origins,
        switches_thinking: files.target.template.switches_thinking(),
        reasons: reasons.collect(),
        notices: sampling.notices.into_iter().chain(other_blocks).chain(refused).collect(),
    };
    let learned = |folder: &PathBuf| CachedValue::new(folder, learned_of(ctx, &target, &drafters));
    let strategies = Strategies {
        controllers,
        drafters: drafters.iter().map(|drafter| drafter.kind).collect(),
        default: initial,
        times: [*plan.costs.verify_times(); 2],
        learned: settings.learned.as_ref().map(learned),
    };
    let drafters = drafters.into_iter().map(|drafter| drafter.drafter).collect();
    LoadedDrafts { drafters, strategies, setup, shared: target }
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
    let threads = ctx.threads;
    let vocabulary = tokenizer.fingerprint();
    let models = drafters.iter().filter(|drafter| drafter.kind.is_model());
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

/// What every strategy's plan is made from.
struct PlanInputs<'a> {
    ctx: &'a LoadContext<'a>,
    target: &'a SharedTarget,
    drafters: &'a [LoadedDrafter],
    /// T_D of the drafters that were measured.
    levels: Vec<(DrafterId, LevelCost)>,
    prefer: Prefer,
}

impl PlanInputs<'_> {
    /// A strategy with its controller, and the plan from which it starts. Only the drafters of the
    /// first are measured: the others' times are estimated until their first rounds are measured.
    fn controller(&self, strategy: &'static Strategy) -> (StrategyController, Plan) {
        let drafter = drafter_of(strategy, self.drafters);
        let (plan, space) = self.plan(strategy, drafter, false);
        let used = drafters_of(strategy, self.drafters);
        let index = |kind| self.drafters.iter().position(|drafter| drafter.kind == kind);
        let models = used.iter().filter(|drafter| drafter.kind != strategy.draft);
        let arms = models.filter_map(|drafter| {
            let own = |row: &&Strategy| row.draft == drafter.kind && row.is_own_tree();
            let row = STRATEGIES.iter().find(own)?;
            let (plan, space) = self.plan(row, Some(drafter), true);
            Some(ModelArm::new(drafter.kind, index(drafter.kind)?, &plan, space))
        });
        let controller = strategy.controller(&plan, space, arms.collect());
        let drafter = index(strategy.draft);
        let preface = used.iter().flat_map(|drafter| drafter.reasons.iter().cloned()).collect();
        (StrategyController { strategy, drafter, controller, preface }, plan)
    }

    /// The first budget of a strategy and why. With `always`, drafting nothing is not a choice.
    fn plan(
        &self,
        strategy: &Strategy,
        drafter: Option<&LoadedDrafter>,
        always: bool,
    ) -> (Plan, SearchSpace) {
        let inputs = CostInputs {
            verifier: self.ctx.cpu,
            target: self.target.size,
            draft: drafter.map(|drafter| (drafter.size, self.ctx.throughput(drafter.on_gpu))),
        };
        let overrides = strategy.overrides(&self.ctx.settings.controls);
        let space = SearchSpace {
            prefer: self.prefer,
            always,
            ..SearchSpace::new(overrides, drafter.map(|drafter| drafter.size))
        };
        let level = self.levels.iter().find(|(kind, _)| *kind == strategy.draft);
        let level = level.map(|(_, level)| level.clone());
        let measured = Measured { level, ..self.target.measured.clone() };
        (choose(&inputs, &measured, &space), space)
    }
}

/// Whether a strategy uses a drafter: as its own, or because `auto` may choose it.
pub(super) fn uses(strategy: &Strategy, drafter: &LoadedDrafter) -> bool {
    let auto = strategy.draft == DrafterId::Auto;
    drafter.kind == strategy.draft || auto && drafter.kind.is_model()
}

/// The drafters that a strategy uses; the models come before its own.
fn drafters_of<'a>(strategy: &Strategy, drafters: &'a [LoadedDrafter]) -> Vec<&'a LoadedDrafter> {
    drafters.iter().filter(|drafter| uses(strategy, drafter)).collect()
}

/// The drafter of a strategy.
fn drafter_of<'a>(strategy: &Strategy, drafters: &'a [LoadedDrafter]) -> Option<&'a LoadedDrafter> {
    drafters.iter().find(|drafter| drafter.kind == strategy.draft)
}
