//! The screen's state: its components, what they share, and how to say something in passing. It is
//! changed by [`super::update`] alone. Must never know tensors, files or the clock: time is handed
//! in.

use std::time::Duration;

use super::chat::Chat;
use super::controls::{ControlsPanel, FirstAnswer};
use super::display::{Display, Focus, Marks};
use super::event::Effect;
use super::input::Input;
use super::meters::{AnswerMeters, Meters, Speedup};
use super::models::{ModelState, Phase};
use super::overlays::{Overlay, Overlays};
use super::pictures::Pictures;
use super::tips::Tips;
use super::toasts::{Ends, Toasts, Tone};
use super::tree::Rounds;
use crate::decode::Round;
use crate::settings::{Layout, Settings};
use crate::worker::{Command, Controls, Job};

/// How a screen starts.
#[derive(Clone, Debug)]
pub struct StateConfig {
    /// What the user has chosen about answers.
    pub settings: Settings,
    /// How the screen looks and is divided.
    pub display: Display,
    /// Why there is no GPU, or its name: one line of the meters.
    pub gpu: String,
    /// The number of its adapter, for its load and memory.
    pub adapter: Option<usize>,
    /// Whether the program has never answered here before.
    pub first_run: bool,
    /// Whether a record is shown, for which there is no model.
    pub replay: bool,
    /// The names of the tips that are not needed any more; `None` shows none.
    pub tips: Option<String>,
}

/// Everything a frame shows.
#[derive(Debug)]
pub struct ScreenState {
    /// Time of the message being handled, since the program started.
    pub now: Duration,
    /// The models in use and what the worker does with them.
    pub models: ModelState,
    /// The conversation.
    pub chat: Chat,
    /// The message being written.
    pub input: Input,
    /// Rounds of the latest answer.
    pub tree: Rounds,
    /// Figures of the latest answer and of the machine.
    pub meters: Meters,
    /// What the user has chosen about answers.
    pub controls: ControlsPanel,
    /// Help, lists and boxes.
    pub overlays: Overlays,
    /// Images that messages name.
    pub pictures: Pictures,
    /// What is said in passing.
    pub toasts: Toasts,
    /// Features that were not used here yet.
    pub tips: Tips,
    /// How the screen is divided and looks, and where keys go.
    pub display: Display,
    /// Whether the program is about to end.
    pub leaving: Leaving,
    /// Rounds and figures of the answer before, until the next one has its first token: they come
    /// back if it never gets one.
    pub(crate) earlier: Option<Box<(Rounds, AnswerMeters)>>,
    /// What the event being handled wants done, in order.
    pub(crate) effects: Vec<Effect>,
}

/// Whether the program is about to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leaving {
    /// Until when the key that was pressed to quit does so if it is pressed again.
    pub quits_until: Option<Duration>,
    /// Whether it ends now.
    pub quitting: bool,
    /// Whether the user knows that leaving loses what cannot be saved.
    pub anyway: bool,
}

impl ScreenState {
    /// A screen before its first message; the worker starts with these controls.
    pub fn new(config: StateConfig, controls: Controls) -> Self {
        Self {
            now: Duration::ZERO,
            models: ModelState::new(config.replay),
            chat: Chat::new(config.settings.system),
            input: Input::default(),
            tree: Rounds::default(),
            meters: Meters { gpu: config.gpu, adapter: config.adapter, ..Meters::default() },
            controls: ControlsPanel {
                begun: controls.sampler,
                worker: controls,
                cursor: 0,
                max_tokens: config.settings.max_tokens,
                thinking: config.settings.thinking,
                first_answer: FirstAnswer::new(config.first_run),
            },
            overlays: Overlays::default(),
            pictures: Pictures::default(),
            toasts: Toasts::default(),
            tips: Tips::new(config.tips),
            display: config.display,
            leaving: Leaving::default(),
            earlier: None,
            effects: Vec::new(),
        }
    }

    /// Wants something done outside the state, after what was wanted before.
    pub(crate) fn emit(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// Puts the controls into force, from the next round on.
    pub(crate) fn apply(&mut self) {
        let sampler = self.controls.worker.sampler;
        if let Some(answer) = self.chat.open_answer() {
            // Its tokens are drawn in two ways.
            answer.given = answer.given.take().filter(|given| given.sampler == sampler);
        }
        self.emit(Effect::Apply(self.controls.worker.clone()));
    }

    /// Sends a command to the worker, with the controls that it needs.
    pub(crate) fn send(&mut self, command: Command) {
        self.apply();
        self.emit(Effect::Send(command));
    }

    /// Has the worker answer.
    pub(crate) fn generate(&mut self, job: Job) {
        self.controls.worker.generation += 1;
        self.models.phase = Phase::Answering { since: self.now };
        self.send(Command::Generate(Job { generation: self.generation(), ..job }));
    }

    /// Makes room for the rounds and figures of a new answer.
    pub(crate) fn begin_answer(&mut self) {
        let new = AnswerMeters::new(self.now);
        let rounds = self.tree.replace(Rounds::default());
        self.earlier = Some(Box::new((rounds, std::mem::replace(&mut self.meters.answer, new))));
    }

    /// Restores rounds and figures of the answer before, if the new one ended without a token.
    pub(crate) fn restore_answer(&mut self) {
        if let Some(earlier) = self.earlier.take() {
            let (rounds, meters) = *earlier;
            self.tree.replace(rounds);
            self.meters.answer = meters;
        }
    }

    /// Forgets rounds and figures, for another conversation.
    pub(crate) fn forget_answer(&mut self) {
        self.earlier = None;
        self.tree.replace(Rounds::default());
        self.meters.answer = AnswerMeters::default();
    }

    /// How much faster than plain decoding the latest answer is, as far as that is known.
    pub(crate) fn speedup(&self) -> Option<Speedup> {
        if let Some(settled) = self.meters.answer.settled {
            return settled;
        }
        if self.models.counts_rounds() {
            return None;
        }
        let pass_ms = self.models.ready.as_ref().and_then(|ready| ready.plain_ms);
        let for_show = self.models.ready.as_ref().is_some_and(|ready| ready.for_show);
        Some(Speedup { for_show, ..self.meters.plain.speedup(&self.meters.answer, pass_ms)? })
    }

    /// Notes a round for plain decoding's speed.
    pub(crate) fn note_pace(&mut self, round: &Round) {
        let timed = self.models.ready.as_ref().map_or(&[][..], |ready| &ready.verify_ms);
        self.meters.plain.note(round, timed);
    }

    /// Whether the answer on its way is slowed, so that it can be watched.
    pub(crate) fn slowed(&self) -> bool {
        self.answering() && self.controls.worker.pace > 0
    }

    /// Whether the answers of a race are being made.
    pub(crate) fn racing(&self) -> bool {
        self.overlays.race.as_ref().is_some_and(|(race, _)| race.measuring())
    }

    /// Whether an answer is on its way.
    pub(crate) fn answering(&self) -> bool {
        matches!(self.models.phase, Phase::Answering { .. })
    }

    /// The answer whose events count.
    pub(crate) fn generation(&self) -> u64 {
        self.controls.worker.generation
    }

    /// Says in passing what was done.
    pub(crate) fn say(&mut self, text: impl AsRef<str>) {
        self.toasts.say(text.as_ref(), Tone::Done, Ends::Sent, self.now);
    }

    /// Says in passing how something is.
    pub(crate) fn show(&mut self, text: impl AsRef<str>) {
        self.toasts.say(text.as_ref(), Tone::Shown, Ends::Sent, self.now);
    }

    /// Says in passing why something was not done, though nothing is wrong.
    pub(crate) fn refuse(&mut self, text: impl AsRef<str>) {
        self.toasts.say(text.as_ref(), Tone::Told, Ends::Sent, self.now);
    }

    /// The same, if the answer under way keeps it from being done.
    pub(crate) fn refuse_while_answering(&mut self, text: impl AsRef<str>) {
        self.toasts.say(text.as_ref(), Tone::Told, Ends::Answered, self.now);
    }

    /// Says in passing that something went wrong.
    pub(crate) fn complain(&mut self, text: impl AsRef<str>) {
        self.toasts.say(&sentence(text.as_ref()), Tone::Wrong, Ends::Sent, self.now);
    }

    /// Shows a failure in a box.
    pub(crate) fn fail(&mut self, title: impl Into<String>, text: impl Into<String>) {
        let text = sentence(&text.into());
        self.overlays.open = Some(Overlay::Error { title: title.into(), text });
    }

    /// When the screen changes by itself next: a line that was said in passing disappears, marks
    /// fade, or a race is played.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        const FRAME: Duration = Duration::from_millis(33);
        let playing = self.overlays.race.as_ref().is_some_and(|(race, _)| race.playing(self.now));
        let frame = playing.then(|| self.now + FRAME);
        [self.toasts.deadline(), frame, self.display.fades].into_iter().flatten().min()
    }

    /// Whether the origins of the tokens of turn `at` are marked.
    pub(crate) fn marks(&self, at: usize) -> bool {
        let is_last = at + 1 == self.chat.turns().len();
        match self.display.marks {
            Marks::Never => false,
            Marks::WhileNew => is_last && (self.answering() || self.display.fades.is_some()),
            Marks::Always => true,
        }
    }

    /// Whether a panel is on the screen, if there is room; the controls may be folded.
    pub(crate) fn shows(&self, panel: Focus) -> bool {
        let display = &self.display;
        let layout = display.layout();
        match panel {
            Focus::Input | Focus::Chat => true,
            Focus::Tree => {
                let is_free = !self.uses_controls() && display.side != Some(Focus::Meters);
                let wanted = layout != Layout::Chat
                    || display.side == Some(Focus::Tree)
                    || self.controls.first_answer.plays()
                    || self.token_looked_at().is_some();
                wanted && (display.beside() || is_free)
            }
            Focus::Meters if display.beside() => (layout == Layout::Lab) != display.meters,
            Focus::Meters => display.side == Some(Focus::Meters),
            Focus::Controls => layout == Layout::Lab || self.uses_controls(),
        }
    }

    /// Whether the controls are open; else the lab has a row of them.
    pub(crate) fn uses_controls(&self) -> bool {
        [self.display.side, Some(self.display.focus)].contains(&Some(Focus::Controls))
    }
}

/// An error as the screen writes it, with a capital: in the log and on the command line it follows
/// other words. A name stays as it is.
fn sentence(error: &str) -> String {
    let (first, rest) = error.split_once(' ').unwrap_or_default();
    match !first.is_empty() && first.bytes().all(|byte| byte.is_ascii_lowercase()) {
        true => format!("{}{} {rest}", first[..1].to_uppercase(), &first[1..]),
        false => error.to_string(),
    }
}
