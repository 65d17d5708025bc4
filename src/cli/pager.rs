//! Long texts on a terminal: through the user's pager, or written at once where there is none.

use std::io::{self, IsTerminal, Write};
use std::process::{Command, Stdio};

use super::exit::CommandResult;
use super::interrupt;
use super::output::stdout;

/// Rows are no longer than this: longer ones are hard to read.
const WIDEST: u16 = 100;
/// Columns where the terminal does not tell.
const USUAL: u16 = 80;

/// Shows what `styled` makes for a number of columns, page by page; where stdout is not a terminal,
/// writes `plain` there.
pub fn show(plain: &str, styled: impl FnOnce(usize) -> String) -> CommandResult {
    let mut out = stdout()?;
    if !io::stdout().is_terminal() {
        out.write_all(plain.as_bytes())?;
        return Ok(out.flush()?);
    }
    drop(out);
    let columns = crossterm::terminal::size().map_or(USUAL, |(columns, _)| columns);
    let text = styled(usize::from(columns.clamp(1, WIDEST)));
    if paged(&text)? {
        return Ok(());
    }
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Runs the pager on `text`; `false` if there is none.
fn paged(text: &str) -> io::Result<bool> {
    // Such a terminal cannot be moved in.
    if std::env::var("TERM").is_ok_and(|term| term == "dumb") {
        return Ok(false);
    }
    let chosen = std::env::var("PAGER").ok().filter(|pager| !pager.trim().is_empty());
    let line = chosen.unwrap_or_else(|| "less -R".to_owned());
    let mut words = line.split_whitespace();
    let Some(program) = words.next() else { return Ok(false) };
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::piped());
    if std::env::var_os("LESS").is_none() {
        // Styles are shown, and a text that fits the screen is written and left there.
        command.env("LESS", "FRX");
    }
    let Ok(mut pager) = command.spawn() else { return Ok(false) };
    interrupt::ignore_ctrl_c();
    if let Some(mut pipe) = pager.stdin.take() {
        match pipe.write_all(text.as_bytes()) {
            // The reader has seen enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            other => other?,
        }
    }
    pager.wait()?;
    Ok(true)
}
