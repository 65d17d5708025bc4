//! The event loop of the screen: signals first, then input, the worker and time. All queued events
//! are handled, then the screen is drawn once, at most 30 times per second and only after a change:
//! it shares its cores with verification. What may block (reading keys, writing frames) runs on
//! threads of their own, so that the loop never blocks. Must never know what an event changes.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crossterm::style::Print;
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::chat::{Extras, Saved, SavedChat, SavedTurn, SessionStore};
use crate::hardware::{Usage, UsageMeter};
use crate::tui::chat::layers::links;
use crate::tui::effects::model_finder::ModelFinder;
use crate::tui::effects::{EffectRunner, Keeper, Left, Lost, Opening, exchange, presets};
use crate::tui::event::{Asked, Button, Effect, ScreenEvent};
use crate::tui::models::Phase;
use crate::tui::state::{ScreenState, StateConfig};
use crate::tui::terminal::keys::{self, InputPause};
use crate::tui::terminal::sequences::Received;
use crate::tui::terminal::signals::{self, Signal};
use crate::tui::terminal::{self, Screen, faults, graphics};
use crate::tui::update::{self, update};
use crate::tui::view;
use crate::worker::{Event, SharedControls, Sink, Worker};

mod away;
mod lines;
mod received;

pub use self::lines::run_lines;

/// Least time between two frames.
const FRAME: Duration = Duration::from_millis(33);
/// Least time between a frame and one that shows what was typed.
const TYPED_FRAME: Duration = Duration::from_millis(8);
/// Longest wait of the first frame for the terminal's looks, so that it is drawn in its colours.
const LOOKS: Duration = Duration::from_millis(100);
/// Longest time spent on events before a frame.
const EVENTS_BUDGET: Duration = Duration::from_millis(16);
/// Longest wait for the models to be opened before the screen is shown without them.
const OPENING_LIMIT: Duration = Duration::from_secs(3);
/// Time between two samples of the machine's load.
const USAGE_PERIOD: Duration = Duration::from_secs(1);

/// Longest time that leaving takes for what makes a return quicker; within the deadline that
/// [`signals::saved`] sets.
const KEEPING_LIMIT: Duration = Duration::from_millis(400);

/// Time from a change of what would be lost with the program until it is saved, and from one such
/// save to the next.
const SAVE_PERIOD: Duration = Duration::from_secs(1);
/// Longest wait for the conversations' disk when the program ends; within the deadline that a
/// signal sets.
const DISK_LIMIT: Duration = Duration::from_secs(2);
/// What the user reads after that.
const NO_DISK: &str = "the disk with the conversations does not answer";

/// What comes later, with the number of what asked for it, if that may be given up meanwhile.
type Found = (Option<u64>, Option<ScreenEvent>);

/// How the screen starts.
pub struct ScreenConfig {
    /// The screen itself.
    pub state: StateConfig,
    /// Where conversations are saved; `None` saves nothing.
    pub store: Option<SessionStore>,
    /// Where KV caches of conversations are kept.
    pub snapshots: Option<PathBuf>,
    /// Finds the models that can be chosen.
    pub models: ModelFinder,
    /// Asked by themselves, each as soon as nothing is being answered: those of a replay.
    pub questions: Vec<Asked>,
    /// The conversation to begin with; `None` is a new one.
    pub open: Option<Opening>,
}

/// The models cannot be opened: there is no use in a screen.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotOpened(String);

/// Shows the screen until the user leaves. `start` starts the worker, whose events go to the sink
/// it is given. The terminal is given back and the conversation saved in every case. Returns
/// what was left.
///
/// # Errors
/// [`NotOpened`] before anything is shown; there is no terminal, or the worker cannot be started.
pub fn run(
    config: ScreenConfig,
    controls: SharedControls,
    start: impl FnOnce(SharedControls, Sink) -> anyhow::Result<Worker>,
) -> anyhow::Result<Left> {
    let Begun { mut app, runtime, events, found, early, open } = begin(config, controls, start)?;
    let (sender, signals) = signals::listen(true)?;
    let display = &app.state.display;
    let screen = Screen::take(display.mouse, display.colours)?;
    let asked = screen.asked;
    app.screen = Some(screen);
    guarded(app, |app| {
        let size = crossterm::terminal::size()?;
        app.take(ScreenEvent::Resize(size.0, size.1));
        app.open(open);
        for event in early {
            app.take(ScreenEvent::Worker(event));
        }
        let keys = keys::listen(sender, app.pause.clone(), asked)?;
        runtime.block_on(work(app, signals, keys, events, found, asked))
    })
}

/// What a view of the chat begins with.
struct Begun {
    app: App,
    runtime: tokio::runtime::Runtime,
    events: UnboundedReceiver<Event>,
    found: UnboundedReceiver<Found>,
    /// What the worker has said so far.
    early: Vec<Event>,
    open: Option<Opening>,
}

/// Starts the worker; nothing is shown yet.
fn begin(
    config: ScreenConfig,
    controls: SharedControls,
    start: impl FnOnce(SharedControls, Sink) -> anyhow::Result<Worker>,
) -> anyhow::Result<Begun> {
    let state = ScreenState::new(config.state, controls.get());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (sender, mut events) = unbounded_channel();
    let worker = start(controls.clone(), Box::new(move |event| sender.send(event).is_ok()))?;
    let early = runtime.block_on(opening(&mut events))?;
    let (results, found) = unbounded_channel();
    let runner = EffectRunner::new(worker, controls, config.store, config.models)?;
    if let Some(folder) = config.snapshots {
        runner.storage.request(|keeper| keeper.keep_snapshots(folder));
    }
    let mut app = App::new(state, runner, None, results);
    app.questions = config.questions.into();
    Ok(Begun { app, runtime, events, found, early, open: config.open })
}

/// What the worker says until the models are opened: files that are missing or are not models are
/// reported without a screen.
async fn opening(events: &mut UnboundedReceiver<Event>) -> Result<Vec<Event>, NotOpened> {
    let until = tokio::time::Instant::now() + OPENING_LIMIT;
    let mut early = Vec::new();
    while let Ok(Some(event)) = tokio::time::timeout_at(until, events.recv()).await {
        if let Event::Failed { generation: None, error } = event {
            return Err(NotOpened(error));
        }
        // The first stage has no measure; another stage, or a download, comes after it.
        let opening = early.is_empty() && matches!(event, Event::Loading { fraction: None, .. });
        early.push(event);
        if !opening {
            break;
        }
    }
    Ok(early)
}

/// Runs `body` on the terminal, then gives it back; after a panic the conversation is saved. What
/// cannot be saved goes to the temporary folder, whose name is printed on the terminal.
fn guarded(
    mut app: App,
    body: impl FnOnce(&mut App) -> anyhow::Result<()>,
) -> anyhow::Result<Left> {
    let result = catch_unwind(AssertUnwindSafe(|| body(&mut app)));
    if !matches!(result, Ok(Ok(()))) {
        terminal::restore();
        // Whatever went wrong with the screen, the conversation must not be lost.
        for effect in update::left(&app.state) {
            // What it says of it has no screen any more.
            let _ = app.perform(effect);
        }
    }
    let last = std::env::temp_dir();
    let left = app.runner.storage.wait(DISK_LIMIT, move |keeper| keeper.left(&last));
    let left = left.unwrap_or_else(|| lost_to_disk(&app.state));
    match (result, &left.lost) {
        (Ok(Ok(())), _) => {
            signals::saved();
            terminal::restore();
            // A worker that has read from a truncated file never ends.
            app.runner.worker.end(if faults::truncated() { Duration::ZERO } else { KEEPING_LIMIT });
            Ok(left)
        }
        (Ok(Err(error)), Some(lost)) => Err(error.context(lost.to_string())),
        (Ok(Err(error)), None) => Err(error),
        (Err(panic), lost) => {
            // The hook has reported it.
            if let Some(lost) = lost {
                let _ = writeln!(io::stderr(), "{lost}");
            }
            resume_unwind(panic)
        }
    }
}

/// Keeps what is on the screen in the folder of last resort: nothing came back from its own.
fn lost_to_disk(state: &ScreenState) -> Left {
    let folder = std::env::temp_dir();
    let mut keeper = Keeper::default();
    for effect in update::left(state) {
        match effect {
            Effect::Save { turns, extras, .. } => {
                keeper.fail(SavedChat { turns, extras, ..SavedChat::default() }, NO_DISK);
            }
            Effect::KeepUnsent(Some(text)) => keeper.fail_unsent(text, NO_DISK),
            _ => {}
        }
    }
    let left = keeper.left(&folder);
    Left { lost: left.lost.or(Some(Lost { why: NO_DISK.to_owned(), ..Lost::default() })), ..left }
}

struct App {
    state: ScreenState,
    runner: EffectRunner,
    /// `None` where lines are the view.
    screen: Option<Screen>,
    began: Instant,
    /// Whether the screen shows less than the state holds.
    changed: bool,
    /// The questions of a replay, which ask themselves.
    questions: VecDeque<Asked>,
    /// Whether something was typed that the screen does not show yet.
    typed: bool,
    /// Whether the terminal is the shell's until SIGCONT, or the editor's.
    suspended: bool,
    /// Whether it is the editor's.
    editing: bool,
    /// Leaves the keys to the editor.
    pause: InputPause,
    /// The terminal's name, as it says.
    terminal: String,
    /// Whether it has just said the last of its looks.
    looks_known: bool,
    /// Where what comes later is sent.
    results: UnboundedSender<Found>,
    /// How many of them are on their way.
    awaited: Cell<usize>,
    /// Since when something is on the screen that would be lost with the program.
    unsaved_since: Option<Instant>,
    ended: bool,
}

impl App {
    fn new(
        state: ScreenState,
        runner: EffectRunner,
        screen: Option<Screen>,
        results: UnboundedSender<Found>,
    ) -> Self {
        Self {
            state,
            runner,
            screen,
            began: Instant::now(),
            changed: true,
            questions: VecDeque::new(),
            typed: false,
            suspended: false,
            editing: false,
            pause: InputPause::default(),
            terminal: String::new(),
            looks_known: false,
            results,
            awaited: Cell::new(0),
            unsaved_since: None,
            ended: false,
        }
    }

    /// Handles an event and its effects.
    fn take(&mut self, event: ScreenEvent) {
        self.changed = true;
        let passes = matches!(
            event,
            ScreenEvent::Tick
                | ScreenEvent::Usage(_)
                | ScreenEvent::Saved { .. }
                | ScreenEvent::Resize(..)
                | ScreenEvent::Pointed(_)
        );
        if !passes {
            self.unsaved_since.get_or_insert_with(Instant::now);
        }
        let mut waiting = VecDeque::from([event]);
        while let Some(event) = waiting.pop_front() {
            if matches!(event, ScreenEvent::Edited(_)) {
                self.leave_editor();
            }
            for effect in update(&mut self.state, event, self.began.elapsed()) {
                let outcome = self.perform(effect);
                waiting.extend(outcome.unwrap_or_else(|why| Some(ScreenEvent::Failed(why))));
            }
        }
    }

    /// Opens the conversation to begin with, or finds the message that was not sent.
    fn open(&mut self, opening: Option<Opening>) {
        self.stored(Some(self.runner.asked), |keeper| {
            Ok(match opening {
                Some(opening) => Some(keeper.open(opening)),
                None => keeper.unsent(),
            })
        });
    }

    /// Asks the next question of those that ask themselves, if nothing is being answered.
    fn ask_next(&mut self) {
        if self.state.models.phase == Phase::Idle
            && let Some(question) = self.questions.pop_front()
        {
            self.take(ScreenEvent::Ask(question));
        }
    }

    /// Carries out an effect; what comes of it is an event again.
    ///
    /// # Errors
    /// Why nothing comes of it, for the user.
    fn perform(&mut self, effect: Effect) -> Outcome {
        let told = |words: String| Ok(Some(ScreenEvent::Told(words)));
        let runner = &mut self.runner;
        match effect {
            Effect::Send(command) => {
                if !runner.send(command) {
                    return Ok(Some(ScreenEvent::WorkerGone(terminal::worker_panic())));
                }
            }
            Effect::Apply(controls) => runner.controls.update(|shared| *shared = controls),
            Effect::Save { turns, extras, asked } => {
                self.save(turns, extras, move |_, result| match result {
                    None if asked => Err("There is nothing to save yet".to_string()),
                    result => Ok(result.map(|result| ScreenEvent::Saved { asked, result })),
                });
            }
            Effect::KeepUnsent(text) => runner.storage.request(|keeper| keeper.keep_unsent(text)),
            Effect::Remember(note, text) => {
                runner.storage.request(move |keeper| keeper.remember(note, &text));
            }
            Effect::Forget => {
                runner.rename(None);
                runner.storage.request(Keeper::forget);
            }
            Effect::Branch { messages } => {
                runner.rename(None);
                runner.storage.request(move |keeper| keeper.branch(messages));
            }
            Effect::List { branches } => {
                runner.asked += 1;
                self.stored(Some(self.runner.asked), move |keeper| {
                    let list = if branches { keeper.branches()? } else { keeper.list()? };
                    Ok(Some(ScreenEvent::Sessions(list)))
                });
            }
            Effect::Load(words) => {
                runner.asked += 1;
                self.stored(Some(self.runner.asked), move |keeper| Ok(Some(keeper.load(&words))));
            }
            Effect::Adopt(name) => {
                runner.rename(name);
                runner.storage.request(Keeper::adopt);
            }
            Effect::RenameSession { id, title } => {
                self.stored(None, move |keeper| keeper.rename(&id, &title).map(|()| None));
            }
            Effect::DeleteSession(id) => self.stored(None, move |keeper| {
                Ok(Some(ScreenEvent::SessionDeleted(keeper.delete(id)?)))
            }),
            Effect::RestoreSession(id) => {
                self.stored(None, move |keeper| told(keeper.restore(id.as_deref())?));
            }
            Effect::Export { path, text } => {
                self.later(move || exchange::export(&path, &text).map(ScreenEvent::Told));
            }
            Effect::ReadFile(path) => self.later(move || {
                let (name, text) = exchange::text_of(&path)?;
                Ok(ScreenEvent::FileRead { name, text })
            }),
            Effect::Import(path) => self.later(move || {
                let (chat, left_out) = exchange::import(&path)?;
                Ok(ScreenEvent::Imported(chat, left_out))
            }),
            Effect::ReadNamed { message, paths } => self.later(move || {
                let files = paths.into_iter().map(exchange::named).collect();
                Ok(ScreenEvent::NamedRead { message, files })
            }),
            Effect::ListFolder(folder) => self.later(move || {
                let names = exchange::names_in(&folder);
                Ok(ScreenEvent::Folder(folder, names))
            }),
            Effect::Edit(text) => {
                return Ok(self.edit(&text).err().map(Err).map(ScreenEvent::Edited));
            }
            Effect::TakePreset(name) => self.stored(None, move |keeper| {
                let preset = presets::named(&keeper.presets()?, &name)?;
                Ok(Some(ScreenEvent::PresetFound(name, preset)))
            }),
            Effect::SavePreset(name, preset) => self.stored(None, move |keeper| {
                told(presets::save(&keeper.presets()?, &name, preset)?)
            }),
            Effect::ListPresets => {
                self.stored(None, move |keeper| told(presets::listed(&keeper.presets()?)?));
            }
            Effect::FindModels { part, models, busy } => {
                let finder = runner.models.clone();
                self.later(move || {
                    let rows = finder.find(part, &models, busy);
                    Ok(ScreenEvent::Models { part, rows })
                });
            }
            Effect::Copy(text) => {
                // Lines on a terminal that is not ours reach no clipboard.
                let none = || Err(io::ErrorKind::Unsupported.into());
                let screen = self.screen.as_mut();
                let copy = |text: &str| screen.map_or_else(none, |screen| screen.copy(text));
                return told(runner.copy(&text, copy)?);
            }
            Effect::Ring(text) => self.on_screen("bell", |screen| screen.put(Print(text))),
            Effect::Mouse(on) => self.on_screen("mouse", |screen| screen.mouse(on)),
            Effect::Redraw => self.on_screen("clear", Screen::redraw),
            Effect::Put(data) => self.on_screen("image", |screen| screen.put(Print(data))),
            Effect::Suspend => signals::stop_job()?,
            Effect::Quit { anyway: true } => self.ended = true,
            Effect::Quit { anyway: false } => {
                let unsaved = runner.storage.wait(DISK_LIMIT, Keeper::unsaved);
                match unsaved.unwrap_or_else(|| Some(NO_DISK.to_string())) {
                    Some(why) => return Ok(Some(ScreenEvent::NotLeft(why))),
                    None => self.ended = true,
                }
            }
        }
        Ok(None)
    }

    /// Does something to the screen, if there is one. The terminal may be gone; then the loop ends
    /// by itself.
    fn on_screen(&mut self, what: &str, act: impl FnOnce(&mut Screen) -> io::Result<()>) {
        if let Some(Err(error)) = self.screen.as_mut().map(act) {
            tracing::warn!("{what}: {error}");
        }
    }

    /// Saves the conversation; `then` says what the user hears of it, from why it was not saved
    /// before and what came of it now.
    fn save(
        &mut self,
        turns: Vec<SavedTurn>,
        extras: Extras,
        then: impl FnOnce(Option<String>, Option<SaveResult>) -> Outcome + Send + 'static,
    ) {
        let answered_by = self.state.chat.answered_by.clone();
        let answered_by = answered_by.or_else(|| self.state.models.in_use());
        let chat = SavedChat { turns, extras, answered_by, ..SavedChat::default() };
        let target = self.state.models.target().to_string();
        let name = chat.asks().then(|| self.runner.name().map(str::to_string)).flatten();
        self.stored(None, move |keeper| {
            keeper.next_name = name;
            let before = keeper.why_unsaved();
            let result = keeper.save(&target, chat).transpose();
            then(before, result)
        });
    }

    /// When what would be lost with the program is saved next.
    fn saves_at(&self) -> Option<Instant> {
        let since = self.unsaved_since.filter(|_| !self.state.models.replay);
        since.map(|since| since + SAVE_PERIOD)
    }

    /// Saves what would be lost if the program were killed, if it changed a while ago and nothing
    /// waits for the disk.
    fn save_in_time(&mut self) {
        if self.saves_at().is_none_or(|at| Instant::now() < at) {
            return;
        }
        if !self.runner.storage.is_idle() {
            self.unsaved_since = Some(Instant::now());
            return;
        }
        self.unsaved_since = None;
        for effect in update::left(&self.state) {
            match effect {
                Effect::Save { turns, extras, .. } => {
                    self.save(turns, extras, |before, result| {
                        // A failure is reported once, and success not at all.
                        let told = result.filter(|result| match result {
                            Ok(saved) => saved.copied,
                            Err(_) => before.is_none(),
                        });
                        Ok(told.map(|result| ScreenEvent::Saved { asked: false, result }))
                    });
                }
                Effect::KeepUnsent(text) => {
                    self.runner.storage.request(|keeper| keeper.keep_unsent(text));
                }
                _ => {}
            }
        }
    }

    fn draw(&mut self) -> anyhow::Result<()> {
        self.state.now = self.began.elapsed();
        let Some(screen) = &mut self.screen else { return Ok(()) };
        let state = &mut self.state;
        screen.draw(|frame| {
            view::draw(frame, state);
            links(state)
        })?;
        let points = state.overlays.open.is_none() && state.meters.clock.has_rounds();
        screen.watch_pointer(points)?;
        if let Some(request) = self.state.pictures.request() {
            self.later(move || {
                let read = request.read();
                Ok(ScreenEvent::PicturesRead(request, read))
            });
        }
        self.changed = false;
        self.typed = false;
        Ok(())
    }

    /// Least time from the frame before to the next.
    fn pace(&self) -> Duration {
        if self.typed { TYPED_FRAME } else { FRAME }
    }

    /// Whether a frame is due and the terminal accepts one.
    fn can_draw(&self) -> bool {
        self.changed
            && !self.suspended
            && self.screen.as_ref().is_some_and(|screen| !screen.output.busy())
    }

    fn signal(&mut self, signal: Signal) {
        match signal {
            Signal::End | Signal::Interrupt => self.take(ScreenEvent::Terminate),
            Signal::Stop => self.suspend(),
            // The terminal is the editor's.
            Signal::Continue if self.editing => {}
            Signal::Continue => self.resume(),
            // The frame asks for the size itself: of many changes in a row only the last counts.
            Signal::Resize => {
                self.state.pictures.rescale(graphics::cell_size());
                self.changed = true;
            }
        }
    }

    /// Does something on a thread of its own, since a disk may be slow; what comes of it is an
    /// event.
    fn later(&self, work: impl FnOnce() -> Result<ScreenEvent, String> + Send + 'static) {
        let results = self.results.clone();
        self.awaited.update(|awaited| awaited + 1);
        spawn("dovetail-files", move || {
            // There is no receiver once the screen has ended.
            let _ = results.send((None, Some(work().unwrap_or_else(ScreenEvent::Failed))));
        });
    }

    /// The same with the saved conversations, on the thread that owns them; `of` is the number of
    /// what may be given up meanwhile.
    fn stored(&self, of: Option<u64>, work: impl FnOnce(&mut Keeper) -> Outcome + Send + 'static) {
        let results = self.results.clone();
        self.awaited.update(|awaited| awaited + 1);
        self.runner.storage.request(move |keeper| {
            let event = work(keeper).unwrap_or_else(|why| Some(ScreenEvent::Failed(why)));
            let _ = results.send((of, event));
        });
    }

    /// What came later, unless it was given up.
    fn arrived(&self, (of, event): Found) -> Option<ScreenEvent> {
        self.awaited.update(|awaited| awaited.saturating_sub(1));
        event.filter(|_| of.is_none_or(|of| of == self.runner.asked))
    }
}

/// What comes of an effect; why nothing does, for the user.
type Outcome = Result<Option<ScreenEvent>, String>;
type SaveResult = Result<Saved, String>;

/// Without its thread what `work` would bring stays out; everything else works.
fn spawn(name: &str, work: impl FnOnce() + Send + 'static) {
    if let Err(error) = std::thread::Builder::new().name(name.to_string()).spawn(work) {
        tracing::warn!("cannot start the thread {name}: {error}");
    }
}

/// The terminal has taken a frame.
async fn written(screen: &mut Option<Screen>) -> io::Result<()> {
    match screen {
        Some(screen) => screen.output.written().await,
        None => std::future::pending().await,
    }
}

async fn work(
    app: &mut App,
    mut signals: UnboundedReceiver<Signal>,
    mut keys: Receiver<Received>,
    mut events: UnboundedReceiver<Event>,
    mut found: UnboundedReceiver<Found>,
    asked: bool,
) -> anyhow::Result<()> {
    let mut usage = sample_usage(app.state.meters.adapter);
    let mut alive = true;
    let mut drawn = Instant::now() - FRAME;
    if asked {
        drawn += LOOKS;
    }
    while !app.ended {
        app.ask_next();
        if std::mem::take(&mut app.looks_known) {
            drawn = drawn.min(Instant::now() - FRAME);
        }
        app.save_in_time();
        if app.can_draw() && drawn.elapsed() >= app.pace() {
            app.draw()?;
            drawn = Instant::now();
        }
        let wake = match app.state.deadline() {
            _ if app.can_draw() => Some(drawn + app.pace()),
            Some(deadline) if !app.changed => Some(app.began + deadline),
            _ => None,
        };
        let wake = wake.into_iter().chain(app.saves_at()).min();
        let pause = async {
            match wake {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            Some(signal) = signals.recv() => app.signal(signal),
            result = written(&mut app.screen) => if let Err(error) = result {
                tracing::warn!("the terminal accepts no more output: {error}");
                app.take(ScreenEvent::Terminate);
            },
            input = keys.recv() => match input {
                Some(input) => app.input(input, &mut keys),
                // The terminal is gone.
                None => app.take(ScreenEvent::Terminate),
            },
            event = events.recv(), if alive => match event {
                Some(event) => app.take(ScreenEvent::Worker(event)),
                None => {
                    alive = false;
                    app.take(ScreenEvent::WorkerGone(terminal::worker_panic()));
                }
            },
            Some(found) = found.recv() => if let Some(event) = app.arrived(found) {
                app.take(event);
            },
            Some(usage) = usage.recv() => app.take(ScreenEvent::Usage(usage)),
            () = pause => if !app.changed { app.take(ScreenEvent::Tick) },
        }
        // The other queued events, for half a frame's time: typing must stay visible.
        let until = Instant::now() + EVENTS_BUDGET;
        while !app.ended && signals.is_empty() && Instant::now() < until {
            if let Ok(input) = keys.try_recv() {
                app.input(input, &mut keys);
            } else if let Ok(event) = events.try_recv() {
                app.take(ScreenEvent::Worker(event));
            } else {
                break;
            }
        }
    }
    Ok(())
}

/// Samples the load of the machine and of this adapter once per second, on a thread of its own: the
/// driver may be slow.
fn sample_usage(adapter: Option<usize>) -> UnboundedReceiver<Usage> {
    let (sender, receiver) = unbounded_channel();
    spawn("dovetail-meters", move || {
        let mut sampler = UsageMeter::new(adapter);
        while sender.send(sampler.sample()).is_ok() {
            std::thread::sleep(USAGE_PERIOD);
        }
    });
    receiver
}

#[cfg(test)]
mod tests;
