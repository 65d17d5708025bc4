//! The models whose rounds are timed: random ones of known shapes, or those that the flags name.
//! Must never print a result.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use indicatif::ProgressBar;

use super::{Measured, RoundArgs, numbers};
use crate::bench::round::{
    AcceptanceProfile, Prediction, RandomDraft, RandomModels, TimesRequest, Turned, check_settings,
    decode, drafted_in_passes, measure, random_models,
};
use crate::chat::{Message, Role};
use crate::cli::backend;
use crate::cli::bench::not_measured;
use crate::cli::exit::{Code, Failure};
use crate::cli::interrupt;
use crate::draft::Depths;
use crate::hardware::Machine;
use crate::kernels::Format;
use crate::load::{Purpose, load};
use crate::model::{Config, KnownShape};
use crate::plan::{BLOCKS, DraftSize, DrafterId, Strategy, TargetSize, WIDTH, split_threads};
use crate::printable::printable_line;
use crate::record::Question;
use crate::settings::HeadChoice;
use crate::speculate::{Method, SamplerSettings};
use crate::worker::{Backend, Controls};

/// Time for measuring rounds.
const ALLOWED: Duration = Duration::from_secs(60);
/// Positions behind the prompt, for the rounds.
const ROOM: usize = 512;
/// Widths of a small model's trees, where none are asked for.
const WIDTHS: [usize; 4] = [1, 2, 4, 10];
/// Sequences, where none are asked for.
const SEQUENCES: [usize; 4] = [1, 2, 3, 4];

fn usage(error: anyhow::Error) -> Failure {
    Failure::new(Code::Usage, error)
}

/// A known shape by its name.
fn known_shape(flag: &str, name: &str) -> Result<KnownShape, Failure> {
    KnownShape::ALL.into_iter().find(|known| known.name() == name).ok_or_else(|| {
        let names = KnownShape::ALL.map(KnownShape::name).join(", ");
        usage(anyhow!("{flag}: `{name}` is not one of {names}"))
    })
}

/// Random weights of a known shape.
pub(super) fn random(
    args: &RoundArgs,
    shape: &str,
    profile: &AcceptanceProfile,
) -> Result<Measured, Failure> {
    let known = known_shape("--shape", shape)?;
    let small = args.draft_shape.as_deref();
    let small = small.map(|name| known_shape("--draft-shape", name)).transpose()?;
    let format = Format::from_name(&args.format)
        .ok_or_else(|| usage(anyhow!("--format: `{}` is not a format of weights", args.format)))?;
    let settings = backend::settings(&args.shared, &args.shared.settings.0)?;
    let machine = Machine::probe();
    let threads = settings.threads.unwrap_or(machine.cpu.physical).max(1);
    let strategy = strategy_of_random(settings.strategy, small, profile)?;
    let turned = match small {
        Some(_) => widths(args, strategy)?,
        None => {
            let blocks = args.head_blocks.as_deref().unwrap_or("1..5");
            let blocks = numbers("--head-blocks", blocks, BLOCKS.most).map_err(usage)?;
            blocks.into_iter().map(Turned::Blocks).collect()
        }
    };
    let draft = match small {
        Some(shape) => {
            let [target, draft] = [known, shape].map(|shape| size(&shape.config(), format));
            let draft = DraftSize {
                fixed: draft.weights,
                bytes_per_weight: draft.bytes as f64 / draft.weights.max(1) as f64,
                ..DraftSize::NOTHING
            };
            let held = settings.draft_threads;
            let split = split_threads(&machine.cpu, threads, held, target, draft);
            RandomDraft::Small { shape, threads: split.draft }
        }
        None => {
            let most = turned.iter().map(|turned| turned.value()).max();
            RandomDraft::Head { blocks: most.unwrap_or(1) }
        }
    };
    let bar = ProgressBar::new_spinner();
    bar.set_message("making random weights");
    bar.tick();
    let positions = args.prompt_tokens + ROOM;
    let models = random_models(known, format, draft, positions, threads).map_err(not_measured)?;
    let RandomModels { mut engine, names, passes } = models;
    let vocab = known.config().vocab;
    let (width, depth) = profile.shape();
    let request = TimesRequest {
        prompt: (0..args.prompt_tokens).map(|at| (at * 7 % vocab) as u32).collect(),
        answer: ROOM,
        sampler: greedy(),
        strategy,
        gammas: args.gammas.clone(),
        turned,
        width,
        depth,
        drafter: 0,
        until: Instant::now() + ALLOWED,
    };
    let times = measure(&mut engine, names.as_ref(), &request, &mut |turned| told(&bar, turned));
    bar.finish_and_clear();
    let mut times = times.map_err(not_measured)?;
    if let Some(passes) = &passes {
        times = drafted_in_passes(strategy, times, profile, passes);
    }
    let draft = match small {
        Some(small) => format!("a small model of the {} shape ({})", small.name(), strategy.name),
        None => "a DGF head".to_owned(),
    };
    let subject = format!(
        "{} shape, {}, with {draft} on the CPU, all with random weights; {} tokens of context, {} \
         threads{}.",
        known.name(),
        format.described(),
        args.prompt_tokens,
        threads,
        shape_words(strategy, width, depth)
    );
    let prediction = Prediction::new(strategy, &times, Some(profile));
    Ok(Measured { subject, prediction, checks: Vec::new() })
}

/// Who drafts in random weights.
fn strategy_of_random(
    named: Option<&'static Strategy>,
    small: Option<KnownShape>,
    profile: &AcceptanceProfile,
) -> Result<&'static Strategy, Failure> {
    let drafts = if small.is_some() { DrafterId::SmallModel } else { DrafterId::Head };
    let chain = Strategy::named("sps").filter(|_| small.is_some());
    let own = chain.unwrap_or(Strategy::first_with(drafts));
    let strategy = named.unwrap_or(own);
    if strategy.draft != drafts {
        let name = strategy.name;
        let remedy = match small {
            Some(_) => "use sps, duo, small-model or specexec",
            None => "use dovetail, or name a small model with --draft-shape",
        };
        return Err(usage(anyhow!(
            "--strategy: `{name}` does not draft with such a model; {remedy}"
        )));
    }
    let depends = matches!(strategy.method, Method::Search) || strategy.is_own_tree();
    if small.is_some() && depends && profile.sources.is_empty() {
        let name = strategy.name;
        return Err(usage(anyhow!(
            "--strategy: the depth of the trees of `{name}` depends on the text; give a record \
             with --accept, or use sps or duo"
        )));
    }
    Ok(strategy)
}

/// Weights that a pass multiplies with, and their bytes.
fn size(config: &Config, format: Format) -> TargetSize {
    let weights = config.linear_weights();
    let row = format.row_bytes(config.hidden).unwrap_or(config.hidden) as u64;
    TargetSize { weights, bytes: weights / config.hidden as u64 * row, layers: config.layers }
}

/// The widths of a small model's drafts.
fn widths(args: &RoundArgs, strategy: &Strategy) -> Result<Vec<Turned>, Failure> {
    let all = match (&args.widths, strategy.method, strategy.shape) {
        (Some(text), ..) => numbers("--widths", text, WIDTH.most).map_err(usage)?,
        (None, Method::Sequences { .. }, _) => SEQUENCES.to_vec(),
        (None, _, Some(shape)) => vec![shape.width],
        (None, _, None) => WIDTHS.to_vec(),
    };
    if all.contains(&0) {
        return Err(usage(anyhow!("--widths: the smallest width is 1, not 0")));
    }
    Ok(all.into_iter().map(Turned::Width).collect())
}

/// Width and depth, where they are not what is turned.
fn shape_words(strategy: &Strategy, width: usize, depth: usize) -> String {
    match strategy.draft {
        DrafterId::SmallModel if strategy.shape.is_some() => String::new(),
        DrafterId::SmallModel if strategy.is_own_tree() => format!(", depth {depth}"),
        DrafterId::SmallModel => String::new(),
        _ => format!(", width {width}, depth {depth}"),
    }
}

fn told(bar: &ProgressBar, turned: Turned) {
    bar.set_message(format!("{} = {}", turned.symbol(), turned.value()));
    bar.tick();
}

/// The models that the flags name.
pub(super) fn loaded(
    args: &RoundArgs,
    profile: &AcceptanceProfile,
    questions: &[Question],
) -> Result<Measured, Failure> {
    let mut settings = backend::settings(&args.shared, &args.shared.settings.0)?;
    let named = settings.draft_model.is_some() && settings.draft == HeadChoice::Own;
    let drafts = if named { DrafterId::SmallModel } else { DrafterId::Head };
    let strategy = settings.strategy.unwrap_or(Strategy::first_with(drafts));
    settings.strategy = Some(strategy);
    let bar = ProgressBar::new_spinner();
    let machine = Machine::probe();
    let loaded = load(&settings, &machine, Purpose::Text, &mut |stage, _| {
        bar.set_message(printable_line(stage).into_owned());
        bar.tick();
    });
    let mut backend = Backend::from(loaded?);
    let controls = Controls { strategy: Some(strategy), ..Controls::default() };
    let drafter = backend.planner.choose(&controls).drafter.ok_or_else(|| {
        usage(anyhow!(
            "--strategy: `{}` does not draft, so there is no round to time",
            strategy.name
        ))
    })?;
    let status = backend.ready.strategies.iter().find(|status| status.name == strategy.name);
    let depths = status.map_or(Depths::Fixed(0), |status| status.depths);
    let turned = match strategy.draft {
        DrafterId::SmallModel => widths(args, strategy)?,
        _ => blocks(args, depths)?.into_iter().map(Turned::Blocks).collect(),
    };
    let hello = [Message::new(Role::User, "Tell me about the place where you live.")];
    let question = questions.first();
    let messages = question.map_or(&hello[..], |question| &question.messages);
    let prompt = (backend.prompter)(messages, None).map_err(|error| usage(anyhow!(error)))?;
    let (width, depth) = profile.shape();
    let request = TimesRequest {
        prompt: prompt.tokens,
        answer: question.map_or(ROOM, |question| question.max_tokens),
        sampler: question.map_or_else(greedy, |question| question.sampler),
        strategy,
        gammas: args.gammas.clone(),
        turned,
        width,
        depth,
        drafter,
        until: Instant::now() + ALLOWED,
    };
    let names = Arc::clone(&backend.names);
    let times = measure(&mut backend.engine, names.as_ref(), &request, &mut |turned| {
        told(&bar, turned);
    });
    let times = times.map_err(not_measured)?;
    let prediction = Prediction::new(strategy, &times, Some(profile));
    let mut checks = Vec::new();
    if args.check {
        let controls = backend::controls(&settings);
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, shared) = (Arc::clone(&stop), controls.clone());
        interrupt::watch(move || {
            stopped.store(true, Ordering::Relaxed);
            shared.update(|controls| controls.generation = 0);
            true
        });
        bar.set_message("decoding to check");
        bar.tick();
        let wanted = || !stop.load(Ordering::Relaxed);
        let settings = check_settings(&prediction, profile);
        let shape = (width, depth);
        let decoded = decode(
            &mut backend,
            &controls,
            questions,
            (strategy, shape),
            (&prediction, &settings),
            &wanted,
        );
        checks = decoded.map_err(|error| Failure::new(Code::Failed, anyhow!(error)))?;
        if !wanted() {
            return Err(Failure::quiet(Code::Interrupted));
        }
    }
    bar.finish_and_clear();
    let ready = &backend.ready;
    let draft = match strategy.draft {
        DrafterId::Head => ready.draft.as_deref().unwrap_or("no draft").to_owned(),
        _ => format!("{} of {}", strategy.name, ready.draft.as_deref().unwrap_or("the text")),
    };
    let subject = format!(
        "{} ({}) with {draft}; {} tokens of context{}.",
        ready.target,
        ready.target_detail,
        request.prompt.len(),
        shape_words(strategy, width, depth)
    );
    Ok(Measured { subject, prediction, checks })
}

/// Numbers of blocks to time, of those that the draft has.
fn blocks(args: &RoundArgs, depths: Depths) -> Result<Vec<usize>, Failure> {
    let (least, most) = match depths {
        Depths::Elastic(most) => (1, most),
        Depths::Fixed(blocks) => (blocks, blocks),
    };
    let blocks = match &args.head_blocks {
        Some(text) => numbers("--head-blocks", text, BLOCKS.most).map_err(usage)?,
        None => (least..=most).collect(),
    };
    match blocks.iter().find(|blocks| !(least..=most).contains(blocks)) {
        Some(blocks) => Err(usage(anyhow!(
            "--head-blocks: the draft can use {least} to {most} blocks, not \
                               {blocks}"
        ))),
        None => Ok(blocks),
    }
}

/// How tokens are drawn where no record says.
fn greedy() -> SamplerSettings {
    SamplerSettings { temperature: 0.0, ..SamplerSettings::default() }
}
