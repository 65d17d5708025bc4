//! The loop of the screen: input first, then the worker, then time; everything that waits is
//! taken in, then the screen is drawn once, at most 30 times a second and only after a change: it
//! shares its cores with verification.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use crossterm::event::{Event as Input, EventStream, MouseEventKind};
use futures::{FutureExt, StreamExt};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::effects::EffectRunner;
use super::state::{Model, ModelConfig};
use super::terminal::{self, Screen};
use super::update::{Effect, Message, update};
use super::view;
use crate::chat::SessionStore;
use crate::hardware::{Sampler, Usage};
use crate::worker::{Event, SharedControls, Sink, Worker};

/// Least time between two frames.
const FRAME: Duration = Duration::from_millis(33);
/// Time between two looks at the machine.
const LOOK: Duration = Duration::from_secs(1);

/// How the screen starts.
pub struct ScreenConfig {
    /// The screen itself.
    pub model: ModelConfig,
    /// Where conversations are saved; `None` saves nothing.
    pub store: Option<SessionStore>,
}

/// Shows the screen until the user leaves. `start` starts the worker, whose events go to the sink
/// it is given. The terminal is given back and the conversation saved whatever happens.
///
/// # Errors
/// There is no terminal, or the worker cannot be started.
pub fn run(
    config: ScreenConfig,
    controls: SharedControls,
    start: impl FnOnce(SharedControls, Sink) -> anyhow::Result<Worker>,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (sender, events) = unbounded_channel();
    let worker = start(controls.clone(), Box::new(move |event| sender.send(event).is_ok()))?;
    let runner = EffectRunner::new(worker, controls, config.store);
    let app = App::new(Model::new(config.model), runner, Screen::take()?);
    guarded(app, |app| {
        let size = crossterm::terminal::size()?;
        app.take(Message::Resize(size.0, size.1));
        runtime.block_on(work(app, events))
    })
}

/// Runs `body` on the terminal, then gives it back; after a panic the conversation is saved.
fn guarded(mut app: App, body: impl FnOnce(&mut App) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let result = catch_unwind(AssertUnwindSafe(|| body(&mut app)));
    terminal::restore();
    // Whatever went wrong with the screen, what was said must not be lost.
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
    ended: bool,
}

fn target(model: &Model) -> &str {
    model.ready.as_ref().map_or("", |ready| &ready.target)
}

impl App {
    fn new(model: Model, runner: EffectRunner, screen: Screen) -> Self {
        Self { model, runner, screen, began: Instant::now(), changed: true, ended: false }
    }

    /// Takes a message in and does what follows from it.
    fn take(&mut self, message: Message) {
        self.changed = true;
        let mut waiting = vec![message];
        while let Some(message) = waiting.pop() {
            for effect in update(&mut self.model, message, self.began.elapsed()) {
                waiting.extend(self.perform(effect));
            }
        }
    }

    /// Does what the model asks for; what comes of it is a message again.
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
                // Not `clear`: it asks where the cursor is, and the input stream would take the
                // answer. A change of size clears without asking.
                let terminal = self.screen.terminal();
                let done = terminal.size().and_then(|size| terminal.resize(size.into()));
                if let Err(error) = done {
                    tracing::warn!("clear: {error}");
                }
            }
            Effect::Quit => self.ended = true,
        }
        None
    }

    fn draw(&mut self) -> anyhow::Result<()> {
        self.model.now = self.began.elapsed();
        let model = &mut self.model;
        self.screen.terminal().draw(|frame| view::draw(frame, model))?;
        self.changed = false;
        Ok(())
    }

    fn input(&mut self, input: Option<std::io::Result<Input>>) {
        let message = match input {
            Some(Ok(Input::Key(event))) => Message::Key(event),
            Some(Ok(Input::Paste(text))) => Message::Paste(text),
            Some(Ok(Input::Resize(width, height))) => Message::Resize(width, height),
            Some(Ok(Input::Mouse(event))) => match event.kind {
                MouseEventKind::ScrollUp => Message::Wheel(-3),
                MouseEventKind::ScrollDown => Message::Wheel(3),
                _ => return,
            },
            Some(Ok(Input::FocusGained | Input::FocusLost)) => return,
            // The terminal is gone.
            Some(Err(_)) | None => Message::Terminate,
        };
        self.take(message);
    }
}

async fn work(app: &mut App, mut events: UnboundedReceiver<Event>) -> anyhow::Result<()> {
    let mut input = EventStream::new();
    let mut usage = looks();
    let mut signals = Signals::new()?;
    let mut alive = true;
    let mut drawn = Instant::now() - FRAME;
    while !app.ended {
        if app.changed && drawn.elapsed() >= FRAME {
            app.draw()?;
            drawn = Instant::now();
        }
        let wake = if app.changed {
            Some(drawn + FRAME)
        } else {
            app.model.deadline().map(|deadline| app.began + deadline)
        };
        let pause = async {
            match wake {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = signals.next() => app.take(Message::Terminate),
            event = input.next() => app.input(event),
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
        while let Some(Some(event)) = input.next().now_or_never() {
            app.input(Some(event));
        }
        while let Ok(event) = events.try_recv() {
            app.take(Message::Worker(event));
        }
    }
    Ok(())
}

/// Looks at the machine once a second, on a thread of their own: the driver may take its time.
fn looks() -> UnboundedReceiver<Usage> {
    let (sender, receiver) = unbounded_channel();
    let watch = move || {
        let mut sampler = Sampler::new();
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

/// Asks of the system to end.
#[cfg(unix)]
struct Signals([tokio::signal::unix::Signal; 3]);

#[cfg(unix)]
impl Signals {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let [a, b, c] = [SignalKind::terminate(), SignalKind::hangup(), SignalKind::interrupt()];
        Ok(Self([signal(a)?, signal(b)?, signal(c)?]))
    }

    async fn next(&mut self) {
        let [a, b, c] = &mut self.0;
        tokio::select! {
            _ = a.recv() => {}
            _ = b.recv() => {}
            _ = c.recv() => {}
        }
    }
}

/// Asks of the system to end.
#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests;
