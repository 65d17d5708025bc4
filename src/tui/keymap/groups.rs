//! The keys as the help lists them: those that a beginner needs, then groups. Must never know how
//! the help is drawn.

use super::{A, Binding, EDITING, KeyPress, Keymap, S, Scope};

/// A group of the help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyGroup {
    /// Writing a message.
    Writing,
    /// Answers: stop, repeat, copy, scroll.
    Answers,
    /// Conversations and models.
    Conversations,
    /// Panels and speculation.
    Panels,
    /// Lists, the screen, leaving.
    Program,
}

impl KeyGroup {
    /// All, in the order of the help.
    pub const ALL: [Self; 5] =
        [Self::Writing, Self::Answers, Self::Conversations, Self::Panels, Self::Program];

    /// Its heading, and what is in it.
    pub fn words(self) -> [&'static str; 2] {
        match self {
            Self::Writing => ["Writing", "send, history, undo, suggestions"],
            Self::Answers => ["Answers", "stop, try again, edit, copy, scroll"],
            Self::Conversations => {
                ["Conversations and models", "open, rename, delete; choose a model"]
            }
            Self::Panels => ["Panels and speculation", "draft tree, meters, controls, strategies"],
            Self::Program => ["Lists and the program", "move in lists, colours, suspend, quit"],
        }
    }

    fn of(row: &Binding) -> Self {
        match (row.scope, row.action) {
            (S::Input | S::Completion | S::Starters, _) => Self::Writing,
            (S::Chat, _) => Self::Answers,
            (S::Sessions, _) => Self::Conversations,
            (S::Panel | S::Tree | S::Controls, _) => Self::Panels,
            (S::Overlay, _) => Self::Program,
            (S::Global, action) => match action {
                A::Escape
                | A::Regenerate
                | A::Version(_)
                | A::EditQuestion
                | A::Copy
                | A::CopyMessage
                | A::Thoughts
                | A::Race
                | A::Page(_)
                | A::Scroll(_)
                | A::Top
                | A::Follow => Self::Answers,
                A::Sessions | A::Models(_) => Self::Conversations,
                A::Help | A::Theme | A::Redraw | A::Suspend | A::Interrupt | A::Quit => {
                    Self::Program
                }
                _ => Self::Panels,
            },
        }
    }
}

/// A row of the help: keys that do the same or go together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelpKeys {
    /// The keys, as people read them.
    pub keys: Vec<String>,
    /// What they do.
    pub words: &'static str,
    /// The names by which the settings change them; none for keys of the text field.
    pub names: Vec<&'static str>,
    pub group: KeyGroup,
    /// Its place among those that a beginner needs; 0 is none.
    first: u8,
    /// The first key of every row of the table in it.
    short: Vec<String>,
}

fn names(keys: &[KeyPress]) -> Vec<String> {
    keys.iter().map(|key| key.name()).collect()
}

/// The keys of one scope.
pub fn help(keymap: &Keymap, scope: Scope) -> Vec<HelpKeys> {
    let mut rows: Vec<HelpKeys> = Vec::new();
    for (row, keys) in keymap.rows().filter(|(row, _)| row.scope == scope) {
        let keys = names(keys);
        let short = keys.iter().take(1).cloned();
        match rows.last_mut() {
            // The row above says it for both.
            Some(last) if row.help.is_empty() => {
                last.short.extend(short);
                last.keys.extend(keys);
                last.names.push(row.name);
            }
            _ => rows.push(HelpKeys {
                short: short.collect(),
                keys,
                words: row.help,
                names: vec![row.name],
                group: KeyGroup::of(row),
                first: row.first,
            }),
        }
    }
    if scope == Scope::Input {
        rows.extend(EDITING.iter().map(|row| HelpKeys {
            keys: names(row.keys),
            words: row.help,
            names: Vec::new(),
            group: KeyGroup::Writing,
            first: row.first,
            short: names(row.keys),
        }));
    }
    rows
}

/// The keys that a beginner needs, with what they do.
pub fn first_keys(keymap: &Keymap) -> Vec<(String, &'static str)> {
    let mut rows: Vec<HelpKeys> =
        Scope::ALL.into_iter().flat_map(|scope| help(keymap, scope)).collect();
    rows.retain(|row| row.first > 0);
    rows.sort_by_key(|row| row.first);
    rows.into_iter().map(|row| (row.short.join(" "), row.words)).collect()
}
