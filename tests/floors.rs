//! The modules of the crate are on the floors given by the table in `src/lib.rs`: a module imports
//! only from floors below its own and from modules of its floor that are listed after it, so no two
//! modules import each other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The most columns in a line.
const WIDTH: usize = 100;

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The place of each module in the table, from the rows `| 4 | [`decode`] | … |`: its floor, and
/// how many rows are listed after it. The rows are in the order of the floors.
fn floors() -> BTreeMap<String, (usize, usize)> {
    let table = read(&source().join("lib.rs"));
    let row = |line: &str| {
        let mut cells = line.strip_prefix("//! |")?.split('|').map(str::trim);
        let floor = cells.next()?.parse().ok()?;
        let room = cells.next()?.split('`').nth(1)?.to_owned();
        Some((room, floor))
    };
    let mut rows: Vec<(String, usize)> = table.lines().filter_map(row).collect();
    rows.reverse();
    assert!(rows.is_sorted_by_key(|(_, floor)| *floor), "{rows:?}");
    rows.into_iter().enumerate().map(|(at, (room, floor))| (room, (floor, at))).collect()
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            // The build output of the crates under `tests` is not ours.
            if !path.ends_with("target") {
                files(&path, found);
            }
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

/// The modules from the crate's root down to the file: `src/decode/mod.rs` is `[decode]`.
fn modules(path: &Path) -> Vec<String> {
    let inside = path.strip_prefix(source()).unwrap().with_extension("");
    let mut names: Vec<String> =
        inside.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    if names.last().is_some_and(|last| last == "mod") {
        names.pop();
    }
    names
}

/// The modules named in a line of code: `crate::decode::…`, `crate::{decode::…, plan::…}`.
fn named(code: &str) -> Vec<String> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let before = code[..at].chars().next_back();
        if before.is_some_and(is_name) {
            continue;
        }
        let rest = &code[at + "crate::".len()..];
        let parts: Vec<&str> = match rest.strip_prefix('{') {
            Some(list) => list.split(',').map(str::trim).collect(),
            None => vec![rest],
        };
        found.extend(parts.iter().map(|part| part.split(|c| !is_name(c)).next().unwrap().into()));
    }
    found
}

/// The longest chain of `super::` in a line of code.
fn supers(code: &str) -> usize {
    let chain = |mut rest: &str| {
        let mut count = 0;
        while let Some(more) = rest.strip_prefix("super::") {
            (rest, count) = (more, count + 1);
        }
        count
    };
    code.match_indices("super::").map(|(at, _)| chain(&code[at..])).max().unwrap_or(0)
}

/// Each line of code with the number of inline modules (`mod tests { … }`) around it.
fn code_lines(text: &str) -> Vec<(usize, &str)> {
    let mut open: Vec<usize> = Vec::new();
    let mut lines = Vec::new();
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let code = line.split("//").next().unwrap_or_default();
        if open.last() == Some(&indent) && line.trim() == "}" {
            open.pop();
        }
        lines.push((open.len(), code));
        let mut words = code.split_whitespace().skip_while(|word| word.starts_with("pub"));
        if words.next() == Some("mod") && code.trim_end().ends_with('{') {
            open.push(indent);
        }
    }
    lines
}

#[test]
fn every_room_imports_only_from_floors_below() {
    let floors = floors();
    let mut paths = Vec::new();
    files(&source(), &mut paths);
    let mut broken = Vec::new();
    for path in paths {
        let modules = modules(&path);
        let room = modules[0].as_str();
        if matches!(room, "lib" | "main") {
            continue;
        }
        let Some(&(floor, at)) = floors.get(room) else {
            // It has only text, no code.
            assert_eq!(room, "method", "{room} has no floor in the table of src/lib.rs");
            continue;
        };
        for (inline, code) in code_lines(&read(&path)) {
            for other in named(code).iter().filter(|other| *other != room) {
                match floors.get(other) {
                    Some(&below) if below.1 < at => {}
                    Some(&(below, _)) => broken.push(format!(
                        "{}: {room} (floor {floor}) imports {other} (floor {below})",
                        path.display()
                    )),
                    None => {}
                }
            }
            if supers(code) >= modules.len() + inline {
                broken.push(format!("{}: `{}` leaves {room}", path.display(), code.trim()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn a_module_with_a_folder_lies_in_it_as_mod_rs() {
    let mut paths = Vec::new();
    files(&source(), &mut paths);
    let beside = |path: &&PathBuf| path.with_extension("").is_dir();
    let stray: Vec<&PathBuf> = paths.iter().filter(beside).collect();
    assert!(stray.is_empty(), "move into the folder as mod.rs: {stray:?}");
}

#[test]
fn imports_are_found_in_every_form() {
    assert_eq!(named("use crate::plan::Setting;"), ["plan"]);
    assert_eq!(named("use crate::{decode::Round, plan};"), ["decode", "plan"]);
    assert_eq!(named("fn f(x: crate::draft::Depths, y: crate::model::Config)"), ["draft", "model"]);
    assert_eq!(named("use super::plan; let _ = my_crate::plan;"), [""; 0]);
    assert_eq!(supers("use super::super::plan::Setting;"), 2);
    let text = "use a;\nmod tests {\n    use super::*;\n}\nuse b;";
    let depths: Vec<usize> = code_lines(text).iter().map(|(depth, _)| *depth).collect();
    assert_eq!(depths, [0, 0, 1, 0, 0]);
}

/// Comments refer to sections of `src/method.md`: "method.md, Tree growth".
#[test]
fn comments_point_to_sections_of_the_method_that_are_there() {
    let method = read(&source().join("method.md"));
    let sections: Vec<&str> = method.lines().filter_map(|line| line.strip_prefix("# ")).collect();
    let mut paths = Vec::new();
    files(&source(), &mut paths);
    for path in paths {
        let text = read(&path);
        assert!(!text.contains("spec §"), "{}: cites a text that is not here", path.display());
        // A citation may be wrapped.
        let comment = |line: &str| line.trim_start().trim_start_matches(['/', '!']).to_owned();
        let text: String = text.lines().map(comment).collect();
        for (at, found) in text.match_indices("method.md, ") {
            let cited = &text[at + found.len()..];
            let is_there = sections.iter().any(|section| cited.starts_with(section));
            let words: String = cited.chars().take(30).collect();
            assert!(is_there, "{}: no section of method.md is \"{words}\"", path.display());
        }
    }
}

/// rustfmt does not wrap comments and strings. The lines of a chat template are excepted.
#[test]
fn lines_end_within_100_columns() {
    let mut paths = Vec::new();
    files(&source(), &mut paths);
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests"), &mut paths);
    let mut long = Vec::new();
    for path in paths {
        for (at, line) in read(&path).lines().enumerate() {
            let template = ["{%", "{{-"].iter().any(|mark| line.contains(mark));
            if line.chars().count() > WIDTH && !template {
                long.push(format!("{}:{}", path.display(), at + 1));
            }
        }
    }
    assert!(long.is_empty(), "longer than {WIDTH} columns:\n{}", long.join("\n"));
}

/// What follows the generics of a name.
fn after_generics(rest: &str) -> &str {
    match rest.strip_prefix("::<") {
        Some(inner) => inner.split_once('>').map_or("(", |(_, rest)| rest.trim_start_matches('>')),
        None => rest,
    }
}

/// Uses of lanes that are not calls: `.map(L::float)`, `each(gate::<L>)`.
fn handed_over(line: &str) -> bool {
    let name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let operations = line.match_indices("L::").filter(|(at, _)| {
        let inside = line[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        !inside && line[at + 3..].starts_with(|c: char| c.is_ascii_lowercase())
    });
    let operations = operations.map(|(at, _)| line[at + 3..].trim_start_matches(name));
    let functions = line.match_indices("::<L").map(|(at, _)| &line[at..]);
    operations.chain(functions).any(|rest| !after_generics(rest).starts_with('('))
}

/// A function passed as an argument is compiled on its own, without the instruction set of its
/// caller: every operation in it becomes a call, which is forty times as slow.
#[test]
fn kernels_call_lanes_where_they_stand() {
    assert!(handed_over("block.map(L::float)") && handed_over("self.each::<L>(gate::<L>),"));
    assert!(!handed_over("L::third::<6>(L::pair::<3>(a), c)") && !handed_over("AL::x, L::ROWS"));
    let mut paths = Vec::new();
    files(&source().join("kernels"), &mut paths);
    let mut found = Vec::new();
    for path in paths {
        for (at, line) in read(&path).lines().enumerate() {
            if !line.trim_start().starts_with("//") && handed_over(line) {
                found.push(format!("{}:{}: {line}", path.display(), at + 1));
            }
        }
    }
    assert!(found.is_empty(), "not called:\n{}", found.join("\n"));
}

/// What opens a file.
const OPENS: [&str; 9] = [
    "File::open(",
    "File::create(",
    "File::create_new(",
    "File::options(",
    "OpenOptions",
    "fs::read(",
    "fs::read_to_string(",
    "fs::write(",
    "fs::copy(",
];

/// Where files are opened without `files::open_regular`, and why.
const OPENED: [(&str, &str); 10] = [
    ("files/open.rs", "it is the place where files are opened"),
    ("files/write.rs", "it syncs a folder"),
    ("files/cache/file.rs", "the device of a test"),
    ("hardware/adapters.rs", "/dev/null"),
    ("hardware/cores.rs", "the kernel's files"),
    ("hardware/groups.rs", "the kernel's files"),
    ("hardware/peak.rs", "the kernel's files"),
    ("hardware/vram.rs", "the kernel's files"),
    ("library/hub/snapshot.rs", "it copies what was downloaded just before"),
    ("cli/bench/isolated.rs", "it writes into a new folder of its own"),
];

/// Where a file is expected, somebody may have put a pipe, which blocks for ever.
#[test]
fn files_are_opened_where_pipes_and_devices_are_refused() {
    let mut paths = Vec::new();
    files(&source(), &mut paths);
    // `CacheFile::open` is another function.
    let is_inside = |line: &str, at: usize| line[..at].ends_with(char::is_alphanumeric);
    let opens = |line: &str| {
        let found = |open: &str| line.match_indices(open).any(|(at, _)| !is_inside(line, at));
        !line.trim_start().starts_with("//") && OPENS.iter().any(|open| found(open))
    };
    let mut found = BTreeSet::new();
    for path in paths {
        let name = path.strip_prefix(source()).unwrap();
        let is_test = name.to_string_lossy().contains("tests");
        let text = read(&path);
        let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        if !is_test && code.lines().any(opens) {
            found.insert(name.to_owned());
        }
    }
    assert_eq!(found, OPENED.iter().map(|(path, _)| PathBuf::from(path)).collect());
}
