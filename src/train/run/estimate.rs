//! What a training will take, before it begins: its stages run on a sample, in a temporary folder,
//! and the measured rates are applied to the whole. It must never touch the training's own folder.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use candle_core::Device;

use super::answers::TOGETHER;
use super::context::RunContext;
use super::learn::draft_vocab;
use super::recipe::Recipe;
use super::run_dir::RunDir;
use super::state::{Chats, Spent, Stage, TrainState};
use super::{Reports, RunRequest, device, features, texts};
use crate::model::head::{DraftVocabulary, HeadConfig, SharedTables};
use crate::train::shards::{self, Slice};
use crate::train::{Columns, Elastic, Length, Options, Result, TrainError, Trainer, Used, chats};

/// How many tokens the sample has: a few batches of a small training, a minute of a large target.
const SAMPLE: usize = 1536;

/// What a training will take.
#[derive(Clone, Debug, PartialEq)]
pub struct RunEstimate {
    /// How many chats will be used.
    pub chats: usize,
    /// How many tokens they have.
    pub tokens: u64,
    /// The stages in their order.
    pub stages: Vec<Spent>,
    /// Bytes of the features on disk.
    pub features: u64,
    /// Bytes of the checkpoint on disk, including the previous one.
    pub checkpoint: u64,
    /// Bytes of the head.
    pub head: u64,
    /// Bytes of memory.
    pub memory: u64,
}

impl RunEstimate {
    /// Time of all stages.
    pub fn seconds(&self) -> f64 {
        self.stages.iter().map(|stage| stage.seconds).sum()
    }
}

/// Estimates what `request` will take.
///
/// # Errors
/// [`TrainError`] as for [`super::train`].
pub fn estimate(
    request: &RunRequest,
    stop: &AtomicBool,
    report: Reports<'_>,
) -> Result<RunEstimate> {
    let recipe = &request.recipe;
    recipe.check()?;
    let device = device(request.device)?;
    let at = std::env::temp_dir();
    let folder = tempfile::tempdir_in(&at).map_err(|source| TrainError::write(&at, source))?;
    let (files, fingerprint) = RunContext::open(&recipe.target, &request.model_folders, report)?;
    let dir = RunDir::begin(&folder.path().join("head"))?;
    let mut sampled = recipe.clone();
    if recipe.self_answers {
        sampled.limit = Some(recipe.limit.unwrap_or(TOGETHER).min(TOGETHER));
    }
    let state = TrainState::new(sampled, fingerprint);
    let mut run = RunContext::new(dir, state, files, request.threads, stop, report);
    let texts = texts::texts(&mut run)?;
    let known = run.state.chats.clone().unwrap_or_default();
    let (chats, tokens) = whole(&run.data()?, recipe, &known)?;
    let mut stages = Vec::new();
    if recipe.self_answers {
        stages.extend(laid_over(&run, Stage::Answers, chats as f64 / known.used.max(1) as f64));
    }
    let mut taken = 0;
    let few = texts.iter().take_while(|text| {
        taken += text.tokens.len();
        taken <= SAMPLE
    });
    let sample = &texts[..few.count().max(1)];
    run.state.chats = Some(Chats { held: 0, ..known });
    let shards = features::features(&mut run, sample)?;
    let sample_tokens: usize = sample.iter().map(|text| text.tokens.len()).sum();
    stages.extend(laid_over(&run, Stage::Features, tokens as f64 / sample_tokens.max(1) as f64));
    let scored = draft_vocab(&mut run, &texts);
    // Bytes of the map of its draft vocabulary.
    let map = scored.as_ref().map_or(0, |tokens| size_of_val(tokens.offsets().as_slice())) as u64;
    let examples = shards.part(0..shards.texts());
    let learner = Learner { recipe, scored, examples, device: &device };
    let (learning, weights) = learner.sample(&run, chats, tokens)?;
    stages.push(learning);
    let peak = run.state.stages.iter().map(|spent| spent.peak).max().unwrap_or(0);
    Ok(RunEstimate {
        chats,
        tokens,
        stages,
        features: shards::bytes(tokens as usize, Columns::of(&run.head_config()).width()),
        // Each weight and its two moments in single precision, twice.
        checkpoint: 2 * (12 * weights + map),
        head: 2 * weights + map,
        memory: peak.max(learner.memory(&run, weights)),
    })
}

/// How many chats will be used and how many tokens they have; if the target is to answer them,
/// scaled up from the sample.
fn whole(data: &Path, recipe: &Recipe, known: &Chats) -> Result<(usize, u64)> {
    if !recipe.self_answers {
        return Ok((known.used, known.tokens as u64));
    }
    let mut count = 0;
    for line in chats::read(data)? {
        count += usize::from(line?.1.is_ok());
    }
    let count = count.min(recipe.limit.unwrap_or(usize::MAX));
    let each = known.tokens as f64 / known.used.max(1) as f64;
    Ok((count, (each * count as f64) as u64))
}

/// What a stage took on the sample, multiplied by `times`.
fn laid_over(run: &RunContext<'_>, stage: Stage, times: f64) -> Option<Spent> {
    let spent = run.state.stages.iter().find(|spent| spent.stage == stage)?.clone();
    let amount = (spent.amount as f64 * times) as u64;
    Some(Spent { amount, seconds: spent.seconds * times, ..spent })
}

/// The last stage on a sample.
struct Learner<'a> {
    recipe: &'a Recipe,
    /// The tokens that the head scores, if not all.
    scored: Option<DraftVocabulary>,
    examples: Slice<'a>,
    device: &'a Device,
}

impl Learner<'_> {
    /// The time that learning takes with so many chats and tokens, and how many weights are
    /// trained.
    fn sample(&self, run: &RunContext<'_>, chats: usize, tokens: u64) -> Result<(Spent, u64)> {
        let options = &self.recipe.options;
        let used = options.used;
        let own = if used.steps > 0 { used.share } else { 0.0 };
        let (on_features, weights) = self.rate(run, Used { share: 0.0, ..used })?;
        let on_own = match own > 0.0 {
            true => self.rate(run, Used { share: 1.0, ..used })?.0,
            false => on_features,
        };
        let batch = options.step_tokens(tokens as f64 / chats.max(1) as f64);
        let length = match (self.recipe.epochs, options.length) {
            (Some(epochs), _) => Length::Steps((epochs * tokens as f64 / batch).ceil() as u64),
            (None, length) => length,
        };
        let (tokens, seconds) = match length {
            Length::Steps(steps) => {
                let tokens = steps as f64 * batch;
                (tokens, tokens * ((1.0 - own) / on_features + own / on_own))
            }
            Length::Minutes(minutes) => {
                let seconds = 60.0 * minutes;
                (seconds * ((1.0 - own) * on_features + own * on_own), seconds)
            }
        };
        let stage = Stage::Training;
        Ok((Spent { stage, amount: tokens as u64, seconds, peak: 0 }, weights))
    }

    /// Tokens per second of the second step of a training whose every step runs all blocks, and how
    /// many weights it trains. The first step is slower, because its memory has not been touched
    /// before.
    fn rate(&self, run: &RunContext<'_>, used: Used) -> Result<(f64, u64)> {
        let elastic = match self.recipe.options.elastic {
            Elastic::Drawn => Elastic::Off,
            other => other,
        };
        let options = Options {
            length: Length::Steps(2),
            batch_tokens: self.recipe.options.batch_tokens.min(SAMPLE),
            accumulate: 1,
            batch_texts: self.recipe.options.batch_texts.map(|_| 1),
            elastic,
            used,
            ..self.recipe.options.clone()
        };
        let config = HeadConfig { elastic: false, ..run.head_config() };
        let shared = SharedTables::of(&run.target(1)?);
        let scored = self.scored.clone();
        let mut trainer = Trainer::new(config, scored, &shared, options, self.device)?;
        trainer.step(&self.examples)?;
        let report = trainer.step(&self.examples)?;
        Ok((report.tokens as f64 / report.seconds.max(1e-6), trainer.net.parameters()))
    }

    /// How many bytes learning takes at most: the weights with two moments and their gradients, the
    /// target's tables, and for every row of a batch what its gradient is computed from.
    fn memory(&self, run: &RunContext<'_>, weights: u64) -> u64 {
        /// How many vectors of the fusion and of a block are kept for the gradient, in units of H
        /// and of the MLP's width, and the same number again while the gradient is computed.
        const FUSION: usize = 24;
        const BLOCK: (usize, usize) = (28, 12);
        let Recipe { blocks, options, .. } = self.recipe;
        let config = &run.files.config;
        let passes = if options.used.share > 0.0 { 1 + options.used.steps } else { 1 };
        let scores = 6 * config.heads * options.window;
        let head = run.head_config();
        let block = BLOCK.0 * config.hidden + BLOCK.1 * head.body.intermediate + scores;
        let row = passes * (FUSION * config.hidden + blocks * block);
        let tables = if config.tied_head { 2 } else { 3 } * config.vocab * config.hidden;
        // What a batch reads, and what it is compared with.
        let read = Columns::of(&head).width() + config.hidden;
        let rows = options.batch_texts.map_or(options.batch_tokens, |_| options.window);
        16 * weights + 4 * (rows * (row + read) + tables) as u64
    }
}
