//! One question answered twice, plain and speculative, and both answers played side by side at
//! their own measured times. Must never know how it is drawn, nor the clock.

mod frame;
pub(crate) mod update;
pub(crate) mod view;

use std::time::Duration;

use crate::decode::{Committed, Round};
use crate::plan::Strategy;
use crate::tui::meters::payoff::Pays;
use crate::worker::{Controls, Event};

pub use frame::race_frame;

/// One of the two answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lane {
    /// Time in milliseconds from the first token on, and the bytes of `text` there are then.
    arrivals: Vec<Arrival>,
    text: String,
    tokens: Vec<u32>,
    total_ms: f64,
    rounds: usize,
}

/// What one round brought.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Arrival {
    at_ms: f64,
    bytes: usize,
    tokens: usize,
}

impl Lane {
    fn push(&mut self, committed: &[Committed]) {
        for token in committed {
            self.tokens.push(token.token);
            self.text.push_str(token.thought.as_deref().unwrap_or_default());
            self.text.push_str(&token.text);
        }
        let bytes = self.text.len();
        let tokens = self.tokens.len();
        self.arrivals.push(Arrival { at_ms: self.total_ms, bytes, tokens });
    }

    fn round(&mut self, round: &Round, ms: f64) {
        self.total_ms += ms;
        self.rounds += 1;
        self.push(&round.committed);
    }

    /// Rounds that have ended `ms` after the first token.
    fn ended(&self, ms: f64) -> usize {
        self.arrivals.partition_point(|arrival| arrival.at_ms <= ms)
    }

    fn at(&self, ms: f64) -> Option<&Arrival> {
        self.arrivals.get(self.ended(ms).checked_sub(1)?)
    }

    /// What it says `ms` after the first token.
    pub fn text_at(&self, ms: f64) -> &str {
        &self.text[..self.at(ms).map_or(0, |arrival| arrival.bytes)]
    }

    /// Its tokens then.
    pub fn tokens_at(&self, ms: f64) -> usize {
        self.at(ms).map_or(0, |arrival| arrival.tokens)
    }

    /// Its rounds then; the first token came before them.
    pub fn rounds_at(&self, ms: f64) -> usize {
        self.ended(ms).saturating_sub(1)
    }

    /// Milliseconds from the first token to the last that came so far.
    pub fn total_ms(&self) -> f64 {
        self.total_ms
    }

    /// Tokens of the whole answer.
    pub fn tokens(&self) -> usize {
        self.tokens.len()
    }

    /// Rounds of the whole answer.
    pub fn rounds(&self) -> usize {
        self.rounds
    }
}

/// Both of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Race {
    /// Plain, then speculative.
    pub lanes: [Lane; 2],
    /// Which answer is being made; 2 if both are there.
    running: usize,
    /// When the play began.
    pub began: Option<Duration>,
    /// Whether its end is shown at once.
    pub skipped: bool,
    /// The strategy of the second.
    pub strategy: String,
    /// Whether it takes the place of plain decoding.
    was_plain: bool,
    /// Whether rounds are compared and not times: every round then plays for as long.
    pub counts_rounds: bool,
}

impl Race {
    /// Most tokens of each answer unless the user sets another limit: a race is to be watched.
    pub const LONGEST: usize = 256;
    /// Milliseconds for which a round plays where rounds are compared.
    const ROUND_MS: f64 = 80.0;

    /// Neither answer is there yet. Plain decoding races against `auto`, another strategy in force
    /// against plain decoding.
    pub fn new(in_force: &str, counts_rounds: bool) -> Self {
        let was_plain = in_force == "plain";
        let strategy = if was_plain { "auto" } else { in_force }.to_owned();
        Self { strategy, was_plain, counts_rounds, ..Self::default() }
    }

    /// Sets the controls for the answer that is to be made.
    pub fn prepare(&self, controls: &mut Controls) {
        controls.speculate = self.speculates();
        controls.pace = 0;
        if self.speculates() && self.was_plain {
            controls.strategy = Strategy::named(&self.strategy);
        }
    }

    /// Whether an answer is still being made.
    pub fn measuring(&self) -> bool {
        self.running < 2
    }

    /// Whether the answer of this lane is the one being made.
    pub fn is_running(&self, lane: usize) -> bool {
        self.running == lane
    }

    /// Whether the answer that is being made is to be speculative.
    fn speculates(&self) -> bool {
        self.running == 1
    }

    /// Takes what the worker says of the answer under way; `true` once that answer is there.
    pub fn take(&mut self, event: &Event) -> bool {
        let Some(lane) = self.lanes.get_mut(self.running) else { return false };
        match event {
            Event::First { token, .. } => lane.push(std::slice::from_ref(token)),
            Event::Round { round, .. } => {
                let measured = round.timing.total_ms();
                lane.round(round, if self.counts_rounds { Self::ROUND_MS } else { measured });
            }
            Event::Finished { .. } => {
                self.running += 1;
                return true;
            }
            _ => {}
        }
        false
    }

    /// Whether the play continues at the time `now`.
    pub fn playing(&self, now: Duration) -> bool {
        self.began.is_some() && self.elapsed(now) < self.length_ms()
    }

    /// Plays it from the start.
    pub fn play(&mut self, now: Duration) {
        self.began = Some(now);
        self.skipped = false;
    }

    /// Milliseconds of the play at the time `now`.
    pub fn elapsed(&self, now: Duration) -> f64 {
        if self.skipped {
            return self.length_ms();
        }
        self.began.map_or(0.0, |began| now.saturating_sub(began).as_secs_f64() * 1e3)
    }

    /// Milliseconds until the slower one is at its end.
    pub fn length_ms(&self) -> f64 {
        self.lanes[0].total_ms.max(self.lanes[1].total_ms)
    }

    /// How many times as fast as plain the speculative answer came.
    pub fn ratio(&self) -> f64 {
        let [plain, speculative] = self.lanes.each_ref().map(Lane::total_ms);
        if speculative > 0.0 { plain / speculative } else { 1.0 }
    }

    /// Whether both say the same, token for token.
    pub fn same_text(&self) -> bool {
        self.lanes[0].tokens == self.lanes[1].tokens
    }

    /// How it ended, in one line.
    pub fn result(&self) -> String {
        let text = if self.same_text() { "Same text" } else { "Different texts" };
        if self.counts_rounds {
            let [plain, speculative] = self.lanes.each_ref().map(Lane::rounds);
            let rounds = if speculative == 1 { "round" } else { "rounds" };
            return format!("{text}, {speculative} {rounds} instead of {plain}");
        }
        let ratio = self.ratio();
        match Pays::of(ratio) {
            Pays::Faster => format!("{text}, {ratio:.1}× as fast as plain"),
            Pays::Same => format!("{text}, same speed"),
            Pays::Slower => format!("{text}, {ratio:.1}× as fast as plain: no gain here"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::tests::answer;

    #[test]
    fn each_lane_plays_at_its_own_times() {
        let mut race = Race::new("auto", false);
        assert!(race.measuring() && !race.speculates());
        for lane in 0..2 {
            let ended: Vec<bool> =
                answer(1, "one two three four five", 8).iter().map(|e| race.take(e)).collect();
            assert_eq!(ended.iter().filter(|ended| **ended).count(), 1, "{lane}");
        }
        assert!(!race.measuring() && race.same_text());
        let [plain, speculative] = &race.lanes;
        assert_eq!(plain, speculative);
        assert_eq!(plain.text_at(0.0), "one");
        assert_eq!((plain.tokens_at(0.0), plain.rounds_at(0.0)), (1, 0));
        let end = race.length_ms();
        assert_eq!(plain.text_at(end), "one two three four five");
        assert_eq!(plain.rounds_at(end), plain.rounds());
        assert!(plain.text_at(end - 0.1).len() < plain.text_at(end).len());
        assert_eq!(race.result(), "Same text, same speed");
        race.lanes[0].total_ms *= 2.0;
        assert_eq!(race.result(), "Same text, 2.0× as fast as plain");
        race.lanes[0].total_ms /= 4.0;
        race.lanes[0].tokens.pop();
        let result = race.result();
        assert!(result.starts_with("Different texts, 0.5× as fast as plain: no gain"), "{result}");
    }

    #[test]
    fn where_rounds_are_compared_no_time_counts() {
        let mut race = Race::new("auto", true);
        // The second answer takes six times as long per round, in half as many.
        for (rounds, ms) in [(4, 10.0), (2, 60.0)] {
            let events = answer(1, "one two three four five", 8);
            let Some(Event::Round { round, .. }) =
                events.iter().find(|event| matches!(event, Event::Round { .. }))
            else {
                panic!("no round")
            };
            let mut round = round.clone();
            round.timing = crate::decode::Timing { verify_ms: ms, ..Default::default() };
            race.take(&events[1]);
            for _ in 0..rounds {
                race.take(&Event::Round { generation: 1, round: round.clone() });
            }
            race.take(&events[events.len() - 1]);
        }
        assert_eq!(race.lanes[0].total_ms(), 2.0 * race.lanes[1].total_ms());
        assert_eq!(race.ratio(), 2.0);
        assert_eq!(race.result(), "Different texts, 2 rounds instead of 4");
    }
}
