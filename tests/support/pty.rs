//! A program on a pseudo-terminal, and the screen that it draws. It reads what is on the screen and
//! not what was sent, because a stream of differences tells a reader nothing.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

/// The longest wait for anything; a loaded machine is slow.
const PATIENCE: Duration = Duration::from_secs(30);

/// The longest time until a program's last output reaches the screen.
const SETTLING: Duration = Duration::from_secs(3);

struct Seen {
    parser: vt100::Parser,
    written: Vec<(Duration, Vec<u8>)>,
}

impl Seen {
    fn bytes(&self) -> Vec<u8> {
        self.written.iter().flat_map(|(_, bytes)| bytes).copied().collect()
    }
}

/// What the reader does with the program's next bytes: reads them, reads nothing more after them,
/// or closes its end of the terminal.
const TAKE: u8 = 0;
const HOLD: u8 = 1;
const CLOSE: u8 = 2;

/// A running program.
pub struct Pty {
    child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    keys: Box<dyn Write + Send>,
    seen: Arc<Mutex<Seen>>,
    reader: Arc<AtomicU8>,
    before: String,
}

/// The results of a program that has ended.
pub struct Ended {
    /// Its exit code.
    pub code: u32,
    /// What the terminal shows.
    pub screen: String,
    /// Everything it wrote.
    pub bytes: Vec<u8>,
}

/// A size of cells of 10 × 20 pixels.
fn size_of(columns: u16, rows: u16) -> PtySize {
    PtySize { rows, cols: columns, pixel_width: columns * 10, pixel_height: rows * 20 }
}

impl Pty {
    /// Starts `command` on a terminal of this size.
    pub fn start(command: CommandBuilder, columns: u16, rows: u16) -> Self {
        let size = size_of(columns, rows);
        let pair = native_pty_system().openpty(size).unwrap();
        let before = line_settings(pair.master.as_ref());
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let mut reader = pair.master.try_clone_reader().unwrap();
        let keys = pair.master.take_writer().unwrap();
        let parser = vt100::Parser::new(rows, columns, 0);
        let seen = Arc::new(Mutex::new(Seen { parser, written: Vec::new() }));
        let began = Instant::now();
        let sink = seen.clone();
        let mode = Arc::new(AtomicU8::new(TAKE));
        let wanted = mode.clone();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = reader.read(&mut buffer) {
                while wanted.load(Ordering::SeqCst) == HOLD {
                    std::thread::sleep(Duration::from_millis(5));
                }
                if wanted.load(Ordering::SeqCst) == CLOSE {
                    return;
                }
                let mut seen = sink.lock().unwrap();
                seen.parser.process(&buffer[..read]);
                seen.written.push((began.elapsed(), buffer[..read].to_vec()));
            }
        });
        Self { child, master: pair.master, keys, seen, reader: mode, before }
    }

    /// Types.
    pub fn send(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// What is on the screen.
    pub fn screen(&self) -> String {
        self.seen.lock().unwrap().parser.screen().contents()
    }

    /// Waits until the screen is as `wanted`.
    pub fn wait(&mut self, what: &str, wanted: impl Fn(&str) -> bool) {
        self.wait_within(PATIENCE, what, wanted);
    }

    /// Waits until the screen is as `wanted`, at most this long.
    pub fn wait_within(&mut self, limit: Duration, what: &str, wanted: impl Fn(&str) -> bool) {
        let began = Instant::now();
        let mut ended: Option<Instant> = None;
        while !wanted(&self.screen()) {
            if let Some(status) = self.child.try_wait().unwrap() {
                // Its last output may still be on its way.
                let since = ended.get_or_insert_with(Instant::now).elapsed();
                assert!(since < SETTLING, "ended ({status:?}) before {what}:\n{}", self.screen());
            }
            assert!(began.elapsed() < limit, "waited for {what} in vain:\n{}", self.screen());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until `text` is on the screen.
    pub fn wait_for(&mut self, text: &str) {
        self.wait(text, |screen| screen.contains(text));
    }

    /// Types, and waits until `text` is on the screen.
    pub fn type_until(&mut self, keys: &str, text: &str) {
        self.send(keys);
        self.wait_for(text);
    }

    /// Changes the size of the terminal.
    pub fn resize(&mut self, columns: u16, rows: u16) {
        let size = size_of(columns, rows);
        self.master.resize(size).unwrap();
        // If a wide character, drawn for the previous size, meets a single column, the reader's
        // emulator (vt100 0.16) subtracts below zero. So it gets two columns; the program sees the
        // true size.
        self.seen.lock().unwrap().parser.screen_mut().set_size(rows.max(2), columns.max(2));
    }

    /// Sends a signal by its name, e.g. `TERM`.
    #[cfg(unix)]
    pub fn signal(&self, name: &str) {
        let pid = self.child.process_id().unwrap().to_string();
        let sent = std::process::Command::new("kill").args([&format!("-{name}"), &pid]).status();
        assert!(sent.unwrap().success());
    }

    /// What was written so far.
    pub fn bytes(&self) -> Vec<u8> {
        self.seen.lock().unwrap().bytes()
    }

    /// What was written so far, and when.
    pub fn written(&self) -> Vec<(Duration, Vec<u8>)> {
        self.seen.lock().unwrap().written.clone()
    }

    /// What `see` returns for the screen with its colours.
    pub fn see<T>(&self, see: impl FnOnce(&vt100::Screen) -> T) -> T {
        see(self.seen.lock().unwrap().parser.screen())
    }

    /// From now on the terminal accepts nothing, as if held with Ctrl+S.
    pub fn hold(&self) {
        self.reader.store(HOLD, Ordering::SeqCst);
    }

    /// Closes the terminal while `keys` are on their way to the program; returns its exit code and
    /// how long it took to end. `keys` must cause something to be drawn.
    pub fn hang_up(mut self, keys: &str) -> (u32, Duration) {
        self.reader.store(CLOSE, Ordering::SeqCst);
        self.send(keys);
        let Self { child, master, keys, .. } = self;
        drop((master, keys));
        wait(child)
    }

    /// Waits for the end of a program that cannot restore its terminal; returns its exit code.
    pub fn end_unseen(self) -> u32 {
        let code = wait(self.child).0;
        self.reader.store(CLOSE, Ordering::SeqCst);
        code
    }

    /// Whether the terminal is as it was before the program.
    pub fn is_restored(&self) -> bool {
        let seen = self.seen.lock().unwrap();
        let screen = seen.parser.screen();
        line_settings(self.master.as_ref()) == self.before
            && !screen.alternate_screen()
            && !screen.bracketed_paste()
            && !screen.hide_cursor()
    }

    /// Waits for the end and checks that the terminal is as it was before.
    pub fn end(mut self) -> Ended {
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(began.elapsed() < PATIENCE, "does not end:\n{}", self.screen());
            std::thread::sleep(Duration::from_millis(20));
        };
        // The last output is still on its way.
        let mut last = 0;
        loop {
            std::thread::sleep(Duration::from_millis(100));
            let now = self.seen.lock().unwrap().written.len();
            if now == last {
                break;
            }
            last = now;
        }
        assert_eq!(line_settings(self.master.as_ref()), self.before, "raw mode was left behind");
        let seen = self.seen.lock().unwrap();
        let screen = seen.parser.screen();
        assert!(!screen.alternate_screen(), "the alternate screen was left behind");
        assert!(!screen.bracketed_paste(), "bracketed paste was left behind");
        assert!(!screen.hide_cursor(), "the cursor was left hidden");
        assert_eq!(screen.mouse_protocol_mode(), vt100::MouseProtocolMode::None);
        Ended { code: status.exit_code(), screen: screen.contents(), bytes: seen.bytes() }
    }
}

fn wait(mut child: Box<dyn Child + Send + Sync>) -> (u32, Duration) {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return (status.exit_code(), began.elapsed());
        }
        if began.elapsed() >= PATIENCE {
            child.kill().unwrap();
            panic!("does not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The terminal's line settings (echo, line mode), for comparison.
#[cfg(unix)]
fn line_settings(master: &(dyn MasterPty + Send)) -> String {
    master.get_termios().map(|settings| format!("{:?}", settings.local_flags)).unwrap_or_default()
}

/// There are none: a Windows console keeps them internally.
#[cfg(not(unix))]
fn line_settings(_: &(dyn MasterPty + Send)) -> String {
    String::new()
}
