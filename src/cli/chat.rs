//! `dovetail chat`, the default: starts the screen.

use std::ffi::OsStr;
use std::io::{self, IsTerminal, Write};

use anyhow::anyhow;

use super::args::ChatArgs;
use super::backend;
use super::exit::{Code, CommandResult, Failure};
use super::settings_file::no_color;
use crate::chat::{ModelChoice, SessionMatch, SessionStore};
use crate::decode::snapshot_folder;
use crate::hardware::Machine;
use crate::load::Purpose;
use crate::messages;
use crate::plan::{DeviceChoice, Obstacle, chosen_adapter};
use crate::printable::{printable_line, shell_word};
use crate::settings::{HeadChoice, SettingValue, Settings};
use crate::tui::display::Display;
use crate::tui::keymap::Keymap;
use crate::tui::tips::Tips;
use crate::tui::{self, Left, ModelFinder, NotOpened, Opening, ScreenConfig, state::StateConfig};

/// Shows the screen until the user leaves.
pub fn chat(args: &ChatArgs) -> CommandResult {
    let mut settings = backend::settings(&args.shared, &args.overrides())?;
    let plain = args.plain_screen;
    if !plain {
        check_screen(
            "for a single answer, use `dovetail run \"prompt\"` (see `dovetail run --help`)",
        )?;
    }
    let controls = backend::controls(&settings);
    let store = SessionStore::in_data_folder()
        .inspect_err(|error| tracing::warn!("conversations are not saved: {error}"))
        .ok();
    if settings.layout.is_none()
        && let Some(name) = store.as_ref().and_then(|store| store.note(SessionStore::LAYOUT))
    {
        // A name that another version wrote may mean nothing here.
        let _ = settings.set("screen.layout", &SettingValue::text(&name));
    }
    let (gpu, adapter) = shown_gpu(settings.device, &Machine::probe());
    // A script is played for tests and pictures, which a tip would change.
    let tips = store.as_ref().filter(|_| settings.tips && !plain && args.shared.script.is_none());
    let tips = tips.map(|store| store.note(SessionStore::TIPS).unwrap_or_default());
    let recorded = args.record.as_ref().map_or("", |_| Tips::RECORD);
    let state = StateConfig {
        tips: tips.map(|done| format!("{done}{recorded} ")),
        gpu,
        adapter,
        first_run: !plain
            && args.shared.script.is_none()
            && store.as_ref().is_some_and(SessionStore::is_untouched),
        ..screen_state(&settings)?
    };
    let models = ModelFinder::new(settings.model_folders.clone(), settings.threads);
    let open = args.opening();
    if let (Some(store), Some(open)) = (&store, &open) {
        take_models(&mut settings, saved_models(store, open), &models);
    }
    let start = |controls, sink| {
        let record = args.record.as_deref();
        backend::start(&args.shared, settings, Purpose::Chat, controls, sink, record)
    };
    let questions = Vec::new();
    let config =
        ScreenConfig { state, store, snapshots: snapshot_folder(), models, open, questions };
    let left = match plain {
        true => tui::run_lines(config, controls, start),
        false => tui::run(config, controls, start),
    };
    let left = left.map_err(screen_failure)?;
    for line in way_back(&left, &flags_needed(args, &left)) {
        // The terminal may be gone with the program.
        let _ = writeln!(io::stdout(), "{line}");
    }
    match left.lost {
        Some(lost) => Err(anyhow!("{lost}").into()),
        None => Ok(()),
    }
}

/// A screen under these settings, without what only a chat has.
pub(super) fn screen_state(settings: &Settings) -> Result<StateConfig, Failure> {
    Ok(StateConfig {
        settings: settings.clone(),
        display: Display::new(settings, !no_color(), keymap(settings).map_err(Failure::usage)?),
        gpu: String::new(),
        adapter: None,
        first_run: false,
        replay: false,
        tips: None,
    })
}

/// Why the screen failed, with its exit code.
pub(super) fn screen_failure(error: anyhow::Error) -> Failure {
    let code = if error.is::<NotOpened>() { Code::Model } else { Code::Failed };
    Failure::new(code, error)
}

/// Refuses a terminal on which the screen cannot be shown.
pub(super) fn check_screen(remedy: &str) -> CommandResult {
    let on_terminal = io::stdout().is_terminal() && io::stdin().is_terminal();
    match no_screen(on_terminal, std::env::var_os("TERM").as_deref()) {
        Some(why) => Err(Failure::usage(anyhow!("{why}; {remedy}"))),
        None => Ok(()),
    }
}

/// The keys in force.
///
/// # Errors
/// The settings name an action or a key that there is not.
pub(super) fn keymap(settings: &Settings) -> anyhow::Result<Keymap> {
    let changes: Vec<(&str, &[String])> =
        settings.keys.iter().map(|change| (change.action.as_str(), &change.keys[..])).collect();
    Keymap::with(&changes).map_err(|(at, problem)| anyhow!(settings.keys[at].wrong(&problem)))
}

/// The settings that name models.
const MODEL_KEYS: [&str; 3] = ["target", "draft", "draft_model"];

/// The models of the conversation to begin with, if it is one that is known before the screen.
fn saved_models(store: &SessionStore, opening: &Opening) -> Option<ModelChoice> {
    let open = match opening {
        Opening::Latest => store.load(&store.list().ok()?.sessions.first()?.id).ok()?,
        Opening::Titled(words) => match store.find(words).ok()? {
            SessionMatch::One(open) => *open,
            SessionMatch::Several(_) => return None,
        },
        Opening::Listed => return None,
    };
    open.session().models.clone()
}

/// Takes the conversation's own models, if they are still there and the user has named none.
fn take_models(settings: &mut Settings, saved: Option<ModelChoice>, finder: &ModelFinder) {
    if MODEL_KEYS.iter().any(|key| settings.given.contains_key(key)) {
        return;
    }
    if let Some(models) = saved.and_then(|models| finder.here(&models)) {
        settings.target = models.target;
        settings.draft = HeadChoice::named(models.draft.as_deref());
        settings.draft_model = models.draft_model;
    }
}

/// The flags that bring the models of the conversation back: needed where the settings file or the
/// environment names others, which would be taken without them.
fn flags_needed(args: &ChatArgs, left: &Left) -> String {
    let Some(models) = &left.models else { return String::new() };
    let in_file = args
        .shared
        .file
        .settings(&[])
        .is_ok_and(|file| MODEL_KEYS.iter().any(|key| file.given.contains_key(key)));
    let in_environment = ["DOVETAIL_TARGET", "DOVETAIL_DRAFT", "DOVETAIL_DRAFT_MODEL"]
        .iter()
        .any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
    if in_file || in_environment { flags_of(models) } else { String::new() }
}

/// These models as flags.
fn flags_of(models: &ModelChoice) -> String {
    let target = Some(models.target.as_deref().unwrap_or("bundled"));
    let flag = |flag: &str, value: Option<&str>| {
        value.map(|value| format!(" {flag} {}", shell_word(value))).unwrap_or_default()
    };
    flag("--target", target)
        + &flag("--draft", models.draft.as_deref())
        + &flag("--draft-model", models.draft_model.as_deref())
}

/// How to come back to what was left, a line each; `flags` bring its models.
fn way_back(left: &Left, flags: &str) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(title) = &left.title
        && left.lost.is_none()
    {
        let with = if left.unsent { ", with your unsent message" } else { "" };
        let quoted = shell_word(title);
        let title = printable_line(title);
        // Each command has its own line, so that it can be copied whole.
        lines.extend([
            format!("“{title}” is saved{with}. To continue it now, or later:"),
            format!("  dovetail --continue{flags}"),
            format!("  dovetail --resume {quoted}{flags}"),
        ]);
    }
    if left.unsent_alone {
        lines.push("The next chat starts with your unsent message".to_string());
    }
    lines
}

/// Why the full screen cannot be shown, if it cannot.
fn no_screen(on_terminal: bool, term: Option<&OsStr>) -> Option<&'static str> {
    match term.and_then(OsStr::to_str) {
        _ if !on_terminal => Some("the chat needs a terminal for input and output"),
        Some("dumb") => Some("the chat needs a full-screen terminal, and TERM is `dumb`"),
        // Windows has no TERM.
        None | Some("") if cfg!(unix) => {
            Some("the chat needs a full-screen terminal, and TERM does not name one")
        }
        _ => None,
    }
}

/// The GPU that the screen speaks of and the number of its adapter: the one that is taken or, with
/// the CPU, that would be taken; or why there is none.
fn shown_gpu(choice: DeviceChoice, machine: &Machine) -> (String, Option<usize>) {
    let unused = choice == DeviceChoice::Cpu;
    match (chosen_adapter(if unused { DeviceChoice::Auto } else { choice }, machine), &machine.gpu)
    {
        (Ok(adapter), _) => {
            let name = &adapter.name;
            let name = if unused { format!("{name}, not used") } else { name.clone() };
            (name, Some(adapter.number))
        }
        (Err(Obstacle::NoGpu), Err(reason)) => (reason.clone(), None),
        (Err(why), _) => (messages::obstacle(&why), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::{Adapter, AdapterKind, Cpu, Memory};
    use crate::settings::SettingValue;

    #[test]
    fn a_gpu_that_is_left_alone_is_not_denied() {
        let adapter = |number, kind| Adapter {
            number,
            name: format!("card {number}"),
            kind,
            interface: "Vulkan".into(),
            driver: String::new(),
            bus: String::new(),
            memory: None,
            bandwidth: None,
        };
        let mut machine = Machine {
            cpu: Cpu {
                name: "test".into(),
                physical: 2,
                logical: 2,
                quota: None,
                performance: None,
                features: Vec::new(),
            },
            memory: Memory { total: 1 << 30, free: 1 << 30 },
            gpu: Err("no NVIDIA GPU: no driver".into()),
            adapters: Vec::new(),
        };
        let auto = DeviceChoice::Auto;
        assert_eq!(shown_gpu(auto, &machine), ("no NVIDIA GPU: no driver".to_owned(), None));
        machine.adapters = vec![adapter(0, AdapterKind::Software)];
        assert!(shown_gpu(auto, &machine).0.starts_with("no GPU found except card 0"));
        assert_eq!(shown_gpu(DeviceChoice::Gpu(Some(0)), &machine), ("card 0".to_owned(), Some(0)));
        machine.adapters.push(adapter(1, AdapterKind::Discrete));
        machine.adapters.push(adapter(2, AdapterKind::Discrete));
        assert_eq!(shown_gpu(auto, &machine), ("card 1".to_owned(), Some(1)));
        assert_eq!(shown_gpu(DeviceChoice::Gpu(Some(2)), &machine), ("card 2".to_owned(), Some(2)));
        assert_eq!(
            shown_gpu(DeviceChoice::Cpu, &machine),
            ("card 1, not used".to_owned(), Some(1))
        );
    }

    #[test]
    fn the_way_back_can_be_pasted_into_a_shell() {
        let title = Some("What's \u{1b}new?".to_string());
        let words = way_back(&Left { title: title.clone(), ..Left::default() }, "");
        assert!(words[0].starts_with("“What's ␛new?” is saved. "), "{words:?}");
        assert_eq!(words[1], "  dovetail --continue");
        assert_eq!(words[2], r"  dovetail --resume 'What'\''s ␛new?'");
        let words = way_back(&Left { title, unsent: true, ..Left::default() }, " --target x");
        assert!(words[0].contains("unsent message. "), "{words:?}");
        assert_eq!(words[1], "  dovetail --continue --target x");
        let words = way_back(&Left { unsent_alone: true, ..Left::default() }, "");
        assert_eq!(words, ["The next chat starts with your unsent message"]);
        assert!(way_back(&Left::default(), "").is_empty());
    }

    #[test]
    fn a_conversation_brings_its_models_unless_the_user_names_some() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("my model.gguf");
        std::fs::write(&file, "GGUF").unwrap();
        let (finder, name) = (ModelFinder::new(Vec::new(), None), file.to_str().unwrap());
        let models = ModelChoice { target: Some(name.into()), ..ModelChoice::default() };
        let drafted = ModelChoice { draft_model: Some("gone.gguf".into()), ..models.clone() };
        let taken = |settings: &Settings, saved: &ModelChoice| {
            let mut settings = settings.clone();
            take_models(&mut settings, Some(saved.clone()), &finder);
            (settings.target, settings.draft_model)
        };
        let none = Settings::default();
        assert_eq!(taken(&none, &models), (models.target.clone(), None));
        assert_eq!(taken(&none, &drafted), (models.target.clone(), None), "without its draft");
        let gone = ModelChoice { target: Some("gone.gguf".into()), ..ModelChoice::default() };
        assert_eq!(taken(&none, &gone), (None, None));
        let mut own = Settings::default();
        own.set("target", &SettingValue::text("bundled")).unwrap();
        assert_eq!(taken(&own, &models), (Some("bundled".into()), None));
        // What is printed at the end can be pasted.
        let words = flags_of(&ModelChoice { draft: Some("lookup".into()), ..models });
        assert_eq!(words, format!(" --target '{name}' --draft lookup"));
        assert_eq!(flags_of(&ModelChoice::default()), " --target bundled");
    }

    #[test]
    fn only_a_full_screen_terminal_will_do() {
        let says = |on_terminal, term: &str| no_screen(on_terminal, Some(OsStr::new(term)));
        assert_eq!(says(true, "xterm-256color"), None);
        assert!(says(false, "xterm-256color").unwrap().contains("needs a terminal"));
        assert!(says(true, "dumb").unwrap().contains("`dumb`"));
        assert_eq!(says(true, "").is_some(), cfg!(unix));
        assert_eq!(no_screen(true, None).is_some(), cfg!(unix));
    }
}
