//! The event loop of the screen: signals first, then input, the worker and time. All queued events
//! are handled, then the screen is drawn once, at most 30 times a second and only after a change:
//! it shares its cores with verification. What may block (reading keys, writing frames) runs on
//! threads of their own, so that the loop never blocks. Must never know what a message changes.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use crossterm::event::{
    Event as Input, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseEventKind,
};
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, unbounded_channel};

use super::effects::EffectRunner;
use super::signals::{self, Signal};
use super::state::{Model, ModelConfig};
use super::terminal::{self, Screen};
use super::update::{Effect, Message, update};
use super::{input, view};
use crate::chat::SessionStore;
use crate::hardware::{Usage, UsageMeter};
use crate::worker::{Event, SharedControls, Sink, Worker};

/// Least time between two frames.
const FRAME: Duration = Duration::from_millis(33);
/// Least time between a frame and one that shows what was typed.
const ECHO: Duration = Duration::from_millis(8);
/// Longest time spent on events before a frame.
const TAKE_IN: Duration = Duration::from_millis(16);
/// Longest wait for the models to be opened before the screen is shown without them.
const OPENING: Duration = Duration::from_secs(3);
/// Time between two samples of the machine's load.
const LOOK: Duration = Duration::from_secs(1);

/// How the screen starts.
pub struct ScreenConfig {
    /// The screen itself.
    pub model: ModelConfig,
    /// Where conversations are saved; `None` saves nothing.
    pub store: Option<SessionStore>,
}

/// The models cannot be opened: there is no use in a screen.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotOpened(String);

/// Shows the screen until the user leaves. `start` starts the worker, whose events go to the sink
/// it is given. The terminal is given back and the conversation saved whatever happens.
///
/// # Errors
/// [`NotOpened`] before anything is shown; there is no terminal, or the worker cannot be started.
pub fn run(
    config: ScreenConfig,
    controls: SharedControls,
    start: impl FnOnce(SharedControls, Sink) -> anyhow::Result<Worker>,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (sender, mut events) = unbounded_channel();
    let worker = start(controls.clone(), Box::new(move |event| sender.send(event).is_ok()))?;
    let heard = runtime.block_on(opening(&mut events))?;
    let runner = EffectRunner::new(worker, controls, config.store);
    let (asks, signals) = signals::listen()?;
    let app = App::new(Model::new(config.model), runner, Screen::take()?);
    guarded(app, |app| {
        let size = crossterm::terminal::size()?;
        app.take(Message::Resize(size.0, size.1));
        for event in heard {
            app.take(Message::Worker(event));
        }
        let keys = input::listen(asks)?;
        runtime.block_on(work(app, Sources { signals, keys, events }))
    })
}

/// What the worker says until the models are opened: files that are missing or are no models are
/// reported without a screen.
async fn opening(events: &mut UnboundedReceiver<Event>) -> Result<Vec<Event>, NotOpened> {
    let until = tokio::time::Instant::now() + OPENING;
    let mut heard = Vec::new();
    while let Ok(Some(event)) = tokio::time::timeout_at(until, events.recv()).await {
        if let Event::Failed { generation: None, error } = event {
            return Err(NotOpened(error));
        }
        // The first stage has no measure; another stage, or a download, comes after it.
        let opening = heard.is_empty() && matches!(event, Event::Loading { fraction: None, .. });
        heard.push(event);
        if !opening {
            break;
        }
    }
    Ok(heard)
}

/// Runs `body` on the terminal, then gives it back; after a panic the conversation is saved.
fn guarded(mut app: App, body: impl FnOnce(&mut App) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let result = catch_unwind(AssertUnwindSafe(|| body(&mut app)));
    if matches!(result, Ok(Ok(()))) {
        signals::saved();
    }
    terminal::restore();
    // Whatever went wrong with the screen, the conversation must not be lost.
    if !matches!(result, Ok(Ok(()))) {
        let App { model, runner, .. } = &mut app;
        let _ = runner.save(target(model), model.chat.saved_turns());
    }
    match result {
        Ok(result) => result,
        // The hook has reported it.
        Err(panic) => resume_unwind(panic),
    }
}

struct App {
    model: Model,
    runner: EffectRunner,
    screen: Screen,
    began: Instant,
    /// Whether the screen shows less than the model knows.
    changed: bool,
    /// Whether something was typed that the screen does not show yet.
    typed: bool,
    /// Whether the terminal is the shell's until SIGCONT.
    suspended: bool,
    ended: bool,
}

fn target(model: &Model) -> &str {
    model.ready.as_ref().map_or("", |ready| &ready.target)
}

impl App {
    fn new(model: Model, runner: EffectRunner, screen: Screen) -> Self {
        Self {
            model,
            runner,
            screen,
            began: Instant::now(),
            changed: true,
            typed: false,
            suspended: false,
            ended: false,
        }
    }

    /// Handles a message and its effects.
    fn take(&mut self, message: Message) {
        self.changed = true;
        let mut waiting = vec![message];
        while let Some(message) = waiting.pop() {
            for effect in update(&mut self.model, message, self.began.elapsed()) {
                waiting.extend(self.perform(effect));
            }
        }
    }

    /// Carries out effects; their results are messages again.
    fn perform(&mut self, effect: Effect) -> Option<Message> {
        match effect {
            Effect::Send(command) => {
                if !self.runner.send(command) {
                    return Some(Message::WorkerGone(terminal::last_words()));
                }
            }
            Effect::Apply(controls) => self.runner.controls.update(|shared| *shared = controls),
            Effect::Save { turns, asked } => {
                let result = self.runner.save(target(&self.model), turns).transpose();
                return match result {
                    Some(result) => Some(Message::Saved { asked, result }),
                    None if asked => {
                        let result = Err("there is nothing to save yet".to_string());
                        Some(Message::Saved { asked, result })
                    }
                    None => None,
                };
            }
            Effect::Forget => self.runner.forget(),
            Effect::List => return Some(Message::Sessions(self.runner.list())),
            Effect::Load(words) => return Some(self.runner.load(&words)),
            Effect::Copy(text) => {
                let screen = &mut self.screen;
                return Some(Message::Copied(self.runner.copy(&text, |text| screen.copy(text))));
            }
            Effect::Mouse(on) => {
                if let Err(error) = self.screen.mouse(on) {
                    tracing::warn!("mouse: {error}");
                }
            }
            Effect::Redraw => {
                if let Err(error) = self.screen.redraw() {
                    tracing::warn!("clear: {error}");
                }
            }
            Effect::Suspend => {
                return signals::stop_job().err().map(Message::NotSuspended);
            }
            Effect::Quit => self.ended = true,
        }
        None
    }

    fn draw(&mut self) -> anyhow::Result<()> {
        self.model.now = self.began.elapsed();
        let model = &mut self.model;
        self.screen.draw(|frame| view::draw(frame, model))?;
        self.changed = false;
        self.typed = false;
        Ok(())
    }

    /// Least time from the frame before to the next.
    fn pace(&self) -> Duration {
        if self.typed { ECHO } else { FRAME }
    }

    /// Whether a frame is due and the terminal accepts one.
    fn can_draw(&self) -> bool {
        self.changed && !self.suspended && !self.screen.busy()
    }

    /// Takes an event in, with the characters that wait behind it if it is one.
    fn input(&mut self, input: Input, waiting: &mut Receiver<Input>) {
        let message = match input {
            Input::Key(event) if is_text(&event) => {
                let (keys, next) = characters(event, waiting);
                self.typed = true;
                self.take(match keys.as_slice() {
                    [event] => Message::Key(*event),
                    _ => Message::Typed(keys),
                });
                if let Some(next) = next {
                    self.input(next, waiting);
                }
                return;
            }
            Input::Key(event) => Message::Key(event),
            Input::Paste(text) => Message::Paste(text),
            Input::Mouse(event) => match event.kind {
                MouseEventKind::ScrollUp => Message::Wheel(-3),
                MouseEventKind::ScrollDown => Message::Wheel(3),
                _ => return,
            },
            Input::Resize(..) => return self.signal(Signal::Resize),
            Input::FocusGained | Input::FocusLost => return,
        };
        self.typed = true;
        self.take(message);
    }

    fn signal(&mut self, signal: Signal) {
        match signal {
            Signal::End => self.take(Message::Terminate),
            Signal::Stop => self.suspend(),
            Signal::Continue => self.resume(),
            // The frame asks for the size itself: of many changes in a row only the last counts.
            Signal::Resize => self.changed = true,
        }
    }

    /// Gives the terminal back to the shell and stops.
    fn suspend(&mut self) {
        terminal::restore();
        self.suspended = true;
        if let Err(error) = signals::stop() {
            tracing::warn!("not suspended: {error}");
            self.resume();
        }
    }

    /// Takes the terminal again, after a stop of whatever kind.
    fn resume(&mut self) {
        self.suspended = false;
        self.changed = true;
        if let Err(error) = self.screen.retake() {
            tracing::warn!("the terminal cannot be taken again: {error}");
        }
    }
}

/// Whether a key is a character to be written.
fn is_text(event: &KeyEvent) -> bool {
    event.kind == KeyEventKind::Press
        && matches!(event.code, KeyCode::Char(_))
        && event.modifiers.difference(KeyModifiers::SHIFT).is_empty()
}

/// `first` and the characters that wait behind it, and what came after them.
fn characters(first: KeyEvent, waiting: &mut Receiver<Input>) -> (Vec<KeyEvent>, Option<Input>) {
    let mut keys = vec![first];
    while let Ok(next) = waiting.try_recv() {
        match next {
            Input::Key(event) if is_text(&event) => keys.push(event),
            other => return (keys, Some(other)),
        }
    }
    (keys, None)
}

/// The sources of messages.
struct Sources {
    signals: UnboundedReceiver<Signal>,
    keys: Receiver<Input>,
    events: UnboundedReceiver<Event>,
}

async fn work(app: &mut App, sources: Sources) -> anyhow::Result<()> {
    let Sources { mut signals, mut keys, mut events } = sources;
    let mut usage = looks();
    let mut alive = true;
    let mut drawn = Instant::now() - FRAME;
    while !app.ended {
        if app.can_draw() && drawn.elapsed() >= app.pace() {
            app.draw()?;
            drawn = Instant::now();
        }
        let wake = match app.model.deadline() {
            _ if app.can_draw() => Some(drawn + app.pace()),
            Some(deadline) if !app.changed => Some(app.began + deadline),
            _ => None,
        };
        let pause = async {
            match wake {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            Some(signal) = signals.recv() => app.signal(signal),
            result = app.screen.written() => if let Err(error) = result {
                tracing::warn!("the terminal takes nothing any more: {error}");
                app.take(Message::Terminate);
            },
            input = keys.recv() => match input {
                Some(input) => app.input(input, &mut keys),
                // The terminal is gone.
                None => app.take(Message::Terminate),
            },
            event = events.recv(), if alive => match event {
                Some(event) => app.take(Message::Worker(event)),
                None => {
                    alive = false;
                    app.take(Message::WorkerGone(terminal::last_words()));
                }
            },
            Some(usage) = usage.recv() => app.take(Message::Usage(usage)),
            () = pause => if !app.changed { app.take(Message::Tick) },
        }
        // The other queued messages, for half a frame's time: typing must stay visible.
        let until = Instant::now() + TAKE_IN;
        while !app.ended && signals.is_empty() && Instant::now() < until {
            if let Ok(input) = keys.try_recv() {
                app.input(input, &mut keys);
            } else if let Ok(event) = events.try_recv() {
                app.take(Message::Worker(event));
            } else {
                break;
            }
        }
    }
    Ok(())
}

/// Samples the machine's load once a second, on a thread of its own: the driver may be slow.
fn looks() -> UnboundedReceiver<Usage> {
    let (sender, receiver) = unbounded_channel();
    let watch = move || {
        let mut sampler = UsageMeter::new();
        while sender.send(sampler.sample()).is_ok() {
            std::thread::sleep(LOOK);
        }
    };
    // Without a thread the meters stay empty; everything else works.
    if let Err(error) = std::thread::Builder::new().name("dovetail-meters".into()).spawn(watch) {
        tracing::warn!("no thread for the meters: {error}");
    }
    receiver
}

#[cfg(test)]
mod tests;
