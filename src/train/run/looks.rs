//! When a head that still learns is measured on held-out texts, and on how many: so that the
//! measurements of a training of few minutes leave time to learn. Must never measure.

use crate::train::Length;

/// Measures on the way, the last one at the end.
const COUNT: f64 = 10.0;
/// Held-out tokens to measure with: enough for two digits, few enough for seconds.
const HELD: usize = 3072;
/// Prompts to decode.
const PROMPTS: usize = 6;
/// Shorter trainings measure with as much less.
const WHOLE_MINUTES: f64 = 10.0;
/// The share of a training of so many minutes that its measurements may take.
const SHARE: f64 = 0.2;

/// The measurements of a training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Looks {
    /// Seconds of the training; `None` if it is counted in steps.
    whole: Option<f64>,
    /// Seconds that measurements have taken.
    spent: f64,
    /// Those of the longest.
    longest: f64,
}

impl Looks {
    /// None so far.
    pub fn new(length: Length) -> Self {
        let whole = match length {
            Length::Minutes(minutes) => Some(60.0 * minutes),
            Length::Steps(_) => None,
        };
        Self { whole, spent: 0.0, longest: 0.0 }
    }

    fn part(&self, of: usize) -> usize {
        let share = self.whole.map_or(1.0, |whole| (whole / 60.0 / WHOLE_MINUTES).min(1.0));
        (of as f64 * share).ceil() as usize
    }

    /// Most held-out tokens to measure with.
    pub fn tokens(&self) -> usize {
        self.part(HELD)
    }

    /// Most prompts to decode.
    pub fn prompts(&self) -> usize {
        self.part(PROMPTS)
    }

    /// Whether to measure now that the training has gone from one share of it to another. The end
    /// is always measured; before it there must be time for that as well.
    pub fn due(&self, before: f64, now: f64) -> bool {
        let passed = (now * COUNT).floor() > (before * COUNT).floor();
        let room = |whole: f64| self.spent + 2.0 * self.longest <= SHARE * whole;
        passed && (now >= 1.0 || self.whole.is_none_or(room))
    }

    /// One took so many seconds.
    pub fn took(&mut self, seconds: f64) {
        self.spent += seconds;
        self.longest = self.longest.max(seconds);
    }

    /// Seconds to keep for the one at the end.
    pub fn last(&self) -> f64 {
        self.longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds and measurements of a training of so many minutes, in which a step takes one
    /// second and a measurement `look`.
    fn played(minutes: f64, look: f64) -> (f64, usize) {
        let mut looks = Looks::new(Length::Minutes(minutes));
        let (mut seconds, mut count) = (0.0, 0);
        let share = |seconds: f64, looks: &Looks| {
            f64::min((seconds + looks.last()) / (60.0 * minutes), 1.0)
        };
        while share(seconds, &looks) < 1.0 {
            let before = share(seconds, &looks);
            seconds += 1.0;
            if looks.due(before, share(seconds, &looks)) {
                seconds += look;
                looks.took(look);
                count += 1;
            }
        }
        (seconds, count)
    }

    #[test]
    fn measurements_do_not_take_the_time_that_there_is_to_learn() {
        // Enough of it for all.
        let (seconds, count) = played(30.0, 9.0);
        assert!(count == 10 && (1800.0..1812.0).contains(&seconds), "{seconds} {count}");
        // Not enough: fewer, and the minutes hold but for what the first one took by surprise.
        for (minutes, look) in [(1.0, 9.0), (0.3, 2.0), (0.3, 9.0), (4.0, 9.0)] {
            let (seconds, count) = played(minutes, look);
            let over = seconds - 60.0 * minutes;
            assert!(over <= look + 1.0, "{minutes} {look}: {seconds}");
            assert!((1..10).contains(&count), "{minutes} {look}: {count}");
        }
    }

    #[test]
    fn a_short_training_is_measured_with_less() {
        let of = |length| {
            let looks = Looks::new(length);
            (looks.tokens(), looks.prompts())
        };
        assert_eq!(of(Length::Steps(5)), (3072, 6));
        assert_eq!(of(Length::Minutes(10.0)), (3072, 6));
        assert_eq!(of(Length::Minutes(5.0)), (1536, 3));
        assert_eq!(of(Length::Minutes(0.3)), (93, 1));
        // Steps are steps, however long measuring takes.
        let mut looks = Looks::new(Length::Steps(100));
        looks.took(1e6);
        assert!(looks.due(0.19, 0.2) && !looks.due(0.2, 0.29));
    }
}
