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
use crate::worker::{Controls, Ready, Setting};

pub use first_answer::{FirstAnswer, caption};

/// What the user has chosen about answers.
#[derive(Debug)]
pub struct ControlsPanel {
    /// The worker's controls; sent as a whole after every change.
    pub worker: Controls,
    /// The sampler before the user changed anything.
    pub(super) begun: SamplerSettings,
    /// Which dial the cursor is on: its place among all.
    pub(super) cursor: usize,
    /// Most tokens of an answer; automatic is the room left in the context.
    pub max_tokens: Setting,
    /// Whether the model is to think; `None` leaves it to its template.
    pub thinking: Option<bool>,
    /// Whether the first answer of all is played slowly, to be watched.
    pub first_answer: FirstAnswer,
}

impl ControlsPanel {
    /// The dial under the cursor.
    pub fn selected(&self) -> Dial {
        Dial::ALL[self.cursor]
    }

    /// Moves the cursor, round the end.
    pub fn select(&mut self, by: i64) {
        self.cursor = (self.cursor as i64 + by).rem_euclid(Dial::ALL.len() as i64) as usize;
    }

    /// Takes over the loaded model's sampler settings, except those that the user has changed.
    pub fn take_sampler(&mut self, found: SamplerSettings) {
        self.worker.sampler = self.worker.sampler.replacing(&self.begun, &found);
        self.begun = found;
    }
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

/// A dial of the tree: what is chosen, the present automatic value, and its limits.
struct TreeDial<'a> {
    choice: &'a mut Setting,
    auto: Option<usize>,
    limits: Limits,
    /// Whether there is no choice: the head runs with all of its blocks, or there is none.
    given: bool,
}

impl DialRanges<'_> {
    /// A dial as it is shown.
    pub fn view(&self, dial: Dial, controls: &Controls) -> DialView {
        let mut copy = controls.clone();
        let Some(TreeDial { choice, auto, limits, given }) = self.of_tree(dial, &mut copy) else {
            return self.view_other(dial, controls);
        };
        let fixed = choice.is_fixed() && !given;
        let value = match (*choice, auto) {
            (Setting::Fixed(value), _) => value.clamp(limits.least, limits.most).to_string(),
            // No limit: a tree of the context is as deep as its phrase.
            (Setting::Auto, Some(0)) if dial == Dial::Depth => "any".to_string(),
            // What drafted last may have no blocks.
            (Setting::Auto, Some(0)) if dial == Dial::Blocks => "–".to_string(),
            (Setting::Auto, value) => value.map_or("–".to_string(), |value| value.to_string()),
        };
        let state = match (given, fixed) {
            (true, _) if auto == Some(0) => "none",
            (true, _) => "all",
            (false, true) => "fixed",
            (false, false) => "auto",
        };
        let range =
            if given { String::new() } else { format!("{}–{}", limits.least, limits.most) };
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
        let limit = strategies::status(self.ready, controls).and_then(|s| s.limit.clone());
        if let Some(TreeDial { choice, auto, limits, given }) = self.of_tree(dial, controls) {
            if given && self.ready.is_some() {
                return Err(no_choice(auto));
            }
            let at = choice.or(auto.unwrap_or(limits.least));
            let to = at as i64 + steps;
            if dial == Dial::Blocks
                && at >= limits.most
                && to > limits.most as i64
                && let Some(limit) = limit
            {
                return Err(format!("M goes up to {} here: {limit}", limits.most));
            }
            let to = to.clamp(limits.least as i64, limits.most as i64) as usize;
            *choice = Setting::Fixed(to);
        } else if dial == Dial::Strategy {
            strategies::step(self.ready, controls, steps)?;
        } else if dial == Dial::Pace {
            let at = PACES.partition_point(|&pace| pace < controls.pace) as i64;
            controls.pace = PACES[(at + steps).clamp(0, PACES.len() as i64 - 1) as usize];
        } else {
            let turned = (controls.sampler.temperature / STEP).round() + steps as f32;
            controls.sampler.temperature = (turned * STEP).clamp(0.0, HOTTEST);
        }
        Ok(())
    }

    fn of_tree<'c>(&self, dial: Dial, controls: &'c mut Controls) -> Option<TreeDial<'c>> {
        // Which M the strategy in force can run with.
        let status = strategies::status(self.ready, controls);
        let depths = status.map(|status| status.depths).or(self.ready.map(|ready| ready.depths));
        let tree = &mut controls.tree;
        let now = |spent: fn(&Budget) -> usize, start: fn(&Ready) -> usize| {
            self.latest.map(spent).or(self.ready.map(start))
        };
        let (choice, auto, limits) = match dial {
            Dial::Gamma => (&mut tree.gamma, now(|b| b.shape.gamma, |r| r.gamma), GAMMA),
            Dial::Width => (&mut tree.width, now(|b| b.shape.width, |r| r.width), WIDTH),
            Dial::Depth => (&mut tree.depth, now(|b| b.shape.depth, |r| r.depth), DEPTH),
            Dial::Blocks => match depths {
                Some(Depths::Fixed(blocks)) => (&mut tree.blocks, Some(blocks), BLOCKS),
                Some(Depths::Elastic(most)) => {
                    let limits = Limits { most: most.max(BLOCKS.least), ..BLOCKS };
                    (&mut tree.blocks, now(|b| b.blocks, |r| r.blocks), limits)
                }
                None => (&mut tree.blocks, None, BLOCKS),
            },
            Dial::Temperature | Dial::Strategy | Dial::Pace => return None,
        };
        let given = dial == Dial::Blocks && matches!(depths, Some(Depths::Fixed(_)));
        Some(TreeDial { choice, auto, limits, given })
    }
}

/// Returns a dial to automatic; the temperature to greedy.
pub fn release(dial: Dial, controls: &mut Controls) {
    match dial {
        Dial::Strategy => controls.strategy = None,
        Dial::Gamma => controls.tree.gamma = Setting::Auto,
        Dial::Blocks => controls.tree.blocks = Setting::Auto,
        Dial::Width => controls.tree.width = Setting::Auto,
        Dial::Depth => controls.tree.depth = Setting::Auto,
        Dial::Temperature => controls.sampler.temperature = 0.0,
        Dial::Pace => controls.pace = 0,
    }
}

/// Why M cannot be changed where the draft has so many blocks.
fn no_choice(blocks: Option<usize>) -> String {
    match blocks.unwrap_or(0) {
        0 => "No draft head is in use, so M has no effect".to_string(),
        1 => "This head has one block, so M cannot be changed".to_string(),
        blocks => {
            format!("This head always runs all of its {blocks} blocks, so M cannot be changed")
        }
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
        release(Dial::Gamma, &mut controls);
        assert_eq!(controls.tree.gamma, Setting::Auto);
        let ready = Ready { depth: 0, ..ready };
        let dials = DialRanges { ready: Some(&ready), latest: None };
        assert_eq!(
            dials.view(Dial::Depth, &controls).value,
            "any",
            "without a limit it is not zero"
        );
    }

    #[test]
    fn slow_motion_goes_by_steps_from_any_value() {
        let dials = DialRanges { ready: None, latest: None };
        let mut controls = Controls { pace: 120, ..controls() };
        dials.adjust(Dial::Pace, 1, &mut controls).unwrap();
        assert_eq!(controls.pace, 500);
        dials.adjust(Dial::Pace, -1, &mut controls).unwrap();
        assert_eq!(controls.pace, 200);
        release(Dial::Pace, &mut controls);
        assert_eq!(dials.view(Dial::Pace, &controls).value, "off");
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
    fn a_draft_without_a_choice_of_blocks_says_so() {
        let mut ready = ready();
        let mut controls = controls();
        strategies::choose(Some(&ready), &mut controls, "pld").unwrap();
        let dials = DialRanges { ready: Some(&ready), latest: None };
        let why = dials.adjust(Dial::Blocks, 1, &mut controls).unwrap_err();
        assert!(why.contains("No draft head is in use"), "{why}");
        assert_eq!(dials.view(Dial::Strategy, &controls).value, "pld");
        ready.depths = Depths::Fixed(3);
        ready.strategies.clear();
        let dials = DialRanges { ready: Some(&ready), latest: None };
        assert!(dials.adjust(Dial::Blocks, 1, &mut controls).unwrap_err().contains("all of its 3"));
        let view = dials.view(Dial::Blocks, &controls);
        assert_eq!((view.value.as_str(), view.state), ("3", "all"));
    }
}
