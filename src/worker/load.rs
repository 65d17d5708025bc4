//! From settings to an engine's parts: opens the models, checks that they fit each other and the
//! machine, puts the drafts on their devices, measures shortly and plans every strategy that can
//! run. A target without a head of its own drafts by prompt lookup, which costs nothing.

mod drafters;
mod head;
mod measure;
mod small;
mod target;

use std::sync::Arc;

use super::{Offer, Planning, Ready, Stand};
use crate::chat::ChatTemplate;
use crate::draft::{Depths, Drafter};
use crate::hardware::Machine;
use crate::kernels::Pool;
use crate::library::{self, LibraryError, Spec, TargetFiles, Tokenizer};
use crate::model::head::HeadError;
use crate::model::{self, Target};
use crate::plan::{
    Controller, DraftKind, Facts, LayerPlacement, Measured, Pacing, Plan, Power, Prefer,
    STRATEGIES, Space, Strategy, TargetSize, choose, correct,
};
use crate::settings::Settings;
use crate::speculate::Method;
use drafters::{Bench, LOOKUP, Put};
use target::Held;

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
    pub planning: Planning,
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
    let small = match (settings.draft_model.as_deref(), &spec) {
        (Some(model), _) => Some(Spec::parse(model)?),
        (None, Spec::Bundled) => Some(Spec::Bundled),
        (None, _) => None,
    };
    let small = small.map(|spec| library::open_small(&spec, &mut fetching)).transpose()?;
    let context = target::context(settings, &files);
    for files in small.iter().chain([&files]) {
        target::check_memory(files, machine)?;
    }

    let threads = settings.threads.unwrap_or(machine.cpu.physical).max(1);
    let pool = Arc::new(Pool::new(threads));
    let share = target::share(settings, machine, &files, head.as_ref(), context);
    let mut held = Held::load(settings, &files, &share, pool, context, progress)?;
    let target = held.cpu();
    let verifier = Power::of_cpu(&machine.cpu, threads);
    let bench = Bench {
        settings,
        machine,
        files: &files,
        target,
        head: head.as_ref(),
        small: small.as_ref(),
        cpu: verifier,
        threads,
        context,
    };
    let mut puts = bench.drafters(progress)?;
    let (offers, target_size) = (offers(&bench, &puts, &share), bench.target_size());
    let strategy = wanted(settings, &offers, head.is_some())?;

    progress("measuring", None);
    let put = puts.iter_mut().find(|put| put.kind == strategy.draft);
    let put = put.map(|put| (put.drafter.as_mut() as &mut dyn Drafter, put.blocks));
    let found = measure::measure(held.target(), put, context);
    tracing::info!(?found, "measured");
    let bundled = spec == Spec::Bundled && settings.draft.is_none();
    let prospect = Prospect {
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
    let rows = STRATEGIES.iter().zip(&offers).filter(|(_, offer)| offer.missing.is_none());
    let stands: Vec<Stand> = rows.map(|(row, _)| prospect.stand(row, &puts)).collect();
    let plan = prospect.plan(strategy, put_of(strategy, &puts)).0;
    let preface = put_of(strategy, &puts).map(Put::preface).unwrap_or_default();
    let vram = puts.iter().filter(|put| put.on_gpu).map(|put| put.drafter.device_bytes());
    let vram_used = vram.sum::<u64>() + held.device_bytes();
    let ready = Ready { vram_used, ..ready(&files, strategy, offers, &plan) };
    let reasons = held.reason().into_iter().chain(preface).chain(plan.reasons).collect();
    let stop = settings.stop.iter().chain(files.template.stop_strings()).cloned().collect();
    Ok(Loaded {
        notices: puts.iter().filter_map(|put| put.notice.clone()).chain(held.notice()).collect(),
        target: held.into_target(),
        drafters: puts.into_iter().map(|put| put.drafter).collect(),
        tokenizer: files.tokenizer,
        template: files.template,
        eos: files.eos,
        stop,
        planning: Planning::new(stands, strategy),
        ready: Ready { context, reasons, ..ready },
    })
}

/// The drafter of a strategy.
fn put_of<'a>(strategy: &Strategy, puts: &'a [Put]) -> Option<&'a Put> {
    puts.iter().find(|put| put.kind == strategy.draft)
}

/// Every strategy, with what it lacks where it cannot run.
fn offers(bench: &Bench<'_>, puts: &[Put], share: &LayerPlacement) -> Vec<Offer> {
    let offer = |row: &Strategy| {
        let put = put_of(row, puts);
        let undrafted = put.is_none() && row.draft != DraftKind::None;
        let missing = if undrafted {
            Some(bench.missing(row.draft))
        } else if row.gpu_layers && bench.target.layers() == bench.files.config.layers {
            Some(target::unshared(share))
        } else {
            None
        };
        Offer {
            name: row.name.to_owned(),
            draft: put.map(|put| put.drafter.describe()),
            depths: put.map_or(Depths::Fixed(0), |put| put.drafter.depths()),
            missing,
        }
    };
    STRATEGIES.iter().map(offer).collect()
}

/// The strategy to begin with: the one asked for, else the default with what there is.
fn wanted(
    settings: &Settings,
    offers: &[Offer],
    head: bool,
) -> Result<&'static Strategy, LoadError> {
    let Some(strategy) = settings.strategy else { return Ok(Strategy::default_with(head)) };
    let named = offers.iter().find(|offer| offer.name == strategy.name);
    let Some(missing) = named.and_then(|offer| offer.missing.clone()) else {
        return Ok(strategy);
    };
    let available: Vec<&str> = offers
        .iter()
        .filter(|offer| offer.missing.is_none())
        .map(|offer| offer.name.as_str())
        .collect();
    let available = available.join(", ");
    Err(LoadError::Strategy { name: strategy.name, missing, available })
}

/// What strategies are planned from.
struct Prospect<'a> {
    settings: &'a Settings,
    verifier: Power,
    target: TargetSize,
    found: Measured,
    /// The drafter that was measured.
    drafted: DraftKind,
    prefer: Prefer,
}

impl Prospect<'_> {
    /// A strategy ready to run. Only one drafter is measured: the others' times are estimated
    /// until their first rounds tell.
    fn stand(&self, strategy: &'static Strategy, puts: &[Put]) -> Stand {
        let put = put_of(strategy, puts);
        let (plan, space) = self.plan(strategy, put);
        let preface = put.map(Put::preface).unwrap_or_default();
        let drafter = puts.iter().position(|put| put.kind == strategy.draft);
        let controller = Controller::new(&plan, space, preface.clone());
        let pacing = self.pacing(strategy, &plan, preface);
        Stand { strategy, drafter, controller, pacing }
    }

    fn plan(&self, strategy: &Strategy, put: Option<&Put>) -> (Plan, Space) {
        let facts = Facts {
            verifier: self.verifier,
            target: self.target,
            draft: put.map(|put| (put.size, put.power)),
        };
        let space = Space {
            wishes: strategy.wishes(&self.settings.controls),
            blocks: put.map(|put| put.blocks),
            prefer: self.prefer,
        };
        let mut found = self.found.clone();
        found.level = found.level.filter(|_| strategy.draft == self.drafted);
        let mut plan = correct(choose(&facts, &space), &found, &space);
        if let Some(mut pacing) = self.pacing(strategy, &plan, Vec::new()) {
            plan.pick = pacing.pick(&space.wishes);
            plan.reasons = pacing.reasons();
        }
        (plan, space)
    }

    /// What chooses the budget of a strategy that drafts sequences while the target checks.
    fn pacing(&self, strategy: &Strategy, plan: &Plan, preface: Vec<String>) -> Option<Pacing> {
        let wishes = strategy.wishes(&self.settings.controls);
        let paced = matches!(strategy.method, Method::Sequences { .. });
        paced.then(|| Pacing::new(plan, wishes, preface))
    }
}

fn ready(files: &TargetFiles, strategy: &Strategy, offers: Vec<Offer>, plan: &Plan) -> Ready {
    let pick = plan.pick;
    let offer = offers.iter().find(|offer| offer.name == strategy.name);
    Ready {
        target: files.name.clone(),
        target_detail: files.detail.clone(),
        draft: offer.and_then(|offer| offer.draft.clone()),
        depths: offer.map_or(Depths::Fixed(0), |offer| offer.depths),
        context: 0,
        gamma: pick.shape.gamma,
        blocks: pick.blocks,
        width: pick.shape.width,
        depth: pick.shape.depth,
        reasons: Vec::new(),
        vram_used: 0,
        strategy: strategy.name.to_owned(),
        strategies: offers,
    }
}

#[cfg(test)]
mod tests;
