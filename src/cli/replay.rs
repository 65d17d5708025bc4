//! `dovetail replay`: a record in the panels of the chat.

use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::Args;

use super::backend;
use super::chat::{check_screen, screen_failure, screen_state};
use super::exit::{CommandResult, Failure};
use super::settings_file::SettingsFile;
use super::shared_args::SettingFlags;
use crate::chat::Role;
use crate::record::{Record, RecordedAnswer, Script};
use crate::tui::event::Asked;
use crate::tui::{self, ModelFinder, ScreenConfig, state::StateConfig, write_whole};

#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// A file written by `dovetail run --record` or `dovetail chat --record`.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Write a page to look at in a browser instead: every word and the draft tree of every round.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// What the screen looks like.
    #[command(flatten)]
    pub screen: SettingFlags<true>,
    /// The settings file.
    #[command(flatten)]
    pub settings: SettingsFile,
}

/// Shows a record until the user leaves.
pub fn replay(args: &ReplayArgs) -> CommandResult {
    let mut settings = args.settings.settings(&args.screen.0)?;
    let record = Record::read(&args.file).map_err(Failure::usage)?;
    let script = Script::of_record(&record, args.screen.set("controls.pace"))
        .map_err(anyhow::Error::from)?;
    if record.answers.is_empty() {
        return Err(Failure::usage(anyhow!("{} contains no answer to show", args.file.display())));
    }
    if let Some(page) = &args.html {
        return write_page(page, &record);
    }
    check_screen("`dovetail verify` checks a record without a screen")?;
    let mut before = None;
    let asked = |answer: &RecordedAnswer| {
        let question = &answer.question;
        let (asked, begun) = question.parts();
        let again = before.replace(asked.to_vec()).is_some_and(|before| before == asked);
        let mut users = asked.iter().rev().filter(|message| message.role == Role::User);
        match (begun, question.forced.last()) {
            (Some(_), _) if again => Asked::GoOn,
            (None, Some(&(at, token))) if again && at == question.begun.len() => {
                Asked::Forced { at, token }
            }
            _ if again => Asked::Again,
            _ => Asked::Question(users.next().map_or(String::new(), |it| it.content.clone())),
        }
    };
    let questions = record.answers.iter().map(asked).collect();
    // The settings' own γ, M and strategy are not the record's.
    let mut controls = backend::controls(&settings).get();
    controls.tree = crate::plan::TreeOverrides::default();
    (controls.strategy, controls.speculate) = (None, true);
    settings.system = None;
    settings.thinking = None;
    let state = StateConfig {
        gpu: "a replay uses no GPU".to_owned(),
        replay: true,
        ..screen_state(&settings)?
    };
    let models = ModelFinder::new(Vec::new(), None);
    // Nothing of it is saved: it was said already.
    let config =
        ScreenConfig { state, store: None, snapshots: None, models, open: None, questions };
    let shared = crate::worker::SharedControls::new(controls);
    let start = |controls, sink| Ok(script.play(controls, sink)?);
    tui::run(config, shared, start).map(drop).map_err(screen_failure)
}

/// Writes a record as a page to a new file.
fn write_page(path: &Path, record: &Record) -> CommandResult {
    let page = record.page();
    write_whole(path, false, |file| file.write_all(page.as_bytes())).map_err(|error| {
        let path = path.display();
        if error.kind() == ErrorKind::AlreadyExists {
            return Failure::usage(anyhow!("{path} already exists; choose another with --html"));
        }
        anyhow!("cannot write {path}: {error}").into()
    })
}
