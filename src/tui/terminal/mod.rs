//! The terminal: set up at the start, restored on every way out. Restoring is idempotent and needs
//! only the standard output, so that a panic hook can do it. Must never know what is drawn.

mod bursts;
pub(crate) mod editor;
pub(crate) mod faults;
pub(crate) mod graphics;
mod key_codes;
pub(crate) mod keys;
mod output;
pub(crate) mod sequences;
pub(crate) mod signals;

use std::io::{self, Write, stdout};
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use crossterm::clipboard::CopyToClipboard;
use crossterm::cursor::{RestorePosition, SavePosition, Show};
use crossterm::event::{
    DisableBracketedPaste, DisableFocusChange, DisableMouseCapture, EnableBracketedPaste,
    EnableFocusChange, EnableMouseCapture, KeyboardEnhancementFlags, PopKeyboardEnhancementFlags,
    PushKeyboardEnhancementFlags,
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
use unicode_width::UnicodeWidthStr;

use self::output::{FrameBuffer, FrameWriter};

/// Longest wait for a frame that is being written when the terminal is restored.
const LAST_FRAME: Duration = Duration::from_millis(250);

/// kitty's protocol: keys that cannot be taken for others, and the place of a letter of another
/// alphabet on a Latin keyboard.
const KEYS: KeyboardEnhancementFlags = KeyboardEnhancementFlags::DISAMBIGUATE_ESCAPE_CODES
    .union(KeyboardEnhancementFlags::REPORT_ALTERNATE_KEYS);
const OTHER_KEYS: &str = "\x1b[>4;1m";
const NO_OTHER_KEYS: &str = "\x1b[>4m";
const SAVE_TITLE: &str = "\x1b[22;2t";
const RESTORE_TITLE: &str = "\x1b[23;2t";
/// While the mouse is the terminal's, it sends arrows for the wheel, which would page through sent
/// messages. Whether it did so before is saved.
const NO_WHEEL_AS_ARROWS: &str = "\x1b[?1007s\x1b[?1007l";
/// As it was, where the terminal knows that; else as most have it.
const WHEEL_AS_BEFORE: &str = "\x1b[?1007h\x1b[?1007r";

/// Whether the terminal is set up for the screen.
static TAKEN: AtomicBool = AtomicBool::new(false);
/// Message of the panic of a thread other than the screen's.
static WORKER_PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Asks for the background's colour, the terminal's name (XTVERSION) and its attributes (DA1):
/// every terminal answers the last one, and in order. Answers may come at any time, among keys.
const QUESTIONS: &str = "\x1b]11;?\x1b\\\x1b[>q\x1b[c";

/// Whether this terminal can be asked: the answers do not go to keys (Windows), and it draws no
/// questions that it does not know.
fn answers() -> bool {
    let term = std::env::var("TERM").unwrap_or_default();
    cfg!(unix) && !["dumb", "linux"].contains(&&*term) && !term.starts_with("eterm")
}

/// Whether the terminal is one that sends Shift+Enter and the like only to who asks for it in
/// xterm's way (modifyOtherKeys): tmux and xterm itself. Others ask by kitty's.
fn knows_other_keys() -> bool {
    ["TMUX", "XTERM_VERSION"].iter().any(|name| std::env::var_os(name).is_some())
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
    /// Whether the chat has asked it for its looks.
    pub asked: bool,
}

impl Screen {
    /// Takes the terminal: raw mode, alternate screen, bracketed paste, and the `mouse`. If it
    /// `asks`, [`Self::asked`] says whether answers are due.
    ///
    /// # Errors
    /// If there is no terminal.
    pub fn take(mouse: bool, asks: bool) -> io::Result<Self> {
        install_hook();
        let buffer = FrameBuffer::default();
        let terminal = Terminal::new(CrosstermBackend::new(buffer.clone()))?;
        let output = FrameWriter::start(&TAKEN)?;
        let asked = asks && answers();
        let mut screen = Self { terminal, buffer, output, mouse, every_move: false, asked };
        screen.enter()?;
        if asked {
            screen.put(Print(QUESTIONS))?;
        }
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
        queue!(out, EnterAlternateScreen, EnableBracketedPaste, EnableFocusChange)?;
        queue!(out, Print(SAVE_TITLE), SetTitle("dovetail"), Print(NO_WHEEL_AS_ARROWS))?;
        // Shift+Enter, where the terminal can tell it from Enter; others ignore this.
        let _ = queue!(out, PushKeyboardEnhancementFlags(KEYS));
        if knows_other_keys() {
            queue!(out, Print(OTHER_KEYS))?;
        }
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
    if knows_other_keys() {
        let _ = queue!(out, Print(NO_OTHER_KEYS));
    }
    let _ = queue!(out, Print(WHEEL_AS_BEFORE), Print(RESTORE_TITLE), DisableFocusChange);
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
