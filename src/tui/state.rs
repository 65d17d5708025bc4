//! The screen's state: everything a frame shows and nothing else. It is changed by
//! [`super::update`] alone. Must never know tensors, files or the clock: time is handed in.

use std::time::Duration;

use super::chat::{Chat, ContextUsage, FirstAnswer, Selection, Summarising};
use super::controls::Dials;
use super::event::Effect;
use super::input::{Input, Starters};
use super::meters::{Meters, PlainPace, Speedup};
use super::overlays::{ModelLoad, Overlay, Renaming};
use super::race::Race;
use super::toasts::{Toasts, Tone};
use super::tree::Rounds;
use crate::chat::AnsweredBy;
use crate::decode::Round;
use crate::hardware::Usage;
use crate::overlap::PendingRound;
use crate::plan::Setting;
use crate::speculate::SamplerSettings;
use crate::worker::{Command, Controls, Ready};

use super::keymap::Keymap;
use super::markdown::Document;
use super::theme::ThemeName;

/// What the worker is doing, as far as the screen knows.
#[derive(Clone, Debug, PartialEq)]
pub enum Phase {
    /// Models are being loaded.
    Loading {
        /// What is being done.
        stage: String,
        /// From 0 to 1, where known.
        fraction: Option<f32>,
    },
    /// Waiting for a question.
    Idle,
    /// An answer is on its way.
    Answering {
        /// When it was asked for.
        since: Duration,
    },
    /// The models could not be loaded, or the decode thread ended; nothing can be asked.
    Broken,
}

/// Where keys go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Focus {
    /// The message being written.
    Input,
    /// The conversation, for scrolling.
    Chat,
    /// The draft tree.
    Tree,
    /// The meters (narrow screens, where they replace another panel).
    Meters,
    /// The controls.
    Controls,
}

impl Focus {
    /// What the keys go to, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Input => "the message",
            Self::Chat => "the conversation",
            Self::Tree => "the tree panel",
            Self::Meters => "the meters panel",
            Self::Controls => "the controls panel",
        }
    }
}

/// A panel that a key shows: below the chat on a narrow screen, larger on a wide one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The draft tree.
    Tree,
    /// The meters.
    Meters,
    /// The controls.
    Controls,
}

impl Side {
    /// The focus that belongs to it.
    pub fn focus(self) -> Focus {
        match self {
            Self::Tree => Focus::Tree,
            Self::Meters => Focus::Meters,
            Self::Controls => Focus::Controls,
        }
    }
}

/// How a screen starts.
#[derive(Clone, Debug)]
pub struct StateConfig {
    /// What the worker starts with.
    pub controls: Controls,
    /// Colours.
    pub theme: ThemeName,
    /// Whether colours may be shown at all (`NO_COLOR` is not set).
    pub colours: bool,
    /// Whether the origin of tokens is marked.
    pub marks: bool,
    /// System prompt.
    pub system: Option<String>,
    /// Most tokens of an answer; automatic is the room left in the context.
    pub max_tokens: Setting,
    /// Whether the model is to think; `None` leaves it to its template.
    pub thinking: Option<bool>,
    /// Why there is no GPU, or its name: one line of the meters.
    pub gpu: String,
    /// Whether the mouse is the program's: wheel, click and selection.
    pub mouse: bool,
    /// The keys in force.
    pub keys: Keymap,
    /// Whether the program has never answered here before.
    pub first_run: bool,
    /// Whether a record is shown, behind which there is no model.
    pub replay: bool,
}

/// Everything a frame shows.
#[derive(Debug)]
pub struct ScreenState {
    /// Time of the message being handled, since the program started.
    pub now: Duration,
    /// Columns and rows of the terminal.
    pub size: (u16, u16),
    /// What the worker is doing.
    pub phase: Phase,
    /// What was loaded; `None` before.
    pub ready: Option<Box<Ready>>,
    /// The conversation.
    pub chat: Chat,
    /// The question that is being edited: its place among the turns.
    pub editing: Option<usize>,
    /// A title being written in the list of conversations.
    pub renaming: Option<Renaming>,
    /// Conversations that were deleted in this run, the latest last.
    pub deleted: Vec<String>,
    /// By how much the last prompt did not fit.
    pub refused: Option<ContextUsage>,
    /// Whether the answer asked for last goes on from what there was of it.
    pub goes_on: bool,
    /// The message that was just refused for a file that it names: sent again, it goes as it is.
    pub sends_as_written: Option<String>,
    /// Messages that are sent when the answer under way has ended.
    pub queue: Vec<String>,
    /// Whether the first answer of all is played slowly, to be watched.
    pub first_answer: FirstAnswer,
    /// A race, and the controls before it.
    pub race: Option<(Race, Controls)>,
    /// A summary on its way, which makes room in the context.
    pub summarising: Option<Summarising>,
    /// The message being written.
    pub input: Input,
    /// Which question of an empty chat is chosen.
    pub begin_with: Starters,
    /// Rounds of the latest answer.
    pub rounds: Rounds,
    /// The round that is being verified and the generation of its answer, as far as it was told.
    pub(crate) pending: Option<(u64, Box<PendingRound>)>,
    /// Figures of the latest answer.
    pub meters: Meters,
    /// What a token takes without speculation.
    pub plain: PlainPace,
    /// Rounds and figures of the answer before, until the one asked for has its first token: they
    /// come back if it never gets one.
    before: Option<(Rounds, Meters)>,
    /// What the machine is doing.
    pub usage: Option<Usage>,
    /// The GPU, or why there is none.
    pub gpu: String,
    /// The worker's controls; sent as a whole after every change.
    pub controls: Controls,
    /// The sampler before the user turned anything.
    begun: SamplerSettings,
    /// Notices of the worker, the latest last.
    pub notices: Vec<String>,
    /// The controls panel.
    pub dials: Dials,
    /// Most tokens of an answer; automatic is the room left in the context.
    pub max_tokens: Setting,
    /// Whether the model is to think; `None` leaves it to its template.
    pub thinking: Option<bool>,
    /// Where keys go.
    pub focus: Focus,
    /// The panel that a key has shown.
    pub side: Option<Side>,
    /// The overlay.
    pub overlay: Option<Overlay>,
    /// The page of the guide that the help has opened, laid out.
    pub guide_page: Document,
    /// Other models on their way.
    pub load: Option<ModelLoad>,
    /// What is said in passing.
    pub toasts: Toasts,
    /// Colours.
    pub theme: ThemeName,
    /// Whether colours may be shown at all.
    pub colours: bool,
    /// Whether the origin of tokens is marked.
    pub marks: bool,
    /// Whether the mouse is the program's: wheel, click and selection.
    pub mouse: bool,
    /// The keys in force.
    pub keys: Keymap,
    /// What is selected with the mouse.
    pub selection: Option<Selection>,
    /// Whether a record is shown, behind which there is no model.
    pub replay: bool,
    /// Until when the key that was pressed to quit does so if it is pressed again.
    pub quits_until: Option<Duration>,
    /// Whether the program is about to end.
    pub quitting: bool,
    /// Whether it was said that leaving loses what cannot be saved.
    pub leaves_anyway: bool,
    /// What the event being handled wants done, in order.
    effects: Vec<Effect>,
}

impl ScreenState {
    /// A screen before its first message.
    pub fn new(config: StateConfig) -> Self {
        Self {
            now: Duration::ZERO,
            size: (80, 24),
            phase: Phase::Loading { stage: "starting".to_string(), fraction: None },
            ready: None,
            chat: Chat::new(config.system),
            editing: None,
            sends_as_written: None,
            queue: Vec::new(),
            first_answer: FirstAnswer::new(config.first_run),
            race: None,
            renaming: None,
            deleted: Vec::new(),
            refused: None,
            goes_on: false,
            summarising: None,
            input: Input::default(),
            begin_with: Starters::default(),
            rounds: Rounds::default(),
            pending: None,
            meters: Meters::default(),
            plain: PlainPace::default(),
            before: None,
            usage: None,
            gpu: config.gpu,
            begun: config.controls.sampler,
            notices: Vec::new(),
            controls: config.controls,
            dials: Dials::default(),
            max_tokens: config.max_tokens,
            thinking: config.thinking,
            focus: Focus::Input,
            side: None,
            overlay: None,
            guide_page: Document::default(),
            load: None,
            toasts: Toasts::default(),
            theme: config.theme,
            colours: config.colours,
            marks: config.marks,
            mouse: config.mouse,
            keys: config.keys,
            selection: None,
            replay: config.replay,
            quits_until: None,
            quitting: false,
            leaves_anyway: false,
            effects: Vec::new(),
        }
    }

    /// Wants something done outside the state, after what was wanted before.
    pub(crate) fn emit(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// What is to be done, in order.
    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Puts the controls into force, from the next round on.
    pub(crate) fn apply(&mut self) {
        self.emit(Effect::Apply(self.controls.clone()));
    }

    /// Puts the present controls into force instead of those that were to be.
    pub(crate) fn apply_instead(&mut self) {
        for effect in &mut self.effects {
            if let Effect::Apply(controls) = effect {
                *controls = self.controls.clone();
            }
        }
    }

    /// Sends a command to the worker, with the controls that it needs.
    pub(crate) fn send(&mut self, command: Command) {
        self.apply();
        self.emit(Effect::Send(command));
    }

    /// Takes over the loaded model's sampler settings, except those that the user has changed.
    pub fn take_sampler(&mut self, found: SamplerSettings) {
        let now = self.controls.sampler;
        self.controls.sampler = now.replacing(&self.begun, &found);
        self.begun = found;
    }

    /// Shows a notice of the worker and keeps it for the details.
    pub fn notice(&mut self, text: String) {
        const KEPT: usize = 32;
        self.toasts.notice(&text, self.now);
        if !self.notices.contains(&text) {
            self.notices.push(text);
            self.notices.drain(..self.notices.len().saturating_sub(KEPT));
        }
    }

    /// Makes room for the rounds and figures of a new answer.
    pub fn begin_answer(&mut self) {
        let rounds = self.rounds.take();
        let meters = std::mem::take(&mut self.meters);
        self.before = Some((rounds, meters));
        self.meters.begin(self.now);
    }

    /// The new answer has its first token: what the one before left is not needed any more.
    pub fn answer_begun(&mut self) {
        self.before = None;
    }

    /// Restores the figures of the answer before, if the new one ended without a token.
    pub fn restore_answer(&mut self) {
        if let Some((rounds, meters)) = self.before.take() {
            let fold = self.rounds.fold;
            self.rounds = rounds;
            self.rounds.fold = fold;
            self.meters = meters;
        }
    }

    /// Forgets rounds and figures, for another conversation.
    pub fn forget_answer(&mut self) {
        self.before = None;
        self.rounds.clear();
        self.meters = Meters::default();
    }

    /// Whether the gain is told in rounds alone. The demo is so small that its speed depends on
    /// the load of the machine more than on speculation.
    pub fn counts_rounds(&self) -> bool {
        self.ready.as_ref().is_some_and(|ready| ready.models.is_bundled())
    }

    /// How much faster than plain decoding the latest answer is, as far as that is known.
    pub fn speedup(&self) -> Option<Speedup> {
        if let Some(settled) = self.meters.settled {
            return settled;
        }
        if self.counts_rounds() {
            return None;
        }
        let pass_ms = self.ready.as_ref().and_then(|ready| ready.plain_ms);
        let for_show = self.ready.as_ref().is_some_and(|ready| ready.for_show);
        Some(Speedup { for_show, ..self.plain.speedup(&self.meters, pass_ms)? })
    }

    /// Notes a round for plain decoding's speed.
    pub fn note_pace(&mut self, round: &Round) {
        let timed = self.ready.as_ref().map_or(&[][..], |ready| &ready.verify_ms);
        self.plain.note(round, timed);
    }

    /// Whether the answer on its way is slowed, so that it can be watched.
    pub fn slowed(&self) -> bool {
        self.answering() && self.controls.pace > 0
    }

    /// The models in use; `None` before they are loaded.
    pub fn in_use(&self) -> Option<AnsweredBy> {
        let ready = self.ready.as_deref()?;
        let (target, models) = (ready.target.clone(), Some(ready.models.clone()));
        Some(AnsweredBy { target, models, gone: false })
    }

    /// Whether the answers of a race are being made.
    pub(crate) fn racing(&self) -> bool {
        self.race.as_ref().is_some_and(|(race, _)| race.measuring())
    }

    /// Whether an answer is on its way.
    pub fn answering(&self) -> bool {
        matches!(self.phase, Phase::Answering { .. })
    }

    /// The answer whose events count.
    pub fn generation(&self) -> u64 {
        self.controls.generation
    }

    /// Says in passing what was done.
    pub fn say(&mut self, text: impl AsRef<str>) {
        self.toasts.say(text.as_ref(), Tone::Done, self.now);
    }

    /// Says in passing why something was not done, though nothing is wrong.
    pub fn refuse(&mut self, text: impl AsRef<str>) {
        self.toasts.say(text.as_ref(), Tone::Told, self.now);
    }

    /// The same, where it is the answer under way that keeps it from being done.
    pub fn refuse_while_answering(&mut self, text: impl AsRef<str>) {
        self.toasts.say_of_answer(text.as_ref(), Tone::Told, self.now);
    }

    /// Says in passing that something went wrong.
    pub fn complain(&mut self, text: impl AsRef<str>) {
        self.toasts.say(text.as_ref(), Tone::Wrong, self.now);
    }

    /// Shows a failure in a box.
    pub(crate) fn fail(&mut self, title: impl Into<String>, text: impl Into<String>) {
        self.overlay = Some(Overlay::Error { title: title.into(), text: text.into() });
    }

    /// When the screen changes by itself next: a line that was said in passing disappears.
    pub fn deadline(&self) -> Option<Duration> {
        const FRAME: Duration = Duration::from_millis(33);
        let playing = self.race.as_ref().is_some_and(|(race, _)| race.playing(self.now));
        let frame = playing.then(|| self.now + FRAME);
        [self.toasts.deadline(), frame].into_iter().flatten().min()
    }

    /// Whether panels stand beside the chat, where there is height for them.
    pub fn wide(&self) -> bool {
        self.size.0 >= Self::WIDE
    }

    /// Whether panels do stand beside the chat.
    pub fn beside(&self) -> bool {
        self.wide() && self.size.1 >= Self::HIGH
    }

    /// Whether the draft tree is on the screen.
    pub fn shows_tree(&self) -> bool {
        self.beside() || self.panel_below() == Some(Side::Tree)
    }

    /// The panel below the chat on a narrow screen: the tree while the first answer plays, unless
    /// the user has chosen another one.
    pub fn panel_below(&self) -> Option<Side> {
        self.side.or(self.first_answer.plays().then_some(Side::Tree))
    }

    /// Columns from which panels stand beside the chat.
    pub const WIDE: u16 = 120;
    /// Rows from which they do.
    const HIGH: u16 = 16;
}
