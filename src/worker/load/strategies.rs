//! Which strategies can run with what was loaded, and the plan of each. Must never load.

use super::context::LoadContext;
use super::drafter::{LoadedDrafter, drafter_of};
use super::error::StartError;
use super::shared_target::SharedTarget;
use crate::draft::Depths;
use crate::plan::{
    BudgetController, CostInputs, DraftKind, Measured, Plan, Prefer, STRATEGIES, SearchSpace,
    Setting, Sizing, Strategy, TargetSize, Throughput, choose, correct,
};
use crate::settings::Settings;
use crate::speculate::Method;
use crate::worker::protocol::StrategyStatus;
use crate::worker::strategy_planner::StrategyController;

/// Every strategy, with what it lacks where it cannot run.
fn statuses(
    ctx: &LoadContext<'_>,
    target: &SharedTarget,
    drafters: &[LoadedDrafter],
) -> Vec<StrategyStatus> {
    let status = |row: &Strategy| {
        let drafter = drafter_of(row, drafters);
        let missing = if drafter.is_none() && row.draft != DraftKind::None {
            let lacks = ctx.settings.lacks(row.draft);
            Some(lacks.unwrap_or("a drafter that this build does not have").to_owned())
        } else if row.gpu_layers {
            target.missing_gpu_layers.clone()
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

/// Every strategy, and the one to begin with.
pub(super) fn available(
    ctx: &LoadContext<'_>,
    target: &SharedTarget,
    drafters: &[LoadedDrafter],
) -> Result<(Vec<StrategyStatus>, &'static Strategy), StartError> {
    let statuses = statuses(ctx, target, drafters);
    let strategy = initial(ctx.settings, &statuses)?;
    Ok((statuses, strategy))
}

/// The strategy to begin with, if it can run.
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

/// The notice where the user fixed a number of blocks that the head cannot run with.
pub(super) fn other_blocks(settings: &Settings, head: &LoadedDrafter) -> Option<String> {
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

/// The inputs of every strategy's plan.
pub(super) struct PlanInputs<'a> {
    pub(super) settings: &'a Settings,
    pub(super) verifier: Throughput,
    pub(super) target: TargetSize,
    pub(super) measured: Measured,
    /// The drafter that was measured.
    pub(super) drafted: DraftKind,
    pub(super) prefer: Prefer,
}

impl PlanInputs<'_> {
    /// Every strategy that lacks nothing, ready to run.
    pub(super) fn controllers(
        &self,
        statuses: &[StrategyStatus],
        drafters: &[LoadedDrafter],
    ) -> Vec<StrategyController> {
        let rows = STRATEGIES.iter().zip(statuses).filter(|(_, status)| status.missing.is_none());
        rows.map(|(row, _)| self.controller(row, drafters)).collect()
    }

    /// A strategy ready to run. Only one drafter is measured: the others' times are estimated
    /// until their first rounds are measured.
    fn controller(
        &self,
        strategy: &'static Strategy,
        drafters: &[LoadedDrafter],
    ) -> StrategyController {
        let drafter = drafter_of(strategy, drafters);
        let (plan, space) = self.plan_in_space(strategy, drafter);
        let preface = drafter.map(LoadedDrafter::preface).unwrap_or_default();
        let drafter = drafters.iter().position(|drafter| drafter.kind == strategy.draft);
        let budgets = BudgetController::new(strategy, &plan, space, preface);
        StrategyController { strategy, drafter, budgets }
    }

    /// The first budget of a strategy and why.
    pub(super) fn plan(&self, strategy: &Strategy, drafter: Option<&LoadedDrafter>) -> Plan {
        self.plan_in_space(strategy, drafter).0
    }

    fn plan_in_space(
        &self,
        strategy: &Strategy,
        drafter: Option<&LoadedDrafter>,
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
        };
        let mut measured = self.measured.clone();
        measured.level = measured.level.filter(|_| strategy.draft == self.drafted);
        let mut plan = correct(choose(&inputs, &space), &measured, &space);
        let sequences = matches!(strategy.method, Method::Sequences { .. });
        if sequences || strategy.sizing == Sizing::After {
            let mut budgets = BudgetController::new(strategy, &plan, space, Vec::new());
            plan.budget = budgets.budget(&space.overrides);
            plan.reasons = budgets.reasons();
        }
        (plan, space)
    }
}
