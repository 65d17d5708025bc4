//! The last stage: the finished head drafts for its target on held-out prompts, alternating with
//! plain decoding. It must never change the head.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::TrainEvent;
use super::context::RunContext;
use super::state::Stage;
use crate::decode::{Engine, Request, RoundOptions};
use crate::draft::{Budget, Drafter, FeatureHead};
use crate::library::{Spec, open_head};
use crate::model::head::{HeadError, HeadRequest, HeadWeights, PackedHead, SharedTables};
use crate::speculate::{SamplerSettings, Shape};
use crate::train::render::Text;
use crate::train::{Result, TrainError};

/// The paper's tree.
const SHAPE: Shape = Shape { gamma: 16, width: 10, depth: 7 };
/// The most tokens in an answer.
const LONGEST: usize = 96;

/// How many tokens of an answer are used to measure τ while the head still learns: enough to tell a
/// better head from a worse one, few enough to take little of the training's time.
const LOOK: usize = 48;

/// The results of decoding with the head. τ = committed tokens / target passes, without the
/// prompt's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DecodeEval {
    /// How many prompts were answered.
    pub prompts: usize,
    /// How many of these gave the same text as plain decoding at every m.
    pub same: usize,
    /// Plain decoding, then each m.
    pub rows: Vec<DecodeRow>,
}

/// One way of decoding.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DecodeRow {
    /// m: how many blocks are used; 0 without a draft.
    pub blocks: usize,
    /// How many tokens follow the first one of each answer.
    pub tokens: usize,
    /// How many passes the target made.
    pub rounds: usize,
    /// The time, including drafting.
    pub seconds: f64,
}

impl DecodeRow {
    /// Tokens per pass.
    pub fn tau(&self) -> f64 {
        self.tokens as f64 / self.rounds.max(1) as f64
    }

    /// Tokens per second.
    pub fn speed(&self) -> f64 {
        if self.seconds > 0.0 { self.tokens as f64 / self.seconds } else { 0.0 }
    }
}

/// Decodes, unless that has been done or there is nothing to do.
pub(super) fn decode(run: &mut RunContext<'_>, texts: &[Text]) -> Result<()> {
    let prompts = prompts(run, texts);
    if run.state.decoded.is_some() || prompts.is_empty() {
        return Ok(());
    }
    let files = open_head(&Spec::Folder(run.dir.out.clone()), &mut |_| {})?;
    let weights = HeadWeights::load(&files.config, files.tensors.as_ref())?;
    let mut decoder = Decoder::new(run, &weights, prompts, LONGEST)?;
    let mut ways = vec![DecodeRow::default()];
    ways.extend(
        run.state.recipe.depths().map(|blocks| DecodeRow { blocks, ..DecodeRow::default() }),
    );
    let mut decoded = DecodeEval { rows: ways, ..DecodeEval::default() };
    run.begin(Stage::Decoding, prompts.len() as u64);
    for text in prompts {
        let mut plain: Option<Vec<u32>> = None;
        let mut same = true;
        for row in &mut decoded.rows {
            if run.stopping() {
                return Err(TrainError::Stopped);
            }
            let said = decoder.answer(run, text, row)?;
            match &plain {
                Some(plain) => same &= *plain == said,
                None => plain = Some(said),
            }
        }
        decoded.prompts += 1;
        decoded.same += usize::from(same);
        run.at(decoded.prompts as u64);
    }
    let tokens = decoded.rows.iter().map(|row| row.tokens as u64).sum();
    (run.report)(TrainEvent::DecodeEval(&decoded));
    run.state.decoded = Some(decoded);
    run.end(tokens)
}

/// τ of a head that is still learning, with all its blocks, on `most` held-out prompts; `None` if
/// none are to be decoded.
pub(super) fn tau(
    run: &RunContext<'_>,
    weights: &HeadWeights,
    texts: &[Text],
    most: usize,
) -> Result<Option<f64>> {
    let prompts = prompts(run, texts);
    let prompts = &prompts[..prompts.len().min(most)];
    if prompts.is_empty() {
        return Ok(None);
    }
    let mut decoder = Decoder::new(run, weights, prompts, LOOK)?;
    let mut row = DecodeRow { blocks: weights.config.blocks(), ..DecodeRow::default() };
    for text in prompts {
        decoder.answer(run, text, &mut row)?;
    }
    Ok(Some(row.tau()))
}

/// The held-out texts whose prompts are decoded.
fn prompts<'a>(run: &RunContext<'_>, texts: &'a [Text]) -> &'a [Text] {
    &texts[..run.held().min(run.state.recipe.decode).min(texts.len())]
}

/// The target with a head, as the program would run them.
struct Decoder {
    engine: Engine,
    /// How many positions there are.
    context: usize,
    /// The most tokens in an answer.
    longest: usize,
}

impl Decoder {
    fn new(
        run: &RunContext<'_>,
        weights: &HeadWeights,
        prompts: &[Text],
        longest: usize,
    ) -> Result<Self> {
        let starts = prompts.iter().map(|text| text.answers[0].start);
        let room = run.files.config.max_positions;
        let context = (starts.max().unwrap_or(0) + longest + SHAPE.gamma).min(room);
        let target = run.target(context)?;
        let shared = SharedTables::of(&target);
        let pool = Arc::clone(&run.pool);
        let source = weights.config.features(run.files.config.layers).map_err(HeadError::from)?;
        let head = PackedHead::new(&HeadRequest::new(weights, &shared, pool, context))?;
        let drafter: Box<dyn Drafter> =
            Box::new(FeatureHead::new(&weights.config, Box::new(head), context).reading(source));
        Ok(Self { engine: Engine::new(Box::new(target), [drafter]), context, longest })
    }

    /// Answers the prompt of `text` in the way of `row`, and adds the figures to `row`.
    fn answer(
        &mut self,
        run: &RunContext<'_>,
        text: &Text,
        row: &mut DecodeRow,
    ) -> Result<Vec<u32>> {
        let Self { engine, context, longest } = self;
        engine.forget();
        let prompt = text.tokens[..text.answers[0].start].to_vec();
        let max_tokens = (*longest).min(context.saturating_sub(prompt.len())).max(1);
        let eos = run.files.eos.clone();
        let request = Request { prompt, max_tokens, eos, ..Request::default() };
        let budget = Budget::new(SHAPE, row.blocks.max(1));
        let options = RoundOptions {
            speculate: row.blocks > 0,
            ..RoundOptions::new(budget, SamplerSettings::default())
        };
        let mut answer = engine.generate(request, &run.files.tokenizer)?;
        let mut said = vec![answer.first_token(&options)?.token];
        while answer.finish().is_none() {
            said.extend(answer.round(&options)?.committed.into_iter().map(|token| token.token));
        }
        let summary = answer.summary();
        row.tokens += summary.tokens - 1;
        row.rounds += summary.rounds;
        row.seconds += summary.timing.total_ms() / 1e3;
        Ok(said)
    }
}
