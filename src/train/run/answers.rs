//! Before the first stage, if asked for: the target answers the questions of the file itself, so
//! that the head learns from texts that it will be asked to predict. Every answer is on the disk as
//! soon as it is complete.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use super::RunError;
use super::context::RunContext;
use super::recipe::rank;
use super::state::Stage;
use crate::chat::{Message, Role};
use crate::decode::{Engine, Request, RoundOptions};
use crate::draft::{Budget, Drafter, PromptLookup};
use crate::speculate::{SamplerSettings, Shape};
use crate::train::chats;
use crate::train::render::{RenderError, Renderer};
use crate::train::shards::{ShardError, whole};

const FILE: &str = "answers.jsonl";
/// Half of the chats are answered greedily, as heads are used most; the other half at this
/// temperature, so that the texts are more varied.
const TEMPERATURE: f32 = 0.8;

/// A chat that the target answered.
#[derive(Serialize, Deserialize)]
struct Answered {
    line: usize,
    messages: Vec<Message>,
}

/// Every chat of the file with the target's answers, by line; those that were answered before are
/// read.
pub(super) fn answer(
    run: &mut RunContext<'_>,
    renderer: &Renderer,
) -> Result<BTreeMap<usize, Vec<Message>>, RunError> {
    let recipe = run.state.recipe.clone();
    let unreadable = |source| RunError::Data { path: recipe.data.clone(), source };
    let mut asked = Vec::new();
    for line in chats::read(&recipe.data).map_err(unreadable)? {
        if let (line, Ok(chat)) = line.map_err(unreadable)? {
            asked.push((line, chat));
        }
    }
    if let Some(limit) = recipe.limit {
        asked.sort_by_key(|(line, _)| rank(recipe.options.seed, *line));
        asked.truncate(limit);
    }
    let path = run.dir.file(FILE);
    let mut answered = read(&path)?;
    let failed = |source| ShardError::write(&path, source);
    let mut file = OpenOptions::new().create(true).append(true).open(&path).map_err(failed)?;
    let window = run.window();
    let lookup: Box<dyn Drafter> = Box::new(PromptLookup::new(window));
    let mut engine = Engine::new(Box::new(run.target(window)?), [lookup]);
    run.begin(Stage::Answers, asked.len() as u64);
    let mut tokens = 0;
    for (index, (line, chat)) in asked.iter().enumerate() {
        if answered.contains_key(line) {
            continue;
        }
        let temperature = if index % 2 == 0 { 0.0 } else { TEMPERATURE };
        let seed = recipe.options.seed ^ *line as u64;
        let sampler = SamplerSettings { temperature, seed, ..SamplerSettings::default() };
        let Some(messages) = talk(run, renderer, &mut engine, chat, sampler, &mut tokens)? else {
            run.end(tokens)?;
            return Err(RunError::Stopped);
        };
        let row = Answered { line: *line, messages };
        let mut text = serde_json::to_vec(&row).map_err(|error| failed(error.into()))?;
        text.push(b'\n');
        file.write_all(&text).map_err(failed)?;
        answered.insert(*line, row.messages);
        run.at(index as u64 + 1);
    }
    run.end(tokens)?;
    Ok(answered)
}

/// What was answered before; a line torn by an interruption is taken out of the file.
fn read(path: &std::path::Path) -> Result<BTreeMap<usize, Vec<Message>>, RunError> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(source) => return Err(ShardError::read(path, source).into()),
    };
    let complete = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    if complete < text.len() {
        whole(path, |file| file.write_all(&text[..complete]))?;
    }
    let rows = text[..complete].split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    rows.map(|line| {
        let row: Answered = serde_json::from_slice(line).map_err(|error| ShardError::Damaged {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
        Ok((row.line, row.messages))
    })
    .collect()
}

/// The chat's questions with the target's answers, up to the first that does not fit; `None` if it
/// was stopped.
fn talk(
    run: &mut RunContext<'_>,
    renderer: &Renderer,
    engine: &mut Engine,
    chat: &[Message],
    sampler: SamplerSettings,
    tokens: &mut u64,
) -> Result<Option<Vec<Message>>, RunError> {
    let names = run.files.tokenizer.clone();
    let budget = Budget::new(Shape { gamma: 8, width: 1, depth: 6 }, 0);
    let options = RoundOptions::new(budget, sampler);
    let mut said: Vec<Message> = Vec::new();
    for message in chat.iter().filter(|message| message.role != Role::Assistant) {
        said.push(message.clone());
        if message.role != Role::User {
            continue;
        }
        let prompt = match renderer.prompt(&said) {
            Ok(prompt) => prompt,
            // The template does not take this chat: it is counted and named with the other faults.
            Err(RenderError::Fault(_)) => break,
            Err(RenderError::Tokenizer(error)) => return Err(error.into()),
        };
        let room = engine.target().capacity().saturating_sub(prompt.len());
        if room < 2 {
            said.pop();
            break;
        }
        let request = Request {
            prompt,
            max_tokens: run.state.recipe.answer_tokens.min(room - 1),
            eos: run.files.eos.clone(),
            stop: run.files.template.stop_strings().to_vec(),
        };
        let mut answer = engine.generate(request, &names)?;
        let mut content = answer.first_token(&options)?.text;
        while answer.finish().is_none() {
            if run.stopping() {
                return Ok(None);
            }
            let round = answer.step(&options)?;
            content.extend(round.committed.into_iter().map(|token| token.text));
        }
        *tokens += answer.summary().tokens as u64;
        run.look();
        said.push(Message::new(Role::Assistant, content));
    }
    Ok(Some(said))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_line_is_answered_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        assert!(read(&path).unwrap().is_empty());
        let good = r#"{"line":3,"messages":[{"role":"user","content":"Hi"}]}"#;
        fs::write(&path, format!("{good}\n{}", &good[..20])).unwrap();
        assert_eq!(read(&path).unwrap().keys().collect::<Vec<_>>(), [&3]);
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{good}\n"));
        fs::write(&path, "{}\n").unwrap();
        assert!(matches!(read(&path), Err(RunError::Shard(ShardError::Damaged { .. }))));
    }
}
