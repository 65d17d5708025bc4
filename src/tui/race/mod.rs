//! One question answered twice, plain and speculative or by two models, and both answers played
//! side by side at their own measured times. Must never know how it is drawn, nor the clock.

pub(crate) mod update;
pub(crate) mod view;

use std::cmp::Ordering;
use std::time::Duration;

use crate::decode::Committed;
use crate::plan::Strategy;
use crate::printable::printable_line;
use crate::tui::draw::figures;
use crate::tui::meters::payoff::compared;
use crate::tui::models::ModelRow;
use crate::worker::{Controls, Event};

pub use view::race_frame;

/// One of the two answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lane {
    arrivals: Vec<Arrival>,
    text: String,
    tokens: Vec<u32>,
}

/// What there is of an answer when its first token or a round has come.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Arrival {
    /// Milliseconds from the first token on.
    pub at_ms: f64,
    bytes: usize,
    pub tokens: usize,
    /// Rounds so far; the first token came before them.
    pub rounds: usize,
}

impl Lane {
    fn push(&mut self, committed: &[Committed], ms: f64) {
        for token in committed {
            self.tokens.push(token.token);
            self.text.push_str(token.thought.as_deref().unwrap_or_default());
            self.text.push_str(&token.text);
        }
        self.arrivals.push(Arrival {
            at_ms: self.end().at_ms + ms,
            bytes: self.text.len(),
            tokens: self.tokens.len(),
            rounds: self.arrivals.len(),
        });
    }

    /// What there is of it `ms` after the first token.
    pub fn at(&self, ms: f64) -> Arrival {
        let arrived = self.arrivals.partition_point(|arrival| arrival.at_ms <= ms);
        self.arrivals[..arrived].last().copied().unwrap_or_default()
    }

    /// Tokens per second after the first.
    fn rate(&self) -> f64 {
        let Arrival { at_ms, tokens, .. } = self.end();
        if at_ms > 0.0 { tokens.saturating_sub(1) as f64 / at_ms * 1e3 } else { 0.0 }
    }

    /// All that came so far.
    pub fn end(&self) -> Arrival {
        self.arrivals.last().copied().unwrap_or_default()
    }

    /// What it says `ms` after the first token.
    pub fn text_at(&self, ms: f64) -> &str {
        &self.text[..self.at(ms).bytes]
    }
}

/// What the two answers differ in.
#[derive(Clone, Debug, PartialEq)]
pub enum Contest {
    /// The first is plain, the second by this strategy, which may take the place of plain decoding.
    Speculation { strategy: String, was_plain: bool },
    /// The first is by the model in use, the second by another.
    Models(Box<[ModelRow; 2]>),
}

impl Default for Contest {
    fn default() -> Self {
        Self::Speculation { strategy: String::new(), was_plain: false }
    }
}

/// Both of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Race {
    /// In the order in which they are made.
    pub lanes: [Lane; 2],
    pub contest: Contest,
    /// Which answer is being made; 2 if both are there.
    running: usize,
    /// When the play began.
    pub began: Option<Duration>,
    /// Whether its end is shown at once.
    pub skipped: bool,
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
        let contest = Contest::Speculation { strategy, was_plain };
        Self { contest, counts_rounds, ..Self::default() }
    }

    /// The model in use against another.
    pub fn of_models(models: [ModelRow; 2]) -> Self {
        Self { contest: Contest::Models(Box::new(models)), ..Self::default() }
    }

    /// The models that it compares.
    pub fn models(&self) -> Option<&[ModelRow; 2]> {
        match &self.contest {
            Contest::Models(models) => Some(models),
            Contest::Speculation { .. } => None,
        }
    }

    /// The other model is loaded, and this is its name.
    pub fn name_other(&mut self, name: String) {
        if let Contest::Models(models) = &mut self.contest {
            models[1].title = name;
        }
    }

    pub fn title(&self) -> &'static str {
        match self.contest {
            Contest::Speculation { .. } => "race: the last question, twice",
            Contest::Models(_) => "the last question to two models",
        }
    }

    /// Both answers by what they differ in.
    pub fn names(&self) -> [String; 2] {
        match &self.contest {
            Contest::Speculation { strategy, .. } => {
                ["plain".to_owned(), format!("speculative · {strategy}")]
            }
            Contest::Models(models) => {
                models.each_ref().map(|model| printable_line(&model.title).into())
            }
        }
    }

    /// Sets the controls for the answer that is to be made.
    pub fn prepare(&self, controls: &mut Controls) {
        controls.pace = 0;
        let Contest::Speculation { strategy, was_plain } = &self.contest else { return };
        controls.speculate = self.running == 1;
        if controls.speculate && *was_plain {
            controls.strategy = Strategy::named(strategy);
        }
    }

    /// Whether an answer is still being made.
    pub fn measuring(&self) -> bool {
        self.running < 2
    }

    /// Takes what the worker says of the answer under way; `true` once that answer is there.
    pub fn take(&mut self, event: &Event) -> bool {
        let Some(lane) = self.lanes.get_mut(self.running) else { return false };
        match event {
            Event::First { token, .. } => lane.push(std::slice::from_ref(token), 0.0),
            Event::Round { round, .. } => {
                let measured = round.timing.total_ms();
                let ms = if self.counts_rounds { Self::ROUND_MS } else { measured };
                lane.push(&round.committed, ms);
            }
            Event::Finished { .. } => self.running += 1,
            _ => {}
        }
        matches!(event, Event::Finished { .. })
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
        self.lanes[0].end().at_ms.max(self.lanes[1].end().at_ms)
    }

    /// How many times as fast as plain the speculative answer came.
    pub fn ratio(&self) -> f64 {
        let [plain, speculative] = self.lanes.each_ref().map(|lane| lane.end().at_ms);
        if speculative > 0.0 { plain / speculative } else { 1.0 }
    }

    /// How it ended, in one line.
    pub fn result(&self) -> String {
        let [plain, speculative] = &self.lanes;
        if self.models().is_some() {
            let [a, b] = self.names();
            let rate = |lane: &Lane| figures::rate(lane.rate());
            return format!("{a}: {} tok/s · {b}: {} tok/s", rate(plain), rate(speculative));
        }
        let same = plain.tokens == speculative.tokens;
        let text = if same { "Same text" } else { "Different texts" };
        if self.counts_rounds {
            let rounds = figures::many(speculative.end().rounds, "round");
            return format!("{text}, {rounds} instead of {}", plain.end().rounds);
        }
        let ratio = self.ratio();
        match compared(ratio) {
            Ordering::Greater => format!("{text}, {ratio:.1}× as fast as plain"),
            Ordering::Equal => format!("{text}, same speed"),
            Ordering::Less => format!("{text}, {ratio:.1}× as fast as plain: no gain here"),
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
        assert!(race.measuring());
        for lane in 0..2 {
            let ended: Vec<bool> =
                answer(1, "one two three four five", 8).iter().map(|e| race.take(e)).collect();
            assert_eq!(ended.iter().filter(|ended| **ended).count(), 1, "{lane}");
        }
        assert!(!race.measuring());
        let [plain, speculative] = &race.lanes;
        assert_eq!(plain, speculative);
        assert_eq!(plain.text_at(0.0), "one");
        assert_eq!((plain.at(0.0).tokens, plain.at(0.0).rounds), (1, 0));
        let end = race.length_ms();
        assert_eq!(plain.text_at(end), "one two three four five");
        assert_eq!(plain.at(end), plain.end());
        assert!(plain.text_at(end - 0.1).len() < plain.text_at(end).len());
        assert_eq!(race.result(), "Same text, same speed");
        let scale = |race: &mut Race, by: f64| {
            for arrival in &mut race.lanes[0].arrivals {
                arrival.at_ms *= by;
            }
        };
        scale(&mut race, 2.0);
        assert_eq!(race.result(), "Same text, 2.0× as fast as plain");
        scale(&mut race, 0.25);
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
            let Event::Round { mut round, .. } = events[2].clone() else { panic!("no round") };
            round.timing = crate::decode::Timing { verify_ms: ms, ..Default::default() };
            race.take(&events[1]);
            for _ in 0..rounds {
                race.take(&Event::Round { generation: 1, round: round.clone() });
            }
            race.take(&events[events.len() - 1]);
        }
        assert_eq!(race.lanes[0].end().at_ms, 2.0 * race.lanes[1].end().at_ms);
        assert_eq!(race.ratio(), 2.0);
        assert_eq!(race.result(), "Different texts, 2 rounds instead of 4");
    }
}
