//! Before the first stage, if requested: the target answers the questions of the file itself, so
//! that the head learns from texts that it will have to predict. Many chats are answered in
//! parallel, because a pass over one row of each costs little more than a pass over a single row.
//! Every answer is on the disk as soon as it is complete.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::RunError;
use super::context::RunContext;
use super::recipe::rank;
use super::state::Stage;
use crate::chat::{Message, Role};
use crate::decode::{Answered, BatchEngine, Request};
use crate::hardware::Machine;
use crate::library::Tokenizer;
use crate::model::{CpuBatch, CpuTarget};
use crate::speculate::SamplerSettings;
use crate::train::chats;
use crate::train::render::{RenderError, Renderer};
use crate::train::shards::{ShardError, whole};

const FILE: &str = "answers.jsonl";
/// Half of the chats are answered greedily, because heads are mostly used that way; the other half
/// at this temperature, so that the texts are more varied.
const TEMPERATURE: f32 = 0.8;
/// How many chats are answered in parallel: as many rows as a pass takes for about the price of
/// two.
pub(super) const TOGETHER: usize = 16;

/// A chat that the target answered.
#[derive(Serialize, Deserialize)]
struct AnsweredChat {
    line: usize,
    messages: Vec<Message>,
}

/// Every chat of the file with the target's answers, by line; chats that were answered earlier are
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
    let answered = read(&path)?;
    let failed = |source| ShardError::write(&path, source);
    let file = OpenOptions::new().create(true).append(true).open(&path).map_err(failed)?;
    let target = run.target(run.window())?;
    let together = together(&target);
    run.begin(Stage::Answers, asked.len() as u64);
    let mut table = AnswerTable {
        renderer,
        names: run.files.tokenizer.clone(),
        eos: run.files.eos.clone(),
        stop: run.files.template.stop_strings().to_vec(),
        longest: recipe.answer_tokens,
        engine: BatchEngine::new(CpuBatch::new(target, together)?),
        talks: BTreeMap::new(),
        path,
        file,
        answered,
        tokens: 0,
    };
    let mut waiting = asked.into_iter().enumerate();
    loop {
        while table.engine.has_room()
            && let Some((index, (line, chat))) = waiting.next()
        {
            if table.answered.contains_key(&line) {
                continue;
            }
            let temperature = if index % 2 == 0 { 0.0 } else { TEMPERATURE };
            let seed = recipe.options.seed ^ line as u64;
            let sampler = SamplerSettings { temperature, seed, ..SamplerSettings::default() };
            let questions = chat.into_iter().filter(|message| message.role != Role::Assistant);
            let talk = Talk { sampler, left: questions.rev().collect(), said: Vec::new() };
            table.go_on(line, talk)?;
            run.at(table.answered.len() as u64);
        }
        if table.engine.active() == 0 {
            break;
        }
        if run.stopping() {
            run.end(table.tokens)?;
            return Err(RunError::Stopped);
        }
        for answer in table.engine.step(&table.names)? {
            table.hear(answer)?;
            run.at(table.answered.len() as u64);
        }
        run.look();
    }
    run.end(table.tokens)?;
    Ok(table.answered)
}

/// How many chats are answered in parallel: [`TOGETHER`], or as many caches as fit in half of the
/// free memory.
fn together(target: &CpuTarget) -> usize {
    let free = Machine::probe().memory.free / 2;
    let caches = free / target.kv_bytes().max(1);
    usize::try_from(caches).unwrap_or(usize::MAX).clamp(1, TOGETHER)
}

/// A chat in progress.
struct Talk {
    sampler: SamplerSettings,
    /// The messages of the other roles that are still to come, the next one last.
    left: Vec<Message>,
    /// The chat so far.
    said: Vec<Message>,
}

/// The chats in progress, by line, and what they need.
struct AnswerTable<'a> {
    renderer: &'a Renderer,
    names: Tokenizer,
    eos: Vec<u32>,
    stop: Vec<String>,
    /// The most tokens in an answer.
    longest: usize,
    engine: BatchEngine,
    talks: BTreeMap<usize, Talk>,
    path: PathBuf,
    file: File,
    answered: BTreeMap<usize, Vec<Message>>,
    tokens: u64,
}

impl AnswerTable<'_> {
    /// Asks the chat's next question, or writes the chat if there is none, or none that fits.
    fn go_on(&mut self, line: usize, mut talk: Talk) -> Result<(), RunError> {
        while let Some(request) = self.question(&mut talk)? {
            let sampler = talk.sampler;
            match self.engine.begin(line, &request, sampler, &self.names)? {
                Some(answer) => self.note(&mut talk, answer),
                None => {
                    self.talks.insert(line, talk);
                    return Ok(());
                }
            }
        }
        self.write(AnsweredChat { line, messages: talk.said })
    }

    /// Takes an answer that has ended and continues its chat.
    fn hear(&mut self, answer: Answered) -> Result<(), RunError> {
        let line = answer.key;
        let Some(mut talk) = self.talks.remove(&line) else { return Ok(()) };
        self.note(&mut talk, answer);
        self.go_on(line, talk)
    }

    fn note(&mut self, talk: &mut Talk, answer: Answered) {
        self.tokens += answer.tokens as u64;
        talk.said.push(Message::new(Role::Assistant, answer.text));
    }

    /// The request for the chat's next question, if there is one and it fits.
    fn question(&self, talk: &mut Talk) -> Result<Option<Request>, RunError> {
        while let Some(message) = talk.left.pop() {
            let asks = message.role == Role::User;
            talk.said.push(message);
            if !asks {
                continue;
            }
            let prompt = match self.renderer.prompt(&talk.said) {
                Ok(prompt) => prompt,
                // The template does not accept this chat: it is counted and listed with the other
                // faults.
                Err(RenderError::Fault(_)) => return Ok(None),
                Err(RenderError::Tokenizer(error)) => return Err(error.into()),
            };
            let room = self.engine.capacity().saturating_sub(prompt.len());
            if room < 2 {
                talk.said.pop();
                return Ok(None);
            }
            return Ok(Some(Request {
                prompt,
                max_tokens: self.longest.min(room - 1),
                eos: self.eos.clone(),
                stop: self.stop.clone(),
                asked: Vec::new(),
            }));
        }
        Ok(None)
    }

    fn write(&mut self, row: AnsweredChat) -> Result<(), RunError> {
        let failed = |source| ShardError::write(&self.path, source);
        let mut text = serde_json::to_vec(&row).map_err(|error| failed(error.into()))?;
        text.push(b'\n');
        self.file.write_all(&text).map_err(failed)?;
        self.answered.insert(row.line, row.messages);
        Ok(())
    }
}

/// Reads what was answered earlier; a line torn by an interruption is removed from the file.
fn read(path: &Path) -> Result<BTreeMap<usize, Vec<Message>>, RunError> {
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
        let row: AnsweredChat = serde_json::from_slice(line).map_err(|error| {
            ShardError::Damaged { path: path.to_owned(), reason: error.to_string() }
        })?;
        Ok((row.line, row.messages))
    })
    .collect()
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
