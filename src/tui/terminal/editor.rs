//! The message in the user's own editor: a file that only its owner may read, the editor on the
//! terminal, then the text. Must never know the screen.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
#[cfg(unix)]
use std::time::Duration;

use tempfile::NamedTempFile;

#[cfg(unix)]
use super::signals;

/// Most bytes of a message: anything longer was not written by hand.
const LONGEST: u64 = 2_000_000;

/// The editor: `VISUAL`, then `EDITOR`, as all programs have it.
///
/// # Errors
/// Neither is set; says how.
pub(crate) fn chosen(variable: impl Fn(&str) -> Option<OsString>) -> Result<OsString, String> {
    let set = |name| variable(name).filter(|editor| !editor.is_empty());
    set("VISUAL").or_else(|| set("EDITOR")).ok_or_else(|| {
        "No editor is set · set VISUAL or EDITOR, for example EDITOR=nano, and start again"
            .to_string()
    })
}

/// A file with `text` for the editor.
///
/// # Errors
/// Why there is none.
pub(crate) fn file_of(text: &str) -> Result<NamedTempFile, String> {
    // Only its owner may read it: this is how such files are made.
    let made = tempfile::Builder::new().prefix("dovetail-message-").suffix(".md").tempfile();
    let write = |mut file: NamedTempFile| {
        file.write_all(text.as_bytes())?;
        file.flush()?;
        Ok(file)
    };
    made.and_then(write).map_err(|error| format!("Cannot make a file for the editor: {error}"))
}

/// Lets the user edit the file until the editor ends; the text then.
///
/// # Errors
/// Why the message is unchanged. The text of the editor is then in the file that the error names,
/// if there is one.
pub(crate) fn edited(editor: &OsStr, file: NamedTempFile) -> Result<String, String> {
    let name = editor.to_string_lossy();
    let stays = "the message is unchanged";
    let ended = command(editor, file.path()).spawn().and_then(wait);
    let why = match ended {
        Ok(status) if status.success() => match crate::files::read_text(file.path(), LONGEST) {
            // Editors end the last line.
            Ok(text) => return Ok(text.strip_suffix('\n').unwrap_or(&text).replace("\r\n", "\n")),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(format!("{name} deleted the file: {stays}"));
            }
            Err(error) => format!("The text of {name} cannot be read ({error})"),
        },
        Ok(status) => format!("{name} ended with {status}"),
        Err(error) => return Err(format!("Cannot start {name}: {error}; {stays}")),
    };
    Err(match file.keep() {
        Ok((_, path)) => format!("{why}: {stays}, and the edited text is in {}", path.display()),
        Err(_) => format!("{why}: {stays}"),
    })
}

/// With the arguments that the variable may hold (`code --wait`), read by a shell where they need
/// one. It is not between us and a plain editor: only a parent learns that a program has stopped.
fn command(editor: &OsStr, file: &Path) -> Command {
    let words = editor.to_string_lossy();
    let is_plain = |c: char| c.is_alphanumeric() || " /._-+:".contains(c);
    if cfg!(unix) && !words.chars().all(is_plain) {
        let mut line = editor.to_os_string();
        line.push(" \"$1\"");
        let mut command = Command::new("sh");
        command.arg("-c").arg(line).arg("sh").arg(file);
        return command;
    }
    let mut words = words.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).arg(file);
    command
}

/// Waits for the editor to end. If it stops itself, the whole job stops with it; without a shell
/// that could continue the job, the editor continues.
#[cfg(unix)]
fn wait(editor: Child) -> io::Result<ExitStatus> {
    use std::os::unix::process::ExitStatusExt;

    use rustix::io::retry_on_intr;
    use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
    let pid = Pid::from_child(&editor);
    loop {
        let changed = retry_on_intr(|| waitpid(Some(pid), WaitOptions::UNTRACED))?;
        let Some((_, status)) = changed else { continue };
        if !status.stopped() {
            return Ok(ExitStatus::from_raw(status.as_raw()));
        }
        if stays_stopped(pid)? && signals::stop_job().is_err() {
            kill_process(pid, Signal::CONT)?;
        }
    }
}

#[cfg(not(unix))]
fn wait(mut editor: Child) -> io::Result<ExitStatus> {
    editor.wait()
}

/// Whether a process that has stopped stays so for a while. After `Ctrl+Z` this process stops too,
/// and both continue together.
#[cfg(unix)]
fn stays_stopped(pid: rustix::process::Pid) -> io::Result<bool> {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    let change = WaitIdOptions::CONTINUED | WaitIdOptions::EXITED;
    for _ in 0..8 {
        std::thread::sleep(Duration::from_millis(50));
        let look = change | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if waitid(WaitId::Pid(pid), look)?.is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_visual_editor_comes_first_and_none_is_told() {
        let both = |name: &str| Some(OsString::from(name.to_lowercase()));
        assert_eq!(chosen(both).unwrap(), "visual");
        let empty = |name: &str| Some(OsString::from(if name == "EDITOR" { "ed" } else { "" }));
        assert_eq!(chosen(empty).unwrap(), "ed");
        assert!(chosen(|_| None).unwrap_err().contains("EDITOR=nano"));
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_may_read_the_file() {
        use std::os::unix::fs::PermissionsExt;
        let file = file_of("a secret").unwrap();
        let mode = std::fs::metadata(file.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), "a secret");
    }

    #[cfg(unix)]
    #[test]
    fn the_text_comes_back_and_whatever_goes_wrong_is_told() {
        let run = |editor: &str, text: &str| edited(OsStr::new(editor), file_of(text).unwrap());
        assert_eq!(run("true", "as it was\n"), Ok("as it was".to_string()));
        let add = "f() { printf ' and\\r\\nmore\\n' >> \"$1\"; }; f";
        assert_eq!(run(add, "one"), Ok("one and\nmore".to_string()));
        assert!(run("rm", "one").unwrap_err().contains("deleted the file"));
        assert!(run("/no/such/editor", "one").unwrap_err().contains("is unchanged"));
        let failed = run("f() { echo kept > \"$1\"; exit 3; }; f", "one").unwrap_err();
        assert!(failed.contains("exit status: 3"), "{failed}");
        let kept = failed.rsplit("text is in ").next().unwrap();
        assert_eq!(std::fs::read_to_string(kept).unwrap(), "kept\n");
        std::fs::remove_file(kept).unwrap();
    }
}
