//! From candidates as they were written to the controls that they decode under, with the models
//! that were loaded for them. Only a candidate's own settings change what a strategy prescribes;
//! flags for all candidates do not. It must not run them.

use super::BenchCandidate;
use super::lines::{ALL_BLOCKS, BLOCKS, CandidateLine, OwnSetting, STREAM};
use super::record::PLAIN;
use crate::draft::Depths;
use crate::plan::{DrafterId, Setting, Strategy, TreeOverrides};
use crate::settings::{HeadChoice, SetBy, SettingValue, Settings};
use crate::speculate::Method;
use crate::worker::{Controls, StrategyStatus};

/// Candidates that share one set of loaded models.
#[derive(Clone, Debug, PartialEq)]
pub struct CandidateBatch {
    /// Their own models, in addition to or in place of those of the settings.
    pub loads: Vec<OwnSetting>,
    /// At least one.
    pub lines: Vec<CandidateLine>,
}

/// `lines` by what they have loaded, in the order in which they were written.
pub fn batches(lines: Vec<CandidateLine>) -> Vec<CandidateBatch> {
    let mut all: Vec<CandidateBatch> = Vec::new();
    for line in lines {
        let loads = line.loads();
        match all.iter_mut().find(|batch| batch.loads == loads) {
            Some(batch) => batch.lines.push(line),
            None => all.push(CandidateBatch { loads, lines: vec![line] }),
        }
    }
    all
}

impl CandidateBatch {
    /// The settings under which its models are loaded: `settings` with its own, and without models
    /// that none of its candidates drafts with.
    pub fn settings(&self, settings: &Settings) -> Settings {
        let mut settings = settings.clone();
        // As if a file said what flags say: another candidate may use a model that this one has no
        // use for.
        for by in settings.given.values_mut() {
            *by = SetBy::File;
        }
        for own in &self.loads {
            // It was checked when the line was read.
            let _ = settings.set(own.key, &SettingValue::text(&own.value));
        }
        let drafts = |kind: DrafterId| {
            let mut rows = self.lines.iter().map(|line| line.row.draft);
            rows.any(|draft| draft == kind || draft == DrafterId::Auto)
        };
        let head = drafts(DrafterId::Head);
        let small = drafts(DrafterId::SmallModel);
        let dflash = drafts(DrafterId::Dflash);
        settings.strategy = match (head, small) {
            _ if dflash => None,
            (true, false) => Some(Strategy::first_with(DrafterId::Head)),
            (false, true) => Some(Strategy::first_with(DrafterId::SmallModel)),
            _ => None,
        };
        if !head && !dflash {
            settings.draft = HeadChoice::Lookup;
        }
        if !small {
            settings.draft_model = None;
            settings.without_small = true;
        }
        if !drafts(DrafterId::Retrieval) {
            settings.rest_text = None;
        }
        // A candidate whose drafter is missing is refused on its own; the others still run.
        settings.strategy = settings.strategy.filter(|row| settings.lacks(row.draft).is_none());
        settings
    }
}

/// All that can run here, and the variant of the head's strategy that overlaps.
pub fn runnable(statuses: &[StrategyStatus]) -> Vec<CandidateLine> {
    let mut lines = Vec::new();
    for status in statuses.iter().filter(|status| status.missing.is_none()) {
        let Some(row) = Strategy::named(&status.name) else { continue };
        lines.push(CandidateLine::of(row));
        if row.draft == DrafterId::Head && row.shape.is_none() && !row.gpu_layers {
            lines.push(CandidateLine::of(row).overlapped());
        }
    }
    lines
}

/// `lines` over the controls `base`, and why others cannot take part; the target alone is always
/// among them and first. `own_budget` is γ as a strategy chooses it for itself.
pub fn candidates(
    base: &Controls,
    statuses: &[StrategyStatus],
    lines: &[CandidateLine],
    own_budget: &mut dyn FnMut(&'static Strategy) -> usize,
) -> (Vec<BenchCandidate>, Vec<String>) {
    let mut all = Vec::new();
    let mut left_out = Vec::new();
    let plain = lines.first().map(CandidateLine::plain);
    let plain = plain.or_else(|| Strategy::named(PLAIN).map(CandidateLine::of));
    let others = lines.iter().filter(|line| plain.as_ref().is_none_or(|p| p.name != line.name));
    for line in plain.iter().chain(others) {
        match candidate(base, statuses, line, own_budget) {
            Ok(candidate) => all.push(candidate),
            Err(error) => left_out.push(error),
        }
    }
    // Without the target alone there is nothing to compare the others with.
    if plain.is_some_and(|plain| all.first().is_none_or(|first| first.name != plain.name)) {
        all.clear();
    }
    (all, left_out)
}

fn candidate(
    base: &Controls,
    statuses: &[StrategyStatus],
    line: &CandidateLine,
    own_budget: &mut dyn FnMut(&'static Strategy) -> usize,
) -> Result<BenchCandidate, String> {
    let row = line.row;
    let name = line.name.clone();
    let status = statuses.iter().find(|status| status.name == row.name);
    if let Some(missing) = status.and_then(|status| status.missing.clone()) {
        return Err(format!("`{name}` needs {missing}"));
    }
    let placed = line.own.iter().find(|own| own.key == BLOCKS && own.value != "0");
    let missing = placed.and_then(|own| missing_placement(statuses, own.value == STREAM));
    if let Some(missing) = missing {
        return Err(format!("`{name}` needs {missing}"));
    }
    let mut settings = Settings {
        controls: unprescribed(row, &base.tree),
        overlap: base.overlap || line.overlap,
        coupled: base.coupled && !line.uncoupled,
        ..Settings::default()
    };
    for own in &line.own {
        let mut value = own.value.clone();
        if own.key == "controls.gamma"
            && let Some(beside) = own.beside_own_budget()
        {
            let budget = own_budget(row);
            let gamma = budget as isize + beside;
            if gamma < 1 {
                let less = gamma.abs_diff(1);
                return Err(format!(
                    "`{name}`: its own budget is γ = {budget}, so this setting would be {less} \
                     below the minimum"
                ));
            }
            value = gamma.to_string();
        } else if own.key == "controls.blocks" && value == ALL_BLOCKS {
            value = blocks(status).1.to_string();
        }
        // It was checked when the line was read; what it is now lies within the same limits.
        let _ = settings.set(own.key, &SettingValue::text(value));
    }
    let (least, most) = blocks(status);
    let own_blocks = line.own.iter().any(|own| own.key == "controls.blocks");
    if let (true, Setting::Fixed(asked)) = (own_blocks, settings.controls.blocks)
        && !(least..=most).contains(&asked)
    {
        let limit = status.and_then(|status| status.limit.clone());
        let has = limit.unwrap_or_else(|| match (least, most) {
            (_, 0) => "has no blocks to choose from".to_owned(),
            (least, most) if least == most => format!("always uses all of its {most} blocks"),
            (_, most) => format!("has only {most}"),
        });
        return Err(format!("`{name}` asks for M = {asked}, but the head {has}"));
    }
    let controls = Controls {
        speculate: row.draft != DrafterId::None,
        strategy: Some(row),
        pace: 0,
        tree: settings.controls,
        overlap: settings.overlap,
        coupled: settings.coupled,
        ..base.clone()
    };
    Ok(BenchCandidate { name, controls })
}

/// What is missing to have blocks of the target on a GPU, held or streamed, as the strategy that is
/// about nothing else says it.
fn missing_placement(statuses: &[StrategyStatus], streamed: bool) -> Option<String> {
    let about = |status: &&StrategyStatus| {
        let row = Strategy::named(&status.name).filter(|row| row.draft == DrafterId::None);
        row.is_some_and(|row| if streamed { row.streamed } else { row.gpu_layers })
    };
    statuses.iter().find(about).and_then(|status| status.missing.clone())
}

/// Fewest and most blocks that can be chosen.
fn blocks(status: Option<&StrategyStatus>) -> (usize, usize) {
    match status.map(|status| status.depths) {
        Some(Depths::Elastic(most)) => (1, most),
        Some(Depths::Fixed(blocks)) => (blocks, blocks),
        None => (0, 0),
    }
}

/// The values of the tree that flags for all candidates fix. They do not change what the strategy
/// prescribes: a published size, or sequences whose number and budget follow the rounds.
fn unprescribed(row: &Strategy, base: &TreeOverrides) -> TreeOverrides {
    let prescribes = row.shape.is_some() || matches!(row.method, Method::Sequences { .. });
    if !prescribes {
        return *base;
    }
    TreeOverrides { blocks: base.blocks, ..TreeOverrides::default() }
}

#[cfg(test)]
mod tests {
    use super::super::lines::candidate_lines;
    use super::*;
    use crate::plan::{GpuLayers, STRATEGIES};

    fn statuses(missing: &[&str]) -> Vec<StrategyStatus> {
        let status = |row: &Strategy| StrategyStatus {
            name: row.name.to_owned(),
            draft: None,
            depths: match row.draft {
                DrafterId::Head => Depths::Elastic(2),
                _ => Depths::Fixed(0),
            },
            limit: None,
            parameters: Vec::new(),
            missing: missing
                .contains(&row.name)
                .then(|| "a head: name one with --draft".to_owned()),
        };
        STRATEGIES.iter().map(status).collect()
    }

    fn lines(text: &str) -> Vec<CandidateLine> {
        candidate_lines("--strategies", text).into_iter().map(|line| line.unwrap()).collect()
    }

    /// Over `base`, with an own budget of 3.
    fn over(
        base: &Controls,
        missing: &[&str],
        lines: &[CandidateLine],
    ) -> (Vec<BenchCandidate>, Vec<String>) {
        candidates(base, &statuses(missing), lines, &mut |_| 3)
    }

    fn names(candidates: &[BenchCandidate]) -> Vec<&str> {
        candidates.iter().map(|candidate| candidate.name.as_str()).collect()
    }

    #[test]
    fn all_that_can_run_take_part_plain_first() {
        let base = Controls { pace: 50, ..Controls::default() };
        let (all, left_out) = over(&base, &[], &runnable(&statuses(&["eagle2-60"])));
        let names = names(&all);
        assert_eq!((names[0], left_out.len()), (PLAIN, 0));
        assert!(!all[0].controls.speculate);
        assert!(!names.contains(&"eagle2-60"));
        assert!(names.contains(&"dovetail") && names.contains(&"dovetail+overlap"), "{names:?}");
        assert_eq!(names.len(), STRATEGIES.len() - 1 + 1);
        for candidate in &all[1..] {
            let row = candidate.controls.strategy.unwrap();
            assert_eq!(candidate.controls.speculate, row.draft != DrafterId::None);
            assert_eq!(candidate.controls.pace, 0);
        }
    }

    #[test]
    fn flags_for_all_leave_what_a_strategy_prescribes_and_its_own_settings_change_it() {
        let tree = TreeOverrides {
            gamma: Setting::Fixed(16),
            width: Setting::Fixed(2),
            ..TreeOverrides::default()
        };
        let base = Controls { tree, ..Controls::default() };
        let some = lines("dovetail,eagle2-60,sps,specexec,duo,eagle2-60:gamma=9,duo:k=1,gamma=c+1");
        let (all, left_out) = over(&base, &[], &some);
        assert!(left_out.is_empty(), "{left_out:?}");
        let tree = |name: &str| all.iter().find(|c| c.name == name).unwrap().controls.tree;
        assert_eq!(tree("dovetail").gamma, Setting::Fixed(16));
        for name in ["eagle2-60", "sps", "specexec", "duo"] {
            assert_eq!(tree(name), TreeOverrides::default(), "{name}");
        }
        assert_eq!(tree("eagle2-60:gamma=9").gamma, Setting::Fixed(9));
        let duo = tree("duo:k=1,gamma=c+1");
        assert_eq!((duo.gamma, duo.width), (Setting::Fixed(4), Setting::Fixed(1)));
        // A variant changes one thing, and the same line twice is one candidate.
        let some = lines("pld,dovetail+overlap,dovetail+uncoupled,pld");
        let (some, _) = over(&Controls::default(), &[], &some);
        assert_eq!(names(&some), ["plain", "pld", "dovetail+overlap", "dovetail+uncoupled"]);
        let changed = some.iter().map(|c| (c.controls.overlap, c.controls.coupled));
        let expected = [(false, true), (false, true), (true, true), (false, false)];
        assert_eq!(changed.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_cannot_take_part_says_why_and_the_others_do() {
        let some = lines("pld;dovetail;eagle2-60:m=3;eagle2-60:m=all;duo:gamma=c-3;sps:m=1");
        let (all, left_out) = over(&Controls::default(), &["dovetail"], &some);
        assert_eq!(names(&all), ["plain", "pld", "eagle2-60:m=all"]);
        assert_eq!(all[2].controls.tree.blocks, Setting::Fixed(2));
        let expected = [
            "`dovetail` needs a head: name one with --draft",
            "`eagle2-60:m=3` asks for M = 3, but the head has only 2",
            "`duo:gamma=c-3`: its own budget is γ = 3, so this setting would be 1 below the \
             minimum",
            "`sps:m=1` asks for M = 1, but the head has no blocks to choose from",
        ];
        assert_eq!(left_out, expected);
    }

    #[test]
    fn a_placement_that_is_not_there_is_not_run_on_the_cpu_in_its_name() {
        let about = |row: &&Strategy| row.gpu_layers && row.draft == DrafterId::None;
        let row = STRATEGIES.iter().find(about).unwrap();
        let some = lines("dovetail:gpu-layers=2;plain:gpu-layers=2");
        let (all, left_out) = over(&Controls::default(), &[row.name], &some);
        assert!(all.is_empty(), "{all:?}");
        for (error, name) in left_out.iter().zip(["plain:gpu-layers=2", "dovetail:gpu-layers=2"]) {
            assert!(error.starts_with(&format!("`{name}` needs ")), "{error}");
        }
        assert_eq!(left_out.len(), 2);
        // A card that holds blocks is not one to which they are streamed.
        for (missing, line) in
            [("offload", "sps:gpu-layers=2"), (row.name, "sps:gpu-layers=stream")]
        {
            let (all, left_out) = over(&Controls::default(), &[missing], &lines(line));
            assert_eq!((all.len(), left_out.len()), (2, 0), "{line}");
        }
        let (all, left_out) =
            over(&Controls::default(), &["offload"], &lines("sps:gpu-layers=stream"));
        assert_eq!((all.len(), left_out.len()), (0, 2));
        let none = lines("dovetail:gpu-layers=0");
        assert_eq!(over(&Controls::default(), &[row.name], &none).0.len(), 2);
    }

    #[test]
    fn one_load_serves_all_that_want_the_same() {
        let some = "pld;dovetail:head=x;sps:gpu-layers=2;eagle2-60:head=x;duo:gpu-layers=2,k=1;\
                    offload;plain;plain:gpu-layers=stream";
        let batches = batches(lines(some));
        let counts: Vec<usize> = batches.iter().map(|batch| batch.lines.len()).collect();
        assert_eq!(counts, [2, 2, 2, 2]);
        // A streamed target is loaded for itself.
        let streamed = batches[3].settings(&Settings::default());
        assert_eq!(streamed.gpu_layers, GpuLayers::Streamed);
        let mut settings = Settings { draft_model: Some("s".to_owned()), ..Settings::default() };
        settings.given.insert("rest_text", SetBy::Flag("--rest-text"));
        assert_eq!(settings.without_effect().len(), 1);
        let lookup = batches[0].settings(&settings);
        assert_eq!(lookup.without_effect(), [""; 0], "another candidate may use it");
        assert_eq!((lookup.draft.name(), lookup.without_small), (Some("lookup"), true));
        assert_eq!((lookup.draft_model, lookup.strategy), (None, None));
        let head = batches[1].settings(&settings);
        assert_eq!((head.draft.name(), head.without_small), (Some("x"), true));
        assert_eq!(head.strategy.unwrap().name, "dovetail");
        let small = batches[2].settings(&settings);
        assert_eq!(
            (small.draft_model.as_deref(), small.gpu_layers),
            (Some("s"), GpuLayers::Held(Setting::Fixed(2)))
        );
        assert!(!small.without_small);
        let placed =
            candidates(&Controls::default(), &statuses(&[]), &batches[2].lines, &mut |_| 3);
        assert_eq!(placed.0[0].name, "plain:gpu-layers=2");
    }
}
