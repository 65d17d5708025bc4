//! Standard output of the commands: unchanged for a pipe or a file, made printable for a terminal,
//! an error where it is closed.

use std::io::{self, IsTerminal, StdoutLock, Write};

use crate::printable::printable;

pub struct Output<W: Write> {
    out: W,
    terminal: bool,
    /// Incomplete UTF-8 sequence at the end of what was written.
    cut: Vec<u8>,
}

/// Standard output, to be written to by one command.
///
/// # Errors
/// It was closed when the program began: what is written would be lost.
pub fn stdout() -> io::Result<Output<StdoutLock<'static>>> {
    if closed() {
        let reason = "standard output is closed, so the result cannot be written";
        return Err(io::Error::new(io::ErrorKind::NotConnected, reason));
    }
    Ok(Output::new(io::stdout().lock(), io::stdout().is_terminal()))
}

impl<W: Write> Output<W> {
    fn new(out: W, terminal: bool) -> Self {
        Self { out, terminal, cut: Vec::new() }
    }
}

impl<W: Write> Write for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.terminal {
            return self.out.write(bytes);
        }
        self.cut.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.cut) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.cut.len(),
        };
        let text: Vec<u8> = self.cut.drain(..whole).collect();
        self.out.write_all(printable(&String::from_utf8_lossy(&text)).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(unix)]
use start::closed;

#[cfg(not(unix))]
fn closed() -> bool {
    false
}

/// Whether stdout was open when the program began. The standard library replaces a closed stdout
/// by /dev/null before `main`, so this is read earlier, while the program is being loaded.
#[cfg(unix)]
#[allow(unsafe_code)]
mod start {
    use std::sync::atomic::{AtomicBool, Ordering};

    static CLOSED: AtomicBool = AtomicBool::new(false);

    pub(super) fn closed() -> bool {
        CLOSED.load(Ordering::Relaxed)
    }

    extern "C" fn check_stdout() {
        // SAFETY: the call reads a flag of a descriptor; it may be any number, open or not.
        let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
        CLOSED.store(flags == -1, Ordering::Relaxed);
    }

    // SAFETY: the section holds functions that the loader calls once, before `main`; `check_stdout`
    // needs nothing of the standard library that is set up later.
    #[used]
    #[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".init_array"))]
    #[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
    static CHECK: extern "C" fn() = check_stdout;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(terminal: bool, parts: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut output = Output::new(&mut bytes, terminal);
        parts.iter().for_each(|part| output.write_all(part).unwrap());
        output.flush().unwrap();
        bytes
    }

    #[test]
    fn a_pipe_gets_every_byte_and_a_terminal_only_printable_ones() {
        let escape = "a\u{1b}]52;c;QQ==\u{7}\u{9b}2J\né".as_bytes();
        assert_eq!(written(false, &[escape, b"\xff"]), [escape, b"\xff"].concat());
        let shown = "a␛]52;c;QQ==␇\\u{9b}2J\né".as_bytes();
        assert_eq!(written(true, &[escape]), shown);
        // A character that comes in parts, the half of C1 included.
        let parts: Vec<&[u8]> = escape.chunks(1).collect();
        assert_eq!(written(true, &parts), shown);
        assert_eq!(written(true, &[b"\x9b2J"]), "\u{fffd}2J".as_bytes());
    }
}
