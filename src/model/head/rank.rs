//! From logits on any device to the likeliest children of each row (method.md, Tree growth). It
//! must not depend on a head.

use candle_core::{D, DType, Device, Tensor};

use super::{Candidates, DraftVocabulary};
use crate::speculate::{Ranking, top_k};

/// The candidates of each row of logits `[rows, V]` by `ranking`, with log-probabilities in f32. V
/// is the size of the draft vocabulary if there is one.
///
/// If the likeliest tokens are requested from a device other than the CPU, not all logits are
/// fetched but only the maxima of the rows' chunks and then the `width` best chunks of each row.
/// This suffices because a row's `width` best tokens are in the chunks whose maxima are its `width`
/// best. Coupled ranking may prefer any token, so it fetches whole rows.
///
/// # Errors
/// If the device fails.
pub fn rank_tensor(
    logits: &Tensor,
    draft_vocab: Option<&DraftVocabulary>,
    ranking: &Ranking,
) -> candle_core::Result<Candidates> {
    let logits = logits.to_dtype(DType::F32)?.contiguous()?;
    let vocab = logits.dim(D::Minus1)?;
    let tokens = draft_vocab.map(DraftVocabulary::tokens);
    let token = |id: u32| tokens.map_or(id, |tokens| tokens[id as usize]);
    let width = ranking.width();
    let elsewhere = !matches!(logits.device(), Device::Cpu) && !ranking.is_coupled();
    match chunk_length(vocab) {
        Some(length) if elsewhere && vocab >= 2 * width * length => {
            let mut candidates = rank_by_chunks(&logits, length, width)?;
            candidates.iter_mut().flatten().for_each(|(id, _)| *id = token(*id));
            Ok(candidates)
        }
        _ => {
            let logits = logits.flatten_all()?.to_vec1::<f32>()?;
            let rank = |row| ranking.candidates_among(row, token);
            Ok(logits.chunks_exact(vocab).map(rank).collect())
        }
    }
}

/// [`rank_tensor`] for f32 logits in chunks of `length`, which divides V.
fn rank_by_chunks(logits: &Tensor, length: usize, width: usize) -> candle_core::Result<Candidates> {
    let (rows, vocab) = logits.dims2()?;
    let count = vocab / length;
    let chunks = logits.reshape((rows, count, length))?;
    // One transfer for the maxima and the normaliser, which comes last.
    let summary = Tensor::cat(&[chunks.max(D::Minus1)?, log_sum_exp(logits)?], 1)?;
    let summary = summary.to_vec2::<f32>()?;
    let picked: Vec<Vec<u32>> = summary
        .iter()
        .map(|row| {
            let best = top_k(&row[..count], width);
            let mut best: Vec<u32> = best.into_iter().map(|(chunk, _)| chunk).collect();
            // In ascending order, so that ties go to the lower token.
            best.sort_unstable();
            best
        })
        .collect();
    let index: Vec<u32> = (0u32..)
        .zip(&picked)
        .flat_map(|(row, best)| best.iter().map(move |chunk| row * count as u32 + chunk))
        .collect();
    if index.is_empty() {
        // No row has a number that is not NaN.
        return Ok(vec![Vec::new(); rows]);
    }
    let index = Tensor::from_slice(&index, index.len(), logits.device())?;
    let chosen = chunks.reshape((rows * count, length))?.index_select(&index, 0)?;
    let chosen = chosen.flatten_all()?.to_vec1::<f32>()?;
    let mut rest = chosen.as_slice();
    let rank_row = |(best, summary): (&Vec<u32>, &Vec<f32>)| {
        let values;
        (values, rest) = rest.split_at(best.len() * length);
        let top = top_k(values, width).into_iter();
        top.map(|(at, logit)| {
            let token = best[at as usize / length] * length as u32 + at % length as u32;
            (token, logit - summary[count])
        })
        .collect()
    };
    Ok(picked.iter().zip(&summary).map(rank_row).collect())
}

/// `[rows, 1]`.
fn log_sum_exp(logits: &Tensor) -> candle_core::Result<Tensor> {
    let max = logits.max_keepdim(D::Minus1)?;
    let sum = logits.broadcast_sub(&max)?.exp()?.sum_keepdim(D::Minus1)?;
    sum.log()? + max
}

/// A divisor of the vocabulary near 64, if it has one.
fn chunk_length(vocab: usize) -> Option<usize> {
    (16..=256)
        .filter(|length| vocab.is_multiple_of(*length))
        .min_by_key(|length| length.abs_diff(64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        // Values on a coarse grid, so that ties are common.
        #[test]
        fn chunks_rank_as_whole_rows_do(
            grid in prop::collection::vec(-40i32..40, 3 * 192), width in 1usize..12,
        ) {
            let logits: Vec<f32> = grid.iter().map(|&x| x as f32 * 0.5).collect();
            let tensor = Tensor::from_slice(&logits, (3, 192), &Device::Cpu).unwrap();
            let by_chunks = rank_by_chunks(&tensor, 16, width).unwrap();
            let whole = rank_tensor(&tensor, None, &Ranking::new(width)).unwrap();
            prop_assert_eq!(whole.len(), 3);
            for (by_chunks, whole) in by_chunks.iter().zip(&whole) {
                prop_assert_eq!(by_chunks.len(), whole.len());
                for (a, b) in by_chunks.iter().zip(whole) {
                    prop_assert_eq!(a.0, b.0);
                    prop_assert!((a.1 - b.1).abs() < 1e-5, "{:?} {:?}", a, b);
                }
            }
        }
    }

    #[test]
    fn rows_without_numbers_have_no_children() {
        let mut logits = vec![f32::NEG_INFINITY; 64];
        logits[40] = 3.0;
        let tensor = Tensor::from_slice(&logits, (2, 32), &Device::Cpu).unwrap();
        let candidates = rank_by_chunks(&tensor, 16, 2).unwrap();
        assert_eq!(candidates, [vec![], vec![(8, 0.0)]]);
    }

    #[test]
    fn chunks_divide_the_vocabularies_in_use() {
        for vocab in [256, 8192, 32_000, 128_256, 151_936] {
            assert_eq!(chunk_length(vocab), Some(64), "{vocab}");
        }
        assert_eq!(chunk_length(32_003), None); // a prime: fetched whole
    }
}
