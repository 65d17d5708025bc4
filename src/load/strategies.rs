//! Which strategies can run with what was loaded, and the plan of each. It must never load.

use super::context::LoadContext;
use super::drafter::{LoadedDrafter, drafter_of, drafters_of};
use super::error::StartError;
use super::ready::StrategyStatus;
use super::shared_target::SharedTarget;
use crate::draft::Depths;
use crate::plan::{
    BudgetController, CostInputs, DrafterId, LevelCost, Measured, Plan, Prefer, STRATEGIES,
    Schedule, SearchSpace, Setting, Sizing, Strategy, TargetSize, Throughput, choose, correct,
};
use crate::settings::Settings;
use crate::speculate::Method;

/// Every strategy, with what is missing if it cannot run.
fn statuses(
    ctx: &LoadContext<'_>,
    target: &SharedTarget,
    drafters: &[LoadedDrafter],
) -> Vec<StrategyStatus> {
    let status = |row: &Strategy| {
        let drafter = drafter_of(row, drafters);
        let missing = if drafter.is_none() && row.draft != DrafterId::None {
            let lacks = ctx.settings.lacks(row.draft);
            Some(lacks.unwrap_or("a drafter that this build does not include").to_owned())
        } else if row.streamed {
            target.missing_streaming.clone()
        } else if row.gpu_layers {
            target.missing_gpu_layers.clone()
        } else {
            None
        };
        let used = drafters_of(row, drafters);
        let names: Vec<String> = used.iter().map(|drafter| drafter.drafter.describe()).collect();
        StrategyStatus {
            name: row.name.to_owned(),
            draft: (!names.is_empty()).then(|| names.join("; ")),
            depths: used.first().map_or(Depths::Fixed(0), |drafter| drafter.drafter.depths()),
            limit: used.first().and_then(|drafter| drafter.limit.clone()),
            parameters: drafter.map_or_else(Vec::new, LoadedDrafter::parameters),
            missing,
        }
    };
    STRATEGIES.iter().map(status).collect()
}

/// Every strategy, and the initial one.
pub(super) fn available(
    ctx: &LoadContext<'_>,
    target: &SharedTarget,
    drafters: &[LoadedDrafter],
) -> Result<(Vec<StrategyStatus>, &'static Strategy), StartError> {
    let statuses = statuses(ctx, target, drafters);
    let strategy = initial(ctx.settings, &statuses)?;
    // Drafting at the same time as the target is a separate strategy.
    let beside = ctx.advice.as_ref().is_some_and(|advice| advice.best.beside);
    let duo = STRATEGIES.iter().find(|row| row.schedule == Schedule::Overlap);
    match duo.filter(|_| beside && strategy.draft == DrafterId::Auto) {
        Some(duo) => Ok((statuses, duo)),
        None => Ok((statuses, strategy)),
    }
}

/// The initial strategy, if it can run.
fn initial(
    settings: &Settings,
    statuses: &[StrategyStatus],
) -> Result<&'static Strategy, StartError> {
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
    Err(StartError::Strategy { name: strategy.name, missing, available })
}

/// The notice if the user fixed a number of blocks with which the head cannot run.
pub(super) fn other_blocks(settings: &Settings, head: &LoadedDrafter) -> Option<String> {
    let Setting::Fixed(blocks) = settings.controls.blocks else { return None };
    let (least, most) = head.blocks;
    let used = blocks.clamp(least, most);
    (head.kind == DrafterId::Head && used != blocks).then(|| {
        let why = match &head.limit {
            Some(limit) => limit.clone(),
            None if least == most => format!("this head always uses all of its {most}"),
            None => format!("this head has {most}"),
        };
        format!("`blocks` is {blocks}, but {why}; using {used}.")
    })
}

/// A strategy that can run here.
#[derive(Clone, Debug)]
pub struct StrategyController {
    /// The row of the table.
    pub strategy: &'static Strategy,
    /// The index of its drafter in the engine; `None` for the target alone.
    pub drafter: Option<usize>,
    /// Chooses its budgets.
    pub budgets: BudgetController,
    /// What is true of every choice, one sentence each: where the draft runs, for one.
    pub preface: Vec<String>,
}

/// The inputs of every strategy's plan.
pub(super) struct PlanInputs<'a> {
    pub(super) settings: &'a Settings,
    pub(super) verifier: Throughput,
    pub(super) target: TargetSize,
    pub(super) measured: Measured,
    /// T_D of the drafters that were measured.
    pub(super) levels: Vec<(DrafterId, LevelCost)>,
    pub(super) prefer: Prefer,
}

impl PlanInputs<'_> {
    /// Every strategy that can run, with its controller.
    pub(super) fn controllers(
        &self,
        statuses: &[StrategyStatus],
        drafters: &[LoadedDrafter],
    ) -> Vec<StrategyController> {
        let rows = STRATEGIES.iter().zip(statuses).filter(|(_, status)| status.missing.is_none());
        rows.map(|(row, _)| self.controller(row, drafters)).collect()
    }

    /// A strategy with its controller. Only the drafters of the first are measured: the others'
    /// times are estimated until their first rounds are measured.
    fn controller(
        &self,
        strategy: &'static Strategy,
        drafters: &[LoadedDrafter],
    ) -> StrategyController {
        let budgets = self.budgets(strategy, drafters).0;
        let drafter = drafters.iter().position(|drafter| drafter.kind == strategy.draft);
        let used = drafters_of(strategy, drafters);
        let preface = used.iter().flat_map(|drafter| drafter.preface()).collect();
        StrategyController { strategy, drafter, budgets, preface }
    }

    /// The controller of a strategy's budgets, with the plan from which it starts.
    fn budgets(&self, strategy: &Strategy, drafters: &[LoadedDrafter]) -> (BudgetController, Plan) {
        let (plan, space) = self.plan_in_space(strategy, drafter_of(strategy, drafters), false);
        let used = drafters_of(strategy, drafters);
        let mut budgets = BudgetController::new(strategy, &plan, space);
        let models = used.iter().filter(|drafter| drafter.kind != strategy.draft);
        for drafter in models {
            let own = |row: &&Strategy| row.draft == drafter.kind && row.is_own_tree();
            let Some(row) = STRATEGIES.iter().find(own) else { continue };
            let (plan, space) = self.plan_in_space(row, Some(drafter), true);
            budgets.with_model(drafter.kind, &plan, space);
        }
        (budgets, plan)
    }

    /// The first budget of a strategy and why.
    pub(super) fn plan(&self, strategy: &Strategy, drafters: &[LoadedDrafter]) -> Plan {
        let (budgets, plan) = self.budgets(strategy, drafters);
        let sequences = matches!(strategy.method, Method::Sequences { .. });
        if sequences || strategy.sizing == Sizing::After {
            // The basis of the times comes last.
            let basis = plan.reasons.last().cloned();
            let reasons = budgets.reasons().into_iter().chain(basis).collect();
            return Plan { budget: budgets.current().0, reasons, ..plan };
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
