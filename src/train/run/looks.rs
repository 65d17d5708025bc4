//! When a head that is still learning is measured on held-out texts, and on how many, so that the
//! measurements of a training of a few minutes leave time to learn. It must never measure.

use crate::train::Length;

/// How many measurements are made during the training; the last one is at the end.
const COUNT: f64 = 10.0;
/// How many held-out tokens are measured: enough for two digits, few enough for seconds.
const HELD: usize = 3072;
/// How many prompts are decoded.
const PROMPTS: usize = 6;
/// Shorter trainings measure proportionally less.
const WHOLE_MINUTES: f64 = 10.0;
/// The share of a training limited in minutes that its measurements may take.
const SHARE: f64 = 0.2;

/// The measurements of a training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Looks {
    /// The training's length in seconds; `None` if it is counted in steps.
    whole: Option<f64>,
    /// How many seconds measurements have taken.
    spent: f64,
    /// How many seconds the longest took, which are reserved for the measurement at the end.
    pub longest: f64,
}

impl Looks {
    /// No measurements so far.
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

    /// The most held-out tokens to measure.
    pub fn tokens(&self) -> usize {
        self.part(HELD)
    }

    /// The most prompts to decode.
    pub fn prompts(&self) -> usize {
        self.part(PROMPTS)
    }

    /// Whether to measure now that the training has progressed from `before` to `now`. The end is
    /// always measured; an earlier measurement must leave time for that.
    pub(crate) fn due(&self, before: f64, now: f64) -> bool {
        let passed = (now * COUNT).floor() > (before * COUNT).floor();
        let room = |whole: f64| self.spent + 2.0 * self.longest <= SHARE * whole;
        passed && (now >= 1.0 || self.whole.is_none_or(room))
    }

    /// Notes that a measurement took this many seconds.
    pub fn took(&mut self, seconds: f64) {
        self.spent += seconds;
        self.longest = self.longest.max(seconds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds and measurements of a training of this many minutes, in which a step takes one
    /// second and a measurement `look`.
    fn played(minutes: f64, look: f64) -> (f64, usize) {
        let mut looks = Looks::new(Length::Minutes(minutes));
        let mut seconds = 0.0;
        let mut count = 0;
        let share = |seconds: f64, looks: &Looks| {
            f64::min((seconds + looks.longest) / (60.0 * minutes), 1.0)
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
        // There is enough time for all.
        let (seconds, count) = played(30.0, 9.0);
        assert!(count == 10 && (1800.0..1812.0).contains(&seconds), "{seconds} {count}");
        // There is not enough time: there are fewer measurements, and the minutes are kept except
        // for the unexpected duration of the first one.
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
        // Steps are counted as steps, however long measuring takes.
        let mut looks = Looks::new(Length::Steps(100));
        looks.took(1e6);
        assert!(looks.due(0.19, 0.2) && !looks.due(0.2, 0.29));
    }
}
