//! What `draft` names: heads, the conversation itself, or nothing.

use super::SettingValue;

/// What `draft` names instead of a head to draft from the conversation itself.
pub const LOOKUP: &str = "lookup";
/// `draft` that wants no head, not even one that was made for the target.
pub const NO_HEAD: &str = "none";

/// The draft heads that may be used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HeadChoice {
    /// The bundled one where the target is, else one that was made for the target, if there is one
    /// here.
    #[default]
    Own,
    /// None: the draft is looked up in the conversation.
    Lookup,
    /// None.
    None,
    /// The best of these folders, files and hub ids, of which there is one at least.
    Named(Vec<String>),
}

impl HeadChoice {
    /// What a flag or a list in the settings file says; `None` for an empty name, and where a word
    /// that wants no head stands among heads.
    pub(super) fn of(value: &SettingValue) -> Option<Self> {
        let given = match value {
            SettingValue::List(list) => list.as_slice(),
            SettingValue::Text(text) => std::slice::from_ref(text),
            _ => return None,
        };
        let names: Vec<String> = given.iter().map(|name| name.trim().to_owned()).collect();
        match names.as_slice() {
            [one] if !one.is_empty() => Some(Self::named(Some(one))),
            [] => None,
            some if some.iter().any(|name| ["", LOOKUP, NO_HEAD].contains(&name.as_str())) => None,
            _ => Some(Self::Named(names)),
        }
    }

    /// What a single name says, or none.
    pub fn named(name: Option<&str>) -> Self {
        match name {
            None => Self::Own,
            Some(LOOKUP) => Self::Lookup,
            Some(NO_HEAD) => Self::None,
            Some(head) => Self::Named(vec![head.to_owned()]),
        }
    }

    /// The name that says the same; of several heads that of the first.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Own => None,
            Self::Lookup => Some(LOOKUP),
            Self::None => Some(NO_HEAD),
            Self::Named(names) => names.first().map(String::as_str),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_may_be_several_and_words_that_want_none_stand_alone() {
        let list = |names: &[&str]| {
            HeadChoice::of(&SettingValue::List(names.iter().map(|&name| name.into()).collect()))
        };
        let text = |name: &str| HeadChoice::of(&SettingValue::text(name));
        let named = |names: &[&str]| {
            Some(HeadChoice::Named(names.iter().map(|&name| name.into()).collect()))
        };
        assert_eq!(text(" a "), named(&["a"]));
        assert_eq!((list(&["a"]), list(&["a", "b"])), (named(&["a"]), named(&["a", "b"])));
        assert_eq!((text("lookup"), list(&["lookup"])), (list(&["lookup"]), text("lookup")));
        assert_eq!((text("lookup"), text("none")), (Some(HeadChoice::Lookup), list(&["none"])));
        for wrong in [&["a", "lookup"][..], &["none", "a"], &["a", " "], &[""], &[]] {
            assert_eq!(list(wrong), None, "{wrong:?}");
        }
        assert_eq!(HeadChoice::of(&SettingValue::Switch(false)), None);
        for name in [None, Some("lookup"), Some("none"), Some("a")] {
            assert_eq!(HeadChoice::named(name).name(), name);
        }
    }
}
