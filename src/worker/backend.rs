//! What the worker drives: an engine with its words and its planner, whatever they are made of.

use super::{Controls, Loaded, Ready};
use crate::chat::Message;
use crate::decode::{Engine, Round, TokenText};
use crate::draft::Budget;
use crate::library::Tokenizer;
use crate::plan::{Controller, Pick, Seen, Wishes};

/// From a conversation to the prompt's tokens; the error is for the user.
pub type Prompter = Box<dyn Fn(&[Message]) -> Result<Vec<u32>, String> + Send>;

/// Resolves what the user leaves automatic. It never decides a token.
pub trait Planner: Send {
    /// What the next round may spend.
    fn choose(&mut self, controls: &Controls) -> Budget;
    /// Learns from a round.
    fn observe(&mut self, round: &Round);
    /// Why it chooses as it does, one sentence each, if that has changed since it was last asked.
    fn news(&mut self) -> Option<Vec<String>> {
        None
    }
}

/// Everything an answer needs.
pub struct Backend {
    /// Target and drafter.
    pub engine: Engine,
    /// Tokens to text.
    pub names: Box<dyn TokenText>,
    /// Conversation to tokens.
    pub prompter: Prompter,
    /// Tokens that end an answer.
    pub eos: Vec<u32>,
    /// Texts that end an answer.
    pub stop: Vec<String>,
    /// Chooses each round's tree.
    pub planner: Box<dyn Planner>,
    /// For the screen.
    pub ready: Ready,
    /// What the user should be told beside.
    pub notices: Vec<String>,
}

impl From<Loaded> for Backend {
    fn from(loaded: Loaded) -> Self {
        let Loaded { target, drafter, tokenizer, template, eos, stop, controller, ready, notices } =
            loaded;
        let encoder = tokenizer.clone();
        let prompter = move |messages: &[Message]| {
            let text = template.render(messages, true).map_err(|error| error.to_string())?;
            encoder.encode(&text, template.wants_bos()).map_err(|error| error.to_string())
        };
        Self {
            engine: Engine::new(target, drafter),
            names: Box::new(tokenizer),
            prompter: Box::new(prompter),
            eos,
            stop,
            planner: Box::new(controller),
            ready,
            notices,
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
}

impl Planner for Controller {
    fn choose(&mut self, controls: &Controls) -> Budget {
        let &Controls { gamma, blocks, width, depth, .. } = controls;
        let Pick { shape, blocks } = self.pick(&Wishes { gamma, blocks, width, depth });
        Budget::new(shape, blocks)
    }

    fn observe(&mut self, round: &Round) {
        Self::observe(
            self,
            &Seen {
                pick: Pick { shape: round.budget.shape, blocks: round.budget.blocks },
                tree: &round.tree,
                accepted: &round.accepted,
                draft_ms: round.timing.draft_ms,
                verify_ms: round.timing.verify_ms,
            },
        );
    }

    fn news(&mut self) -> Option<Vec<String>> {
        Self::news(self)
    }
}
