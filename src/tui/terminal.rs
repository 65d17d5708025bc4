//! The terminal: taken at the start, given back whatever happens. Restoring is idempotent and
//! needs nothing but the standard output, so that a panic hook can do it.

use std::io::{self, Stdout, Write, stdout};
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::ThreadId;

use crossterm::clipboard::CopyToClipboard;
use crossterm::cursor::Show;
use crossterm::event::{
    DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture,
    KeyboardEnhancementFlags, PopKeyboardEnhancementFlags, PushKeyboardEnhancementFlags,
};
use crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, SetTitle, disable_raw_mode, enable_raw_mode,
};
use crossterm::{execute, queue};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;

const DISAMBIGUATE: KeyboardEnhancementFlags = KeyboardEnhancementFlags::DISAMBIGUATE_ESCAPE_CODES;

/// Whether the terminal is ours at the moment.
static TAKEN: AtomicBool = AtomicBool::new(false);
/// What a thread other than the screen's said when it panicked.
static LAST_WORDS: Mutex<Option<String>> = Mutex::new(None);

/// The terminal while it is ours.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Takes the terminal: raw mode, alternate screen, bracketed paste.
    ///
    /// # Errors
    /// If there is no terminal.
    pub fn take() -> io::Result<Self> {
        install_hook();
        enable_raw_mode()?;
        TAKEN.store(true, Ordering::SeqCst);
        // From here on a failure gives back what was taken.
        let enter = || {
            execute!(stdout(), EnterAlternateScreen, EnableBracketedPaste, SetTitle("dovetail"))?;
            // Shift+Enter, where the terminal can tell it from Enter; others ignore this.
            let _ = execute!(stdout(), PushKeyboardEnhancementFlags(DISAMBIGUATE));
            Terminal::new(CrosstermBackend::new(stdout()))
        };
        match enter() {
            Ok(terminal) => Ok(Self { terminal }),
            Err(error) => {
                restore();
                Err(error)
            }
        }
    }

    /// The terminal, to be drawn on.
    pub fn terminal(&mut self) -> &mut Terminal<CrosstermBackend<Stdout>> {
        &mut self.terminal
    }

    /// Whether the wheel scrolls; the terminal's own selection then needs Shift.
    pub fn mouse(&mut self, on: bool) -> io::Result<()> {
        if on {
            execute!(stdout(), EnableMouseCapture)
        } else {
            execute!(stdout(), DisableMouseCapture)
        }
    }

    /// Asks the terminal to put `text` on the clipboard (OSC 52): works over ssh.
    pub fn copy(&mut self, text: &str) -> io::Result<()> {
        execute!(stdout(), CopyToClipboard::to_clipboard_from(text))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Gives the terminal back. Failures are ignored: there is nobody left to tell.
pub fn restore() {
    if !TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    let mut out = stdout();
    let _ = queue!(out, PopKeyboardEnhancementFlags);
    let _ = queue!(out, DisableMouseCapture, DisableBracketedPaste, LeaveAlternateScreen, Show);
    let _ = out.flush();
    let _ = disable_raw_mode();
}

/// What a thread other than the screen's said when it panicked; asked once.
pub fn last_words() -> Option<String> {
    LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// A panic of the screen's thread gives the terminal back before it is reported. A panic of
/// another thread must not write into the screen: its words are kept for a box.
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
            *LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner) = Some(info.to_string());
            return;
        }
        restore();
        if let Some(before) = BEFORE.get() {
            before(info);
        }
    }));
}
