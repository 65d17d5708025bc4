//! From examples to batches: their order, how they are joined, masks and noise. All of it is a
//! function of the seed, the epoch and the step, so that a training continues where it stopped. It
//! must not depend on the head.

use candle_core::{Device, Result, Tensor};
use half::f16;

use super::{Columns, Example, Examples, MaskRule, Options};
use crate::model::head::DraftVocabulary;
use crate::speculate::Noise;

/// How many batches are filled from one shuffled pool: with more, less padding is needed; with
/// fewer, the order is more random.
const POOL: usize = 32;

/// A text of 512 tokens or fewer gets the full noise. The options can request Dovetail's formula
/// unchanged, which gives shorter texts more, up to many times the features themselves.
const FULL_NOISE: usize = 512;

const ORDER: u64 = 0x6f72_6465_7200;
const NOISE: u64 = 0x6e6f_6973_6500;

/// Several examples, the shorter ones padded. Row i of an example is the pair (f_i, x_{i+1}), which
/// predicts f_{i+1} and from it x_{i+2}.
#[derive(Clone, Debug)]
pub struct Batch {
    /// `[batch, rows, width]`: f_i, or what is read instead of it, with noise.
    pub features: Tensor,
    /// `[batch · rows]`: x_{i+1}.
    pub tokens: Tensor,
    /// `[batch · rows, H]`: f_{i+1}.
    pub labels: Tensor,
    /// `[batch · rows]`: whether a row has a loss.
    pub counts: Vec<bool>,
    /// How many pairs there are, without padding.
    pub pairs: usize,
}

impl Batch {
    /// Puts `examples` with these `columns` on `device`, with `noise` on what is read. A row that
    /// predicts a token that is not `scored` has no loss, because no draft can be right there.
    ///
    /// # Errors
    /// If the device fails.
    pub fn new(
        examples: &[Example],
        columns: &Columns,
        scored: Option<&DraftVocabulary>,
        rule: MaskRule,
        noise: Option<FeatureNoise>,
        device: &Device,
    ) -> Result<Self> {
        let longest = examples.iter().map(|example| example.tokens.len()).max().unwrap_or_default();
        let rows = longest.saturating_sub(1);
        let count = examples.len() * rows;
        let read = columns.read.len();
        let hidden = columns.feature.len();
        let mut features = vec![0f32; count * read];
        let mut labels = vec![0f32; count * hidden];
        let mut tokens = vec![0u32; count];
        let mut counts = vec![false; count];
        let mut pairs = 0;
        for (example, first) in examples.iter().zip((0..).step_by(rows.max(1))) {
            let len = example.tokens.len();
            let own = len.saturating_sub(1);
            pairs += own;
            tokens[first..first + own].copy_from_slice(&example.tokens[len - own..]);
            for (row, counts) in counts[first..first + own].iter_mut().enumerate() {
                // Row i predicts x_{i+2}.
                let predicted = scored.zip(example.tokens.get(row + 2));
                *counts = has_loss(&example.mask, row, rule)
                    && predicted.is_none_or(|(scored, token)| scored.contains(*token));
            }
            let at = first * read..(first + own) * read;
            let rows = || example.features.chunks_exact(columns.width());
            for (row, to) in rows().zip(features[at.clone()].chunks_exact_mut(read)) {
                widen(&row[columns.read.clone()], to);
            }
            let to = labels[first * hidden..(first + own) * hidden].chunks_exact_mut(hidden);
            for (row, to) in rows().skip(len - own).zip(to) {
                widen(&row[columns.feature.clone()], to);
            }
            if let Some(noise) = noise {
                let width = noise.width_at(len);
                for (i, feature) in (at.start as u32..).zip(&mut features[at]) {
                    let uniform = (noise.draw.bits(i) >> 40) as f64 / (1u64 << 24) as f64;
                    *feature += ((uniform - 0.5) * width) as f32;
                }
            }
        }
        Ok(Self {
            features: Tensor::from_vec(features, (examples.len(), rows, read), device)?,
            labels: Tensor::from_vec(labels, (count, hidden), device)?,
            tokens: Tensor::from_vec(tokens, count, device)?,
            counts,
            pairs,
        })
    }

    /// Which rows count after the head has read its own outputs `step` times: row i needs the rows
    /// from i − step on, because its draft began there.
    pub(crate) fn counts_at(&self, step: usize) -> Result<Vec<bool>> {
        let (_, rows, _) = self.features.dims3()?;
        let counts = (0..self.counts.len()).map(|row| {
            row % rows >= step && self.counts[row - step..=row].iter().all(|counts| *counts)
        });
        Ok(counts.collect())
    }

    /// How many rows count on the target's features.
    pub fn counted(&self) -> usize {
        self.counts.iter().filter(|&&counts| counts).count()
    }
}

/// Noise on the features of a batch.
#[derive(Clone, Copy, Debug)]
pub struct FeatureNoise {
    /// Its width for a text of 512 tokens.
    width: f64,
    /// Whether shorter texts get no more than that.
    capped: bool,
    draw: Noise,
}

impl FeatureNoise {
    /// The noise of the `number`th batch of a training; `None` if it has none.
    pub(super) fn of(options: &Options, number: u64) -> Option<Self> {
        let draw = Noise::new(options.seed ^ NOISE, number as usize);
        let noise = Self { width: options.noise, capped: !options.noise_uncapped, draw };
        (noise.width > 0.0).then_some(noise)
    }

    /// Its width for a text of `len` tokens.
    fn width_at(&self, len: usize) -> f64 {
        let tokens = if self.capped { len.max(FULL_NOISE) } else { len.max(1) };
        self.width * FULL_NOISE as f64 / tokens as f64
    }
}

/// The batches of one epoch, each a list of examples: shuffled, joined with others of similar
/// length, and shuffled again. A batch takes at most `batch_tokens` tokens including padding, or
/// one example. Examples without any pair that has a loss are left out.
pub(super) fn plan(
    examples: &dyn Examples,
    seed: u64,
    epoch: u64,
    batch_tokens: usize,
    window: usize,
) -> Vec<Vec<usize>> {
    let length = |index: usize| examples.tokens(index).min(window);
    let noise = Noise::new(seed ^ ORDER, epoch as usize);
    let mut order: Vec<usize> = (0..examples.len()).filter(|&i| length(i) >= 3).collect();
    shuffle(&mut order, noise, 0);
    let mut batches = Vec::new();
    let mut rest = order.as_mut_slice();
    while !rest.is_empty() {
        let mut tokens = 0;
        let fits = rest.iter().take_while(|&&index| {
            tokens += length(index);
            tokens <= POOL * batch_tokens
        });
        let count = fits.count().max(1);
        let (pool, behind) = rest.split_at_mut(count);
        rest = behind;
        pool.sort_by_key(|&index| length(index));
        let mut batch: Vec<usize> = Vec::new();
        for &index in pool.iter() {
            // The pool is sorted, so the newest is the longest.
            if !batch.is_empty() && (batch.len() + 1) * length(index) > batch_tokens {
                batches.push(std::mem::take(&mut batch));
            }
            batch.push(index);
        }
        batches.push(batch);
    }
    shuffle(&mut batches, noise, 1 << 31);
    batches
}

fn shuffle<T>(items: &mut [T], noise: Noise, from: u32) {
    for (i, number) in (1..items.len()).rev().zip(from..) {
        let at = noise.bits(number) % (i as u64 + 1);
        items.swap(i, at as usize);
    }
}

fn has_loss(mask: &[bool], row: usize, rule: MaskRule) -> bool {
    let assistant = |position: usize| mask.get(position).is_some_and(|mine| *mine);
    match rule {
        MaskRule::Aligned => assistant(row + 1) && assistant(row + 2),
        MaskRule::Published => assistant(row),
    }
}

fn widen(from: &[f16], to: &mut [f32]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = from.to_f32();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Features that show position and component; the assistant's tokens are marked with `#`.
    fn example(mask: &str) -> Example {
        let len = mask.len();
        Example {
            tokens: (100..100 + len as u32).collect(),
            features: (0..2 * len).map(|i| f16::from_f32(i as f32)).collect(),
            mask: mask.chars().map(|c| c == '#').collect(),
        }
    }

    fn batch(examples: &[Example], rule: MaskRule, width: f64) -> Batch {
        let noise = FeatureNoise { width, capped: true, draw: Noise::new(1, 2) };
        let columns = Columns { read: 0..2, feature: 0..2 };
        Batch::new(examples, &columns, None, rule, Some(noise), &Device::Cpu).unwrap()
    }

    #[test]
    fn a_pair_is_a_feature_with_the_next_token_and_predicts_the_next_feature() {
        let batch = batch(&[example("..##"), example(".##")], MaskRule::Aligned, 0.0);
        let features = batch.features.to_vec3::<f32>().unwrap();
        assert_eq!(features[0], [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]);
        assert_eq!(features[1], [[0.0, 1.0], [2.0, 3.0], [0.0, 0.0]]);
        assert_eq!(batch.tokens.to_vec1::<u32>().unwrap(), [101, 102, 103, 101, 102, 0]);
        let labels = batch.labels.to_vec2::<f32>().unwrap();
        assert_eq!(labels[..3], [[2.0, 3.0], [4.0, 5.0], [6.0, 7.0]]);
        assert_eq!(labels[3..], [[2.0, 3.0], [4.0, 5.0], [0.0, 0.0]]);
        // x_2 and x_3 of the first example and x_1 and x_2 of the second are the assistant's.
        assert_eq!(batch.counts, [false, true, false, true, false, false]);
        assert_eq!((batch.pairs, batch.counted()), (5, 2));
    }

    #[test]
    fn tapped_states_are_read_and_features_behind_them_predicted() {
        let columns = Columns { read: 0..1, feature: 1..2 };
        let examples = [example("..##"), example(".##")];
        let rule = MaskRule::Aligned;
        let batch = Batch::new(&examples, &columns, None, rule, None, &Device::Cpu).unwrap();
        assert_eq!(
            batch.features.to_vec3::<f32>().unwrap(),
            [[[0.0], [2.0], [4.0]], [[0.0], [2.0], [0.0]]]
        );
        let labels = batch.labels.to_vec2::<f32>().unwrap();
        assert_eq!(labels, [[3.0], [5.0], [7.0], [3.0], [5.0], [0.0]]);
    }

    #[test]
    fn rows_count_by_what_they_predict() {
        let marks = |counts: &[bool]| -> String {
            counts.iter().map(|&counts| if counts { '#' } else { '.' }).collect()
        };
        // Pair i counts if x_{i+1} and x_{i+2} are the assistant's.
        let turns = [example("..###..##.")];
        let aligned = MaskRule::Aligned;
        assert_eq!(marks(&batch(&turns, aligned, 0.0).counts), ".##...#..");
        assert_eq!(marks(&batch(&turns, MaskRule::Published, 0.0).counts), "..###..##");
        // A draft must begin in the same answer.
        let drafts = batch(&[example(".#####"), example("..####")], aligned, 0.0);
        for (step, counts) in
            [(0, "####..###."), (1, ".###...##."), (2, "..##....#."), (5, "..........")]
        {
            assert_eq!(marks(&drafts.counts_at(step).unwrap()), counts, "{step}");
        }
        // A token that is not scored has no loss.
        let examples = [example("..####"), example(".##")];
        assert_eq!(marks(&batch(&examples, aligned, 0.0).counts), ".###.#....");
        let scored = DraftVocabulary::new(vec![102, 103, 105]);
        let columns = Columns { read: 0..2, feature: 0..2 };
        let some = Batch::new(&examples, &columns, Some(&scored), aligned, None, &Device::Cpu);
        assert_eq!(marks(&some.unwrap().counts), ".#.#.#....");
    }

    #[test]
    fn noise_is_bounded_the_same_again_and_spares_labels() {
        let clean = batch(&[example("####")], MaskRule::Aligned, 0.0);
        let noisy = batch(&[example("####")], MaskRule::Aligned, 0.2);
        let again = batch(&[example("####")], MaskRule::Aligned, 0.2);
        let values = |tensor: &Tensor| tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let off: Vec<f32> = values(&noisy.features)
            .iter()
            .zip(values(&clean.features))
            .map(|(a, b)| a - b)
            .collect();
        assert!(off.iter().all(|x| x.abs() <= 0.1001), "{off:?}");
        assert!(off.iter().any(|x| *x > 0.01) && off.iter().any(|x| *x < -0.01), "{off:?}");
        assert_eq!(values(&noisy.features), values(&again.features));
        assert_eq!(values(&noisy.labels), values(&clean.labels));
    }

    #[test]
    fn short_texts_get_more_noise_only_where_that_is_wanted() {
        let widths = |capped| {
            let noise = FeatureNoise { width: 0.2, capped, draw: Noise::new(1, 2) };
            [64, 512, 1024].map(|len| (noise.width_at(len) * 10.0).round() / 10.0)
        };
        assert_eq!(widths(true), [0.2, 0.2, 0.1]);
        assert_eq!(widths(false), [1.6, 0.2, 0.1]);
        assert!(FeatureNoise::of(&Options { noise: 0.0, ..Options::default() }, 1).is_none());
    }

    /// Lengths only.
    struct Lengths(Vec<usize>);

    impl Examples for Lengths {
        fn len(&self) -> usize {
            self.0.len()
        }

        fn tokens(&self, index: usize) -> usize {
            self.0[index]
        }

        fn get(&self, index: usize) -> std::result::Result<Example, super::super::TrainError> {
            Ok(example(&"#".repeat(self.0[index])))
        }
    }

    proptest! {
        /// Every example that has a pair is in one batch, and no batch is too large.
        #[test]
        fn an_epoch_has_every_example_once(
            lengths in prop::collection::vec(0usize..90, 0..200), seed: u64, epoch in 0u64..9,
        ) {
            let batches = plan(&Lengths(lengths.clone()), seed, epoch, 100, 60);
            prop_assert_eq!(&batches, &plan(&Lengths(lengths.clone()), seed, epoch, 100, 60));
            for batch in &batches {
                let longest = batch.iter().map(|&i| lengths[i].min(60)).max().unwrap();
                prop_assert!(batch.len() == 1 || batch.len() * longest <= 100);
            }
            let mut all: Vec<usize> = batches.concat();
            all.sort_unstable();
            let expected: Vec<usize> =
                (0..lengths.len()).filter(|&i| lengths[i] >= 3).collect();
            prop_assert_eq!(all, expected);
        }
    }

    #[test]
    fn epochs_differ_in_their_order() {
        let lengths = Lengths(vec![10; 50]);
        assert_ne!(plan(&lengths, 1, 0, 30, 64), plan(&lengths, 1, 1, 30, 64));
    }
}
