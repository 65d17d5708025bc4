//! Reads the TOML file and reports errors with line and column. Must never check ranges, which
//! `keys` owns.

use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::{KeyChange, Problem, SettingValue, Settings, SettingsError, keys};
use crate::files::read_text;

/// The table of keys of the chat.
const KEYS: &str = "keys";
/// Most bytes of a settings file: anything longer was named by mistake.
const LONGEST: u64 = 1_000_000;

/// Where the file is looked for when none is named: `settings.toml` in the user's configuration
/// folder. `None` where the system has no such folder.
pub fn default_path() -> Option<PathBuf> {
    crate::files::user_dirs().map(|dirs| dirs.config.join("settings.toml"))
}

/// Lays the file's values over `settings`.
///
/// # Errors
/// [`SettingsError`]; `settings` may then hold the values that precede the wrong one.
pub fn apply_file(settings: &mut Settings, path: &Path) -> Result<(), SettingsError> {
    let text = read_text(path, LONGEST)
        .map_err(|source| SettingsError::Read { path: path.to_owned(), source })?;
    let file = FileText { path, text: &text };
    let table = DeTable::parse(&text).map_err(|error| {
        let (line, column) = file.position(error.span().map_or(0, |span| span.start));
        let message = error.message().to_owned();
        SettingsError::Syntax { path: path.to_owned(), line, column, message }
    })?;
    file.apply(settings, "", table.get_ref())?;
    settings.keys.extend(file.key_changes(table.get_ref())?);
    Ok(())
}

/// A file and what it says.
struct FileText<'a> {
    path: &'a Path,
    text: &'a str,
}

impl FileText<'_> {
    fn apply(
        &self,
        settings: &mut Settings,
        prefix: &str,
        table: &DeTable<'_>,
    ) -> Result<(), SettingsError> {
        for (key, value) in table {
            let name = format!("{prefix}{}", key.get_ref());
            match value.get_ref() {
                _ if name == KEYS => {}
                DeValue::Table(inner) if keys::is_table(&name) => {
                    self.apply(settings, &format!("{name}."), inner)?;
                }
                other => settings.set(&name, &convert(other)).map_err(|problem| {
                    let unknown = matches!(problem, Problem::UnknownKey { .. });
                    self.wrong(if unknown { key.span() } else { value.span() }, problem)
                })?,
            }
        }
        Ok(())
    }

    /// The table of other keys for the chat, in its order: names and keys are checked there.
    fn key_changes(&self, table: &DeTable<'_>) -> Result<Vec<KeyChange>, SettingsError> {
        let Some(value) = table.get(KEYS) else { return Ok(Vec::new()) };
        let DeValue::Table(changes) = value.get_ref() else {
            let expects = "a table of actions, each with its keys".to_owned();
            let found = convert(value.get_ref()).to_string();
            let key = KEYS.to_owned();
            return Err(self.wrong(value.span(), Problem::Value { key, expects, found }));
        };
        let mut all = Vec::new();
        for (name, value) in changes {
            let keys = match convert(value.get_ref()) {
                SettingValue::Text(key) => vec![key],
                SettingValue::List(keys) if !keys.is_empty() => keys,
                other => {
                    let key = format!("{KEYS}.{}", name.get_ref());
                    let expects = "a key such as \"ctrl+x\", or a list of keys".to_owned();
                    let found = other.to_string();
                    return Err(self.wrong(value.span(), Problem::Value { key, expects, found }));
                }
            };
            let (line, column) = self.position(name.span().start);
            let action = name.get_ref().to_string();
            all.push(KeyChange { action, keys, path: self.path.to_owned(), line, column });
        }
        all.sort_by_key(|change| (change.line, change.column));
        Ok(all)
    }

    fn wrong(&self, span: Range<usize>, problem: Problem) -> SettingsError {
        let (line, column) = self.position(span.start);
        SettingsError::InFile { path: self.path.to_owned(), line, column, problem }
    }

    /// Line and column, from 1, of a byte offset.
    fn position(&self, offset: usize) -> (usize, usize) {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        (line, column)
    }
}

fn convert(value: &DeValue<'_>) -> SettingValue {
    match value {
        DeValue::String(text) => SettingValue::Text(text.to_string()),
        DeValue::Integer(n) => i64::from_str_radix(n.as_str(), n.radix()).map_or_else(
            |_| SettingValue::Other(format!("number of that size ({n})")),
            SettingValue::Whole,
        ),
        DeValue::Float(x) => x
            .as_str()
            .parse()
            .map_or_else(|_| SettingValue::Other(format!("number like {x}")), SettingValue::Number),
        DeValue::Boolean(on) => SettingValue::Switch(*on),
        DeValue::Array(items) => items
            .iter()
            .map(|item| item.get_ref().as_str().map(str::to_owned))
            .collect::<Option<Vec<_>>>()
            .map_or_else(|| SettingValue::Other("list of other things".into()), SettingValue::List),
        DeValue::Datetime(_) | DeValue::Table(_) => {
            SettingValue::Other(value.type_str().to_owned())
        }
    }
}
