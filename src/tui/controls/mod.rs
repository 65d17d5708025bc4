//! The controls panel: the dials, each with its value, range and whether it is fixed. Must never
//! know how they are drawn.

mod first_answer;
pub(crate) mod strategies;
pub(crate) mod view;

use crate::draft::{Budget, Depths};
use crate::plan::{BLOCKS, DEPTH, GAMMA, Limits, PACE, TreeOverrides, WIDTH};
use crate::speculate::SamplerSettings;
use crate::tui::actions::Dial;
use crate::tui::state::ScreenState;
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

/// A dial of the tree: what is chosen, the present automatic value, and its limits.
struct TreeDial {
    choice: Setting,
    auto: Option<usize>,
    limits: Limits,
    /// Whether there is no choice: the head runs with all of its blocks, or there is none.
    given: bool,
}

/// What is chosen for a dial of the tree; `None` for the others.
fn choice(tree: &mut TreeOverrides, dial: Dial) -> Option<&mut Setting> {
    match dial {
        Dial::Gamma => Some(&mut tree.gamma),
        Dial::Blocks => Some(&mut tree.blocks),
        Dial::Width => Some(&mut tree.width),
        Dial::Depth => Some(&mut tree.depth),
        Dial::Temperature | Dial::Strategy | Dial::Pace => None,
    }
}

impl ScreenState {
    /// A dial as it is shown.
    pub fn dial(&self, dial: Dial) -> DialView {
        let Some(TreeDial { choice, auto, limits, given }) = self.tree_dial(dial) else {
            return self.other_dial(dial);
        };
        let fixed = choice.is_fixed() && !given;
        let value = match (choice, auto) {
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
    fn other_dial(&self, dial: Dial) -> DialView {
        let controls = &self.controls.worker;
        match dial {
            Dial::Strategy => {
                let name = self.strategy();
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
    pub(crate) fn turn(&mut self, dial: Dial, steps: i8) -> Result<(), String> {
        if let Some(known) = self.tree_dial(dial) {
            let to = self.turned(dial, &known, steps)?;
            if let Some(choice) = choice(&mut self.controls.worker.tree, dial) {
                *choice = Setting::Fixed(to);
            }
            return Ok(());
        }
        let controls = &mut self.controls.worker;
        match dial {
            Dial::Strategy => self.step_strategy(steps)?,
            Dial::Pace => {
                let at = PACES.partition_point(|&pace| pace < controls.pace) as i64;
                let to = (at + i64::from(steps)).clamp(0, PACES.len() as i64 - 1);
                controls.pace = PACES[to as usize];
            }
            _ => {
                let turned = (controls.sampler.temperature / STEP).round() + f32::from(steps);
                controls.sampler.temperature = (turned * STEP).clamp(0.0, HOTTEST);
            }
        }
        Ok(())
    }

    /// The value of a dial of the tree after `steps`.
    ///
    /// # Errors
    /// Why it cannot be changed.
    fn turned(&self, dial: Dial, known: &TreeDial, steps: i8) -> Result<usize, String> {
        let &TreeDial { choice, auto, limits: Limits { least, most, .. }, given } = known;
        if given && self.models.ready.is_some() {
            return Err(no_choice(auto));
        }
        let at = choice.or(auto.unwrap_or(least));
        let to = at as i64 + i64::from(steps);
        if dial == Dial::Blocks
            && at >= most
            && to > most as i64
            && let Some(limit) = self.strategy_status().and_then(|status| status.limit.as_ref())
        {
            return Err(format!("M goes up to {most} here: {limit}"));
        }
        Ok(to.clamp(least as i64, most as i64) as usize)
    }

    fn tree_dial(&self, dial: Dial) -> Option<TreeDial> {
        let ready = self.models.ready.as_deref();
        let latest = self.tree.latest().map(|round| &round.budget);
        // Which M the strategy in force can run with.
        let status = self.strategy_status();
        let depths = status.map(|status| status.depths).or(ready.map(|ready| ready.depths));
        let now = |spent: fn(&Budget) -> usize, start: fn(&Ready) -> usize| {
            latest.map(spent).or(ready.map(start))
        };
        let (auto, limits) = match dial {
            Dial::Gamma => (now(|b| b.shape.gamma, |r| r.gamma), GAMMA),
            Dial::Width => (now(|b| b.shape.width, |r| r.width), WIDTH),
            Dial::Depth => (now(|b| b.shape.depth, |r| r.depth), DEPTH),
            _ => match depths {
                Some(Depths::Fixed(blocks)) => (Some(blocks), BLOCKS),
                Some(Depths::Elastic(most)) => {
                    let limits = Limits { most: most.max(BLOCKS.least), ..BLOCKS };
                    (now(|b| b.blocks, |r| r.blocks), limits)
                }
                None => (None, BLOCKS),
            },
        };
        let mut tree = self.controls.worker.tree;
        let choice = *choice(&mut tree, dial)?;
        let given = dial == Dial::Blocks && matches!(depths, Some(Depths::Fixed(_)));
        Some(TreeDial { choice, auto, limits, given })
    }

    /// Returns a dial to automatic; the temperature to greedy.
    pub(crate) fn release(&mut self, dial: Dial) {
        let controls = &mut self.controls.worker;
        match (dial, choice(&mut controls.tree, dial)) {
            (_, Some(choice)) => *choice = Setting::Auto,
            (Dial::Strategy, None) => controls.strategy = None,
            (Dial::Pace, None) => controls.pace = 0,
            (_, None) => controls.sampler.temperature = 0.0,
        }
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
    use crate::tui::tests::{loaded, ready};

    fn with(ready: Ready) -> ScreenState {
        let mut state = loaded(80, 24);
        state.models.ready = Some(Box::new(ready));
        state
    }

    #[test]
    fn a_dial_is_fixed_starting_from_its_automatic_value() {
        let mut state = with(ready());
        assert_eq!(state.dial(Dial::Gamma).state, "auto");
        state.turn(Dial::Gamma, 1).unwrap();
        assert_eq!(state.controls.worker.tree.gamma, Setting::Fixed(ready().gamma + 1));
        for _ in 0..9 {
            state.turn(Dial::Gamma, 100).unwrap();
        }
        assert_eq!(state.controls.worker.tree.gamma, Setting::Fixed(GAMMA.most));
        state.turn(Dial::Temperature, 7).unwrap();
        assert_eq!(state.dial(Dial::Temperature).value, "0.70");
        state.release(Dial::Gamma);
        assert_eq!(state.controls.worker.tree.gamma, Setting::Auto);
        let state = with(Ready { depth: 0, ..ready() });
        assert_eq!(state.dial(Dial::Depth).value, "any", "without a limit it is not zero");
    }

    #[test]
    fn slow_motion_goes_by_steps_from_any_value() {
        let mut state = loaded(80, 24);
        state.models.ready = None;
        state.controls.worker.pace = 120;
        state.turn(Dial::Pace, 1).unwrap();
        assert_eq!(state.controls.worker.pace, 500);
        state.turn(Dial::Pace, -1).unwrap();
        assert_eq!(state.controls.worker.pace, 200);
        state.release(Dial::Pace);
        assert_eq!(state.dial(Dial::Pace).value, "off");
    }

    #[test]
    fn m_limited_by_video_memory_says_so() {
        let mut ready = ready();
        ready.blocks = 1;
        for status in &mut ready.strategies {
            status.depths = Depths::Elastic(2);
            status.limit = Some("a card has room for 2 of the head's 4 blocks".to_string());
        }
        let mut state = with(ready);
        assert_eq!(state.dial(Dial::Blocks).range, "1–2");
        state.turn(Dial::Blocks, 1).unwrap();
        assert_eq!(state.controls.worker.tree.blocks, Setting::Fixed(2));
        let why = state.turn(Dial::Blocks, 1).unwrap_err();
        assert_eq!(why, "M goes up to 2 here: a card has room for 2 of the head's 4 blocks");
        state.turn(Dial::Blocks, -1).unwrap();
        assert_eq!(state.controls.worker.tree.blocks, Setting::Fixed(1));
        // A typed value exceeds the number of blocks.
        state.controls.worker.tree.blocks = Setting::Fixed(4);
        assert!(state.turn(Dial::Blocks, 0).is_err());
    }

    #[test]
    fn a_draft_without_a_choice_of_blocks_says_so() {
        let mut state = with(ready());
        state.choose_strategy("pld").unwrap();
        let why = state.turn(Dial::Blocks, 1).unwrap_err();
        assert!(why.contains("No draft head is in use"), "{why}");
        assert_eq!(state.dial(Dial::Strategy).value, "pld");
        let ready = state.models.ready.as_mut().unwrap();
        ready.depths = Depths::Fixed(3);
        ready.strategies.clear();
        assert!(state.turn(Dial::Blocks, 1).unwrap_err().contains("all of its 3"));
        let view = state.dial(Dial::Blocks);
        assert_eq!((view.value.as_str(), view.state), ("3", "all"));
    }
}
