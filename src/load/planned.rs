//! Plans every strategy that can run with what was loaded, and reports the plan. It must never load
//! or measure.

use std::path::PathBuf;

use super::Purpose;
use super::context::LoadContext;
use super::drafter::{LoadedDrafter, drafters_of};
use super::ready::{Ready, StrategyStatus};
use super::shared_target::SharedTarget;
use super::strategies::{self, PlanInputs, StrategyController};
use crate::chat::ModelChoice;
use crate::draft::Depths;
use crate::files::CachedValue;
use crate::library::TargetFiles;
use crate::messages;
use crate::plan::{DrafterId, Learned, LevelCost, Plan, Prefer, Strategy};

/// The strategies that can run with a target and its drafters.
pub struct Strategies {
    /// One for each, with its costs. There is at least one.
    pub controllers: Vec<StrategyController>,
    /// The engine's drafters, in order.
    pub drafters: Vec<DrafterId>,
    /// The strategy used if none is requested.
    pub default: &'static Strategy,
    /// Where to store what is learned from rounds; `None` if it is not stored.
    pub(crate) learned: Option<CachedValue<Learned>>,
}

/// The plan for a target and its drafters, whichever of them has just been loaded.
pub(super) struct Planned {
    pub(super) strategies: Strategies,
    pub(super) ready: Ready,
    pub(super) notices: Vec<String>,
}

/// The plan for `drafters` of `target` under `strategy`, with the notices of both.
pub(super) fn planned(
    ctx: &LoadContext<'_>,
    purpose: Purpose,
    target: &SharedTarget,
    drafters: &[LoadedDrafter],
    statuses: Vec<StrategyStatus>,
    strategy: &'static Strategy,
    levels: Vec<(DrafterId, LevelCost)>,
) -> Planned {
    let LoadContext { settings, files, .. } = ctx;
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
    let controllers = plan_inputs.controllers(&statuses, drafters);
    let plan = plan_inputs.plan(strategy, drafters);

    let mut notices = Vec::new();
    let used = drafters_of(strategy, drafters);
    notices.extend(used.iter().find_map(|drafter| strategies::other_blocks(settings, drafter)));
    notices.extend(drafters.iter().filter_map(|drafter| drafter.notice.clone()));
    let on_gpu = drafters.iter().map(LoadedDrafter::device_bytes).sum::<u64>();
    let preface = used.iter().flat_map(|drafter| drafter.preface());
    let advised = ctx.advice.iter().flat_map(|advice| advice.reasons.clone());
    let ready = Ready {
        context: ctx.context,
        vram_used: on_gpu + target.device_bytes,
        prompts_on: target.prompts_on.clone(),
        for_show: plan_inputs.prefer == Prefer::Show,
        verify_ms: target.measured.verify.clone(),
        plain_ms: target.measured.verify.iter().find(|(rows, _)| *rows == 1).map(|(_, ms)| *ms),
        reasons: once(
            advised
                .chain(target.reason.iter().cloned())
                .chain(preface)
                .chain(messages::reasons(&plan.reasons)),
        ),
        models: ModelChoice {
            target: settings.target.clone(),
            draft: draft_name(ctx),
            draft_model: settings.draft_model.clone(),
        },
        ..ready(&files.target, strategy, statuses, &plan)
    };
    let kinds = drafters.iter().map(|drafter| drafter.kind).collect();
    let file = |folder: &PathBuf| CachedValue::new(folder, learned_of(ctx, target, drafters));
    let learned = settings.learned.as_ref().map(file);
    let strategies = Strategies { controllers, drafters: kinds, default: strategy, learned };
    Planned { strategies, ready, notices }
}

/// The current draft as flags name it; of several heads, the one in use.
fn draft_name(ctx: &LoadContext<'_>) -> Option<String> {
    let given = ctx.head().and_then(|head| head.given.as_deref());
    given.or(ctx.settings.draft.name()).map(str::to_owned)
}

/// Everything that determines how fast rounds are: what was learned about other models cannot be
/// used.
fn learned_of(ctx: &LoadContext<'_>, shared: &SharedTarget, drafters: &[LoadedDrafter]) -> String {
    let TargetFiles { name, detail, bytes, tokenizer, .. } = &ctx.files.target;
    let cpu = &ctx.machine.cpu.name;
    let (threads, vocabulary) = (ctx.threads(), tokenizer.fingerprint());
    let models = drafters.iter().filter(|drafter| drafter.is_model());
    let models: Vec<String> = models.map(|drafter| drafter.drafter.describe()).collect();
    let models = format!("{} {:?}", models.join("; "), ctx.settings.draft_vocab);
    let models = format!("{models} {:?}", ctx.settings.ngrams);
    let elsewhere = shared.reason.as_deref().unwrap_or_default();
    format!(
        "{cpu}, {threads} threads: {name}, {detail}, {bytes} bytes, {vocabulary:x}; \
         {models}{elsewhere}"
    )
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
        prompts_on: None,
        strategy: strategy.name.to_owned(),
        strategies: statuses,
        sampler: None,
        switches_thinking: files.template.switches_thinking(),
        plain_ms: None,
        verify_ms: Vec::new(),
        for_show: false,
        models: ModelChoice::default(),
    }
}

/// Each sentence once, because two drafts may say the same.
fn once(sentences: impl Iterator<Item = String>) -> Vec<String> {
    let mut all = Vec::new();
    for sentence in sentences {
        if !all.contains(&sentence) {
            all.push(sentence);
        }
    }
    all
}
