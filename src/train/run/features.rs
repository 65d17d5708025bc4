//! The second stage: the target runs once over every text, and its features are written to shards.
//! Must never know chats.

use super::RunError;
use super::context::RunContext;
use super::state::{Stage, size};
use crate::model::Target;
use crate::train::render::Text;
use crate::train::shards::{self, ShardWriter, Shards};

/// Tokens of one pass; between two passes the training can be stopped.
const SLICE: usize = 256;

/// The texts with their features, held-out ones first; made where they are not there yet.
pub(super) fn features(run: &mut RunContext<'_>, texts: &[Text]) -> Result<Shards, RunError> {
    let hidden = run.files.config.hidden;
    let work = run.dir.work();
    let have = Shards::open(&work, hidden)?;
    let left = &texts[have.texts().min(texts.len())..];
    if left.is_empty() {
        return Ok(have);
    }
    let tokens: usize = left.iter().map(|text| text.tokens.len()).sum();
    let bytes = shards::bytes(tokens, hidden);
    run.note(&format!("features of {tokens} tokens: {} on disk", size(bytes)));
    run.dir.need(bytes)?;
    let longest = left.iter().map(|text| text.tokens.len()).max().unwrap_or(1);
    let mut target = run.target(longest)?;
    let mut writer = ShardWriter::new(&work, hidden, have.files());
    run.begin(Stage::Features, tokens as u64);
    let mut done = 0;
    for text in left {
        let Some(features) = pass(run, &mut target, text, done)? else {
            // What is complete is kept; it need not fill a shard.
            writer.finish()?;
            run.end(done)?;
            return Err(RunError::Stopped);
        };
        writer.push(text, &features)?;
        done += text.tokens.len() as u64;
    }
    writer.finish()?;
    run.end(done)?;
    Ok(Shards::open(&work, hidden)?)
}

/// The features of a text, `[L, H]`; `None` if it was stopped.
fn pass(
    run: &mut RunContext<'_>,
    target: &mut dyn Target,
    text: &Text,
    before: u64,
) -> Result<Option<Vec<f32>>, RunError> {
    target.truncate(0);
    let mut features = Vec::with_capacity(text.tokens.len() * target.hidden());
    for slice in text.tokens.chunks(SLICE) {
        if run.stopping() {
            return Ok(None);
        }
        features.extend(target.prefill(slice)?.features);
        run.at(before + target.len() as u64);
    }
    Ok(Some(features))
}
