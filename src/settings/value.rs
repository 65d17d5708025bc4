//! A setting's value as a file, a flag or a command of the screen gives it.

/// A value from any source.
#[derive(Clone, Debug, PartialEq)]
pub enum SettingValue {
    /// A string. A number written as a string (as flags are) also does for a number.
    Text(String),
    /// A whole number.
    Whole(i64),
    /// Any number.
    Number(f64),
    /// Yes or no.
    Switch(bool),
    /// Several strings.
    List(Vec<String>),
    /// Something no key takes (a date, a table, a mixed array), by its name.
    Other(String),
}

impl SettingValue {
    /// A flag's or slash command's text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    pub(super) fn whole(&self) -> Option<i64> {
        match self {
            Self::Whole(n) => Some(*n),
            Self::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Self::Whole(n) => Some(*n as f64),
            Self::Number(x) => Some(*x),
            Self::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
        .filter(|x| x.is_finite())
    }

    pub(super) fn switch(&self) -> Option<bool> {
        match self {
            Self::Switch(on) => Some(*on),
            Self::Text(text) => match text.trim() {
                "true" | "on" | "yes" => Some(true),
                "false" | "off" | "no" => Some(false),
                _ => None,
            },
            _ => None,
        }
    }

    pub(super) fn string(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl std::fmt::Display for SettingValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(text) => write!(f, "\"{text}\""),
            Self::Whole(n) => write!(f, "{n}"),
            Self::Number(x) => write!(f, "{x}"),
            Self::Switch(on) => write!(f, "{on}"),
            Self::List(items) => write!(f, "{items:?}"),
            Self::Other(name) => write!(f, "a {name}"),
        }
    }
}
