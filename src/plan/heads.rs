//! Which of several draft heads is chosen if they cannot be cut to the available room (method.md,
//! Draft heads). It must never evaluate one itself.

use super::reason::{Obstacle, Reason};

/// A possible head and its evaluation.
#[derive(Clone, Debug, PartialEq)]
pub struct HeadForecast {
    /// The name that the user gave it.
    pub name: String,
    /// M; for an elastic head, the most blocks that fit.
    pub blocks: usize,
    /// The expected tokens per second, or why it cannot be used.
    pub rate: Result<f64, Obstacle>,
}

/// Rates closer to each other than this fraction count as equal.
const ALIKE: f64 = 1e-6;

/// The head to use and why: the one with the most expected tokens per second; of equal ones the one
/// with the most blocks, then the first. `on_gpu` is where it would run. `None` if none can be
/// used.
pub fn best_head(heads: &[HeadForecast], on_gpu: bool) -> Option<(usize, Reason)> {
    let mut best: Option<(usize, usize, f64)> = None;
    for (index, head) in heads.iter().enumerate() {
        let &Ok(rate) = &head.rate else { continue };
        let is_better = best.is_none_or(|(_, blocks, most)| {
            let alike = (rate - most).abs() <= ALIKE * most;
            if alike { head.blocks > blocks } else { rate > most }
        });
        if is_better {
            best = Some((index, head.blocks, rate));
        }
    }
    let (taken, ..) = best?;
    Some((taken, Reason::HeadChosen { heads: heads.to_vec(), taken, on_gpu }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(name: &str, blocks: usize, rate: Result<f64, Obstacle>) -> HeadForecast {
        HeadForecast { name: name.into(), blocks, rate }
    }

    #[test]
    fn the_best_that_fits_is_taken_and_all_others_are_reported() {
        let heads = [
            head("a", 1, Ok(30.0)),
            head("b", 2, Ok(42.04)),
            head("c", 3, Ok(41.0)),
            head("d", 4, Err(Obstacle::MainMemory { needed: 9, free: 8 })),
        ];
        let reason = Reason::HeadChosen { heads: heads.to_vec(), taken: 1, on_gpu: true };
        assert_eq!(best_head(&heads, true), Some((1, reason)));
    }

    #[test]
    fn where_nothing_tells_heads_apart_the_one_with_most_blocks_is_taken() {
        let same = |blocks: [usize; 3]| blocks.map(|blocks| head("x", blocks, Ok(10.0)));
        for (blocks, expected) in [([1, 4, 2], 1), ([2, 2, 2], 0), ([1, 2, 4], 2)] {
            assert_eq!(best_head(&same(blocks), false).unwrap().0, expected, "{blocks:?}");
        }
        // Nearly equal rates are distinguished.
        let near = [head("x", 4, Ok(10.0)), head("y", 1, Ok(10.01))];
        assert_eq!(best_head(&near, false).unwrap().0, 1);
        assert_eq!(best_head(&[head("x", 1, Err(Obstacle::NoRoomNextToTarget))], false), None);
        assert_eq!(best_head(&[], false), None);
    }
}
