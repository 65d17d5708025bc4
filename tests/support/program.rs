//! The program in a home of its own, often with a script in place of models.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use assert_cmd::Command;
use portable_pty::CommandBuilder;

/// The file of a script.
pub fn script(name: &str) -> String {
    format!("{}/tests/scripts/{name}", env!("CARGO_MANIFEST_DIR"))
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

/// The program in a home of its own, so that no one's settings or logs take part.
pub struct Home(tempfile::TempDir);

impl Home {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self) -> &std::path::Path {
        self.0.path()
    }

    pub fn std_command(&self) -> std::process::Command {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_dovetail"));
        self.prepare(&mut command);
        command
    }

    /// Lets `command` run in this home, and nowhere else.
    pub fn prepare(&self, command: &mut std::process::Command) {
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("DOVETAIL_")) {
            command.env_remove(name);
        }
        command.env("HOME", self.0.path());
        for (name, folder) in
            [("XDG_CONFIG_HOME", "config"), ("XDG_STATE_HOME", "state"), ("XDG_DATA_HOME", "data")]
        {
            command.env(name, self.0.path().join(folder));
        }
        command.stdin(Stdio::null());
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::from_std(self.std_command());
        command.args(args).timeout(Duration::from_secs(120));
        command
    }

    pub fn write_settings(&self, text: &str) {
        let folder = self.0.path().join("config/dovetail");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("settings.toml"), text).unwrap();
    }
}

/// Exit code, stdout and stderr.
pub fn outcome(command: &mut Command) -> (i32, String, String) {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

pub fn run(args: &[&str]) -> (i32, String, String) {
    outcome(&mut Home::new().command(args))
}
