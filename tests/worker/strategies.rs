//! One promise for the whole table: with every strategy, the text is that of `plain`, token for
//! token. A new row is tested automatically.

use std::cell::RefCell;
use std::fs;
use std::path::Path;

use crate::support::bundled::{loaded, user};
use crate::support::dflash::{DFLASH, dflash_path};
use crate::support::events::Said;
use crate::support::generate::samplers;
use crate::support::gguf::put_byte_tokenizer;
use crate::support::golden::{golden, json as recorded_json};
use crate::support::library::arch_file;
use dovetail::decode::Round;
use dovetail::draft::Depths;
use dovetail::load::StartError;
use dovetail::plan::{DeviceChoice, DrafterId, STRATEGIES, Strategy, TreeOverrides};
use dovetail::settings::{HeadChoice, Settings};
use dovetail::speculate::SamplerSettings;
use dovetail::worker::{Backend, Controls, Event, Job, Setting, SharedControls};
use serde_json::Value;
use tempfile::TempDir;

/// The rows whose models are on the CPU, without those of some drafters. With blocks of the target
/// on a GPU, the text is that of the mixture; the computation of those blocks is tested separately.
fn rows_without(drafters: &[DrafterId]) -> Vec<&'static Strategy> {
    let runs = |row: &&Strategy| !row.gpu_layers && !row.streamed;
    STRATEGIES.iter().filter(runs).filter(|row| !drafters.contains(&row.draft)).collect()
}

/// The rows that run with a head and a small model.
fn rows() -> Vec<&'static Strategy> {
    rows_without(&[DrafterId::Dflash])
}

/// A recorded model with the files that a folder needs to be opened: its tokens are ASCII codes.
pub(super) fn folder(model: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in ["config.json", "model.safetensors"] {
        fs::copy(golden(model).join(file), folder.path().join(file)).unwrap();
    }
    put_byte_tokenizer(folder.path());
    folder
}

pub(super) fn named(path: &Path) -> Option<String> {
    Some(path.to_str().unwrap().to_owned())
}

/// Everything that a strategy could use, as the program loads it.
struct Subject {
    backend: RefCell<Backend>,
    prompts: Vec<String>,
    /// Whether some drafts of every strategy are right.
    trained: bool,
    /// They must exist while the models are mapped from them.
    _folders: Vec<TempDir>,
}

impl Subject {
    fn load(settings: Settings, prompts: Vec<String>, folders: Vec<TempDir>) -> Self {
        Self::load_for(&rows(), settings, prompts, folders)
    }

    /// The same, with what these rows need.
    fn load_for(
        rows: &[&Strategy],
        settings: Settings,
        prompts: Vec<String>,
        mut folders: Vec<TempDir>,
    ) -> Self {
        let text = tempfile::tempdir().unwrap();
        let path = text.path().join("text.txt");
        fs::write(&path, prompts.join(" ").repeat(3)).unwrap();
        folders.push(text);
        let settings = Settings { rest_text: Some(path), context: Some(512), ..settings };
        let backend: Backend = loaded(&settings).unwrap_or_else(|error| panic!("{error}")).into();
        let tested = |name: &str| rows.iter().any(|row| row.name == name);
        for status in backend.ready.strategies.iter().filter(|status| tested(&status.name)) {
            assert_eq!(status.missing, None, "{} is not tested", status.name);
        }
        Self { backend: RefCell::new(backend), prompts, trained: true, _folders: folders }
    }

    /// Recorded models; the smaller one drafts for the larger.
    fn recorded() -> Self {
        let (target, small) = (folder("target_mha"), folder("target_gqa"));
        let settings = Settings {
            target: named(target.path()),
            draft: HeadChoice::named(named(&golden("draft_dgf_m4")).as_deref()),
            draft_model: named(small.path()),
            ..Settings::default()
        };
        let trees = recorded_json("trees.json");
        let prompts = trees["meta"]["prompts"].as_object().unwrap().values();
        let letters = |ids: &Value| {
            let ids = ids.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u8);
            ids.filter(|id| *id > 2).map(char::from).collect::<String>()
        };
        let prompts = prompts.map(letters).filter(|prompt| !prompt.is_empty()).take(3).collect();
        Self::load(settings, prompts, vec![target, small])
    }

    /// A recorded EAGLE-3 head with its target.
    fn eagle3() -> Self {
        let (target, small) = (folder("eagle3/target"), folder("target_gqa"));
        let settings = Settings {
            target: named(target.path()),
            draft: HeadChoice::named(named(&golden("eagle3/head_eagle3")).as_deref()),
            draft_model: named(small.path()),
            ..Settings::default()
        };
        let prompts = ["Tell me of foxes, and of owls.", "a b c a b c a"].map(str::to_owned);
        Self::load(settings, prompts.to_vec(), vec![target, small])
    }

    /// The bundled models, as the program starts with them.
    fn bundled() -> Self {
        let prompts = ["Tell me a story about a fox.", "What is the sun? Say it twice."];
        Self::load(Settings::default(), prompts.map(str::to_owned).to_vec(), Vec::new())
    }

    /// Tokens and rounds of an answer; `change` sets the controls after each round.
    fn answer(
        &self,
        prompt: &str,
        max_tokens: usize,
        controls: Controls,
        change: impl Fn(usize, &mut Controls),
    ) -> (Vec<u32>, Vec<Round>) {
        let shared = SharedControls::new(Controls { generation: 1, ..controls });
        let job = Job { generation: 1, messages: vec![user(prompt)], max_tokens, ..Job::default() };
        let mut said = Said::default();
        self.backend.borrow_mut().answer(&job, &shared, &mut |event| {
            assert!(!matches!(event, Event::Notice(_)), "{event:?}");
            let is_round = matches!(event, Event::Round { .. });
            said.hear(event);
            if is_round {
                shared.update(|controls| change(said.rounds.len(), controls));
            }
            true
        });
        assert!(said.summary.unwrap().finish.is_some());
        (said.tokens, said.rounds)
    }
}

/// Controls for a strategy. A size that automatic control would choose is fixed, so that the test
/// does not depend on a clock.
fn controls(strategy: &'static Strategy, sampler: SamplerSettings) -> Controls {
    let held = |value| if strategy.shape.is_none() { Setting::Fixed(value) } else { Setting::Auto };
    let (gamma, width, depth) = (held(14), held(4), held(5));
    let tree = TreeOverrides { gamma, width, depth, ..TreeOverrides::default() };
    Controls { strategy: Some(strategy), tree, sampler, ..Controls::default() }
}

fn every_row_says_what_plain_says(
    subject: &Subject,
    rows: &[&'static Strategy],
    max_tokens: usize,
) {
    let plain = Strategy::named("plain").unwrap();
    // Rounds of every strategy, over all prompts and samplers.
    let mut drafted = vec![(0, 0); rows.len()];
    for prompt in &subject.prompts {
        let [greedy, _, drawn, filtered] = samplers();
        for (i, sampler) in [greedy, filtered, drawn].into_iter().enumerate() {
            let (want, alone) =
                subject.answer(prompt, max_tokens, controls(plain, sampler), |_, _| ());
            assert!(alone.iter().all(|round| round.tree.len() == 1 && !round.speculative));
            for (row, &strategy) in rows.iter().enumerate() {
                let controls =
                    Controls { overlap: i == 1, coupled: i != 2, ..controls(strategy, sampler) };
                let (got, rounds) = subject.answer(prompt, max_tokens, controls, |_, _| ());
                assert_eq!(got, want, "{} {prompt:?} {sampler:?}", strategy.name);
                assert!(rounds.iter().all(|round| round.strategy == strategy.name));
                let trees = rounds.iter().filter(|round| round.tree.len() > 1).count();
                let accepted: usize = rounds.iter().map(|round| round.accepted.len()).sum();
                drafted[row] = (drafted[row].0 + trees, drafted[row].1 + accepted);
            }
            // Another strategy every other round.
            let first = controls(rows[i % rows.len()], sampler);
            let (got, rounds) = subject.answer(prompt, max_tokens, first, |round, turned| {
                let strategy = rows[(i + round / 2) % rows.len()];
                *turned = Controls { generation: 1, ..controls(strategy, sampler) };
            });
            assert_eq!(got, want, "switching, {prompt:?} {sampler:?}");
            assert!(rounds.len() < 3 || rounds[0].strategy != rounds[2].strategy);
        }
    }
    for (strategy, (trees, accepted)) in rows.iter().zip(drafted) {
        let drafts = strategy.draft != DrafterId::None;
        if !subject.trained && strategy.draft != DrafterId::Dflash {
            continue;
        }
        assert_eq!(trees > 0, drafts, "{}: {trees} trees", strategy.name);
        // Some tokens were right, so acceptance was tested.
        assert!((accepted > 0) == drafts || !subject.trained, "{}: {accepted}", strategy.name);
    }
}

#[test]
fn every_strategy_on_the_recorded_models() {
    every_row_says_what_plain_says(&Subject::recorded(), &rows(), 60);
}

#[test]
fn every_strategy_on_the_bundled_pair() {
    every_row_says_what_plain_says(&Subject::bundled(), &rows(), 40);
}

#[test]
fn every_strategy_of_a_head_with_gemma_4_s_assistant() {
    let settings = Settings {
        target: named(&arch_file("gemma4.gguf")),
        draft: HeadChoice::named(named(&golden("drafters2026/gemma4-assistant.gguf")).as_deref()),
        device: DeviceChoice::Gpu(None),
        ..Settings::default()
    };
    let rows: Vec<&Strategy> = rows().into_iter().filter(with_head).collect();
    let mut subject = Subject::load_for(&rows, settings, vec!["ab ab ab".to_owned()], Vec::new());
    subject.trained = false;
    every_row_says_what_plain_says(&subject, &rows, 40);
    let ready = &subject.backend.borrow().ready.clone();
    let draft = ready.draft.as_deref().unwrap_or_default();
    assert!(draft.starts_with("assistant head, 2 blocks, 4 bits on CPU"), "{draft}");
    let only = |sentence: &String| sentence.contains("run only on the CPU");
    assert!(ready.reasons.iter().any(only), "{:?}", ready.reasons);
}

fn with_head(row: &&Strategy) -> bool {
    matches!(row.draft, DrafterId::Head | DrafterId::Auto | DrafterId::None)
}

#[test]
fn every_strategy_of_a_head_with_an_eagle3_head() {
    let subject = Subject::eagle3();
    let ready = &subject.backend.borrow().ready.clone();
    let draft = ready.draft.as_deref().unwrap_or_default();
    assert!(draft.starts_with("EAGLE-3 head, 1 block, 4 bits on CPU"), "{draft}");
    let tapped = "The draft head reads the inputs of the target's layers 2, 4, 5.";
    assert!(ready.reasons.iter().any(|reason| reason.contains(tapped)), "{:?}", ready.reasons);
    assert_eq!(ready.depths, Depths::Fixed(1));
    let rows: Vec<&Strategy> = rows().into_iter().filter(with_head).collect();
    assert!(rows.len() >= 3);
    every_row_says_what_plain_says(&subject, &rows, 48);
}

/// A recurrent target, and one whose layers have windows and shared keys.
#[test]
fn every_strategy_next_to_a_dflash_drafter() {
    let rows = rows_without(&[DrafterId::Head, DrafterId::SmallModel]);
    assert!(rows.iter().any(|row| row.name == "dflash") && rows.len() > 8);
    for (name, target) in DFLASH {
        let settings = Settings {
            target: named(&arch_file(&format!("{target}.gguf"))),
            draft: HeadChoice::named(named(&dflash_path(name)).as_deref()),
            device: DeviceChoice::Gpu(None),
            ..Settings::default()
        };
        let prompts = vec!["ab ab ab".to_owned()];
        let mut subject = Subject::load_for(&rows, settings, prompts, Vec::new());
        // Models without training are seldom right.
        subject.trained = false;
        every_row_says_what_plain_says(&subject, &rows, 20);
        let ready = &subject.backend.borrow().ready.clone();
        let draft = ready.draft.as_deref().unwrap_or_default();
        // On a card if there is one, on the CPU where the only GPU is a software device.
        assert!(draft.contains("tokens per pass"), "{draft}");
    }
}

#[test]
fn a_dflash_drafter_is_the_only_one_and_has_its_own_strategy() {
    let settings = |draft: &[&Path], strategy| Settings {
        target: named(&arch_file("qwen35.gguf")),
        draft: HeadChoice::Named(draft.iter().filter_map(|path| named(path)).collect()),
        strategy: Strategy::named(strategy),
        ..Settings::default()
    };
    let refused = |settings: &Settings| {
        let error = loaded(settings).err().expect("it cannot run");
        dovetail::messages::start_error(&error)
    };
    let dflash = dflash_path("dflash");
    let two = refused(&settings(&[&dflash, &dflash_path("dspark")], "auto"));
    assert!(two.contains("name only one"), "{two}");
    let head = refused(&settings(&[&dflash], "dovetail"));
    assert!(head.contains("a draft head; name one with --draft"), "{head}");
    let other = settings(&[&dflash_path("dspark-gemma4")], "auto");
    let misfit = refused(&other);
    assert!(misfit.contains("dspark-gemma4.gguf") && misfit.contains("278"), "{misfit}");
}

#[test]
fn what_a_strategy_lacks_is_named_with_the_remedy() {
    for (name, remedy) in [("rest", "--rest-text"), ("dovetail", "--draft")] {
        let settings = Settings {
            strategy: Strategy::named(name),
            draft: HeadChoice::Lookup,
            ..Settings::default()
        };
        let error = loaded(&settings).err().expect("it cannot run");
        let StartError::Strategy { name: found, available, .. } = &error else { panic!("{error}") };
        assert_eq!(*found, name);
        assert!(error.to_string().contains(remedy), "{error}");
        assert!(available.starts_with(&["plain", "auto", "small-model"]), "{available:?}");
    }
}
