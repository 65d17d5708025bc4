//! `dovetail replay`: a record in the panels of the chat.

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;

use super::backend;
use super::chat::{keymap, no_screen};
use super::exit::{Code, CommandResult, Failure};
use super::settings_file::{SettingsFile, no_color};
use super::shared_args::SettingFlags;
use crate::chat::Role;
use crate::record::{Record, Script};
use crate::tui::{
    self, ModelFinder, NotOpened, ScreenConfig, display::Display, state::StateConfig,
};

#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// A file written by `dovetail run --record` or `dovetail chat --record`.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// What the screen looks like.
    #[command(flatten)]
    pub screen: SettingFlags<true>,
    /// The settings file.
    #[command(flatten)]
    pub settings: SettingsFile,
}

/// Shows a record until the user leaves.
pub fn replay(args: &ReplayArgs) -> CommandResult {
    let usage = |error: anyhow::Error| Failure::new(Code::Usage, error);
    let settings = args.settings.settings(&args.screen.0)?;
    let record = Record::read(&args.file).map_err(|error| usage(error.into()))?;
    let script = Script::of_record(&record, args.screen.set("controls.pace"))
        .map_err(anyhow::Error::from)?;
    if record.answers.is_empty() {
        return Err(usage(anyhow!("{} contains no answer to show", args.file.display())));
    }
    let on_terminal = io::stdout().is_terminal() && io::stdin().is_terminal();
    if let Some(why) = no_screen(on_terminal, std::env::var_os("TERM").as_deref()) {
        return Err(usage(anyhow!("{why}; `dovetail verify` checks a record without a screen")));
    }
    let asked = |answer: &crate::record::RecordedAnswer| {
        let messages = answer.question.messages.iter().rev();
        let mut users = messages.filter(|message| message.role == Role::User);
        users.next().map(|message| message.content.clone()).unwrap_or_default()
    };
    let questions = record.answers.iter().map(asked).collect();
    // The settings' own γ, M and strategy are not the record's.
    let mut controls = backend::controls(&settings).get();
    controls.tree = crate::plan::TreeOverrides::default();
    (controls.strategy, controls.speculate) = (None, true);
    let state = StateConfig {
        controls: controls.clone(),
        display: Display::new(&settings, !no_color(), keymap(&settings).map_err(usage)?),
        system: None,
        max_tokens: settings.max_tokens,
        thinking: None,
        gpu: "a replay uses no GPU".to_owned(),
        first_run: false,
        replay: true,
    };
    let models = ModelFinder::new(Vec::new(), None);
    // Nothing of it is saved: it was said already.
    let config =
        ScreenConfig { state, store: None, snapshots: None, models, open: None, questions };
    let shared = crate::worker::SharedControls::new(controls);
    let start = |controls, sink| Ok(script.play(controls, sink)?);
    tui::run(config, shared, start).map(drop).map_err(|error| {
        let code = if error.is::<NotOpened>() { Code::Model } else { Code::Failed };
        Failure::new(code, error)
    })
}
