//! The training loop: batches in, optimiser steps out. It must not depend on files of examples.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use candle_core::{Device, Tensor, Var};
use serde::{Deserialize, Serialize};

use super::batch::plan;
use super::checkpoint::{self, Checkpoint, TrainPosition};
use super::loss::{Estimate, LossOutput};
use super::net::Past;
use super::ops::Products;
use super::optimiser::rate;
use super::{
    AdamW, Batch, Columns, DraftNet, Elastic, Example, Examples, FeatureNoise, FirstWeights,
    Length, LossComputer, Measure, Options, Result, TrainError,
};
use crate::model::head::{DraftVocabulary, HeadConfig, HeadError, SharedTables, to_tensor};
use crate::speculate::Noise;

const DEPTH: u64 = 0x6465_7074_6800;

/// A training in progress.
pub struct Trainer {
    pub(super) options: Options,
    pub(super) net: DraftNet,
    pub(super) adam: AdamW,
    pub(super) position: TrainPosition,
    loss: LossComputer,
    /// `[V, H]`, frozen.
    embedding: Tensor,
    /// The batches of the current epoch.
    order: Option<Vec<Vec<usize>>>,
    /// Seconds of a training limited in minutes that are reserved for what comes after the last
    /// step.
    pub(super) reserved_seconds: f64,
}

/// One step of the optimiser.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepReport {
    /// How many steps were made, including this one.
    pub step: u64,
    /// How many passes over the examples were completed before this step.
    pub epoch: u64,
    /// The fraction of the training that is done, 0 to 1.
    pub progress: f64,
    /// The learning rate of this step.
    pub learning_rate: f64,
    /// What was minimised: the weighted losses of all measures.
    pub loss: f64,
    /// Each exit and feedback step that had a loss; the deepest exit on true features comes first.
    pub measures: Vec<Measure>,
    /// How many pairs went through the head, without padding.
    pub tokens: u64,
    /// Time of the step.
    pub seconds: f64,
}

/// What one pass runs.
#[derive(Clone, Copy, Debug, PartialEq)]
struct PassPlan {
    /// How many blocks are run.
    depth: usize,
    /// Whether the outputs before the last have a loss too.
    every_exit: bool,
    /// How many steps on its own outputs.
    feedback: usize,
    /// The weight of each step relative to the previous one.
    decay: f64,
    /// The weight of the batch.
    weight: f64,
}

impl Trainer {
    /// A new training of a head that shares `shared` with its target and scores the tokens of
    /// `draft_vocab`, or all.
    ///
    /// # Errors
    /// [`TrainError::Option`] if the options make no sense, [`TrainError::Head`] if head and target
    /// do not fit together, [`TrainError::Device`] if there is no room.
    pub fn new(
        config: HeadConfig,
        draft_vocab: Option<DraftVocabulary>,
        shared: &SharedTables,
        options: Options,
        device: &Device,
    ) -> Result<Self> {
        options.check()?;
        if config.kind.eagle3().is_some() && options.vloss != 0.0 {
            let reason = "0, since a head over three layers of the target does not predict \
                          features";
            return Err(TrainError::Option("vloss", options.vloss.to_string(), reason));
        }
        let first = (options.first_weights, options.seed);
        let net = DraftNet::new(config, draft_vocab, first, device)?;
        let adam = AdamW::default();
        let parts = Checkpoint { options, net, adam, position: TrainPosition::default() };
        // Its own LM head starts with the target's current rows, because it is to agree with them.
        if let Some(own) = parts.net.lm_head()
            && parts.options.first_weights == FirstWeights::ZeroOutputs
        {
            own.set(&scored(&parts.net, &to_tensor(&shared.lm_head, device)?)?.copy()?)?;
        }
        Self::with(parts, shared, device)
    }

    /// The training that was saved to `checkpoint`, to be continued with the same target and
    /// examples.
    ///
    /// # Errors
    /// [`TrainError::Failed`] if the file is missing or damaged.
    pub fn resume(checkpoint: &Path, shared: &SharedTables, device: &Device) -> Result<Self> {
        Self::with(checkpoint::load(checkpoint, device)?, shared, device)
    }

    fn with(parts: Checkpoint, shared: &SharedTables, device: &Device) -> Result<Self> {
        let Checkpoint { options, mut net, adam, position } = parts;
        let lm_head = to_tensor(&shared.lm_head, device)?;
        let (vocab, hidden) = lm_head.dims2()?;
        net.config.fits(hidden, vocab).map_err(HeadError::from)?;
        let embedding =
            if shared.is_tied() { lm_head.clone() } else { to_tensor(&shared.embedding, device)? };
        let loss = LossComputer::new(&scored(&net, &lm_head)?, &options)?;
        net.products = loss.products();
        let order = None;
        Ok(Self { options, net, adam, position, loss, embedding, order, reserved_seconds: 0.0 })
    }

    /// Whether the head's matrix products are computed in bf16.
    pub fn is_bf16(&self) -> bool {
        self.net.products != Products::F32
    }

    /// The fraction of the training that is done, 0 to 1.
    pub fn progress(&self) -> f64 {
        let progress = match self.options.length {
            Length::Steps(steps) => self.position.steps as f64 / steps as f64,
            Length::Minutes(minutes) => {
                (self.position.seconds + self.reserved_seconds) / (60.0 * minutes)
            }
        };
        progress.min(1.0)
    }

    /// Whether the training is over.
    pub fn finished(&self) -> bool {
        self.progress() >= 1.0
    }

    /// One step of the optimiser.
    ///
    /// # Errors
    /// [`TrainError::Example`] if an example cannot be read or there is none,
    /// [`TrainError::Failed`] if they are not those of the earlier steps or the loss is no longer a
    /// number; the head is then as before the step.
    pub fn step(&mut self, examples: &dyn Examples) -> Result<StepReport> {
        let started = Instant::now();
        let epoch = self.position.epoch;
        let batches: Vec<Batch> = (0..self.options.batches())
            .map(|_| self.next_batch(examples))
            .collect::<Result<_, _>>()?;
        let all: usize = batches.iter().map(Batch::counted).sum();
        let apart = self.options.batch_texts.is_some();
        let progress = self.progress();
        let course = PassPlan {
            weight: if apart { 1.0 / batches.len() as f64 } else { 1.0 },
            ..self.course(progress)
        };
        let mut gradients: BTreeMap<String, Tensor> = BTreeMap::new();
        let mut sums: Vec<Measure> = Vec::new();
        let mut loss = 0.0;
        for batch in &batches {
            let counted = if apart { batch.counted() } else { all };
            let output = self.pass(batch, course, counted)?;
            loss += f64::from(output.loss.to_scalar::<f32>()?);
            let found = output.loss.backward()?;
            for (name, weight) in &self.net.weights {
                if let Some(more) = found.get(weight) {
                    // The sum must not keep the graph of this batch alive.
                    let more = more.detach();
                    let sum = match gradients.get(name) {
                        Some(sum) => (sum + more)?,
                        None => more,
                    };
                    gradients.insert(name.clone(), sum);
                }
            }
            for more in output.sums {
                let place = |sum: &Measure| (sum.depth, sum.step);
                match sums.iter_mut().find(|known| place(known) == place(&more)) {
                    Some(sum) => sum.add(&more),
                    None => sums.push(more),
                }
            }
        }
        let step = self.position.steps;
        if !loss.is_finite() {
            return Err(TrainError::Failed(format!(
                "the training diverged: the loss of step {} is not a number; try an --lr below {}",
                step + 1,
                self.options.learning_rate
            )));
        }
        let learning_rate = rate(&self.options, step, progress);
        self.adam.step(&self.net.weights, &gradients, learning_rate, &self.options)?;
        let tokens = batches.iter().map(|batch| batch.pairs as u64).sum();
        self.position.steps += 1;
        self.position.tokens += tokens;
        let seconds = started.elapsed().as_secs_f64();
        self.position.seconds += seconds;
        Ok(StepReport {
            step: step + 1,
            epoch,
            progress: self.progress(),
            learning_rate,
            loss,
            measures: sums.into_iter().map(Measure::mean).collect(),
            tokens,
            seconds,
        })
    }

    /// How good the head, cut after `depth` blocks, is on `examples` that it did not learn from: on
    /// true features, and on its own outputs up to `feedback` times in a row. Without noise.
    ///
    /// # Errors
    /// [`TrainError`] if an example cannot be read or the device fails.
    pub fn measure(
        &self,
        examples: &dyn Examples,
        depth: usize,
        feedback: usize,
    ) -> Result<Vec<Measure>> {
        let Options { batch_tokens, window, .. } = self.options;
        let course = PassPlan { depth, every_exit: false, feedback, decay: 1.0, weight: 1.0 };
        let of = |step| Measure { depth, step, ..Measure::default() };
        let mut sums: Vec<Measure> = (0..=feedback).map(of).collect();
        for batch in plan(examples, 0, 0, batch_tokens, window) {
            let batch = self.batch(examples, &batch, None)?;
            let output = self.pass(&batch, course, 1)?;
            for (sum, more) in sums.iter_mut().zip(&output.sums) {
                sum.add(more);
            }
        }
        Ok(sums.into_iter().map(Measure::mean).collect())
    }

    /// Writes a checkpoint to `path`; an existing one is replaced when the new one is complete.
    ///
    /// # Errors
    /// [`TrainError::Failed`] if the disk is full or refuses.
    pub fn save(&self, path: &Path) -> Result<()> {
        checkpoint::save(path, &self.options, &self.net, &self.adam, &self.position)
    }

    /// What the step at `progress` runs.
    fn course(&self, progress: f64) -> PassPlan {
        let Options { used, elastic, seed, .. } = self.options;
        let blocks = self.net.config.blocks();
        let as_used = used.steps > 0 && used.share > 0.0 && progress >= 1.0 - used.share;
        let drawn = match elastic {
            Elastic::Off => false,
            Elastic::Drawn => true,
            // Each exit reads its own outputs, so only one exit at a time can be trained in the way
            // it is used.
            Elastic::AllExits => as_used,
        };
        let draw =
            || Noise::new(seed ^ DEPTH, self.position.steps as usize).bits(0) % blocks as u64;
        PassPlan {
            depth: if drawn { draw() as usize + 1 } else { blocks },
            every_exit: elastic == Elastic::AllExits,
            feedback: if as_used { used.steps } else { 0 },
            decay: used.decay,
            weight: 1.0,
        }
    }

    /// Runs a batch forward. Returns the losses, divided by `counted`; the deepest exit on true
    /// features comes first.
    fn pass(&self, batch: &Batch, course: PassPlan, counted: usize) -> Result<LossOutput> {
        let PassPlan { depth, every_exit, feedback, decay, weight: of_batch } = course;
        let hidden = self.net.config.body.hidden;
        let (texts, rows, _) = batch.features.dims3()?;
        let embeddings = self.embedding.index_select(&batch.tokens, 0)?;
        let embeddings = embeddings.reshape((texts, rows, hidden))?;
        let mut past = Past::default();
        let first = self.net.state(&batch.features)?;
        let mut features = first.clone();
        let mut estimates: Vec<Estimate> = Vec::new();
        let mut counts = Vec::with_capacity(feedback + 1);
        for step in 0..=feedback {
            counts.push(batch.counts_at(step)?);
            let outputs = self.net.outputs(&features, &embeddings, depth, &mut past)?;
            let exits = if step == 0 && every_exit { depth } else { 1 };
            let weight = of_batch * decay.powf(step as f64) / exits as f64;
            for (depth, output) in (1..=depth).rev().zip(outputs.iter().rev()).take(exits) {
                let output = self.net.scored(output)?;
                estimates.push(Estimate { output, depth, step, weight });
            }
            let Some(last) = outputs.last() else { continue };
            if step == feedback {
                break;
            }
            // Row i reads the output of row i − 1 for f_i.
            let last = last.reshape((texts, rows, hidden))?.narrow(1, 0, rows - 1)?;
            features = Tensor::cat(&[&first.narrow(1, 0, 1)?, &last], 1)?;
        }
        let own = self.net.lm_head().map(Var::as_tensor);
        Ok(self.loss.compute(own, &estimates, &batch.labels, &counts, counted)?)
    }

    fn next_batch(&mut self, examples: &dyn Examples) -> Result<Batch> {
        let Options { seed, window, .. } = self.options;
        let batch_tokens = self.options.joined_tokens();
        let total = (0..examples.len()).map(|index| examples.tokens(index) as u64).sum();
        let now = (examples.len(), total);
        let before = *self.position.examples.get_or_insert(now);
        if before != now {
            return Err(TrainError::Failed(format!(
                "the training started with {} examples of {} tokens, but now there are {} \
                 examples of {} tokens; continue with the same data, or start over with a new \
                 --out",
                before.0, before.1, now.0, now.1
            )));
        }
        let position = &mut self.position;
        let mut order = match self.order.take() {
            Some(order) => order,
            None => plan(examples, seed, position.epoch, batch_tokens, window),
        };
        if position.cursor >= order.len() {
            (position.epoch, position.cursor) = (position.epoch + 1, 0);
            order = plan(examples, seed, position.epoch, batch_tokens, window);
        }
        let Some(next) = order.get(position.cursor).cloned() else {
            let reason = "every example has fewer than three tokens".to_owned();
            return Err(TrainError::Example(0, reason));
        };
        position.cursor += 1;
        position.batches += 1;
        self.order = Some(order);
        self.batch(examples, &next, FeatureNoise::of(&self.options, self.position.batches))
    }

    fn batch(
        &self,
        examples: &dyn Examples,
        indices: &[usize],
        noise: Option<FeatureNoise>,
    ) -> Result<Batch> {
        let columns = Columns::of(&self.net.config);
        let vocab = self.net.config.body.vocab;
        let width = columns.width();
        let Options { window, mask, .. } = self.options;
        let read = indices.iter().map(|&index| {
            let mut example = examples.get(index)?;
            example.check(width, vocab).map_err(|reason| TrainError::Example(index, reason))?;
            example.cut(window, width);
            Ok(example)
        });
        let read: Vec<Example> = read.collect::<Result<_>>()?;
        let scored = self.net.draft_vocab.as_ref();
        Ok(Batch::new(&read, &columns, scored, mask, noise, &self.net.device)?)
    }
}

/// The rows of the target's LM head that the head scores.
fn scored(net: &DraftNet, lm_head: &Tensor) -> candle_core::Result<Tensor> {
    match &net.draft_vocab {
        None => Ok(lm_head.clone()),
        Some(tokens) => lm_head.index_select(&Tensor::new(tokens.tokens(), lm_head.device())?, 0),
    }
}

#[cfg(test)]
#[path = "trainer_tests.rs"]
mod tests;
