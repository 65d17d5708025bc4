//! The settings file: which one, and what commands that take no other settings want of it. Must
//! never check values, which the settings do.

use std::path::PathBuf;

use clap::Args;

use super::exit::Failure;
use crate::library::{Spec, find_spec};
use crate::settings::{self, Override, Settings};

/// The flag of all commands that read it.
#[derive(Clone, Debug, Default, Args)]
pub struct SettingsFile {
    /// Settings file [default: settings.toml in the configuration folder].
    #[arg(long, value_name = "FILE", env = "DOVETAIL_CONFIG", help_heading = "Program")]
    pub config: Option<PathBuf>,
}

impl SettingsFile {
    /// Reads it, with the flags laid over it.
    pub fn settings(&self, overrides: &[Override]) -> Result<Settings, Failure> {
        settings::load(self.config.as_deref(), overrides, no_color()).map_err(Failure::usage)
    }

    /// What a command's `--target` or `--model` names: also a model in the folders of the file.
    pub fn model(&self, given: &str) -> Result<Spec, Failure> {
        find_spec(given, &self.settings(&[])?.model_folders).map_err(Failure::model)
    }
}

/// Whether the user wants no colours anywhere (<https://no-color.org>).
pub fn no_color() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}
