//! The last stage: the head that was written drafts for its target on held-out prompts, beside
//! plain decoding, in turn. Must never change the head.

use super::context::RunContext;
use super::decoded::{DecodeEval, DecodeRow};
use super::learn::depths;
use super::state::Stage;
use super::{RunError, TrainEvent};
use crate::decode::{Engine, Request, RoundOptions};
use crate::draft::{Budget, Drafter, FeatureHead};
use crate::kernels::KvFormat;
use crate::library::{Spec, open_head};
use crate::model::head::{HeadPrecision, HeadWeights, PackedHead, SharedTables};
use crate::speculate::{SamplerSettings, Shape};
use crate::train::render::Text;

/// The paper's tree.
const SHAPE: Shape = Shape { gamma: 16, width: 10, depth: 7 };
/// Most tokens of an answer.
const LONGEST: usize = 96;

/// Decodes, unless that was done before or there is nothing to do.
pub(super) fn decode(run: &mut RunContext<'_>, texts: &[Text]) -> Result<(), RunError> {
    let recipe = run.state.recipe.clone();
    let held = run.state.chats.as_ref().map_or(0, |chats| chats.held);
    let prompts = &texts[..held.min(recipe.decode).min(texts.len())];
    if run.state.decoded.is_some() || prompts.is_empty() {
        return Ok(());
    }
    let room = run.files.config.max_positions;
    let starts = prompts.iter().map(|text| text.answers[0].start);
    let context = (starts.max().unwrap_or(0) + LONGEST + SHAPE.gamma).min(room);
    let mut engine = engine(run, context)?;
    let names = run.files.tokenizer.clone();
    let mut ways = vec![DecodeRow::default()];
    ways.extend(
        depths(recipe.options.elastic, recipe.blocks)
            .map(|blocks| DecodeRow { blocks, ..DecodeRow::default() }),
    );
    let mut decoded = DecodeEval { rows: ways, ..DecodeEval::default() };
    run.begin(Stage::Decoding, prompts.len() as u64);
    for text in prompts {
        let mut plain: Option<Vec<u32>> = None;
        let mut same = true;
        for row in &mut decoded.rows {
            if run.stopping() {
                return Err(RunError::Stopped);
            }
            engine.forget();
            let prompt = text.tokens[..text.answers[0].start].to_vec();
            let max_tokens = LONGEST.min(context.saturating_sub(prompt.len())).max(1);
            let eos = run.files.eos.clone();
            let request = Request { prompt, max_tokens, eos, stop: Vec::new() };
            let budget = Budget::new(SHAPE, row.blocks.max(1));
            let options = RoundOptions {
                speculate: row.blocks > 0,
                ..RoundOptions::new(budget, SamplerSettings::default())
            };
            let mut answer = engine.generate(request, &names)?;
            let mut said = vec![answer.first_token(&options)?.token];
            while answer.finish().is_none() {
                said.extend(answer.step(&options)?.committed.into_iter().map(|token| token.token));
            }
            let summary = answer.summary();
            row.tokens += summary.tokens - 1;
            row.rounds += summary.rounds;
            row.seconds += summary.timing.total_ms() / 1e3;
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

/// The target with the head that lies in the folder, as the program would run them.
fn engine(run: &RunContext<'_>, context: usize) -> Result<Engine, RunError> {
    let target = run.target(context)?;
    let files = open_head(&Spec::Folder(run.dir.head().to_owned()), &mut |_| {})?;
    let weights = HeadWeights::load(&files.config, files.tensors.as_ref())?;
    let shared = SharedTables::of(&target);
    let kind = weights.kind();
    let pool = std::sync::Arc::clone(&run.pool);
    let (precision, kv) = (HeadPrecision::Eight, KvFormat::F16);
    let head = PackedHead::new(&weights, &shared, pool, context, precision, kv)?;
    let drafter: Box<dyn Drafter> =
        Box::new(FeatureHead::new(&files.config, kind, Box::new(head), context));
    Ok(Engine::new(Box::new(target), [drafter]))
}
