//! The models whose passes and rounds are timed: random weights of a known shape, the weights of
//! one model, or the models that the flags name.

use std::sync::Arc;

use anyhow::anyhow;

use super::{CONTEXT, PassArgs, ROOM, Recorded};
use crate::bench::MeasureError;
use crate::bench::pass::{
    AcceptanceProfile, Numbers, PassOptions, PassReport, Passes, Prediction, TimesRequest, measure,
    time_passes, with_head,
};
use crate::bench::sweep::all_blocks;
use crate::chat::{Message, Role};
use crate::cli::backend::{self, with_progress};
use crate::cli::bench::{head_blocks, numbers};
use crate::cli::exit::Failure;
use crate::decode::{Engine, TokenText};
use crate::draft::Depths;
use crate::hardware::Machine;
use crate::kernels::{Format, Isa, KvFormat, Pool};
use crate::library::open_target;
use crate::load::{Purpose, Repacking};
use crate::model::{CpuTarget, KnownShape};
use crate::plan::{BLOCKS, DrafterId, Strategy};
use crate::settings::HeadChoice;
use crate::speculate::Method;
use crate::worker::{Backend, Controls};

/// Passes and rounds of random weights in a known shape.
pub(super) fn random(
    args: &PassArgs,
    shape: &str,
    profile: &AcceptanceProfile,
) -> Result<PassReport, Failure> {
    let known = KnownShape::all().into_iter().find(|known| known.name() == shape);
    let known = known.ok_or_else(|| {
        Failure::unknown("shape", shape, &KnownShape::all().map(KnownShape::name))
    })?;
    let format = Format::from_name(&args.format).ok_or_else(|| {
        let names = Format::ALL.map(|format| format.to_string().to_lowercase());
        Failure::unknown("format", &args.format, &names)
    })?;
    let mut config = known.config();
    config.layers = args.layers.map_or(config.layers, |layers| config.layers.min(layers.get()));
    let settings = args.settings()?;
    if let Some(other) = settings.strategy.filter(|row| row.draft != DrafterId::Head) {
        let name = other.name;
        return Err(Failure::usage(anyhow!(
            "--strategy: `{name}` does not draft with a head; use dovetail, or name models"
        )));
    }
    let context = args.context()?.unwrap_or(CONTEXT);
    let options = args.passes(context);
    let positions = options.positions()?.max(context + ROOM);
    let blocks = args.head_blocks.as_deref().unwrap_or("1..5");
    let mut blocks = numbers("--head-blocks", blocks, BLOCKS.most).map_err(Failure::usage)?;
    blocks.retain(|blocks| *blocks > 0);
    let threads = Machine::probe().cpu.threads(settings.threads);
    let isas = args.isas()?;
    let pool = Arc::new(Pool::with_isa(threads, isas[0]));
    let mut target = CpuTarget::random(&config, format, 1, pool, positions, KvFormat::F16)
        .map_err(MeasureError::from)?;
    let (passes, other_isas) = time_isas(&mut target, &options, &isas)?;
    let mut subject = format!(
        "{} shape, {} layers, {}, random weights; {context} tokens of context, {threads} threads",
        known.name(),
        config.layers,
        format
    );
    let mut prediction = None;
    if let Some(most) = blocks.iter().max() {
        let mut engine = with_head(target, *most, positions)?;
        let vocab = config.vocab;
        let prompt = (0..context).map(|at| (at * 7 % vocab) as u32).collect();
        let request = args.rounds(blocks, profile, prompt);
        prediction = Some(predicted(&mut engine, &Numbers, &request, profile)?);
        subject += &format!(", with a DGF head on the CPU{}", tree(&request));
    }
    let acceptance = profile.sources.clone();
    Ok(PassReport { passes, other_isas, acceptance, prediction, ..PassReport::new(subject + ".") })
}

/// Passes of a model's own weights.
pub(super) fn alone(args: &PassArgs, model: &str) -> Result<PassReport, Failure> {
    let spec = args.shared.file.model(model)?;
    let settings = args.settings()?;
    let options = args.passes(args.context()?.unwrap_or(CONTEXT));
    let positions = options.positions()?;
    let mut files = open_target(&spec, &mut |_| {}).map_err(MeasureError::from)?;
    let machine = Machine::probe();
    let repacking = Repacking::of(settings.repack, machine.memory, files.bytes, files.growth());
    files.repack = repacking.is_some_and(Repacking::is_done);
    let isas = args.isas()?;
    let pool = Pool::with_isa(machine.cpu.threads(settings.threads), isas[0]);
    let mut target = files.on_cpu(pool, positions, KvFormat::F16).map_err(MeasureError::from)?;
    let (passes, other_isas) = time_isas(&mut target, &options, &isas)?;
    let subject = format!("{}: {}", files.name, files.detail);
    Ok(PassReport { passes, other_isas, ..PassReport::new(subject) })
}

/// Passes with each instruction set; rounds use the first one afterwards.
fn time_isas(
    target: &mut CpuTarget,
    options: &PassOptions,
    isas: &[Isa],
) -> Result<(Option<Passes>, Vec<Passes>), MeasureError> {
    let first = Arc::clone(target.pool());
    let passes = Some(time_passes(target, options)?);
    let others = isas.iter().skip(1).map(|isa| {
        target.use_pool(Arc::new(Pool::with_isa(first.threads(), *isa)));
        time_passes(target, options)
    });
    let others = others.collect::<Result<_, _>>()?;
    target.use_pool(first);
    Ok((passes, others))
}

/// Rounds of the models that the flags name.
pub(super) fn loaded(args: &PassArgs, recorded: &Recorded) -> Result<PassReport, Failure> {
    let mut settings = args.settings()?;
    let small = settings.draft_model.is_some() && settings.draft == HeadChoice::Own;
    let drafts = if small { DrafterId::SmallModel } else { DrafterId::Head };
    let strategy = settings.strategy.unwrap_or(Strategy::first_with(drafts));
    let name = strategy.name;
    if strategy.method != Method::Tree {
        return Err(Failure::usage(anyhow!(
            "--strategy: the rounds of `{name}` are not trees; measure them with `dovetail bench \
             --strategies {name}`"
        )));
    }
    settings.strategy = Some(strategy);
    let mut backend = Backend::from(backend::load(&settings, &Machine::probe(), Purpose::Text)?);
    let controls = Controls { strategy: Some(strategy), ..Controls::default() };
    let options = backend.planner.choose(&controls);
    if !options.speculate {
        let why = anyhow!("--strategy: `{name}` does not draft, so there is no round to time");
        return Err(Failure::usage(why));
    }
    let drafter = options.drafter;
    let hello = [Message::new(Role::User, "Tell me about the place where you live.")];
    let question = recorded.question.as_ref();
    let messages = question.map_or(&hello[..], |question| &question.messages);
    let prompt =
        (backend.prompter)(messages, None).map_err(|error| Failure::usage(anyhow!(error)))?;
    let mut prompt = prompt.tokens;
    if let Some(context) = args.context()? {
        prompt = prompt.iter().copied().cycle().take(context).collect();
    }
    let status = backend.ready.strategies.iter().find(|status| status.name == name);
    let all = all_blocks(status.map_or(Depths::Fixed(0), |status| status.depths));
    let blocks = head_blocks(args.head_blocks.as_deref(), all)?;
    let mut profile = &recorded.profile;
    let mut request = TimesRequest { drafter, ..args.rounds(blocks, profile, prompt) };
    if let Some(question) = question {
        request.answer = question.max_tokens;
        request.sampler = question.sampler;
    }
    // The record is of other trees than those that the strategy prescribes.
    let none = AcceptanceProfile::default();
    if let Some(shape) = strategy.shape {
        request.width = shape.width;
        request.depth = (shape.width > 1).then_some(shape.depth);
        profile = &none;
    }
    let names = Arc::clone(&backend.names);
    let prediction = Some(predicted(&mut backend.engine, names.as_ref(), &request, profile)?);
    let ready = &backend.ready;
    let draft = match strategy.draft {
        DrafterId::Head => ready.draft.as_deref().unwrap_or("no draft").to_owned(),
        _ => format!("{name} of {}", ready.draft.as_deref().unwrap_or("the text")),
    };
    let subject = format!(
        "{} ({}) with {draft}; {} tokens of context{}.",
        ready.target,
        ready.target_detail,
        request.prompt.len(),
        tree(&request)
    );
    let acceptance = profile.sources.clone();
    Ok(PassReport { acceptance, prediction, ..PassReport::new(subject) })
}

/// Times rounds, and predicts from them.
fn predicted(
    engine: &mut Engine,
    names: &dyn TokenText,
    request: &TimesRequest,
    profile: &AcceptanceProfile,
) -> Result<Prediction, Failure> {
    let times = with_progress(|progress| {
        measure(engine, names, request, &mut |blocks| progress(&format!("M = {blocks}"), None))
    });
    Ok(Prediction::new(times?, profile))
}

/// Width and depth of the trees, in words.
fn tree(request: &TimesRequest) -> String {
    match request.depth {
        Some(depth) => format!(", width {}, depth {depth}", request.width),
        None => String::new(),
    }
}
