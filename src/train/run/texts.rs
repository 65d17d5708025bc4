//! The first stage: every chat of the file in the target's tokens, in the order in which they are
//! used, the held-out ones first. Lines that cannot be used are counted and reported.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::context::RunContext;
use super::state::{Chats, Stage};
use super::{Reports, TrainEvent, answers};
use crate::chat::Message;
use crate::speculate::Noise;
use crate::train::chats;
use crate::train::files::{read_lines, write_lines};
use crate::train::render::{Renderer, Text};
use crate::train::{Result, TrainError};

const FILE: &str = "texts.jsonl";
/// How many faults are kept word for word; the others are counted.
const NAMED: usize = 100;

/// The texts, held-out ones first; rendered if they have not been rendered yet.
pub(super) fn texts(run: &mut RunContext<'_>) -> Result<Vec<Text>> {
    let path = run.dir.file(FILE);
    if run.state.chats.is_some() && path.exists() {
        return read_lines(&path);
    }
    let recipe = run.state.recipe.clone();
    let renderer = Renderer::new(&run.files, run.window(), recipe.system.clone());
    let answered = if recipe.self_answers { Some(answers::answer(run, &renderer)?) } else { None };
    let data = run.data()?;
    run.begin(Stage::Render, 0);
    let drawn = Drawn { limit: recipe.limit, seed: recipe.options.seed };
    let (texts, mut chats) =
        render(&data, &renderer, drawn, answered.as_ref(), run.stop, run.report)?;
    chats.held = held(texts.len(), recipe.held_out);
    write_lines(&path, &texts)?;
    let lines = chats.lines as u64;
    run.state.chats = Some(chats);
    run.end(lines)?;
    Ok(texts)
}

/// Which chats are used, and in which order.
#[derive(Clone, Copy)]
pub(in crate::train) struct Drawn {
    /// The most chats; `None` means all.
    pub limit: Option<usize>,
    pub seed: u64,
}

/// The usable chats of a file in tokens, and what its lines turned out to be. If the target
/// `answered`, only what it answered is used.
pub(in crate::train) fn render(
    data: &Path,
    renderer: &Renderer,
    drawn: Drawn,
    answered: Option<&BTreeMap<usize, Vec<Message>>>,
    stop: &AtomicBool,
    report: Reports<'_>,
) -> Result<(Vec<Text>, Chats)> {
    let mut chats = Chats::default();
    let mut texts = Vec::new();
    for line in chats::read(data)? {
        if stop.load(Ordering::Relaxed) {
            // Rendering is quick and starts again.
            return Err(TrainError::Stopped);
        }
        let (line, mut chat) = line?;
        chats.lines += 1;
        if let (Some(answered), Ok(chat)) = (answered, &mut chat) {
            // A chat that was not drawn has no answers.
            let Some(own) = answered.get(&line) else { continue };
            chat.clone_from(own);
        }
        match chat.and_then(|chat| renderer.text(line, &chat)) {
            Ok(text) => texts.push(text),
            Err(why) => {
                chats.refused += 1;
                if chats.faults.len() < NAMED {
                    report(TrainEvent::Refused { line, why: &why });
                    chats.faults.push((line, why));
                }
            }
        }
        report(TrainEvent::At(chats.lines as u64));
    }
    order(&mut texts, drawn.seed);
    texts.truncate(drawn.limit.unwrap_or(usize::MAX));
    if texts.len() < 2 {
        let fault = chats.faults.first().map(|(line, why)| format!("; line {line}: {why}"));
        return Err(TrainError::Failed(format!(
            "{}: {} of {} lines can be used, but at least 2 are needed{}",
            data.display(),
            texts.len(),
            chats.lines,
            fault.unwrap_or_default()
        )));
    }
    chats.used = texts.len();
    chats.cut = texts.iter().filter(|text| text.cut).count();
    chats.tokens = texts.iter().map(|text| text.tokens.len()).sum();
    chats.answers = texts.iter().flat_map(|text| &text.answers).map(|answer| answer.len()).sum();
    Ok((texts, chats))
}

/// The place of the chat in `line` in the order into which `seed` shuffles the chats.
pub(super) fn rank(seed: u64, line: usize) -> (u64, usize) {
    (Noise::new(seed, line).bits(0), line)
}

/// Shuffles by the seed and each chat's line only, so that adding or removing a chat leaves the
/// others in their order.
fn order(texts: &mut [Text], seed: u64) {
    texts.sort_by_key(|text| rank(seed, text.line));
}

/// How many of `texts` are held out: the given share, but at least one on each side.
fn held(texts: usize, share: f64) -> usize {
    ((texts as f64 * share).round() as usize).clamp(1, texts.saturating_sub(1).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_twentieth_is_held_out_and_at_least_one() {
        let counts = [2, 3, 10, 100, 1000].map(|texts| held(texts, 0.05));
        assert_eq!(counts, [1, 1, 1, 5, 50]);
        assert_eq!(held(2, 0.99), 1);
    }

    #[test]
    fn a_chat_keeps_its_place_among_the_others() {
        let text = |line| Text { line, ..Text::default() };
        let lines = |texts: &[Text]| texts.iter().map(|text| text.line).collect::<Vec<_>>();
        let mut all: Vec<Text> = (1..=50).map(text).collect();
        order(&mut all, 42);
        let mut fewer: Vec<Text> = (1..=50).rev().filter(|&line| line != 7).map(text).collect();
        order(&mut fewer, 42);
        let mut expected = lines(&all);
        assert_ne!(expected, (1..=50).collect::<Vec<_>>());
        expected.retain(|&line| line != 7);
        assert_eq!(lines(&fewer), expected);
    }
}
