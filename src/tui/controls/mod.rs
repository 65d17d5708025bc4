//! The controls panel: the dials, each with its value, range and whether it is fixed. Must never
//! know how they are drawn.

mod first_answer;
pub(crate) mod strategies;
pub(crate) mod update;
pub(crate) mod view;

use crate::draft::{Budget, Depths};
use crate::plan::{BLOCKS, DEPTH, GAMMA, Limits, PACE, WIDTH};
use crate::speculate::SamplerSettings;
use crate::tui::actions::Dial;
use crate::tui::tree::Rounds;
use crate::worker::{Controls, Ready, Setting};

pub use first_answer::{FirstAnswer, caption};

/// What the user has chosen about answers.
#[derive(Debug)]
pub struct ControlsPanel {
    /// The worker's controls; sent as a whole after every change.
    pub worker: Controls,
    /// The sampler before the user changed anything.
    pub(super) begun: SamplerSettings,
    /// Which dial the cursor is on.
    pub dials: Dials,
    /// Most tokens of an answer; automatic is the room left in the context.
    pub max_tokens: Setting,
    /// Whether the model is to think; `None` leaves it to its template.
    pub thinking: Option<bool>,
    /// Whether the first answer of all is played slowly, to be watched.
    pub first_answer: FirstAnswer,
}

impl ControlsPanel {
    /// Takes over the loaded model's sampler settings, except those that the user has changed.
    pub fn take_sampler(&mut self, found: SamplerSettings) {
        self.worker.sampler = self.worker.sampler.replacing(&self.begun, &found);
        self.begun = found;
    }
}

/// Which dial the cursor is on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dials {
    selected: usize,
}

/// A dial as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DialView {
    pub value: String,
    /// `auto`, `fixed`, or `all` and `none` where the
    /// head runs with all of its blocks or there is none.
    pub state: &'static str,
    /// Whether the user has fixed it.
    pub fixed: bool,
    /// Least and most.
    pub range: String,
}

impl Dials {
    /// The dial under the cursor.
    pub fn selected(&self) -> Dial {
        Dial::ALL[self.selected % Dial::ALL.len()]
    }

    /// Moves the cursor, round the end.
    pub fn select(&mut self, by: i64) {
        let all = Dial::ALL.len() as i64;
        self.selected = (self.selected as i64 + by).rem_euclid(all) as usize;
    }
}

const HOTTEST: f32 = SamplerSettings::HOTTEST;
const STEP: f32 = 0.1;

/// Steps of the pace dial, milliseconds per round; `/pace` takes all between.
const PACES: [usize; 8] = [0, 50, 100, 200, 500, 1000, 2000, 5000];

/// What the value and the range of a dial depend on.
pub struct DialRanges<'a> {
    /// What was loaded; `None` before.
    pub ready: Option<&'a Ready>,
    /// Budget of the latest round: the present automatic values.
    pub latest: Option<&'a Budget>,
}

impl<'a> DialRanges<'a> {
    /// For the models that were loaded and the rounds so far.
    pub fn new(ready: Option<&'a Ready>, rounds: &'a Rounds) -> Self {
        Self { ready, latest: rounds.latest().map(|round| &round.budget) }
    }

    /// A dial as it is shown.
    pub fn view(&self, dial: Dial, controls: &Controls) -> DialView {
        let Some((choice, auto, limits)) = self.parts(dial, controls) else {
            return self.view_other(dial, controls);
        };
        let elastic = dial != Dial::Blocks || self.ready.is_none() || self.elastic(controls);
        let fixed = choice.is_fixed() && elastic;
        // What drafted last may have no blocks.
        let shown = |value: &usize| *value > 0 || dial != Dial::Blocks;
        let value = match choice {
            Setting::Auto => {
                match auto.filter(shown) {
                    // No limit: a tree of the context is as deep as its phrase.
                    Some(0) if dial == Dial::Depth => "any".to_string(),
                    value => value.map_or("–".to_string(), |value| value.to_string()),
                }
            }
            Setting::Fixed(value) => value.clamp(limits.least, limits.most).to_string(),
        };
        let state = match (elastic, fixed) {
            (false, _) if auto == Some(0) => "none",
            (false, _) => "all",
            (true, true) => "fixed",
            (true, false) => "auto",
        };
        let range =
            if elastic { format!("{}–{}", limits.least, limits.most) } else { String::new() };
        DialView { value, state, fixed, range }
    }

    /// A dial without automatic control.
    fn view_other(&self, dial: Dial, controls: &Controls) -> DialView {
        match dial {
            Dial::Strategy => {
                let name = strategies::in_force(self.ready, controls);
                let fixed = controls.strategy.is_some();
                let value = if name.is_empty() { "–" } else { name }.to_string();
                DialView { value, state: "", fixed, range: String::new() }
            }
            Dial::Pace => {
                let (value, state) = match controls.pace {
                    0 => ("off".to_string(), ""),
                    pace => (pace.to_string(), "ms"),
                };
                let range = format!("{}–{} s", PACE.least, PACE.most / 1000);
                DialView { value, state, fixed: controls.pace > 0, range }
            }
            _ => {
                let value = controls.sampler.temperature;
                let state = if value == 0.0 { "greedy" } else { "sampled" };
                let range = format!("0–{HOTTEST:.0}");
                DialView { value: format!("{value:.2}"), state, fixed: value > 0.0, range }
            }
        }
    }

    /// Changes a dial by `steps`, which fixes its value.
    ///
    /// # Errors
    /// Why it cannot be changed.
    pub fn adjust(&self, dial: Dial, steps: i64, controls: &mut Controls) -> Result<(), String> {
        let Some((choice, auto, limits)) = self.parts(dial, controls) else {
            match dial {
                Dial::Strategy => return strategies::step(self.ready, controls, steps),
                Dial::Pace => {
                    let at = PACES.partition_point(|&pace| pace < controls.pace) as i64;
                    let to = (at + steps).clamp(0, PACES.len() as i64 - 1) as usize;
                    controls.pace = PACES[to];
                    return Ok(());
                }
                _ => {}
            }
            let turned = (controls.sampler.temperature / STEP).round() + steps as f32;
            controls.sampler.temperature = (turned * STEP).clamp(0.0, HOTTEST);
            return Ok(());
        };
        if dial == Dial::Blocks && self.ready.is_some() && !self.elastic(controls) {
            return Err(self.why_no_choice(controls));
        }
        let at = match choice {
            Setting::Fixed(value) => value,
            Setting::Auto => auto.unwrap_or(limits.least),
        };
        if dial == Dial::Blocks
            && at >= limits.most
            && at as i64 + steps > limits.most as i64
            && let Some(limit) = self.limit(controls)
        {
            return Err(format!("M goes up to {} here: {limit}", limits.most));
        }
        let to = (at as i64 + steps).clamp(limits.least as i64, limits.most as i64) as usize;
        *slot(dial, controls) = Setting::Fixed(to);
        Ok(())
    }

    /// Returns a dial to automatic; the temperature to greedy.
    pub fn release(&self, dial: Dial, controls: &mut Controls) {
        match dial {
            Dial::Temperature => controls.sampler.temperature = 0.0,
            Dial::Strategy => controls.strategy = None,
            Dial::Pace => controls.pace = 0,
            dial => *slot(dial, controls) = Setting::Auto,
        }
    }

    fn parts(&self, dial: Dial, controls: &Controls) -> Option<(Setting, Option<usize>, Limits)> {
        let now = |spent: fn(&Budget) -> usize, start: fn(&Ready) -> usize| {
            self.latest.map(spent).or(self.ready.map(start))
        };
        Some(match dial {
            Dial::Gamma => (controls.tree.gamma, now(|b| b.shape.gamma, |r| r.gamma), GAMMA),
            Dial::Blocks => {
                let depths = self.depths(controls);
                let most = match depths {
                    Some(Depths::Elastic(most) | Depths::Fixed(most)) => most.max(BLOCKS.least),
                    None => BLOCKS.most,
                };
                let limits = Limits { most, ..BLOCKS };
                match depths {
                    Some(Depths::Fixed(blocks)) => (controls.tree.blocks, Some(blocks), limits),
                    _ => (controls.tree.blocks, now(|b| b.blocks, |r| r.blocks), limits),
                }
            }
            Dial::Width => (controls.tree.width, now(|b| b.shape.width, |r| r.width), WIDTH),
            Dial::Depth => (controls.tree.depth, now(|b| b.shape.depth, |r| r.depth), DEPTH),
            Dial::Temperature | Dial::Strategy | Dial::Pace => return None,
        })
    }

    /// Which M the strategy in force can run with.
    fn depths(&self, controls: &Controls) -> Option<Depths> {
        let status = strategies::status(self.ready, controls);
        status.map(|status| status.depths).or(self.ready.map(|ready| ready.depths))
    }

    /// Why M ends below the head's own number of blocks.
    fn limit(&self, controls: &Controls) -> Option<String> {
        strategies::status(self.ready, controls)?.limit.clone()
    }

    fn elastic(&self, controls: &Controls) -> bool {
        matches!(self.depths(controls), Some(Depths::Elastic(_)))
    }

    fn why_no_choice(&self, controls: &Controls) -> String {
        match self.depths(controls) {
            Some(Depths::Fixed(0)) => "No draft head is in use, so M has no effect".to_string(),
            Some(Depths::Fixed(1)) => "This head has one block, so M cannot be changed".to_string(),
            Some(Depths::Fixed(blocks)) => {
                format!("This head always runs all of its {blocks} blocks, so M cannot be changed")
            }
            _ => "M cannot be changed".to_string(),
        }
    }
}

fn slot(dial: Dial, controls: &mut Controls) -> &mut Setting {
    match dial {
        Dial::Gamma | Dial::Temperature | Dial::Strategy | Dial::Pace => &mut controls.tree.gamma,
        Dial::Blocks => &mut controls.tree.blocks,
        Dial::Width => &mut controls.tree.width,
        Dial::Depth => &mut controls.tree.depth,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::tests::{controls, ready};

    #[test]
    fn a_dial_is_fixed_starting_from_its_automatic_value() {
        let ready = ready();
        let dials = DialRanges { ready: Some(&ready), latest: None };
        let mut controls = controls();
        assert_eq!(dials.view(Dial::Gamma, &controls).state, "auto");
        dials.adjust(Dial::Gamma, 1, &mut controls).unwrap();
        assert_eq!(controls.tree.gamma, Setting::Fixed(ready.gamma + 1));
        dials.adjust(Dial::Gamma, 500, &mut controls).unwrap();
        assert_eq!(controls.tree.gamma, Setting::Fixed(GAMMA.most));
        dials.adjust(Dial::Temperature, 7, &mut controls).unwrap();
        assert_eq!(dials.view(Dial::Temperature, &controls).value, "0.70");
        dials.release(Dial::Gamma, &mut controls);
        assert_eq!(controls.tree.gamma, Setting::Auto);
    }

    #[test]
    fn no_limit_of_the_depth_is_no_zero() {
        let ready = Ready { depth: 0, ..ready() };
        let dials = DialRanges { ready: Some(&ready), latest: None };
        assert_eq!(dials.view(Dial::Depth, &controls()).value, "any");
    }

    #[test]
    fn slow_motion_goes_by_steps_from_any_value() {
        let dials = DialRanges { ready: None, latest: None };
        let mut controls = Controls { pace: 120, ..controls() };
        dials.adjust(Dial::Pace, 1, &mut controls).unwrap();
        assert_eq!(controls.pace, 500);
        dials.adjust(Dial::Pace, -1, &mut controls).unwrap();
        assert_eq!(controls.pace, 200);
        dials.release(Dial::Pace, &mut controls);
        assert_eq!(dials.view(Dial::Pace, &controls).value, "off");
    }

    #[test]
    fn a_strategy_without_a_head_has_no_blocks_to_choose() {
        let ready = ready();
        let dials = DialRanges { ready: Some(&ready), latest: None };
        let mut controls = controls();
        strategies::choose(Some(&ready), &mut controls, "pld").unwrap();
        let why = dials.adjust(Dial::Blocks, 1, &mut controls).unwrap_err();
        assert!(why.contains("No draft head is in use"), "{why}");
        assert_eq!(dials.view(Dial::Strategy, &controls).value, "pld");
    }

    #[test]
    fn m_limited_by_video_memory_says_so() {
        let mut ready = ready();
        ready.blocks = 1;
        for status in &mut ready.strategies {
            status.depths = Depths::Elastic(2);
            status.limit = Some("a card has room for 2 of the head's 4 blocks".to_string());
        }
        let dials = DialRanges { ready: Some(&ready), latest: None };
        let mut controls = controls();
        assert_eq!(dials.view(Dial::Blocks, &controls).range, "1–2");
        dials.adjust(Dial::Blocks, 1, &mut controls).unwrap();
        assert_eq!(controls.tree.blocks, Setting::Fixed(2));
        let why = dials.adjust(Dial::Blocks, 1, &mut controls).unwrap_err();
        assert_eq!(why, "M goes up to 2 here: a card has room for 2 of the head's 4 blocks");
        dials.adjust(Dial::Blocks, -1, &mut controls).unwrap();
        assert_eq!(controls.tree.blocks, Setting::Fixed(1));
        // A typed value exceeds the number of blocks.
        controls.tree.blocks = Setting::Fixed(4);
        assert!(dials.adjust(Dial::Blocks, 0, &mut controls).is_err());
    }

    #[test]
    fn a_head_that_is_not_elastic_says_so() {
        let mut ready = ready();
        ready.depths = Depths::Fixed(3);
        ready.strategies.clear();
        let dials = DialRanges { ready: Some(&ready), latest: None };
        let mut controls = controls();
        assert!(dials.adjust(Dial::Blocks, 1, &mut controls).unwrap_err().contains("all of its 3"));
        let view = dials.view(Dial::Blocks, &controls);
        assert_eq!((view.value.as_str(), view.state), ("3", "all"));
    }
}
