//! Several answers at once, each a separate text. A pass of the target gives every answer its next
//! token, and when one has ended the next may begin. An answer has the same tokens as it would have
//! alone. It must not depend on what the answers are for.

use super::engine::{DecodeError, Request};
use super::round::{Finish, Origin, Summary};
use super::text::{Answer, TokenText};
use crate::model::CpuBatch;
use crate::speculate::{Sampler, SamplerSettings, TokenUses};

/// An answer that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The number under which it was begun.
    pub key: usize,
    /// Its complete text.
    pub text: String,
    /// How many tokens it has, including the one that ends it.
    pub tokens: usize,
    /// Why it ended.
    pub finish: Finish,
}

/// Answers several requests at the same time, without a draft.
pub struct BatchEngine {
    target: CpuBatch,
    /// One for each sequence of the target, in its order; the first `active` are being answered.
    sequences: Vec<Sequence>,
    active: usize,
}

/// The text in a KV cache, and the answer that follows it.
#[derive(Default)]
struct Sequence {
    /// The tokens of the committed positions.
    text: Vec<u32>,
    under_way: Option<AnswerInProgress>,
}

struct AnswerInProgress {
    key: usize,
    /// The answer's last token, whose position is not committed.
    root: u32,
    answer: Answer,
    said: String,
    summary: Summary,
    history: TokenUses,
    sampler: Sampler,
}

impl BatchEngine {
    /// An engine for as many simultaneous answers as `target` has sequences.
    pub fn new(mut target: CpuBatch) -> Self {
        for sequence in 0..target.sequences() {
            target.truncate(sequence, 0);
        }
        let sequences = (0..target.sequences()).map(|_| Sequence::default()).collect();
        Self { target, sequences, active: 0 }
    }

    /// How many positions a prompt and its answer may take.
    pub fn capacity(&self) -> usize {
        self.target.capacity()
    }

    /// How many answers are in progress.
    pub fn active(&self) -> usize {
        self.active
    }

    /// Whether one more answer can be begun.
    pub fn has_room(&self) -> bool {
        self.active < self.sequences.len()
    }

    /// Begins an answer under the number `key`: reads the prompt and draws the first token. A
    /// beginning that the prompt shares with an earlier text is not computed again. `Some` if the
    /// first token ends it.
    ///
    /// # Errors
    /// [`DecodeError`]; nothing was begun then.
    ///
    /// # Panics
    /// If there is no room ([`Self::has_room`]).
    pub fn begin(
        &mut self,
        key: usize,
        request: &Request,
        sampler: SamplerSettings,
        names: &dyn TokenText,
    ) -> Result<Option<Answered>, DecodeError> {
        assert!(self.has_room(), "{} answers in progress", self.active);
        let prompt = &request.prompt;
        let capacity = self.capacity();
        request.check(capacity)?;
        let (at, common) = self.free(prompt);
        let sequence = &mut self.sequences[at];
        self.target.truncate(at, common);
        // Recurrent layers may have gone further back.
        let common = self.target.len(at);
        sequence.text.truncate(common);
        let logits = self.target.prefill(at, &prompt[common..])?;
        sequence.text.extend_from_slice(&prompt[common..]);

        let mut under_way = AnswerInProgress {
            key,
            root: 0,
            answer: Answer::new(request),
            said: String::new(),
            summary: Summary { prompt_tokens: prompt.len(), ..Summary::default() },
            history: TokenUses::new(prompt),
            sampler: Sampler::new(sampler),
        };
        under_way.take(logits, prompt.len(), capacity, names);
        sequence.under_way = Some(under_way);
        self.swap(at, self.active);
        self.active += 1;
        Ok(self.end(self.active - 1))
    }

    /// One pass: the next token of every answer in progress. Returns the answers that it ended.
    ///
    /// # Errors
    /// [`DecodeError::Target`]; nothing was committed then.
    pub fn step(&mut self, names: &dyn TokenText) -> Result<Vec<Answered>, DecodeError> {
        let sequences = &mut self.sequences[..self.active];
        let vocab = self.target.vocab();
        let capacity = self.target.capacity();
        let pool = std::sync::Arc::clone(self.target.pool());
        let roots = sequences.iter().flat_map(|sequence| &sequence.under_way);
        let roots: Vec<u32> = roots.map(|under_way| under_way.root).collect();
        let logits = self.target.append(&roots)?;
        pool.chunks(sequences, 1, |row, sequence| {
            let Sequence { text, under_way } = &mut sequence[0];
            if let Some(under_way) = under_way {
                text.push(under_way.root);
                let logits = &logits[row * vocab..(row + 1) * vocab];
                under_way.take(logits, text.len(), capacity, names);
            }
        });
        Ok((0..self.active).rev().filter_map(|at| self.end(at)).collect())
    }

    /// The free sequence that already has the longest beginning of `prompt`, and its length. The
    /// prompt's last token is run again, for its logits.
    fn free(&self, prompt: &[u32]) -> (usize, usize) {
        let common = |at: usize| {
            let alike = self.sequences[at].text.iter().zip(prompt).take_while(|(a, b)| a == b);
            (at, alike.count().min(prompt.len() - 1))
        };
        let free = (self.active..self.sequences.len()).map(common);
        free.max_by_key(|&(_, common)| common).unwrap_or((self.active, 0))
    }

    /// The answer of sequence `at`, if it has ended; the sequence is then free.
    fn end(&mut self, at: usize) -> Option<Answered> {
        let done = |under_way: &mut AnswerInProgress| under_way.summary.finish.is_some();
        let AnswerInProgress { key, said, summary, .. } =
            self.sequences[at].under_way.take_if(done)?;
        self.active -= 1;
        self.swap(at, self.active);
        let finish = summary.finish?;
        Some(Answered { key, text: said, tokens: summary.tokens, finish })
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.target.swap(a, b);
        self.sequences.swap(a, b);
    }
}

impl AnswerInProgress {
    /// Draws the token at `position` from `logits` and appends it to the answer.
    fn take(&mut self, logits: &[f32], position: usize, capacity: usize, names: &dyn TokenText) {
        let token = self.sampler.draw(logits, position, &self.history);
        self.history.push(token);
        let committed = self.answer.emit(token, Origin::Target, &mut self.summary, names);
        self.said.push_str(&committed.text);
        self.root = token;
        if position >= capacity && self.summary.finish.is_none() {
            self.summary.finish = Some(Finish::ContextFull);
            self.said.push_str(&self.answer.stream.finish(names));
        }
    }
}
