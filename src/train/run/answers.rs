//! Before the first stage, if requested: the target answers the questions of the file itself, so
//! that the head learns from texts that it will have to predict. Many chats are answered in
//! parallel, because a pass over one row of each costs little more than a pass over a single row.
//! Every answer is on the disk as soon as it is complete.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::context::RunContext;
use super::state::Stage;
use super::texts::rank;
use crate::chat::{Message, Role};
use crate::decode::{BatchEngine, Request};
use crate::hardware::Machine;
use crate::library::Tokenizer;
use crate::model::CpuBatch;
use crate::speculate::SamplerSettings;
use crate::train::chats;
use crate::train::files::LineFile;
use crate::train::render::Renderer;
use crate::train::{Result, TrainError};

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
) -> Result<BTreeMap<usize, Vec<Message>>> {
    let recipe = run.state.recipe.clone();
    let mut asked = Vec::new();
    for line in chats::read(&run.data()?)? {
        if let (line, Ok(chat)) = line? {
            asked.push((line, chat));
        }
    }
    if let Some(limit) = recipe.limit {
        asked.sort_by_key(|(line, _)| rank(recipe.options.seed, *line));
        asked.truncate(limit);
    }
    let (file, known) = LineFile::resume(run.dir.file(FILE), |_: &AnsweredChat| true)?;
    let target = run.target(run.window())?;
    // As many caches as fit in half of the free memory.
    let caches = Machine::probe().memory.free / 2 / target.kv_bytes().max(1);
    let together = usize::try_from(caches).unwrap_or(usize::MAX).clamp(1, TOGETHER);
    run.begin(Stage::Answers, asked.len() as u64);
    let mut table = AnswerTable {
        renderer,
        names: run.files.tokenizer.clone(),
        request: Request {
            max_tokens: recipe.answer_tokens,
            eos: run.files.eos.clone(),
            stop: run.files.template.stop_strings().to_vec(),
            ..Request::default()
        },
        engine: BatchEngine::new(CpuBatch::new(target, together)?),
        talks: BTreeMap::new(),
        file,
        answered: known.into_iter().map(|chat| (chat.line, chat.messages)).collect(),
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
            return Err(TrainError::Stopped);
        }
        for answer in table.engine.step(&table.names)? {
            let Some(mut talk) = table.talks.remove(&answer.key) else { continue };
            table.tokens += answer.tokens as u64;
            talk.said.push(Message::new(Role::Assistant, answer.text));
            table.go_on(answer.key, talk)?;
            run.at(table.answered.len() as u64);
        }
        run.look();
    }
    run.end(table.tokens)?;
    Ok(table.answered)
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
    /// What all questions have in common.
    request: Request,
    engine: BatchEngine,
    talks: BTreeMap<usize, Talk>,
    file: LineFile,
    answered: BTreeMap<usize, Vec<Message>>,
    tokens: u64,
}

impl AnswerTable<'_> {
    /// Asks the chat's next question, or writes the chat if there is none, or none that fits.
    fn go_on(&mut self, line: usize, mut talk: Talk) -> Result<()> {
        while let Some(request) = self.question(&mut talk) {
            let Some(answer) = self.engine.begin(line, &request, talk.sampler, &self.names)? else {
                self.talks.insert(line, talk);
                return Ok(());
            };
            self.tokens += answer.tokens as u64;
            talk.said.push(Message::new(Role::Assistant, answer.text));
        }
        let chat = AnsweredChat { line, messages: talk.said };
        self.file.add(&chat)?;
        self.answered.insert(line, chat.messages);
        Ok(())
    }

    /// The request for the chat's next question, if there is one and it fits. A chat that the
    /// template does not accept is counted and listed with the other faults later.
    fn question(&self, talk: &mut Talk) -> Option<Request> {
        loop {
            let message = talk.left.pop()?;
            let asks = message.role == Role::User;
            talk.said.push(message);
            if asks {
                break;
            }
        }
        let prompt = self.renderer.prompt(&talk.said).ok()?;
        let room = self.engine.capacity().saturating_sub(prompt.len());
        if room < 2 {
            talk.said.pop();
            return None;
        }
        let max_tokens = self.request.max_tokens.min(room - 1);
        Some(Request { prompt, max_tokens, ..self.request.clone() })
    }
}
