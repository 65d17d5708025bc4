//! What generates an answer: an engine, its tokenizer and its planner. It must not depend on
//! threads.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use super::asked::asked;
use super::{Controls, Ready, StrategyPlanner};
use crate::chat::{Message, Opened, Prompt, Role};
use crate::decode::{Engine, Round, RoundOptions, SnapshotKeeper, TokenText};
use crate::library::Tokenizer;
use crate::load::{LoadedDrafts, LoadedModels, SharedTarget};
use crate::messages;

/// A conversation in the form that the target reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromptTokens {
    /// The whole prompt.
    pub tokens: Vec<u32>,
    /// The block of thoughts in which the answer begins.
    pub opened: Option<Opened>,
    /// The beginning of the answer, if there is one, as the tokenizer divides it.
    pub begun: Vec<u32>,
    /// The runs of the prompt that are not part of an answer, if they are needed.
    pub asked: Vec<Range<usize>>,
}

/// From a conversation, and whether the model should think, to the prompt; the error is shown to
/// the user.
pub type Prompter = Box<dyn Fn(&[Message], Option<bool>) -> Result<PromptTokens, String> + Send>;

/// Decides what the user leaves automatic. It never decides a token.
pub trait Planner: Send {
    /// Begins an answer to a prompt of `context` tokens, the first `reused` of which are those of
    /// the previous text.
    fn begin_answer(&mut self, _context: usize, _reused: usize) {}
    /// How the next round is drafted.
    fn choose(&mut self, controls: &Controls) -> RoundOptions;
    /// Learns from a round.
    fn observe(&mut self, round: &Round);
    /// Learns that an answer has ended.
    fn answered(&mut self) {}
    /// The reasons for its choice, one sentence each, if they have changed since the last call.
    fn take_new_reasons(&mut self) -> Option<Vec<String>> {
        None
    }
    /// Makes the next [`Planner::take_new_reasons`] return them, because their numbers have
    /// changed.
    fn repeat_reasons(&mut self) {}
}

/// Everything an answer needs.
pub struct Backend {
    /// Target and drafters.
    pub engine: Engine,
    /// Tokens to text.
    pub names: Arc<dyn TokenText>,
    /// Conversation to tokens.
    pub prompter: Prompter,
    /// Tokens that end an answer.
    pub eos: Vec<u32>,
    /// Texts that end an answer.
    pub stop: Vec<String>,
    /// Chooses each round's tree.
    pub planner: Box<dyn Planner>,
    /// What the screen shows.
    pub ready: Ready,
    /// Notices for the user.
    pub notices: Vec<String>,
    /// What other drafters for its target need to be loaded; `None` if there are no others.
    pub shared: Option<SharedTarget>,
    /// Saves the KV caches of conversations for later; `None` saves none.
    pub snapshots: Option<SnapshotKeeper>,
}

impl Backend {
    /// Saves the text of the last answer with its KV cache for later, if that is wanted.
    pub fn keep(&mut self) {
        if let Some(keeper) = &mut self.snapshots {
            keeper.keep(&self.engine);
        }
    }

    /// Discards what was saved of the conversation with this name.
    pub fn discard(&mut self, conversation: &str) {
        if let Some(keeper) = &mut self.snapshots {
            keeper.discard(conversation);
        }
    }

    /// Saves what [`Self::keep`] would, and waits until it is written, but not beyond `until`.
    pub fn finish(&mut self, until: Instant) {
        let Some(keeper) = &mut self.snapshots else { return };
        keeper.end_by(until);
        keeper.keep(&self.engine);
        keeper.finish(until);
    }

    /// Uses other drafters for the same target. The caches start empty, because the drafters have
    /// observed nothing of the text.
    pub(super) fn replace_drafts(&mut self, drafts: LoadedDrafts) {
        let LoadedDrafts { drafters, strategies, setup, shared } = drafts;
        self.engine.replace_drafters(drafters);
        self.planner = Box::new(StrategyPlanner::new(strategies));
        self.ready = Ready::from(&setup);
        self.notices = messages::notices(&setup.notices);
        self.shared = Some(shared);
    }
}

impl From<LoadedModels> for Backend {
    fn from(loaded: LoadedModels) -> Self {
        let LoadedModels { target, drafts, tokenizer, template, eos, stop, snapshots, .. } = loaded;
        let LoadedDrafts { drafters, strategies, setup, shared } = drafts;
        let encoder = tokenizer.clone();
        let context = setup.context;
        let splits_prompts = setup.prompts_on.is_some();
        let prompter = move |messages: &[Message], thinking| {
            let (messages, begun) = match messages {
                [rest @ .., begun] if begun.role == Role::Assistant => (rest, Some(begun)),
                all => (all, None),
            };
            let template = template.with_thinking(thinking);
            let prompt = template
                .prompt(messages, true, &|text| encoder.controls_in(text))
                .map_err(|error| error.to_string())?;
            let bytes = prompt.text.len() + begun.map_or(0, |begun| begun.content.len());
            let least = encoder.least_tokens(bytes);
            // Tokenizing megabytes takes seconds and gigabytes of memory, which must not be spent
            // only to refuse the text.
            if least > context {
                return Err(format!(
                    "the prompt has {bytes} bytes, at least {least} tokens, but the context holds \
                     {context}; shorten the conversation or raise `context`"
                ));
            }
            let tokens = encoder.encode_whole(&prompt, template.wants_bos());
            let tokens = tokens.map_err(|error| error.to_string())?;
            let (tokens, places): (Vec<u32>, Vec<Range<usize>>) = tokens.into_iter().unzip();
            let render = |some: &[Message], generate| template.render(some, generate).ok();
            let asked = match splits_prompts {
                true => asked(messages, &prompt.text, &places, &render),
                false => Vec::new(),
            };
            let begun = match begun {
                Some(begun) => {
                    // Whatever it spells is text: messages contain no control tokens.
                    let said = std::iter::once(0..begun.content.len()).collect();
                    let prompt = Prompt { text: begun.content.clone(), said };
                    let tokens = encoder.encode_prompt(&prompt, false);
                    let tokens = tokens.map_err(|error| error.to_string())?;
                    tokens.into_iter().map(|(token, _)| token).collect()
                }
                None => Vec::new(),
            };
            Ok(PromptTokens { tokens, opened: prompt.opened_thought(), begun, asked })
        };
        let mut engine = Engine::new(target, drafters);
        let snapshots = snapshots.and_then(SnapshotKeeper::start);
        if snapshots.is_some() {
            engine.keep_features();
        }
        Self {
            engine,
            names: Arc::new(tokenizer),
            prompter: Box::new(prompter),
            eos,
            stop,
            planner: Box::new(StrategyPlanner::new(strategies)),
            ready: Ready::from(&setup),
            notices: messages::notices(&setup.notices),
            shared: Some(shared),
            snapshots,
        }
    }
}

impl TokenText for Tokenizer {
    fn label(&self, token: u32) -> String {
        Self::label(self, token)
    }

    fn text(&self, tokens: &[u32]) -> String {
        Self::text(self, tokens)
    }

    fn control(&self, token: u32) -> Option<String> {
        self.is_special(token).then(|| self.label(token))
    }
}
