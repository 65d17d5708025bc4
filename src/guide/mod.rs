//! The guide: its pages, compiled in, one row per page. `dovetail help`, the help of the chat and
//! the manual page read this table. Must never know how a page is shown.

/// A page of the guide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topic {
    /// As it is typed after `dovetail help`; the name of its file.
    pub name: &'static str,
    /// The page, in Markdown.
    pub text: &'static str,
}

macro_rules! page {
    ($name:literal) => {
        Topic { name: $name, text: include_str!(concat!("../../assets/docs/", $name, ".md")) }
    };
}

/// Every page, in the order in which a reader may want them.
pub const TOPICS: &[Topic] = &[
    page!("getting-started"),
    page!("screen"),
    page!("command-line"),
    page!("models"),
    page!("architectures"),
    page!("gpu"),
    page!("strategies"),
    page!("exactness"),
    page!("security"),
    page!("benchmarks"),
    page!("papers"),
    page!("training"),
    page!("settings"),
    page!("keys"),
    page!("terminals"),
    page!("platforms"),
];

impl Topic {
    /// The page of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        TOPICS.iter().find(|topic| topic.name == name)
    }

    /// The page's heading.
    pub fn title(&self) -> &'static str {
        self.text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or(self.name).trim()
    }

    /// The sentence below the heading, which says what the page is about.
    pub fn summary(&self) -> &'static str {
        let mut lines = self.text.lines().skip_while(|line| !line.starts_with("# ")).skip(1);
        let paragraph = lines.find(|line| !line.trim().is_empty()).unwrap_or_default();
        paragraph.find(". ").map_or(paragraph, |end| &paragraph[..=end]).trim()
    }

    /// The page with the address of every link to the web after its words, for readers who cannot
    /// follow a link.
    pub fn with_addresses(&self) -> String {
        let mut text = String::new();
        let mut rest = self.text;
        while let Some((before, after)) = rest.split_once("](https://") {
            let Some((address, following)) = after.split_once(')') else { break };
            text += &format!("{before}](https://{address}) <https://{address}>");
            rest = following;
        }
        text + rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn every_page_has_a_row() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/docs");
        let name = |entry: std::io::Result<std::fs::DirEntry>| {
            let path = entry.unwrap().path();
            (path.extension()? == "md").then(|| path.file_stem().unwrap().display().to_string())
        };
        let pages: BTreeSet<String> = std::fs::read_dir(folder).unwrap().filter_map(name).collect();
        let rows: BTreeSet<String> = TOPICS.iter().map(|topic| topic.name.to_owned()).collect();
        assert_eq!(rows, pages, "the table in src/guide and the pages in assets/docs differ");
        assert_eq!(rows.len(), TOPICS.len());
    }

    #[test]
    fn a_page_begins_with_its_title_and_one_sentence_about_it() {
        for topic in TOPICS {
            let Topic { name, text } = topic;
            assert!(text.starts_with("# ") && topic.title().len() > 2, "{name}");
            let summary = topic.summary();
            assert!((10..=100).contains(&summary.chars().count()), "{name}: {summary}");
            assert!(summary.ends_with('.') && !summary.contains(['[', '|']), "{name}: {summary}");
        }
    }

    #[test]
    fn addresses_of_the_web_are_shown() {
        let text = "See [a](b.md), [c](https://d.e) and [f](https://g.h/i).";
        let shown = Topic { name: "x", text }.with_addresses();
        let want = "See [a](b.md), [c](https://d.e) <https://d.e> and \
                    [f](https://g.h/i) <https://g.h/i>.";
        assert_eq!(shown, want);
    }
}
