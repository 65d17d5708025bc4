//! The program in its own home folder, often with a script instead of models.

use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use assert_cmd::Command;
use portable_pty::CommandBuilder;

/// The answer in answers.jsonl.
pub const HELLO: &str = "Hello! The red fox ran over the hill, and then it slept in the sun.";

/// The variable that names the user's home.
const HOME: &str = if cfg!(windows) { "USERPROFILE" } else { "HOME" };

/// The file of a script.
pub fn script(name: &str) -> String {
    format!("{}/tests/scripts/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// The environment of a program in a terminal with the home folder `home`, without any of the
/// user's variables.
pub fn at_home(command: &mut CommandBuilder, home: &Path) {
    command.env_clear();
    // A build that is hardly optimised needs larger stacks.
    for name in ["PATH", "RUST_MIN_STACK"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.env("TERM", "xterm-256color");
    command.env(HOME, home);
    command.env("SSH_CONNECTION", "no desktop");
}

/// The program in a terminal with the home folder `home`.
pub fn on_a_terminal(home: &Path, args: &[&str]) -> CommandBuilder {
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_dovetail"));
    command.args(args);
    at_home(&mut command, home);
    command
}

/// The chat that plays the script `name`.
pub fn scripted(name: &str, home: &Path) -> CommandBuilder {
    on_a_terminal(home, &["--script", &script(name)])
}

/// Makes `command`, which has no terminal, run in the home folder `home`, and nowhere else.
pub fn in_home(command: &mut std::process::Command, home: &Path) {
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("DOVETAIL_")) {
        command.env_remove(name);
    }
    command.env(HOME, home);
    for (name, folder) in [
        ("XDG_CONFIG_HOME", "config"),
        ("XDG_STATE_HOME", "state"),
        ("XDG_DATA_HOME", "data"),
        ("XDG_CACHE_HOME", "cache"),
    ] {
        command.env(name, home.join(folder));
    }
    // None of this machine's stores of models.
    for name in ["HF_HUB_CACHE", "HF_TOKEN", "OLLAMA_MODELS"] {
        command.env_remove(name);
    }
    command.env("HF_HOME", home.join("hf"));
    // What a software GPU has compiled serves every program that a test starts.
    let shaders = concat!(env!("CARGO_TARGET_TMPDIR"), "/shaders");
    command.env("MESA_SHADER_CACHE_DIR", shaders);
    command.stdin(Stdio::null());
}

/// The program in its own home folder, so that a user's settings or logs have no effect.
pub struct Home(tempfile::TempDir);

impl Home {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn std_command(&self) -> std::process::Command {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_dovetail"));
        self.prepare(&mut command);
        command
    }

    /// Makes `command` run in this home folder, and nowhere else.
    pub fn prepare(&self, command: &mut std::process::Command) {
        in_home(command, self.path());
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::from_std(self.std_command());
        command.args(args).timeout(Duration::from_secs(120));
        command
    }

    /// Runs the program, which must end with this code. Returns stdout and stderr.
    #[track_caller]
    pub fn ran(&self, code: i32, args: &[&str]) -> (String, String) {
        ends(code, &mut self.command(args))
    }

    /// Runs the program, which must end with this code, print nothing, and say all of `words` on
    /// stderr.
    #[track_caller]
    pub fn refuses(&self, code: i32, args: &[&str], words: &[&str]) -> String {
        let (out, err) = self.ran(code, args);
        assert_eq!(out, "", "{args:?}: {err}");
        assert_has(&err, words);
        err
    }

    /// Runs the program and reads what it prints.
    #[track_caller]
    pub fn json(&self, args: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.ran(0, args).0).unwrap()
    }

    pub fn write_settings(&self, text: &str) {
        let folder = self.0.path().join("config/dovetail");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("settings.toml"), text).unwrap();
    }
}

/// Exit code, stdout and stderr.
pub fn outcome(command: &mut Command) -> (i32, String, String) {
    ended(command.output().unwrap())
}

/// Exit code, stdout and stderr.
pub fn ended(output: Output) -> (i32, String, String) {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Runs a command, which must end with this code. Returns stdout and stderr.
#[track_caller]
pub fn ends(code: i32, command: &mut Command) -> (String, String) {
    let (found, out, err) = outcome(command);
    assert_eq!(found, code, "{:?}:\n{out}{err}", command.get_args());
    (out, err)
}

/// The last line of `--json`.
pub fn last_json(out: &str) -> serde_json::Value {
    serde_json::from_str(out.lines().last().unwrap()).unwrap()
}

/// A text without line breaks.
pub fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Fails with the first of `parts` that is not in `text`.
#[track_caller]
pub fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing from\n{text}");
    }
}
