//! The controls panel: the dials, each with its value, range and whether it is fixed. Must never
//! know how they are drawn.

use super::strategies;
use crate::draft::{Budget, Depths};
use crate::plan::{BLOCKS, DEPTH, GAMMA, Limits, PACE, WIDTH};
use crate::worker::{Controls, Ready, Setting};

/// One dial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dial {
    /// Who drafts, and how.
    Strategy,
    /// γ.
    Gamma,
    /// M.
    Blocks,
    /// k.
    Width,
    /// D.
    Depth,
    /// T.
    Temperature,
    /// Least time from round to round.
    Pace,
}

impl Dial {
    /// All, in the order of the panel.
    pub const ALL: [Self; 7] = [
        Self::Strategy,
        Self::Gamma,
        Self::Blocks,
        Self::Width,
        Self::Depth,
        Self::Temperature,
        Self::Pace,
    ];

    /// Those that a narrow screen shows.
    pub const FIGURES: [Self; 5] =
        [Self::Gamma, Self::Blocks, Self::Width, Self::Depth, Self::Temperature];

    /// Its symbol in the paper, if it has one.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Strategy | Self::Pace => " ",
            Self::Gamma => "γ",
            Self::Blocks => "M",
            Self::Width => "k",
            Self::Depth => "D",
            Self::Temperature => "T",
        }
    }

    /// What it controls, in a word or two.
    pub fn name(self) -> &'static str {
        match self {
            Self::Strategy => "strategy",
            Self::Pace => "slow motion",
            Self::Gamma => "tree size",
            Self::Blocks => "draft blocks",
            Self::Width => "tree width",
            Self::Depth => "tree depth",
            Self::Temperature => "temperature",
        }
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
    /// Its value.
    pub value: String,
    /// `auto`, `held` or why it cannot be turned.
    pub state: &'static str,
    /// Whether the user has fixed it.
    pub held: bool,
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

/// Most of the temperature dial; `/temperature` goes further.
const HOTTEST: f32 = 2.0;
const STEP: f32 = 0.1;

/// Steps of the pace dial, milliseconds a round; `/pace` knows all between.
const PACES: [usize; 8] = [0, 50, 100, 200, 500, 1000, 2000, 5000];

/// What the screen knows when it turns a dial.
pub struct Bench<'a> {
    /// What was loaded; `None` before.
    pub ready: Option<&'a Ready>,
    /// Budget of the latest round: the present automatic values.
    pub latest: Option<&'a Budget>,
}

impl Bench<'_> {
    /// A dial as it is shown.
    pub fn view(&self, dial: Dial, controls: &Controls) -> DialView {
        let Some((choice, auto, limits)) = self.parts(dial, controls) else {
            return self.view_other(dial, controls);
        };
        let held = matches!(choice, Setting::Fixed(_));
        let value = match choice {
            Setting::Auto => auto.map_or("–".to_string(), |value| value.to_string()),
            Setting::Fixed(value) => value.clamp(limits.least, limits.most).to_string(),
        };
        let fixed = dial == Dial::Blocks && !self.elastic(controls);
        let state = match (fixed, held) {
            (true, _) if self.ready.is_some() => "fixed",
            (_, true) => "held",
            _ => "auto",
        };
        let range = if state == "fixed" {
            String::new()
        } else {
            format!("{}–{}", limits.least, limits.most)
        };
        DialView { value, state, held: held && state != "fixed", range }
    }

    /// A dial without automatic control.
    fn view_other(&self, dial: Dial, controls: &Controls) -> DialView {
        match dial {
            Dial::Strategy => {
                let name = strategies::in_force(self.ready, controls);
                let held = controls.strategy.is_some();
                let value = if name.is_empty() { "–" } else { name }.to_string();
                DialView { value, state: "", held, range: String::new() }
            }
            Dial::Pace => {
                let (value, state) = match controls.pace {
                    0 => ("off".to_string(), ""),
                    pace => (pace.to_string(), "ms"),
                };
                let range = format!("{}–{} s", PACE.least, PACE.most / 1000);
                DialView { value, state, held: controls.pace > 0, range }
            }
            _ => {
                let value = controls.sampler.temperature;
                let state = if value == 0.0 { "greedy" } else { "sampled" };
                let range = format!("0–{HOTTEST:.0}");
                DialView { value: format!("{value:.2}"), state, held: value > 0.0, range }
            }
        }
    }

    /// Changes a dial by `steps`, which fixes its value.
    ///
    /// # Errors
    /// Why it cannot be turned.
    pub fn turn(&self, dial: Dial, steps: i64, controls: &mut Controls) -> Result<(), String> {
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
            return Err(self.why_fixed(controls));
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
            return Err(format!("M ends at {}: {limit}", limits.most));
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

    fn why_fixed(&self, controls: &Controls) -> String {
        match self.depths(controls) {
            Some(Depths::Fixed(0)) => "no draft head is in use: M has no meaning here".to_string(),
            Some(Depths::Fixed(blocks)) => {
                format!("this head runs with all of its {blocks} blocks: M is fixed")
            }
            _ => "M is fixed".to_string(),
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
    use crate::tui::testing::{controls, ready};

    #[test]
    fn a_dial_is_fixed_starting_from_its_automatic_value() {
        let ready = ready();
        let bench = Bench { ready: Some(&ready), latest: None };
        let mut controls = controls();
        assert_eq!(bench.view(Dial::Gamma, &controls).state, "auto");
        bench.turn(Dial::Gamma, 1, &mut controls).unwrap();
        assert_eq!(controls.tree.gamma, Setting::Fixed(ready.gamma + 1));
        bench.turn(Dial::Gamma, 500, &mut controls).unwrap();
        assert_eq!(controls.tree.gamma, Setting::Fixed(GAMMA.most));
        bench.turn(Dial::Temperature, 7, &mut controls).unwrap();
        assert_eq!(bench.view(Dial::Temperature, &controls).value, "0.70");
        bench.release(Dial::Gamma, &mut controls);
        assert_eq!(controls.tree.gamma, Setting::Auto);
    }

    #[test]
    fn slow_motion_goes_by_steps_from_any_value() {
        let bench = Bench { ready: None, latest: None };
        let mut controls = Controls { pace: 120, ..controls() };
        bench.turn(Dial::Pace, 1, &mut controls).unwrap();
        assert_eq!(controls.pace, 500);
        bench.turn(Dial::Pace, -1, &mut controls).unwrap();
        assert_eq!(controls.pace, 200);
        bench.release(Dial::Pace, &mut controls);
        assert_eq!(bench.view(Dial::Pace, &controls).value, "off");
    }

    #[test]
    fn a_strategy_without_a_head_has_no_blocks_to_turn() {
        let ready = ready();
        let bench = Bench { ready: Some(&ready), latest: None };
        let mut controls = controls();
        strategies::choose(Some(&ready), &mut controls, "pld").unwrap();
        let why = bench.turn(Dial::Blocks, 1, &mut controls).unwrap_err();
        assert!(why.contains("no draft head is in use"), "{why}");
        assert_eq!(bench.view(Dial::Strategy, &controls).value, "pld");
    }

    #[test]
    fn m_limited_by_video_memory_says_so() {
        let mut ready = ready();
        ready.blocks = 1;
        for status in &mut ready.strategies {
            status.depths = Depths::Elastic(2);
            status.limit = Some("a card has room for 2 of the head's 4 blocks".to_string());
        }
        let bench = Bench { ready: Some(&ready), latest: None };
        let mut controls = controls();
        assert_eq!(bench.view(Dial::Blocks, &controls).range, "1–2");
        bench.turn(Dial::Blocks, 1, &mut controls).unwrap();
        assert_eq!(controls.tree.blocks, Setting::Fixed(2));
        let why = bench.turn(Dial::Blocks, 1, &mut controls).unwrap_err();
        assert_eq!(why, "M ends at 2: a card has room for 2 of the head's 4 blocks");
        bench.turn(Dial::Blocks, -1, &mut controls).unwrap();
        assert_eq!(controls.tree.blocks, Setting::Fixed(1));
        // A typed value exceeds the number of blocks.
        controls.tree.blocks = Setting::Fixed(4);
        assert!(bench.turn(Dial::Blocks, 0, &mut controls).is_err());
    }

    #[test]
    fn a_fixed_head_says_so() {
        let mut ready = ready();
        ready.depths = Depths::Fixed(3);
        ready.strategies.clear();
        let bench = Bench { ready: Some(&ready), latest: None };
        let mut controls = controls();
        assert!(bench.turn(Dial::Blocks, 1, &mut controls).unwrap_err().contains("all of its 3"));
        let view = bench.view(Dial::Blocks, &controls);
        assert_eq!((view.value.as_str(), view.state), ("3", "fixed"));
    }
}
