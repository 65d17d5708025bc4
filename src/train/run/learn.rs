//! The third stage: the head learns, is measured on held-out texts during the training, and is
//! written in the published layout. It must not depend on the target beyond what a head shares with
//! it.

use std::time::{Duration, Instant};

use candle_core::Device;

use super::context::RunContext;
use super::log::Log;
use super::looks::Looks;
use super::state::{Best, Stage};
use super::{TrainEvent, decode_eval};
use crate::library::made_for;
use crate::model::head::{DraftVocabulary, SharedTables};
use crate::train::render::Text;
use crate::train::shards::{Shards, Slice};
use crate::train::{
    Examples, Length, Measure, Options, Result, TrainError, Trainer, draft_vocabulary,
};

const CHECKPOINT: &str = "checkpoint.safetensors";
/// The time between two checkpoints.
const PAUSE: Duration = Duration::from_secs(60);

/// Trains and writes the head; continues from the checkpoint if there is one.
pub(super) fn learn(
    run: &mut RunContext<'_>,
    rendered: &[Text],
    shards: &Shards,
    device: &Device,
) -> Result<()> {
    let recipe = run.state.recipe.clone();
    let held = run.held();
    let texts = shards.part(held..shards.texts());
    let path = run.dir.file(CHECKPOINT);
    // Nothing else of the target is kept.
    let shared = SharedTables::of(&run.target(1)?);
    let mut trainer = if path.exists() {
        Trainer::resume(&path, &shared, device)?
    } else {
        let mut options = recipe.options.clone();
        if let Some(epochs) = recipe.epochs {
            options.length = Length::Steps(steps(epochs, &texts, &options));
        }
        let draft_vocab = draft_vocab(run, rendered);
        Trainer::new(run.head_config(), draft_vocab, &shared, options, device)?
    };
    drop(shared);
    if trainer.is_bf16() {
        run.note("the head's matrix products are computed in bf16, its weights are kept in f32");
    }
    // A checkpoint holds each weight and its two moments in single precision, and the previous one
    // is still there while it is written; then comes the head in half precision.
    run.dir.need(26 * trainer.net.parameters())?;
    let mut looks = Looks::new(trainer.options.length);
    let check = to_measure(shards, held, looks.tokens());
    let mut log = Log::open(&run.dir, trainer.position.steps)?;
    let before = trainer.position.tokens;
    run.begin(Stage::Training, 0);
    let mut saved = Instant::now();
    while !trainer.finished() {
        if run.stopping() {
            trainer.save(&path)?;
            run.end(trainer.position.tokens - before)?;
            return Err(TrainError::Stopped);
        }
        let share = trainer.progress();
        let report = trainer.step(&texts)?;
        note(run, log.step(&report));
        run.look();
        (run.report)(TrainEvent::Step(&report));
        if looks.due(share, trainer.progress()) {
            let began = Instant::now();
            look(run, &mut log, &trainer, &check, rendered, looks.prompts())?;
            let seconds = began.elapsed().as_secs_f64();
            looks.took(seconds);
            // A training limited in minutes has that much less for steps.
            trainer.position.seconds += seconds;
            trainer.reserved_seconds = looks.longest;
        }
        if saved.elapsed() > PAUSE {
            // The previous checkpoint is still there, so training continues without this one.
            note(run, trainer.save(&path));
            saved = Instant::now();
        }
    }
    trainer.save(&path)?;
    keep_best(run, &trainer, &check)?;
    let drawn = log.draw(&recipe.options);
    note(run, drawn);
    run.end(trainer.position.tokens - before)
}

/// Measures the head during the training, and keeps it if it is the best so far.
fn look(
    run: &mut RunContext<'_>,
    log: &mut Log,
    trainer: &Trainer,
    check: &Slice<'_>,
    rendered: &[Text],
    prompts: usize,
) -> Result<()> {
    let recipe = &run.state.recipe;
    let found = trainer.measure(check, recipe.blocks, recipe.options.used.steps)?;
    let tau = decode_eval::tau(run, &trainer.net.head_weights()?, rendered, prompts)?;
    let step = trainer.position.steps;
    note(run, log.held(step, &found, tau));
    (run.report)(TrainEvent::Held { measures: &found, tau });
    let right: f64 = found.iter().map(|measure| measure.right[0]).sum();
    let score = tau.unwrap_or(right / found.len().max(1) as f64);
    if run.state.best.as_ref().is_none_or(|best| score >= best.score) {
        let held = measures(run, trainer, check)?;
        trainer.net.export(&run.dir.best())?;
        run.state.best = Some(Best { step, score, held });
        run.dir.save(&run.state)?;
    }
    Ok(())
}

/// The measures of the head at each depth at which it can be cut.
fn measures(run: &RunContext<'_>, trainer: &Trainer, check: &Slice<'_>) -> Result<Vec<Measure>> {
    let recipe = &run.state.recipe;
    let mut all = Vec::new();
    for depth in recipe.depths() {
        all.extend(trainer.measure(check, depth, recipe.options.used.steps)?);
    }
    Ok(all)
}

/// Writes the head: the best one so far, which need not be the last.
fn keep_best(run: &mut RunContext<'_>, trainer: &Trainer, check: &Slice<'_>) -> Result<()> {
    let last = trainer.position.steps;
    if let Some(Best { step, held, .. }) = run.state.best.clone() {
        if step < last {
            run.note(&format!(
                "using the head of step {step}, which did better on the held-out chats than the \
                 last one, of step {last}"
            ));
        }
        run.dir.take_best()?;
        run.state.held = held;
    } else {
        run.state.held = measures(run, trainer, check)?;
        trainer.net.export(&run.dir.out)?;
    }
    Ok(made_for(&run.dir.out, &run.state.target)?)
}

/// The tokens to score, chosen by what the assistant says in the training texts.
pub(super) fn draft_vocab(run: &mut RunContext<'_>, texts: &[Text]) -> Option<DraftVocabulary> {
    let learned = texts.get(run.held()..).unwrap_or_default();
    let said = learned.iter().flat_map(|text| {
        text.answers.iter().flat_map(|answer| text.tokens.get(answer.clone()).unwrap_or_default())
    });
    let size = run.state.recipe.draft_vocab;
    let vocab = run.files.config.vocab;
    let (tokens, share) = draft_vocabulary(size, said.copied(), &run.files.eos, vocab)?;
    run.note(&format!(
        "the head scores {} of {vocab} tokens, which cover {:.1} % of the assistant's text",
        tokens.len(),
        1e2 * share
    ));
    Some(tokens)
}

/// The number of steps for this many passes over the texts, if every batch were full.
fn steps(epochs: f64, texts: &dyn Examples, options: &Options) -> u64 {
    let tokens: usize = (0..texts.len()).map(|index| texts.tokens(index)).sum();
    let step = options.step_tokens(tokens as f64 / texts.len().max(1) as f64);
    (epochs * tokens as f64 / step.max(1.0)).ceil().max(1.0) as u64
}

/// As many of the held-out texts as can be measured quickly.
fn to_measure(shards: &Shards, held: usize, most: usize) -> Slice<'_> {
    let all = shards.part(0..held);
    let mut tokens = 0;
    let few = (0..held).take_while(|&index| {
        tokens += all.tokens(index);
        index == 0 || tokens <= most
    });
    shards.part(0..few.count())
}

/// A failure outside of the training itself does not end it.
fn note(run: &mut RunContext<'_>, done: Result<()>) {
    if let Err(error) = done {
        run.note(&error.to_string());
    }
}
