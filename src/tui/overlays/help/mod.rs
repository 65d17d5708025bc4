//! The help: what it lists, from the tables of keys, commands and topics, and the page that it has
//! opened. Must never know how it is drawn.

mod picture;
pub(crate) mod view;

use crate::guide::{TOPICS, Topic};
use crate::tui::commands::{COMMANDS, SlashCommand};
use crate::tui::keymap::{self, KeyGroup, Keymap, Scope};
use crate::tui::overlays::list::has_words;

/// What a row of the help opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelpPage {
    /// The picture of one round.
    Round,
    Keys(KeyGroup),
    Commands,
    /// A page of the guide.
    Topic(&'static Topic),
}

impl HelpPage {
    /// Its heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::Round => "How a round works",
            Self::Keys(group) => group.words()[0],
            Self::Commands => "Commands",
            Self::Topic(topic) => topic.title(),
        }
    }

    fn row(self) -> HelpRow {
        let words = match self {
            Self::Round => "what the draft guesses and the model accepts".to_string(),
            Self::Keys(group) => group.words()[1].to_string(),
            Self::Commands => "everything that begins with /".to_string(),
            Self::Topic(topic) => topic.summary().replace('`', ""),
        };
        HelpRow { name: self.title().to_string(), words, opens: Some(self) }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelpRow {
    /// Keys, a command, or the name of a page.
    pub name: String,
    /// What they do, or what is on it.
    pub words: String,
    pub opens: Option<HelpPage>,
}

/// Rows below a heading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelpSection {
    /// The heading.
    pub title: &'static str,
    pub rows: Vec<HelpRow>,
}

/// The help while it is open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Help {
    /// Words that rows must have.
    pub words: String,
    /// The row under the cursor, among those of all sections.
    pub selected: usize,
    /// The page that covers the list.
    pub open: Option<HelpPage>,
    /// First line seen of the list.
    pub top: usize,
    /// First line seen of the page.
    pub page_top: usize,
}

impl Help {
    /// What the list shows: the beginning, or the rows that have the words.
    pub fn sections(&self, keys: &Keymap) -> Vec<HelpSection> {
        if self.words.trim().is_empty() { beginning(keys) } else { found(keys, &self.words) }
    }

    /// Moves the cursor, or the page that is open.
    pub fn step(&mut self, by: isize, keys: &Keymap) {
        if self.open.is_some() {
            // The view limits it to the lines of the page.
            self.page_top = self.page_top.saturating_add_signed(by);
            return;
        }
        let rows: usize = self.sections(keys).iter().map(|section| section.rows.len()).sum();
        self.selected = self.selected.saturating_add_signed(by).min(rows.saturating_sub(1));
    }

    /// Changes the words, and begins at the first row that has them.
    pub fn search(&mut self, change: impl FnOnce(&mut String)) {
        change(&mut self.words);
        (self.selected, self.top) = (0, 0);
    }

    /// Opens the page of the row under the cursor; `false` if it has none.
    pub fn take(&mut self, keys: &Keymap) -> bool {
        let mut rows = self.sections(keys).into_iter().flat_map(|section| section.rows);
        self.open = rows.nth(self.selected).and_then(|row| row.opens);
        self.page_top = 0;
        self.open.is_some()
    }
}

/// A row that opens nothing.
fn entry((name, words): (String, &str)) -> HelpRow {
    HelpRow { name, words: words.to_string(), opens: None }
}

/// What the help begins with: some keys, then what else there is.
fn beginning(keys: &Keymap) -> Vec<HelpSection> {
    let first = keymap::first_keys(keys).into_iter().map(entry).collect();
    let groups = KeyGroup::ALL.map(HelpPage::Keys).into_iter().chain([HelpPage::Commands]);
    vec![
        HelpSection { title: "The first keys", rows: first },
        HelpSection { title: "All keys and commands", rows: groups.map(HelpPage::row).collect() },
        HelpSection { title: "Guide", rows: guide() },
    ]
}

fn guide() -> Vec<HelpRow> {
    let topics = TOPICS.iter().map(HelpPage::Topic);
    [HelpPage::Round].into_iter().chain(topics).map(HelpPage::row).collect()
}

/// The keys of a group, by the place where they work.
pub fn keys_of(keys: &Keymap, group: KeyGroup) -> Vec<HelpSection> {
    let section = |scope: Scope| {
        let rows = keymap::help(keys, scope).into_iter().filter(|row| row.group == group);
        let rows: Vec<HelpRow> = rows.map(|row| entry((row.keys.join(" "), row.words))).collect();
        (!rows.is_empty()).then(|| HelpSection { title: scope.title(), rows })
    };
    Scope::ALL.into_iter().filter_map(section).collect()
}

/// The commands with what they do.
pub fn commands() -> HelpSection {
    let names = |command: &SlashCommand| {
        let names: Vec<String> = command.names().map(|name| format!("/{name}")).collect();
        names.join(", ")
    };
    let row = |command: &SlashCommand| {
        let usage = format!("{} {}", names(command), command.argument);
        entry((usage.trim_end().to_string(), command.help))
    };
    HelpSection { title: "Commands", rows: COMMANDS.iter().map(row).collect() }
}

/// The rows that have every one of `words`, upper case or lower, below their headings.
fn found(keys: &Keymap, words: &str) -> Vec<HelpSection> {
    let has = |row: &HelpRow| has_words(&format!("{} {}", row.name, row.words), words);
    let keys = KeyGroup::ALL.into_iter().flat_map(|group| keys_of(keys, group));
    let guide = HelpSection { title: "Guide", rows: guide() };
    let mut sections: Vec<HelpSection> = keys.chain([commands(), guide]).collect();
    sections.retain_mut(|section| {
        section.rows.retain(has);
        !section.rows.is_empty()
    });
    sections
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn names(sections: &[HelpSection]) -> Vec<String> {
        sections.iter().flat_map(|section| &section.rows).map(|row| row.name.clone()).collect()
    }

    #[test]
    fn it_begins_with_about_ten_keys_then_groups_then_topics() {
        let sections = beginning(&Keymap::default());
        assert_eq!(sections.len(), 3);
        assert!((9..=12).contains(&sections[0].rows.len()), "{:?}", sections[0]);
        assert_eq!(sections[0].rows[0].name, "Enter");
        assert!(names(&sections[..1]).contains(&"↑ ↓".to_string()));
        assert!(sections[1..].iter().flat_map(|s| &s.rows).all(|row| row.opens.is_some()));
        assert_eq!(sections[2].rows.len(), TOPICS.len() + 1);
    }

    #[test]
    fn every_key_is_in_a_group_and_found_by_its_words() {
        let keys = Keymap::default();
        let grouped: BTreeSet<String> =
            KeyGroup::ALL.iter().flat_map(|group| names(&keys_of(&keys, *group))).collect();
        for row in Scope::ALL.into_iter().flat_map(|scope| keymap::help(&keys, scope)) {
            let name = row.keys.join(" ");
            assert!(grouped.contains(&name), "{name} is in no group");
            assert!(names(&found(&keys, row.words)).contains(&name), "{name} is not found");
        }
        let warm = names(&found(&keys, "temperature"));
        assert!(warm.iter().any(|name| name.starts_with("/temperature")), "{warm:?}");
        assert!(names(&found(&keys, "settings")).contains(&"Settings".to_string()));
        assert!(found(&keys, "zzz").is_empty());
    }
}
