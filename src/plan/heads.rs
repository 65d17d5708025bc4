//! Which of several draft heads is chosen if they cannot be cut to the available room (method.md,
//! Draft heads). It must never evaluate one itself.

/// A possible head and its evaluation.
#[derive(Clone, Debug, PartialEq)]
pub struct HeadForecast {
    /// The name that the user gave it.
    pub name: String,
    /// M; for an elastic head, the most blocks that fit.
    pub blocks: usize,
    /// The expected tokens per second, or a clause saying why it cannot be used.
    pub rate: Result<f64, String>,
}

/// Rates closer to each other than this fraction count as equal.
const ALIKE: f64 = 1e-6;

/// The head to use and why, in one sentence: the one with the most expected tokens per second; of
/// equal ones the one with the most blocks, then the first. `place` is where it would run. `None`
/// if none can be used.
pub fn best_head(heads: &[HeadForecast], place: &str) -> Option<(usize, String)> {
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
    let (taken, _, rate) = best?;
    let called = |head: &HeadForecast| format!("{} (M = {})", head.name, head.blocks);
    let mut told = format!(
        "Of {} draft heads {} is taken: {rate:.1} tokens/s are expected of it on {place}",
        heads.len(),
        called(&heads[taken])
    );
    let others = || heads.iter().enumerate().filter(|(index, _)| *index != taken);
    for (_, head) in others() {
        if let Ok(rate) = head.rate {
            told += &format!(", {rate:.1} of {}", called(head));
        }
    }
    for (_, head) in others() {
        if let Err(reason) = &head.rate {
            told += &format!("; not {}: {reason}", called(head));
        }
    }
    Some((taken, told + "."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(name: &str, blocks: usize, rate: Result<f64, &str>) -> HeadForecast {
        HeadForecast { name: name.into(), blocks, rate: rate.map_err(str::to_owned) }
    }

    #[test]
    fn the_best_that_fits_is_taken_and_all_others_are_told() {
        let heads = [
            head("a", 1, Ok(30.0)),
            head("b", 2, Ok(42.04)),
            head("c", 3, Ok(41.0)),
            head("d", 4, Err("it needs 9 MiB and the card has 8")),
        ];
        let (taken, told) = best_head(&heads, "the GPU").unwrap();
        assert_eq!(taken, 1);
        assert_eq!(
            told,
            "Of 4 draft heads b (M = 2) is taken: 42.0 tokens/s are expected of it on the GPU, \
             30.0 of a (M = 1), 41.0 of c (M = 3); not d (M = 4): it needs 9 MiB and the card has \
             8."
        );
    }

    #[test]
    fn where_nothing_tells_heads_apart_the_one_with_most_blocks_is_taken() {
        let same = |blocks: [usize; 3]| blocks.map(|blocks| head("x", blocks, Ok(10.0)));
        for (blocks, expected) in [([1, 4, 2], 1), ([2, 2, 2], 0), ([1, 2, 4], 2)] {
            assert_eq!(best_head(&same(blocks), "the CPU").unwrap().0, expected, "{blocks:?}");
        }
        // Nearly equal rates are distinguished.
        let near = [head("x", 4, Ok(10.0)), head("y", 1, Ok(10.01))];
        assert_eq!(best_head(&near, "the CPU").unwrap().0, 1);
        assert_eq!(best_head(&[head("x", 1, Err("no"))], "the CPU"), None);
        assert_eq!(best_head(&[], "the CPU"), None);
    }
}
