//! A target and drafters without weights: logits are a hash of the text, so every property of
//! decoding can be tested in microseconds.

use dovetail::decode::{
    Committed, Engine, Finish, Origin, Request, RoundOptions, Summary, TokenText,
};
use dovetail::draft::{Ahead, AheadRequest, Depths, DraftError, DraftRequest, Drafter};
use dovetail::model::{FeatureSource, Target, TargetError, Verified};
use dovetail::speculate::{DrafterId, Logprobs, Node, SamplerSettings, Shape, Tree, argmax};
use std::sync::atomic::{AtomicBool, Ordering};

use super::generate::plain;

/// The width of the toy features: position, token, hash of the text so far.
pub const HIDDEN: usize = 3;

/// The logits after `text`: half of them close together, so that sampling is varied.
pub fn logits(seed: u64, vocab: usize, text: &[u32]) -> Vec<f32> {
    let mut state = text.iter().fold(seed, |state, &token| mix(state ^ u64::from(token + 1)));
    let mut next = || {
        state = mix(state.wrapping_add(0x9E37_79B9_7F4A_7C15));
        state
    };
    (0..vocab).map(|_| (next() % 1000) as f32 / 125.0).collect()
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    z = (z ^ (z >> 33)).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    z ^ (z >> 33)
}

fn feature(text: &[u32]) -> [f32; HIDDEN] {
    let hash = text.iter().fold(1, |state, &token| mix(state ^ u64::from(token))) % 4096;
    [(text.len() - 1) as f32, text[text.len() - 1] as f32, hash as f32]
}

/// A target whose KV cache is the text itself.
pub struct Toy {
    pub seed: u64,
    pub vocab: usize,
    pub capacity: usize,
    committed: Vec<u32>,
    tree: Option<Tree>,
    /// How many passes are left before one fails.
    pub fails_after: Option<usize>,
    /// The length of a text from which on no logit is a number.
    pub nan_from: usize,
}

impl Toy {
    pub fn new(seed: u64, vocab: usize, capacity: usize) -> Self {
        Self {
            seed,
            vocab,
            capacity,
            committed: vec![0; 3],
            tree: None,
            fails_after: None,
            nan_from: usize::MAX,
        }
    }

    fn logits(&self, text: &[u32]) -> Vec<f32> {
        match text.len() < self.nan_from {
            true => logits(self.seed, self.vocab, text),
            false => vec![f32::NAN; self.vocab],
        }
    }

    fn check(&mut self, tokens: &[u32], rows: usize) -> Result<(), TargetError> {
        if let Some(left) = &mut self.fails_after {
            if *left == 0 {
                return Err(TargetError::Device("lost".into()));
            }
            *left -= 1;
        }
        let needed = self.committed.len() + rows;
        if needed > self.capacity {
            return Err(TargetError::ContextFull { needed, capacity: self.capacity });
        }
        match tokens.iter().find(|&&token| token as usize >= self.vocab) {
            Some(&token) => Err(TargetError::Token { token, vocab: self.vocab }),
            None => Ok(()),
        }
    }
}

impl Target for Toy {
    fn vocab(&self) -> usize {
        self.vocab
    }
    fn set_features(&mut self, source: FeatureSource) {
        assert_eq!(source, FeatureSource::FinalNorm, "a toy has no states");
    }
    fn feature_width(&self) -> usize {
        HIDDEN
    }
    fn capacity(&self) -> usize {
        self.capacity
    }
    fn len(&self) -> usize {
        self.committed.len()
    }
    fn prefill(&mut self, tokens: &[u32]) -> Result<Verified, TargetError> {
        assert!(!tokens.is_empty());
        self.check(tokens, tokens.len())?;
        self.tree = None;
        let mut features = Vec::new();
        for &token in tokens {
            self.committed.push(token);
            features.extend(feature(&self.committed));
        }
        Ok(Verified { logits: self.logits(&self.committed), features })
    }
    fn verify(&mut self, tree: &Tree) -> Result<Verified, TargetError> {
        let tokens: Vec<u32> = tree.nodes().iter().map(|n| n.token).collect();
        self.check(&tokens, tree.len())?;
        let mut verified = Verified::default();
        for node in 0..tree.len() {
            let mut text = self.committed.clone();
            let mut path: Vec<usize> = tree.ancestors(node).collect();
            path.reverse();
            text.extend(path.into_iter().map(|n| tokens[n]));
            verified.logits.extend(self.logits(&text));
            verified.features.extend(feature(&text));
        }
        self.tree = Some(tree.clone());
        Ok(verified)
    }
    fn commit(&mut self, path: &[usize]) {
        let tree = self.tree.take().expect("a verified tree");
        assert_eq!(path[0], 0);
        assert!(path.windows(2).all(|w| tree.nodes()[w[1]].parent == w[0]));
        self.committed.extend(path.iter().map(|&node| tree.nodes()[node].token));
    }
    fn truncate(&mut self, len: usize) {
        self.committed.truncate(len);
        self.tree = None;
    }
}

/// How a toy drafter guesses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Guess {
    /// The target's own likeliest tokens.
    Knowing,
    /// Any tree of any tokens.
    Wild,
    /// More nodes than allowed.
    TooMany,
    /// A token that the target does not have.
    Unknown,
    /// Another root.
    OtherRoot,
}

/// What a toy drafter does while the target verifies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Beside {
    /// Nothing.
    Idle,
    /// Keeps the tree that it receives and proposes it again, no matter what the target decided.
    Stale,
    /// Returns only when it is stopped.
    Late,
    /// Fails when its time has come.
    Fails,
}

/// What a test does while the target verifies.
pub type Drafting = Box<dyn FnMut(&Tree, &AtomicBool) -> Result<(), DraftError> + Send>;

/// What a test does while the target reads a prompt.
pub type Reading = Box<dyn FnMut(&[u32], &AtomicBool) -> Result<(), DraftError> + Send>;

/// A drafter that checks its inputs.
pub struct ToyDrafter {
    pub guess: Guess,
    pub beside: Beside,
    /// Runs in addition to that.
    pub drafting: Option<Drafting>,
    /// Runs while the target reads a prompt, if it may.
    pub reading: Option<Reading>,
    /// The tree ahead of which it drafted.
    stale: Option<Tree>,
    pub seed: u64,
    pub vocab: usize,
    pub capacity: usize,
    /// How many calls of `observe` and `propose` succeed before one fails; each reserve has its own
    /// number.
    pub failures: Vec<usize>,
    /// Whether it panics instead.
    pub panics: bool,
    /// How many times it can move to another device.
    pub reserves: usize,
    /// The source credited with its tokens.
    pub source: Option<DrafterId>,
    /// The first token of the text (which is in no pair), then the token of every pair.
    text: Vec<u32>,
}

impl ToyDrafter {
    pub fn new(guess: Guess, seed: u64, vocab: usize) -> Self {
        Self {
            guess,
            beside: Beside::Idle,
            drafting: None,
            reading: None,
            stale: None,
            seed,
            vocab,
            capacity: usize::MAX,
            failures: Vec::new(),
            panics: false,
            reserves: 0,
            source: None,
            text: Vec::new(),
        }
    }

    fn may_fail(&mut self) -> Result<(), DraftError> {
        match self.failures.last_mut() {
            Some(0) if self.panics => panic!("beyond the edge"),
            Some(0) => Err(DraftError::Device("out of memory".into())),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl Drafter for ToyDrafter {
    fn describe(&self) -> String {
        format!("toy ({:?})", self.guess)
    }
    fn source(&self) -> Option<DrafterId> {
        self.source
    }
    fn depths(&self) -> Depths {
        Depths::Elastic(4)
    }
    fn capacity(&self) -> usize {
        self.capacity
    }
    fn truncate(&mut self, len: usize) {
        self.text.truncate(len + 1);
        if len == 0 {
            self.text.clear();
        }
    }
    fn observe(&mut self, features: &[f32], tokens: &[u32]) -> Result<(), DraftError> {
        assert_eq!(features.len(), tokens.len() * HIDDEN);
        for (i, (pair, &token)) in features.chunks(HIDDEN).zip(tokens).enumerate() {
            // Fails in the middle of a batch: the rest must come again, and only once.
            if i == tokens.len() / 2 {
                self.may_fail()?;
            }
            if self.text.is_empty() {
                self.text.push(pair[1] as u32);
            }
            assert_eq!(pair, feature(&self.text), "the feature of another position or text");
            self.text.push(token);
        }
        Ok(())
    }
    fn propose(&mut self, text: &[u32], request: &DraftRequest) -> Result<Tree, DraftError> {
        let &DraftRequest { root, budget, .. } = request;
        self.may_fail()?;
        assert_eq!(text.last(), Some(&root));
        assert_eq!(self.text, text, "it was observed otherwise");
        assert!(self.text.len() - 1 + budget.shape.depth < self.capacity);
        let Shape { gamma, width, depth } = budget.shape;
        let mut tree = Tree::root(root);
        if let Some(stale) = self.stale.take().filter(|stale| stale.len() <= gamma) {
            for node in &stale.nodes()[1..] {
                tree.push(node.parent, node.token, node.log_prob);
            }
            return Ok(tree);
        }
        let mut random = self.seed ^ self.text.len() as u64;
        match self.guess {
            Guess::Knowing => {
                let (mut node, mut text) = (0, self.text.clone());
                for _ in 0..=depth {
                    let mut row = logits(self.seed, self.vocab, &text);
                    let mut next = None;
                    for _ in 0..width.min(self.vocab) {
                        if tree.len() >= gamma {
                            break;
                        }
                        let best = argmax(&row);
                        row[best as usize] = f32::NEG_INFINITY;
                        let child = tree.push(node, best, -0.5);
                        next = next.or(Some((child, best)));
                    }
                    let Some((child, token)) = next else { break };
                    node = child;
                    text.push(token);
                }
            }
            Guess::Wild => {
                while tree.len() < gamma {
                    random = mix(random + 1);
                    let parent = (random % tree.len() as u64) as usize;
                    let token = ((random >> 32) % self.vocab as u64) as u32;
                    if tree.nodes()[parent].depth <= depth && tree.child(parent, token).is_none() {
                        tree.push(parent, token, -1.0);
                    } else if random.is_multiple_of(7) {
                        break;
                    }
                }
            }
            Guess::TooMany => (0..gamma).for_each(|_| {
                tree.push(0, 0, -1.0);
            }),
            Guess::Unknown => {
                tree.push(0, self.vocab as u32, -1.0);
            }
            Guess::OtherRoot => tree = Tree::root(root + 1),
        }
        Ok(tree)
    }
    fn draft_ahead(&mut self, ahead: &AheadRequest<'_>) -> Result<Ahead, DraftError> {
        let &AheadRequest { tree, request, stop, .. } = ahead;
        assert_eq!(
            self.text.last(),
            Some(&request.root),
            "it observed a token that is not committed"
        );
        assert_eq!(tree.nodes()[0].token, request.root);
        match self.beside {
            Beside::Idle => {}
            Beside::Stale => self.stale = Some(tree.clone()),
            Beside::Late => {
                while !stop.load(Ordering::Acquire) {
                    std::hint::spin_loop();
                }
            }
            Beside::Fails => self.may_fail()?,
        }
        if let Some(drafting) = &mut self.drafting {
            drafting(tree, stop)?;
        }
        Ok(Ahead::default())
    }
    fn reads_beside(&self) -> bool {
        self.reading.is_some()
    }
    fn read(&mut self, prompt: &[u32], _: usize, stop: &AtomicBool) -> Result<(), DraftError> {
        assert!(prompt.starts_with(&self.text), "it observed another prompt");
        self.reading.as_mut().map_or(Ok(()), |reading| reading(prompt, stop))
    }
    fn fall_back(&mut self) -> Result<(), DraftError> {
        self.failures.pop();
        if self.reserves == 0 {
            return Err(DraftError::Device("nowhere to go".into()));
        }
        self.reserves -= 1;
        Ok(())
    }
}

/// Tokens as bytes: letters, spaces, and the two halves of é, which may come in any order.
pub struct Letters;

impl Letters {
    fn byte(token: u32) -> u8 {
        match token % 16 {
            0 => b' ',
            1 => 0xC3,
            2 => 0xA9,
            other => b'a' + other as u8,
        }
    }
}

impl TokenText for Letters {
    fn label(&self, token: u32) -> String {
        format!("t{token}")
    }
    fn text(&self, tokens: &[u32]) -> String {
        let bytes: Vec<u8> = tokens.iter().map(|&token| Self::byte(token)).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// The result of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    pub tokens: Vec<u32>,
    pub text: String,
    /// What the target thought of the position of each token.
    pub logprobs: Vec<Logprobs>,
    pub finish: Option<Finish>,
}

/// The answer of a toy by plain decoding.
pub fn alone(toy: Toy, request: Request, sampler: SamplerSettings) -> Outcome {
    decode(&mut Engine::new(Box::new(toy), None), &Letters, request, plain(sampler)).0
}

/// Decodes a whole answer; `options` gives every round's options (0 serves the prompt too).
pub fn decode(
    engine: &mut Engine,
    names: &dyn TokenText,
    request: Request,
    options: impl Fn(usize) -> RoundOptions,
) -> (Outcome, Summary, Vec<String>) {
    let mut answer = engine.generate(request, names).unwrap();
    answer.read_beside(&options(0));
    let mut all: Vec<Committed> = vec![answer.first_token(&options(0)).unwrap()];
    let mut index = 0;
    while answer.finish().is_none() {
        let round = answer.round(&options(index)).unwrap();
        assert_eq!(round.index, index);
        assert_eq!(round.labels.len(), round.tree.len());
        assert!(round.tree.len() <= round.budget.shape.gamma.max(1));
        let path: Vec<Node> = round.accepted.iter().map(|&i| round.tree.nodes()[i]).collect();
        let tokens = path.iter().map(|n| n.token).chain([round.bonus]);
        assert!(round.committed.iter().map(|c| c.token).eq(tokens.take(round.committed.len())));
        assert_eq!(round.finish, answer.finish());
        if round.finish.is_none() {
            assert_eq!(round.committed.len(), path.len() + 1);
        }
        let won = round.committed.iter().filter(|c| c.origin == Origin::Accepted).count();
        assert_eq!(round.accepted.len(), won, "nothing behind the end of the text is accepted");
        assert_eq!(round.has_bonus(), round.committed.len() > won);
        all.extend(round.committed);
        index += 1;
    }
    assert_eq!(answer.summary().tokens, all.len());
    let outcome = Outcome {
        tokens: all.iter().map(|c| c.token).collect(),
        text: all.iter().map(|c| c.text.as_str()).collect(),
        logprobs: all.into_iter().map(|c| *c.logprobs.unwrap()).collect(),
        finish: answer.finish(),
    };
    let notices = answer.take_notices();
    (outcome, answer.summary().clone(), notices)
}
