//! Draws the README's picture and records the first two minutes, with the current program:
//!
//! ```sh
//! cargo build --release
//! cargo run --release --example pictures -- MODEL.gguf    # the picture needs a real model
//! ```
//!
//! It types as a person would, in its own home folder, and writes `assets/first-minutes.cast`. With
//! a model it also writes `assets/screen.svg` and the guide's pictures of the layouts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[path = "support/picture.rs"]
mod picture;
// It needs only a part of what tests do with a terminal.
#[allow(dead_code)]
#[path = "support/pty.rs"]
mod pty;

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use portable_pty::CommandBuilder;
use pty::Pty;

/// The program that was built together with this one.
fn program() -> PathBuf {
    let this = std::env::current_exe().unwrap();
    let name = format!("dovetail{}", std::env::consts::EXE_SUFFIX);
    let program = this.ancestors().nth(2).unwrap().join(name);
    assert!(program.is_file(), "{} is missing: run `cargo build` first", program.display());
    program
}

fn start(home: &Path, arguments: &[&str], columns: u16, rows: u16) -> Pty {
    let mut command = CommandBuilder::new(program());
    command.args(arguments);
    command.env_clear();
    command.env("TERM", "xterm-256color");
    command.env("HOME", home);
    command.env("SSH_CONNECTION", "no desktop");
    command.cwd(home);
    Pty::start(command, columns, rows)
}

fn wait_seconds(seconds: f64) {
    sleep(Duration::from_secs_f64(seconds));
}

/// Types at the speed of a person, then sends the message.
fn ask(chat: &mut Pty, question: &str) {
    for character in question.chars() {
        chat.send(character.encode_utf8(&mut [0; 4]));
        wait_seconds(0.06);
    }
    wait_seconds(0.5);
    chat.send("\r");
    wait_seconds(0.5);
}

/// Waits until the answer is complete.
fn answered(chat: &mut Pty, limit: Duration) {
    chat.wait_within(limit, "the end of the answer", |screen| screen.contains("○ ready"));
}

/// A new user's first two minutes with the demo.
fn first_minutes(assets: &Path) {
    const SIZE: (u16, u16) = (110, 32);
    let home = tempfile::tempdir().unwrap();
    let mut chat = start(home.path(), &[], SIZE.0, SIZE.1);
    chat.wait_for("○ ready");
    wait_seconds(3.0);
    chat.send("1");
    wait_seconds(1.0);
    chat.send("\r");
    wait_seconds(0.5);
    answered(&mut chat, Duration::from_secs(90));
    wait_seconds(3.0);
    ask(&mut chat, "Can you tell me a joke?");
    answered(&mut chat, Duration::from_secs(60));
    wait_seconds(2.0);
    // The race, which counts rounds.
    chat.send("\x1b[24~");
    chat.wait_for("Same text, ");
    wait_seconds(3.0);
    chat.send("\x1b");
    wait_seconds(1.0);
    // The help, then the models.
    for keys in ["\x1bOP", "\x0e"] {
        chat.send(keys);
        wait_seconds(4.0);
        chat.send("\x1b");
        wait_seconds(1.0);
    }
    let written = chat.written();
    chat.send("\x11");
    chat.end();
    let cast = picture::cast("dovetail: the first two minutes", SIZE.0, SIZE.1, &written);
    std::fs::write(assets.join("first-minutes.cast"), cast).unwrap();
}

/// A real model's answer with the tree of one of its rounds.
fn screen(assets: &Path, model: &str) {
    let home = tempfile::tempdir().unwrap();
    let model = std::fs::canonicalize(model).unwrap();
    let target = model.to_str().unwrap();
    let flags =
        ["--target", target, "--temperature", "0", "--max-tokens", "320", "--layout", "lab"];
    let mut chat = start(home.path(), &flags, 132, 40);
    let limit = Duration::from_secs(300);
    chat.wait_within(limit, "the model", |screen| screen.contains("○ ready"));
    for question in [
        "Write a stack class in Python with push, pop and peek.",
        "Add a method that returns its size, and show the whole class again.",
    ] {
        ask(&mut chat, question);
        answered(&mut chat, limit);
    }
    // The marks fade, and this brings them back.
    // Looks back at a round in whose tree many guesses were accepted.
    wait_seconds(3.0);
    chat.send("\x1b[20~");
    chat.send("\t");
    for _ in 0..100 {
        chat.send("\x1b[D");
        wait_seconds(0.2);
        if chat.screen().matches('●').count() >= 4 {
            break;
        }
    }
    wait_seconds(0.5);
    let draw = |chat: &Pty, name: &str, ground| {
        let svg = chat.see(|screen| picture::svg(screen, ground));
        std::fs::write(assets.join(format!("{name}.svg")), svg).unwrap();
    };
    draw(&chat, "screen", picture::DARK);
    chat.send("\x1b");
    wait_seconds(1.0);
    std::fs::create_dir_all(assets.join("layouts")).unwrap();
    for (theme, ground) in [("dark", picture::DARK), ("light", picture::LIGHT)] {
        chat.send(&format!("/theme {theme}\r"));
        for (columns, rows) in [(80, 24), (120, 36), (200, 50)] {
            chat.resize(columns, rows);
            for layout in ["chat", "tree", "lab"] {
                chat.send(&format!("/layout {layout}\r"));
                // What was said in passing is gone by then.
                wait_seconds(6.0);
                draw(&chat, &format!("layouts/{layout}-{columns}x{rows}-{theme}"), ground);
            }
        }
    }
    chat.send("\x11");
    chat.end();
}

fn main() {
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
    first_minutes(&assets);
    println!("{}", assets.join("first-minutes.cast").display());
    if let Some(model) = std::env::args().nth(1) {
        screen(&assets, &model);
        println!("{}", assets.join("screen.svg").display());
    }
}
