//! The first stage: every chat of the file in the target's tokens, in the order in which they are
//! used, the held-out ones first. Lines that cannot be used are counted and reported.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use super::answers;
use super::context::RunContext;
use super::recipe::rank;
use super::state::{Chats, Stage};
use super::{RunError, TrainEvent};
use crate::chat::Message;
use crate::train::chats::{self, ChatFault};
use crate::train::render::{RenderError, Renderer, Text};
use crate::train::shards::{ShardError, whole};

const FILE: &str = "texts.jsonl";
/// How many faults are kept word for word; the others are counted.
const NAMED: usize = 100;

/// The texts, held-out ones first; rendered if they have not been rendered yet.
pub(super) fn texts(run: &mut RunContext<'_>) -> Result<Vec<Text>, RunError> {
    let path = run.dir.file(FILE);
    if run.state.chats.is_some() && path.exists() {
        return read(&path);
    }
    let recipe = run.state.recipe.clone();
    let renderer = Renderer::new(&run.files, run.window(), recipe.system.clone());
    let answered = if recipe.self_answers { Some(answers::answer(run, &renderer)?) } else { None };
    let unreadable = |source| RunError::Data { path: recipe.data.clone(), source };
    let mut chats = Chats::default();
    let mut texts = Vec::new();
    run.begin(Stage::Render, 0);
    for line in chats::read(&recipe.data).map_err(unreadable)? {
        if run.stopping() {
            // Rendering is quick and starts again.
            return Err(RunError::Stopped);
        }
        let (number, chat) = line.map_err(unreadable)?;
        chats.lines += 1;
        let chat = match (&answered, chat) {
            (Some(answered), Ok(_)) => match answered.get(&number) {
                Some(chat) => Ok(chat.clone()),
                // Not drawn.
                None => continue,
            },
            (_, chat) => chat,
        };
        match one(&renderer, number, chat)? {
            Ok(text) => texts.push(text),
            Err(fault) => {
                chats.refused += 1;
                if chats.faults.len() < NAMED {
                    let why = fault.to_string();
                    (run.report)(TrainEvent::Refused { line: number, why: &why });
                    chats.faults.push((number, why));
                }
            }
        }
        run.at(chats.lines as u64);
    }
    order(&mut texts, recipe.options.seed);
    texts.truncate(recipe.limit.unwrap_or(usize::MAX));
    if texts.len() < 2 {
        let fault = chats.faults.first().map(|(line, why)| format!("; line {line}: {why}"));
        let lines = chats.lines;
        let fault = fault.unwrap_or_default();
        return Err(RunError::NoChats { path: recipe.data, lines, usable: texts.len(), fault });
    }
    chats.used = texts.len();
    chats.held = held(texts.len(), recipe.held_out);
    chats.cut = texts.iter().filter(|text| text.cut).count();
    chats.tokens = texts.iter().map(|text| text.tokens.len()).sum();
    chats.answers = texts.iter().flat_map(|text| &text.answers).map(|answer| answer.len()).sum();
    whole(&path, |file| {
        let mut out = BufWriter::new(file);
        for text in &texts {
            serde_json::to_writer(&mut out, text)?;
            out.write_all(b"\n")?;
        }
        out.flush()
    })?;
    let lines = chats.lines as u64;
    run.state.chats = Some(chats);
    run.end(lines)?;
    Ok(texts)
}

/// A chat of the file in tokens, or why it cannot be used.
///
/// # Errors
/// If the tokenizer fails.
pub(in crate::train) fn one(
    renderer: &Renderer,
    line: usize,
    chat: Result<Vec<Message>, ChatFault>,
) -> Result<Result<Text, ChatFault>, RunError> {
    let chat = match chat {
        Ok(chat) => chat,
        Err(fault) => return Ok(Err(fault)),
    };
    match renderer.text(line, &chat) {
        Ok(text) => Ok(Ok(text)),
        Err(RenderError::Fault(fault)) => Ok(Err(fault)),
        Err(RenderError::Tokenizer(error)) => Err(error.into()),
    }
}

/// Shuffles by the seed and each chat's line only, so that adding or removing a chat leaves the
/// others in their order.
fn order(texts: &mut [Text], seed: u64) {
    texts.sort_by_key(|text| rank(seed, text.line));
}

/// How many of `texts` are held out: the given share, but at least one on each side.
pub(super) fn held(texts: usize, share: f64) -> usize {
    ((texts as f64 * share).round() as usize).clamp(1, texts.saturating_sub(1).max(1))
}

fn read(path: &Path) -> Result<Vec<Text>, RunError> {
    let failed = |source| RunError::from(ShardError::read(path, source));
    let file = BufReader::new(File::open(path).map_err(failed)?);
    let parse = |line: std::io::Result<String>| {
        serde_json::from_str(&line.map_err(failed)?).map_err(|error| {
            let path = path.to_owned();
            let reason = error.to_string();
            RunError::from(ShardError::Damaged { path, reason })
        })
    };
    file.lines().map(parse).collect()
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
