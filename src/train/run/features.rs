//! The second stage: the target runs once over every text, and its features are written to shards.
//! It must not depend on chats.

use super::context::RunContext;
use super::state::Stage;
use crate::model::head::HeadError;
use crate::model::{CpuTarget, Target};
use crate::printable;
use crate::train::render::Text;
use crate::train::shards::{self, ShardWriter, Shards};
use crate::train::{Columns, Result, TrainError};

/// How many tokens one pass has; the training can be stopped between two passes.
const SLICE: usize = 256;

/// The texts with their features, held-out ones first; computed if they do not exist yet.
pub(super) fn features(run: &mut RunContext<'_>, texts: &[Text]) -> Result<Shards> {
    let head = run.head_config();
    let width = Columns::of(&head).width();
    let work = run.dir.work();
    let have = Shards::open(&work, width)?;
    let left = &texts[have.texts().min(texts.len())..];
    if left.is_empty() {
        return Ok(have);
    }
    let tokens: usize = left.iter().map(|text| text.tokens.len()).sum();
    let bytes = shards::bytes(tokens, width);
    run.note(&format!("features of {tokens} tokens: {} on disk", printable::bytes(bytes)));
    run.dir.need(bytes)?;
    let longest = left.iter().map(|text| text.tokens.len()).max().unwrap_or(1);
    let mut target = run.target(longest)?;
    let layers = run.files.config.layers;
    let source = head.features(layers).map_err(HeadError::from)?;
    let tapped = !source.states().is_empty();
    target.set_features(source);
    let mut writer = ShardWriter::new(&work, width, have.files());
    run.begin(Stage::Features, tokens as u64);
    let mut done = 0;
    for text in left {
        let features = pass(run, &mut target, tapped, text, done);
        if let Err(TrainError::Stopped) = features {
            // What is complete is kept, even if it does not fill a shard.
            writer.finish()?;
            run.end(done)?;
        }
        writer.push(text, &features?)?;
        done += text.tokens.len() as u64;
    }
    writer.finish()?;
    run.end(done)?;
    Shards::open(&work, width)
}

/// The features of a text, `[L, width]`: the final norm's outputs, or the tapped states, each
/// followed by that output.
fn pass(
    run: &mut RunContext<'_>,
    target: &mut CpuTarget,
    tapped: bool,
    text: &Text,
    before: u64,
) -> Result<Vec<f32>> {
    target.truncate(0);
    let mut features = Vec::new();
    for slice in text.tokens.chunks(SLICE) {
        if run.stopping() {
            return Err(TrainError::Stopped);
        }
        if tapped {
            let (states, normed) = target.prefill_with_norm(slice)?;
            let width = target.feature_width();
            let hidden = target.config().hidden;
            for (states, normed) in states.chunks_exact(width).zip(normed.chunks_exact(hidden)) {
                features.extend_from_slice(states);
                features.extend_from_slice(normed);
            }
        } else {
            features.extend(target.prefill(slice)?.features);
        }
        run.at(before + target.len() as u64);
    }
    Ok(features)
}
