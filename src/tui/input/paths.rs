//! Words of the message that name files, `@src/main.rs`: which there are, and the paths that begin
//! as the one before the cursor does. Must never read a folder.

use std::path::is_separator;

/// What a word begins with that names a file.
const SIGN: char = '@';

/// Whether a character parts the names of a path on some system: here, `std`'s.
type Separates = fn(char) -> bool;

/// The names of a folder that was listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FolderNames {
    /// As it is written in the message, with the separator after it; empty for the one we are in.
    /// `None` before the first.
    folder: Option<String>,
    /// The names in it, those of folders with a slash after them.
    names: Vec<String>,
}

/// The part of a path that names its folder, and the rest. A backslash before a blank parts nothing
/// on any system: the blank is part of a name.
fn split(path: &str, separates: Separates) -> (&str, &str) {
    let escapes = |at: usize| path[at..].starts_with("\\ ");
    let mut separators = path.char_indices().rev().filter(|(_, c)| separates(*c));
    path.split_at(separators.find(|(at, _)| !escapes(*at)).map_or(0, |(at, _)| at + 1))
}

/// The path that `before`, the line up to the cursor, ends with. A blank in it follows a
/// backslash.
pub(crate) fn path_before(before: &str) -> Option<&str> {
    let word = words(before).last().filter(|(at, word)| at + word.len() == before.len())?.1;
    word.strip_prefix(SIGN)
}

/// The words of a line, each with the byte at which it begins.
fn words(line: &str) -> Vec<(usize, &str)> {
    let mut words = Vec::new();
    let mut begin = None;
    let mut escaped = false;
    for (at, c) in line.char_indices() {
        if c.is_whitespace() && !escaped {
            words.extend(begin.take().map(|begin| (begin, &line[begin..at])));
        } else {
            begin.get_or_insert(at);
        }
        escaped = c == '\\' && !escaped;
    }
    words.extend(begin.map(|begin| (begin, &line[begin..])));
    words
}

/// The paths that `message` names, each once, in order; without the sign and the backslashes.
pub(crate) fn named(message: &str) -> Vec<String> {
    let mut paths: Vec<String> = Vec::new();
    for (_, word) in message.lines().flat_map(words) {
        let Some(path) = word.strip_prefix(SIGN) else { continue };
        // What ends a sentence is not part of a name, nor are brackets around it.
        let path = path.trim_end_matches([',', ';', ':', '!', '?', ')', '"', '\'']);
        let path = path.strip_suffix('.').unwrap_or(path);
        let path = path.replace("\\ ", " ");
        if !path.is_empty() && !paths.contains(&path) {
            paths.push(path);
        }
    }
    paths
}

impl FolderNames {
    /// The folder to be listed for `path`, if it is another one.
    pub(crate) fn wants(&mut self, path: &str) -> Option<String> {
        let (folder, _) = split(path, is_separator);
        if self.folder.as_deref() == Some(folder) {
            return None;
        }
        *self = Self { folder: Some(folder.to_string()), names: Vec::new() };
        Some(folder.replace("\\ ", " "))
    }

    /// The names in `folder`, if it is still the one that is wanted.
    pub(crate) fn take(&mut self, folder: &str, names: Vec<String>) {
        if self.folder.as_ref().is_some_and(|asked| asked.replace("\\ ", " ") == folder) {
            self.names = names;
        }
    }

    /// The paths that begin like `path`, as they are written; hidden ones only where it asks for
    /// them. None but `path` itself is none.
    pub(crate) fn like(&self, path: &str) -> Vec<String> {
        let (folder, begun) = split(path, is_separator);
        if self.folder.as_deref() != Some(folder) {
            return Vec::new();
        }
        let names = self.names.iter().map(|name| name.replace(' ', "\\ "));
        let fits = |name: &String| {
            name.starts_with(begun) && (begun.starts_with('.') || !name.starts_with('.'))
        };
        let found: Vec<String> = names.filter(fits).map(|name| format!("{folder}{name}")).collect();
        if found.iter().any(|found| found == path) { Vec::new() } else { found }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_name_files_are_found() {
        let message = "See @src/main.rs, and @a\\ b.txt (mail me@home.net). @src/main.rs\n@ @./x.";
        assert_eq!(named(message), ["src/main.rs", "a b.txt", "./x"]);
        assert!(named("no files, only an a@b").is_empty());
        assert_eq!(path_before("see @src/ma"), Some("src/ma"));
        assert_eq!(path_before("see @a\\ b"), Some("a\\ b"));
        assert_eq!(path_before("@"), Some(""));
        for none in ["see @src ", "me@home", "", "@a b"] {
            assert_eq!(path_before(none), None, "{none}");
        }
    }

    #[test]
    fn a_path_is_parted_where_the_system_parts_it() {
        let windows: Separates = |c| matches!(c, '/' | '\\');
        let others: Separates = |c| c == '/';
        for (path, on_windows, elsewhere) in [
            ("main", ("", "main"), ("", "main")),
            ("src/ma", ("src/", "ma"), ("src/", "ma")),
            (r"src\ma", (r"src\", "ma"), ("", r"src\ma")),
            (r"C:\a/b\", (r"C:\a/b\", ""), (r"C:\a/", r"b\")),
            (r"src\a\ b", (r"src\", r"a\ b"), ("", r"src\a\ b")),
            (r"a\ ", ("", r"a\ "), ("", r"a\ ")),
            (r"a\ b\c", (r"a\ b\", "c"), ("", r"a\ b\c")),
        ] {
            assert_eq!(split(path, windows), on_windows, "{path}");
            assert_eq!(split(path, others), elsewhere, "{path}");
            let here = if cfg!(windows) { on_windows } else { elsewhere };
            assert_eq!(split(path, is_separator), here, "{path}");
        }
    }

    #[test]
    fn a_folder_is_listed_once_and_gives_what_begins_alike() {
        let mut listed = FolderNames::default();
        assert_eq!(listed.wants(""), Some(String::new()));
        listed.take("", vec!["src/".into(), "a b".into(), ".git/".into(), "sample".into()]);
        assert_eq!(listed.wants("s"), None);
        assert_eq!(listed.like("s"), ["src/", "sample"]);
        assert_eq!(listed.like(""), ["src/", "a\\ b", "sample"]);
        assert_eq!(listed.like("."), [".git/"]);
        assert_eq!(listed.like("sample"), [""; 0], "it is written already");
        assert_eq!(listed.wants("src/m"), Some("src/".to_string()));
        assert_eq!(listed.wants("src/ma"), None, "it is being listed");
        listed.take("", vec!["late".into()]);
        assert!(listed.like("src/m").is_empty());
        listed.take("src/", vec!["main.rs".into(), "mod.rs".into()]);
        assert_eq!(listed.like("src/m"), ["src/main.rs", "src/mod.rs"]);
    }
}
