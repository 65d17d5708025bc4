//! Candidates as they are written: `dovetail:gamma=16,k=10,head=PATH;pld`, in a flag or in a file.
//! Every value is checked by the settings' own table. It must not load anything.

use crate::nearest::nearest;
use crate::plan::{DrafterId, Schedule, Strategy};
use crate::settings::{KEYS, Problem, SettingKey, SettingScope, SettingValue, Settings};

/// Drafting continues while the target verifies.
const OVERLAP: &str = "overlap";
/// Candidates are ranked without the target's noise.
const UNCOUPLED: &str = "uncoupled";
/// For the tables.
const LABEL: &str = "label";
/// As many blocks as the head has.
pub(super) const ALL_BLOCKS: &str = "all";
/// The setting that says which blocks of the target are on a GPU.
pub(super) const BLOCKS: &str = "gpu_layers";
/// All of them, sent there in every pass.
pub(super) const STREAM: &str = "stream";
/// The budget that the strategy chooses for itself.
const OWN_BUDGET: char = 'c';

/// One setting of a candidate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnSetting {
    /// The settings' key.
    pub key: &'static str,
    /// As it was named.
    pub written: String,
    /// As it was given.
    pub value: String,
}

impl OwnSetting {
    /// What it changes.
    pub fn scope(&self) -> SettingScope {
        SettingKey::named(self.key).map_or(SettingScope::Round, |row| row.scope)
    }

    /// As it is written.
    fn text(&self) -> String {
        format!("{}={}", self.written, self.value)
    }

    /// For the tables: of a path its last part.
    fn short(&self) -> String {
        let last = self.value.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next();
        match self.scope() {
            SettingScope::Draft => format!("{}={}", self.written, last.unwrap_or(&self.value)),
            _ => self.text(),
        }
    }

    /// `c`, `c+1`, `c-2`: the strategy's own budget and how far from it; `None` for a number.
    pub(super) fn beside_own_budget(&self) -> Option<isize> {
        let rest = self.value.strip_prefix(OWN_BUDGET)?;
        if rest.is_empty() { Some(0) } else { rest.parse().ok() }
    }
}

/// A candidate as it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct CandidateLine {
    /// For the tables.
    pub name: String,
    /// Whether the name was given with `label=`.
    labelled: bool,
    /// The strategy.
    pub row: &'static Strategy,
    /// Whether drafting continues while the target verifies.
    pub overlap: bool,
    /// Whether drafts are ranked without the target's noise.
    pub uncoupled: bool,
    /// Its own settings, in the order in which they were written.
    pub own: Vec<OwnSetting>,
}

impl CandidateLine {
    /// A strategy as the table has it.
    pub fn of(row: &'static Strategy) -> Self {
        let name = row.name.to_owned();
        Self { name, labelled: false, row, overlap: false, uncoupled: false, own: Vec::new() }
    }

    /// With the draft at work while the target verifies.
    pub(super) fn overlapped(self) -> Self {
        let line = Self { overlap: true, ..self };
        Self { name: line.own_name(), ..line }
    }

    /// With drafts that are ranked without the target's noise, under the same name.
    pub fn uncoupled(self) -> Self {
        Self { uncoupled: self.row.draft != DrafterId::None, ..self }
    }

    /// The target alone where this candidate's models lie.
    pub fn plain(&self) -> Self {
        let plain = Self::of(Strategy::named(super::PLAIN).unwrap_or(self.row));
        let placed = self.own.iter().filter(|own| own.scope() == SettingScope::Placement).cloned();
        let line = Self { own: placed.collect(), ..plain };
        Self { name: line.own_name(), ..line }
    }

    /// The settings that decide what is loaded, in one order however they were written; among them
    /// the placement that its strategy is about.
    pub fn loads(&self) -> Vec<OwnSetting> {
        let models = self.own.iter().filter(|own| own.scope() != SettingScope::Round);
        let mut models: Vec<OwnSetting> = models.cloned().collect();
        if self.row.streamed && !models.iter().any(|own| own.key == BLOCKS) {
            let (written, value) = (BLOCKS.replace('_', "-"), STREAM.to_owned());
            models.push(OwnSetting { key: BLOCKS, written, value });
        }
        models.sort();
        models
    }

    /// As it is written in a flag, its label included.
    pub fn text(&self) -> String {
        let label = self.labelled.then(|| format!("{LABEL}={}", self.name));
        self.with_settings(label.into_iter().chain(self.own.iter().map(OwnSetting::text)))
    }

    fn own_name(&self) -> String {
        self.with_settings(self.own.iter().map(OwnSetting::short))
    }

    fn with_settings(&self, settings: impl Iterator<Item = String>) -> String {
        let settings: Vec<String> = settings.collect();
        let mut text = self.row.name.to_owned();
        for (variant, on) in [(OVERLAP, self.overlap), (UNCOUPLED, self.uncoupled)] {
            if on {
                text = format!("{text}+{variant}");
            }
        }
        if settings.is_empty() { text } else { format!("{text}:{}", settings.join(",")) }
    }

    /// The strategy and its variants.
    fn parse(head: &str) -> Result<Self, String> {
        let mut parts = head.split('+');
        let name = parts.next().unwrap_or_default().trim();
        let row = Strategy::named(name).ok_or_else(|| {
            let known = Strategy::names();
            let near = Strategy::nearest(name).map(|near| format!("; did you mean `{near}`?"));
            let near = near.unwrap_or_else(|| format!("; the strategies are {known}"));
            format!("there is no such strategy{near}")
        })?;
        let mut line = Self::of(row);
        for variant in parts {
            match variant.trim() {
                OVERLAP => line.overlap = true,
                UNCOUPLED => line.uncoupled = true,
                other => {
                    return Err(format!(
                        "there is no variant `+{other}`; a name can be followed by `+{OVERLAP}` or \
                         `+{UNCOUPLED}`"
                    ));
                }
            }
        }
        let overlaps = row.schedule_with(true) != row.schedule;
        if line.overlap && (row.schedule == Schedule::Overlap || !overlaps) {
            return Err("it has no variant that drafts while the target verifies".to_owned());
        }
        Ok(line)
    }

    /// Takes `name=value`.
    fn take(&mut self, setting: &str) -> Result<(), String> {
        let Some((written, value)) = setting.split_once('=') else {
            return Err(format!("`{setting}` is not a setting; write name=value"));
        };
        let written = written.trim();
        let value = value.trim();
        if written == LABEL {
            if value.is_empty() || value == super::PLAIN || self.row.name == super::PLAIN {
                return Err(format!(
                    "`{LABEL}` needs a name other than `{}`, which is the target alone",
                    super::PLAIN
                ));
            }
            value.clone_into(&mut self.name);
            self.labelled = true;
            return Ok(());
        }
        let row = KEYS.iter().find(|row| row.contender.contains(&written));
        let key = row.ok_or_else(|| unknown(written))?.name;
        let own = OwnSetting { key, written: written.to_owned(), value: value.to_owned() };
        if self.own.iter().any(|other| other.key == key) {
            return Err(format!("`{written}` is given twice"));
        }
        let all = key == "controls.blocks" && value == ALL_BLOCKS;
        let beside = key == "controls.gamma" && own.beside_own_budget().is_some();
        if !all && !beside {
            Settings::default().set(key, &SettingValue::text(value)).map_err(|problem| {
                match problem {
                    Problem::Value { expects, found, .. } => {
                        format!("`{written}` must be {expects}, not {found}")
                    }
                    other => other.to_string(),
                }
            })?;
        }
        self.own.push(own);
        Ok(())
    }
}

fn unknown(written: &str) -> String {
    let names = || KEYS.iter().flat_map(|row| row.contender).copied().chain([LABEL]);
    match nearest(written, names(), 0.5) {
        Some(near) => format!("there is no setting `{written}`; did you mean `{near}`?"),
        None => {
            let known = names().collect::<Vec<_>>().join(", ");
            format!("there is no setting `{written}`; the settings are {known}")
        }
    }
}

/// The candidates in `text`, one after the other: `;` or `,` stands between them, `,` between the
/// settings of one. What is wrong with one leaves the others as they are.
pub fn candidate_lines(origin: &str, text: &str) -> Vec<Result<CandidateLine, String>> {
    let mut found: Vec<Result<CandidateLine, String>> = Vec::new();
    for segment in text.split(';') {
        // Whether a setting may follow: not across a `;`.
        let mut open = false;
        for piece in segment.split(',').map(str::trim).filter(|piece| !piece.is_empty()) {
            let error = |reason: String| format!("{origin}: `{piece}`: {reason}");
            let is_setting = match (piece.find('='), piece.find(':')) {
                (Some(equals), Some(colon)) => equals < colon,
                (equals, _) => equals.is_some(),
            };
            if !is_setting {
                let (head, first) = match piece.split_once(':') {
                    Some((head, first)) => (head, Some(first)),
                    None => (piece, None),
                };
                let line = CandidateLine::parse(head).and_then(|mut line| {
                    first.map_or(Ok(()), |first| line.take(first)).map(|()| line)
                });
                found.push(line.map_err(error));
                open = true;
                continue;
            }
            let last = if open { found.last_mut() } else { None };
            match last {
                Some(Ok(line)) => {
                    if let Err(reason) = line.take(piece) {
                        found.pop();
                        found.push(Err(error(reason)));
                    }
                }
                // Settings of what is left out anyway.
                Some(Err(_)) => {}
                None => found.push(Err(error("a setting needs a strategy before it".into()))),
            }
        }
    }
    name_apart(&mut found);
    found
}

/// The candidates of a file: one or several per line; `#` begins a comment.
pub fn candidate_file(name: &str, text: &str) -> Vec<Result<CandidateLine, String>> {
    let mut all = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        all.extend(candidate_lines(&format!("{name}:{}", number + 1), line));
    }
    name_apart(&mut all);
    all
}

/// Names every candidate, so that no two have one name; the same one twice is dropped.
fn name_apart(lines: &mut Vec<Result<CandidateLine, String>>) {
    let mut seen: Vec<CandidateLine> = Vec::new();
    lines.retain_mut(|line| {
        let Ok(line) = line else { return true };
        if !line.labelled {
            line.name = line.own_name();
        }
        if seen.contains(line) {
            return false;
        }
        let name = line.name.clone();
        let mut number = 2;
        while seen.iter().any(|other| other.name == line.name) {
            line.name = format!("{name} #{number}");
            number += 1;
        }
        seen.push(line.clone());
        true
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(text: &str) -> Vec<CandidateLine> {
        candidate_lines("--strategies", text).into_iter().map(|line| line.unwrap()).collect()
    }

    fn errors(text: &str) -> Vec<String> {
        let all = candidate_lines("--strategies", text).into_iter();
        all.filter_map(Result::err).collect()
    }

    fn names(lines: &[CandidateLine]) -> Vec<&str> {
        lines.iter().map(|line| line.name.as_str()).collect()
    }

    #[test]
    fn candidates_carry_settings_of_their_own() {
        let found = lines(
            "dovetail:gamma=16,k=10,d=7,m=2,head=a/b/dgf; sps:draft-model=C:\\m\\s.gguf;\
             partial:gpu-layers=8",
        );
        let names = names(&found);
        let expected = [
            "dovetail:gamma=16,k=10,d=7,m=2,head=dgf",
            "sps:draft-model=s.gguf",
            "partial:gpu-layers=8",
        ];
        assert_eq!(names, expected);
        let head = &found[0].own[4];
        assert_eq!((head.key, head.value.as_str()), ("draft", "a/b/dgf"));
        assert_eq!(found[0].loads(), std::slice::from_ref(head));
        assert_eq!(found[2].plain().name, "plain:gpu-layers=8");
        assert_eq!(found[0].plain().name, "plain", "a head says nothing of where the target is");
    }

    #[test]
    fn names_alone_are_separated_by_commas_as_before() {
        let found = lines("pld,dovetail+overlap,dovetail+uncoupled,pld,duo:k=1,gamma=c-1,rest");
        let expected =
            ["pld", "dovetail+overlap", "dovetail+uncoupled", "duo:k=1,gamma=c-1", "rest"];
        assert_eq!(names(&found), expected);
        assert!(found[1].overlap && !found[1].uncoupled && found[2].uncoupled);
        assert_eq!(found[3].own[1].beside_own_budget(), Some(-1));
    }

    #[test]
    fn names_are_given_or_told_apart() {
        let found = lines("dovetail:head=a/x;dovetail:head=b/x;dovetail:label=EAGLE 2,head=c");
        assert_eq!(names(&found), ["dovetail:head=x", "dovetail:head=x #2", "EAGLE 2"]);
        let again = lines(&found[2].text());
        assert_eq!(again[0], found[2], "{}", found[2].text());
    }

    #[test]
    fn what_is_wrong_is_named_and_the_others_stay() {
        let text = "dovetial;pld;dovetail:gama=3,k=2;duo:k=11;sps:draft-model=;plain:overlap;k=3";
        let all = candidate_lines("--strategies", text);
        assert_eq!(all.len(), 7);
        assert_eq!(all.iter().filter(|line| line.is_ok()).count(), 1);
        let errors = errors(text);
        for (error, words) in errors.iter().zip([
            "`dovetial`: there is no such strategy; did you mean `dovetail`?",
            "there is no setting `gama`; did you mean `gamma`?",
            "`k` must be a whole number from 1 to 10, or \"auto\", not \"11\"",
            "`draft-model` must be",
            "`overlap` is not a setting",
            "needs a strategy before it",
        ]) {
            assert!(error.contains(words), "{error}");
            assert!(error.matches("dovetial").count() < 2, "{error}");
        }
        assert!(errors_of("pld+overlap").contains("no variant"));
        assert!(errors_of("dovetail:k=2,k=3").contains("twice"));
        assert!(errors_of("dovetail+warp").contains("`+overlap` or `+uncoupled`"));
    }

    fn errors_of(text: &str) -> String {
        errors(text).join("\n")
    }

    #[test]
    fn a_file_names_its_lines() {
        let all = candidate_file("c.txt", "# ours\npld\n\nwarp # not ours\ndovetail:k=2,m=all\n");
        assert_eq!(all.len(), 3);
        assert!(all[1].as_ref().unwrap_err().starts_with("c.txt:4: "));
        assert_eq!(all[2].as_ref().unwrap().own.len(), 2);
    }

    proptest! {
        #[test]
        fn nothing_that_is_written_panics(text in "[a-z:;,=+γ#0-9 -]{0,60}") {
            let _ = candidate_lines("x", &text);
        }
    }
}
