//! The terminal: set up at the start, restored on every way out. Restoring is idempotent and needs
//! only the standard output, so that a panic hook can do it. Must never know what is drawn.

pub(crate) mod editor;
pub(crate) mod faults;
pub(crate) mod graphics;
pub(crate) mod keys;
mod output;
pub(crate) mod signals;

use std::io::{self, Write, stdout};
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use crossterm::clipboard::CopyToClipboard;
use crossterm::cursor::{RestorePosition, SavePosition, Show};
use crossterm::event::{
    DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture,
    KeyboardEnhancementFlags, PopKeyboardEnhancementFlags, PushKeyboardEnhancementFlags,
};
use crossterm::queue;
use crossterm::style::Print;
use crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    SetTitle, disable_raw_mode, enable_raw_mode,
};
use ratatui::backend::{Backend, CrosstermBackend};
use ratatui::layout::{Position, Rect};
use ratatui::{Frame, Terminal};
use terminal_colorsaurus::{QueryOptions, ThemeMode, theme_mode};
use unicode_width::UnicodeWidthStr;

use self::output::{FrameBuffer, FrameWriter};
use crate::settings::ThemeName;
use crate::tui::pictures::Graphics;

/// Longest wait for a frame that is being written when the terminal is restored.
const LAST_FRAME: Duration = Duration::from_millis(250);

const DISAMBIGUATE: KeyboardEnhancementFlags = KeyboardEnhancementFlags::DISAMBIGUATE_ESCAPE_CODES;

/// Whether the terminal is set up for the screen.
static TAKEN: AtomicBool = AtomicBool::new(false);
/// Message of the panic of a thread other than the screen's.
static WORKER_PANIC: Mutex<Option<String>> = Mutex::new(None);

/// The theme for the terminal's background, dark if the terminal does not report it, and how it
/// shows images. Call this before the screen takes the terminal, since the answers come as keys do.
pub fn look() -> (ThemeName, Option<Graphics>) {
    /// Longest wait: over a slow connection the default is better than a pause.
    const LIMIT: Duration = Duration::from_millis(150);
    // What was typed already would be read with the answer and lost. Half a line shows in raw mode
    // alone.
    let typed = enable_raw_mode().is_err() || keys::are_waiting();
    let _ = disable_raw_mode();
    if typed {
        return (ThemeName::Dark, None);
    }
    let began = Instant::now();
    let mut options = QueryOptions::default();
    options.timeout = LIMIT;
    let theme = match theme_mode(options) {
        Ok(ThemeMode::Light) => ThemeName::Light,
        Ok(ThemeMode::Dark) => ThemeName::Dark,
        // A terminal that does not answer this would not answer the next question either.
        Err(_) => return (ThemeName::Dark, None),
    };
    (theme, graphics::ask(LIMIT.saturating_sub(began.elapsed())))
}

/// The terminal while it is set up.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<FrameBuffer>>,
    /// What the terminal above writes to.
    buffer: FrameBuffer,
    pub output: FrameWriter,
    /// Whether the mouse is the program's.
    mouse: bool,
    /// Whether its moves are too, without a button held.
    every_move: bool,
}

impl Screen {
    /// Takes the terminal: raw mode, alternate screen, bracketed paste, and the `mouse`.
    ///
    /// # Errors
    /// If there is no terminal.
    pub fn take(mouse: bool) -> io::Result<Self> {
        install_hook();
        let buffer = FrameBuffer::default();
        let terminal = Terminal::new(CrosstermBackend::new(buffer.clone()))?;
        let output = FrameWriter::start(&TAKEN)?;
        let mut screen = Self { terminal, buffer, output, mouse, every_move: false };
        screen.enter()?;
        Ok(screen)
    }

    /// Takes the terminal again after another program has used it.
    ///
    /// # Errors
    /// If there is no terminal.
    pub fn retake(&mut self) -> io::Result<()> {
        restore();
        self.enter()?;
        self.redraw()
    }

    fn enter(&mut self) -> io::Result<()> {
        // Between a stop and the shell's `fg` this process is in the background: changing the
        // settings stops it again, and the call is interrupted.
        while let Err(error) = enable_raw_mode() {
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        TAKEN.store(true, Ordering::SeqCst);
        let out = &mut self.buffer;
        queue!(out, EnterAlternateScreen, EnableBracketedPaste, SetTitle("dovetail"))?;
        // Shift+Enter, where the terminal can tell it from Enter; others ignore this.
        let _ = queue!(out, PushKeyboardEnhancementFlags(DISAMBIGUATE));
        if self.mouse {
            self.take_mouse()?;
        }
        self.send();
        Ok(())
    }

    /// Draws a frame. The terminal gets it in one piece and shows it at once, so that the user
    /// never sees it cleared and not yet drawn. `view` returns the places of links, and where each
    /// leads: their cells are written once more, as links (OSC 8), which the frame itself cannot
    /// say. Terminals without links ignore that.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn draw(
        &mut self,
        view: impl FnOnce(&mut Frame<'_>) -> Vec<(Rect, String)>,
    ) -> io::Result<()> {
        queue!(self.buffer, BeginSynchronizedUpdate)?;
        let mut links = Vec::new();
        let drawn = self.terminal.draw(|frame| links = view(frame))?;
        let cells = |(area, to): (Rect, String)| {
            let cell = |at: Position| Some((at.x, at.y, drawn.buffer.cell(at)?.clone()));
            (area.positions().filter_map(cell).collect::<Vec<_>>(), to)
        };
        let linked: Vec<_> = links.into_iter().map(cells).collect();
        for (cells, to) in linked {
            // A wide character covers the cell after it, which must not be written.
            if cells.iter().any(|(_, _, cell)| cell.symbol().width() > 1) {
                continue;
            }
            queue!(self.buffer, SavePosition, Print(format!("\x1b]8;;{to}\x1b\\")))?;
            self.terminal.backend_mut().draw(cells.iter().map(|(x, y, cell)| (*x, *y, cell)))?;
            queue!(self.buffer, Print("\x1b]8;;\x1b\\"), RestorePosition)?;
        }
        queue!(self.buffer, EndSynchronizedUpdate)?;
        self.send();
        Ok(())
    }

    /// Makes the next frame redraw every cell.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn redraw(&mut self) -> io::Result<()> {
        // Not `clear`: it asks where the cursor is, and the input's thread would take the answer. A
        // change of size clears without asking.
        let size = self.terminal.size()?;
        self.terminal.resize(size.into())
    }

    /// Asks for the mouse's buttons and for its moves while one is held, or for every move.
    /// crossterm's own command always asks for every move, each of which wakes the loop.
    fn take_mouse(&mut self) -> io::Result<()> {
        if cfg!(windows) {
            return queue!(self.buffer, EnableMouseCapture);
        }
        // Terminals know one of these modes at a time: switching one off switches the mouse off.
        let modes = match self.every_move {
            true => "\x1b[?1003h\x1b[?1006h",
            false => "\x1b[?1003l\x1b[?1000h\x1b[?1002h\x1b[?1006h",
        };
        queue!(self.buffer, Print(modes))
    }

    /// Whether the mouse is the program's; the terminal's own selection then needs Shift.
    pub fn mouse(&mut self, on: bool) -> io::Result<()> {
        self.mouse = on;
        if !on {
            return self.put(DisableMouseCapture);
        }
        self.take_mouse()?;
        self.send();
        Ok(())
    }

    /// Has the terminal report every move of the mouse, or only those with a button held: a report
    /// wakes the loop, so that it is worth it only where something answers moves.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn watch_pointer(&mut self, every_move: bool) -> io::Result<()> {
        let changed = std::mem::replace(&mut self.every_move, every_move) != every_move;
        if changed && self.mouse { self.mouse(true) } else { Ok(()) }
    }

    /// Asks the terminal to put `text` on the clipboard (OSC 52): works over ssh.
    pub fn copy(&mut self, text: &str) -> io::Result<()> {
        self.put(CopyToClipboard::to_clipboard_from(text))
    }

    /// Sends the terminal what comes before a frame.
    ///
    /// # Errors
    /// There is no terminal.
    pub fn put(&mut self, command: impl crossterm::Command) -> io::Result<()> {
        queue!(self.buffer, command)?;
        self.send();
        Ok(())
    }

    fn send(&mut self) {
        self.output.send(self.buffer.take());
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the terminal. Failures are ignored: they cannot be reported any more.
pub fn restore() {
    if !TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    // No frame begins any more; the one being written is completed.
    let _quiet = output::pause(LAST_FRAME);
    let mut out = stdout();
    let _ = queue!(out, EndSynchronizedUpdate);
    let _ = queue!(out, PopKeyboardEnhancementFlags);
    let _ = queue!(out, DisableMouseCapture, DisableBracketedPaste, LeaveAlternateScreen, Show);
    let _ = out.flush();
    let _ = disable_raw_mode();
}

/// Restores the terminal at exit, within `limit` even where the terminal accepts nothing.
pub fn restore_within(limit: Duration) {
    let (done, ended) = std::sync::mpsc::channel();
    let give_back = move || {
        restore();
        let _ = done.send(());
    };
    let thread = std::thread::Builder::new().name("dovetail-restore".into());
    if thread.spawn(give_back).is_err() || ended.recv_timeout(limit).is_err() {
        // The line settings can be restored without writing to the terminal.
        let _ = disable_raw_mode();
    }
}

/// Message of the panic of a thread other than the screen's; given once.
pub fn worker_panic() -> Option<String> {
    WORKER_PANIC.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// A panic of the screen's thread gives the terminal back before it is reported. A panic of
/// another thread must not write into the screen: its message is kept for an overlay.
fn install_hook() {
    type Hook = Box<dyn Fn(&PanicHookInfo<'_>) + Send + Sync>;
    static BEFORE: OnceLock<Hook> = OnceLock::new();
    static SCREEN: Mutex<Option<ThreadId>> = Mutex::new(None);
    *SCREEN.lock().unwrap_or_else(PoisonError::into_inner) = Some(std::thread::current().id());
    if BEFORE.set(std::panic::take_hook()).is_err() {
        return;
    }
    std::panic::set_hook(Box::new(|info| {
        let screen = *SCREEN.lock().unwrap_or_else(PoisonError::into_inner);
        let here = screen == Some(std::thread::current().id());
        tracing::error!("panic: {info}");
        if !here && TAKEN.load(Ordering::SeqCst) {
            *WORKER_PANIC.lock().unwrap_or_else(PoisonError::into_inner) = Some(info.to_string());
            return;
        }
        restore();
        if let Some(before) = BEFORE.get() {
            before(info);
        }
    }));
}
