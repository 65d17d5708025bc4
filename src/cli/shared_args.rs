//! The flags shared by all commands that load models. Must never check values, which the settings
//! do.

use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use super::settings_file::SettingsFile;
use crate::settings::{Flag, Heading, KEYS, Override, SettingKey, SettingValue};

/// The flags of every command that loads models.
#[derive(Clone, Debug, Default, Args)]
pub struct SharedArgs {
    /// Those of the table of settings.
    #[command(flatten)]
    pub settings: SettingFlags<false>,
    /// The settings file.
    #[command(flatten)]
    pub file: SettingsFile,
    /// Write more detail to the log file.
    #[arg(long, short, help_heading = "Program")]
    pub verbose: bool,
    /// Play a recorded trace instead of running models.
    #[arg(long, value_name = "FILE", hide = true)]
    pub script: Option<PathBuf>,
}

/// What the flags of the table of settings set: those of the screen, or all others.
#[derive(Clone, Debug, Default)]
pub struct SettingFlags<const SCREEN: bool>(pub Vec<Override>);

impl<const SCREEN: bool> SettingFlags<SCREEN> {
    /// Whether a flag sets `key`.
    pub fn set(&self, key: &str) -> bool {
        self.0.iter().any(|set| set.key == key)
    }

    /// What a flag or its variable gives for `key`, if that is one text.
    pub fn text(&self, key: &str) -> Option<&str> {
        let set = self.0.iter().find(|set| set.key == key)?;
        match &set.value {
            SettingValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Sets `key`, unless a flag does.
    pub fn set_otherwise(&mut self, key: &str, text: &str) {
        let row = Self::rows().find(|(row, _)| row.name == key);
        if let Some((row, flag)) = row
            && !self.set(key)
        {
            let value = SettingValue::text(text);
            self.0.push(Override { flag: flag.name, key: row.name, value });
        }
    }

    fn rows() -> impl Iterator<Item = (&'static SettingKey, Flag)> {
        let flags = KEYS.iter().filter_map(|key| Some((key, key.flag?)));
        flags.filter(|(_, flag)| (flag.heading == Heading::SCREEN) == SCREEN)
    }
}

impl<const SCREEN: bool> Args for SettingFlags<SCREEN> {
    fn augment_args(command: Command) -> Command {
        command.args(Self::rows().map(|(key, flag)| arg(key, flag)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const SCREEN: bool> FromArgMatches for SettingFlags<SCREEN> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self(Self::rows().filter_map(|(key, flag)| given(key, flag, matches)).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn arg(key: &'static SettingKey, flag: Flag) -> Arg {
    let arg = Arg::new(key.name)
        .long(flag.name.trim_start_matches('-'))
        .help(key.flag_help())
        .help_heading(flag.heading.0);
    if flag.is_switch() {
        return arg.action(ArgAction::SetTrue);
    }
    let action = if flag.repeats { ArgAction::Append } else { ArgAction::Set };
    let mut arg = arg.action(action).value_name(flag.value).allow_negative_numbers(true);
    if !flag.env.is_empty() {
        arg = arg.env(flag.env);
    }
    if !flag.alone.is_empty() {
        arg = arg.num_args(0..=1).require_equals(true).default_missing_value(flag.alone);
    }
    arg
}

/// What a flag sets, or the variable in its place, if one of them is given.
fn given(key: &'static SettingKey, flag: Flag, matches: &ArgMatches) -> Option<Override> {
    let name = match matches.value_source(key.name)? {
        ValueSource::CommandLine => flag.name,
        ValueSource::EnvVariable => flag.env,
        _ => return None,
    };
    let value = match flag.is_switch() {
        true => SettingValue::Switch(key.default == "false"),
        false => {
            let texts: Vec<String> = matches.get_many(key.name)?.cloned().collect();
            match texts.as_slice() {
                [text] => SettingValue::text(text),
                _ => SettingValue::List(texts),
            }
        }
    };
    Some(Override { flag: name, key: key.name, value })
}
