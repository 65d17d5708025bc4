//! The one way to repeat a measurement. It must not depend on what is measured.

use std::time::Instant;

use super::MeasureError;

/// Takes samples of `count` things in turn, over and over, so that a change in the machine's state
/// affects all of them. The first turn warms up and does not count. After `turns` that count, or if
/// another turn would end after `until`, it is done; one turn counts in any case.
///
/// # Errors
/// The first error of `sample`, which is called with the index of the thing.
pub(super) fn in_turn<T>(
    count: usize,
    turns: usize,
    until: Instant,
    mut sample: impl FnMut(usize) -> Result<T, MeasureError>,
) -> Result<Vec<Vec<T>>, MeasureError> {
    let mut all: Vec<Vec<T>> = (0..count).map(|_| Vec::new()).collect();
    for turn in 0..=turns {
        let start = Instant::now();
        for (at, samples) in all.iter_mut().enumerate() {
            let taken = sample(at)?;
            if turn > 0 {
                samples.push(taken);
            }
        }
        let now = Instant::now();
        if turn > 0 && now + (now - start) > until {
            break;
        }
    }
    Ok(all)
}

/// The sample in the middle; there is at least one.
pub(super) fn median<T: Copy>(mut samples: Vec<T>, key: impl Fn(&T) -> f64) -> T {
    samples.sort_by(|a, b| key(a).total_cmp(&key(b)));
    samples[samples.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_first_turn_does_not_count_and_one_does_in_any_case() {
        let run = |turns, until| {
            let mut order = Vec::new();
            let samples = in_turn(2, turns, until, |at| {
                order.push(at);
                Ok(order.len())
            });
            (samples.unwrap(), order)
        };
        let (samples, order) = run(3, Instant::now() + Duration::from_secs(60));
        assert_eq!(order, [0, 1, 0, 1, 0, 1, 0, 1]);
        assert_eq!(samples, [[3, 5, 7], [4, 6, 8]]);
        let (samples, order) = run(3, Instant::now() - Duration::from_secs(1));
        assert_eq!((samples, order.len()), (vec![vec![3], vec![4]], 4));
        assert_eq!(median(vec![9.0, 1.0, 2.0], |&x| x), 2.0);
    }
}
