//! The program with a script in place of models, in a home of its own.

use std::path::{Path, PathBuf};

use portable_pty::CommandBuilder;

/// The file of a script.
pub fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts").join(name)
}

/// The environment of a program whose home is `home`, with nothing of the user's around it.
pub fn at_home(command: &mut CommandBuilder, home: &Path) {
    command.env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("TERM", "xterm-256color");
    command.env("HOME", home);
    command.env("SSH_CONNECTION", "no desktop");
}

/// The chat that plays the script `name`.
pub fn scripted(name: &str, home: &Path) -> CommandBuilder {
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_dovetail"));
    command.arg("--script");
    command.arg(script(name));
    at_home(&mut command, home);
    command
}
