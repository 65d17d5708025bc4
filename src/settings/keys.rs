//! A row of the table of settings with its flag, and how a value finds its row.

use super::table::KEYS;
use super::takes::Takes;
use super::{Problem, SettingValue, Settings};
use crate::nearest::nearest;
use crate::plan::Strategy;

/// The setting whose values are names of a table.
const STRATEGY: &str = "strategy";

/// A heading in the help of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heading(pub &'static str);

/// A flag that sets a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flag {
    /// With its dashes.
    pub name: &'static str,
    /// What stands for the value in the help; empty for a switch.
    pub value: &'static str,
    /// Where the help lists it.
    pub heading: Heading,
    /// The environment variable that does the same; empty if there is none.
    pub env: &'static str,
    /// The value if the flag is given without one; empty if a value has to follow.
    pub alone: &'static str,
    /// Whether it can be given more than once.
    pub repeats: bool,
    /// What giving the flag does, for a switch: the setting's own words may say the opposite.
    pub does: &'static str,
}

impl Heading {
    /// What only a command with a screen has.
    pub const SCREEN: Self = Self("Screen");

    /// A flag that a value follows.
    pub(super) const fn flag(self, name: &'static str, value: &'static str) -> Flag {
        Flag { name, value, heading: self, env: "", alone: "", repeats: false, does: "" }
    }

    /// A flag that sets the opposite of the default.
    pub(super) const fn switch(self, name: &'static str, does: &'static str) -> Flag {
        Flag { does, ..self.flag(name, "") }
    }
}

impl Flag {
    pub(super) const fn env(self, env: &'static str) -> Self {
        Self { env, ..self }
    }

    pub(super) const fn alone(self, alone: &'static str) -> Self {
        Self { alone, ..self }
    }

    pub(super) const fn repeated(self) -> Self {
        Self { repeats: true, ..self }
    }

    /// Whether no value follows it.
    pub fn is_switch(&self) -> bool {
        self.value.is_empty()
    }
}

/// What a setting changes, if the contenders of a benchmark differ in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingScope {
    /// Rounds alone.
    Round,
    /// Which models draft.
    Draft,
    /// Where the models lie, the target among them.
    Placement,
}

/// The command of the chat that shows and sets a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettingCommand {
    /// With its slash.
    pub name: &'static str,
    /// What follows it, for people.
    pub argument: &'static str,
    /// What it does, in a few words.
    pub help: &'static str,
}

/// One setting.
pub struct SettingKey {
    /// Dotted name, as in the file.
    pub name: &'static str,
    takes: Takes,
    /// What it sets, in a few words.
    pub what: &'static str,
    /// More about it and its values, in sentences; empty if that says all.
    pub more: &'static str,
    /// What holds if it is not set.
    pub default: &'static str,
    /// The flag that sets it.
    pub flag: Option<Flag>,
    /// The command or key that changes it in the chat; empty if it is read at the start alone.
    pub live: &'static str,
    /// That command, if it shows and sets the value.
    pub command: Option<SettingCommand>,
    /// What it is called as a setting of a contender; empty if contenders do not differ in it.
    pub contender: &'static [&'static str],
    /// What it changes for a contender.
    pub scope: SettingScope,
}

impl SettingKey {
    pub(super) const fn what(self, what: &'static str) -> Self {
        Self { what, ..self }
    }

    pub(super) const fn default(self, default: &'static str) -> Self {
        Self { default, ..self }
    }

    pub(super) const fn more(self, more: &'static str) -> Self {
        Self { more, ..self }
    }

    pub(super) const fn flag(self, flag: Flag) -> Self {
        Self { flag: Some(flag), ..self }
    }

    pub(super) const fn live(self, live: &'static str) -> Self {
        Self { live, ..self }
    }

    pub(super) const fn command(
        self,
        name: &'static str,
        argument: &'static str,
        help: &'static str,
    ) -> Self {
        Self { live: name, command: Some(SettingCommand { name, argument, help }), ..self }
    }

    pub(super) const fn contender(
        self,
        names: &'static [&'static str],
        scope: SettingScope,
    ) -> Self {
        Self { contender: names, scope, ..self }
    }

    /// The setting of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        KEYS.iter().find(|key| key.name == name)
    }

    /// The settings of the sampler.
    pub fn of_sampler() -> impl Iterator<Item = &'static Self> {
        KEYS.iter().filter(|key| key.name.starts_with("sampler."))
    }

    /// The last part of its name.
    pub fn short_name(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }

    /// The values that it takes, in words.
    pub fn values(&self) -> String {
        self.takes.expects()
    }

    /// Whether it is on or off.
    pub fn is_switch(&self) -> bool {
        matches!(self.takes, Takes::Switch(_))
    }

    /// Its value as it is typed; empty for what no command of the chat shows.
    pub fn value(&self, settings: &Settings) -> String {
        self.takes.value(&mut settings.clone())
    }

    /// The help of its flag.
    pub fn flag_help(&self) -> String {
        if let Some(flag) = self.flag.filter(Flag::is_switch) {
            return flag.does.to_owned();
        }
        let end = if self.more.is_empty() { "" } else { ". " };
        let more = self.more.trim_end_matches('.');
        format!("{}: {}{end}{more} [default: {}]", self.what, self.values(), self.default)
    }
}

/// A row that is set by the file alone.
pub(super) const fn key(name: &'static str, takes: Takes) -> SettingKey {
    SettingKey {
        name,
        takes,
        what: "",
        more: "",
        default: "",
        flag: None,
        live: "",
        command: None,
        contender: &[],
        scope: SettingScope::Round,
    }
}

/// Stores a value; gives the key's own name.
pub(super) fn set(
    settings: &mut Settings,
    key: &str,
    value: &SettingValue,
) -> Result<&'static str, Problem> {
    let Some(known) = KEYS.iter().find(|known| known.name == key) else {
        let near = nearest(key, KEYS.iter().map(|known| known.name), 0.6);
        return Err(Problem::UnknownKey {
            key: key.to_owned(),
            suggestion: near.map(str::to_owned),
        });
    };
    known.takes.set(settings, value).map(|()| known.name).ok_or_else(|| match value.string() {
        Some(name) if key == STRATEGY => {
            Problem::UnknownStrategy { name: name.to_owned(), suggestion: Strategy::nearest(name) }
        }
        _ => Problem::Value {
            key: key.to_owned(),
            expects: known.takes.expects(),
            found: value.to_string(),
        },
    })
}

/// Whether `name` is a table of settings, such as `sampler`.
pub(super) fn is_table(name: &str) -> bool {
    KEYS.iter().any(|key| key.name.split_once('.').is_some_and(|(table, _)| table == name))
}

/// All keys, for an error about one that is like none of them.
pub(super) fn list() -> String {
    KEYS.iter().map(|key| key.name).collect::<Vec<_>>().join(", ")
}
