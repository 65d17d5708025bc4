//! `dovetail chat`, the default: starts the screen. Must never draw.

use std::ffi::OsStr;
use std::io::{self, IsTerminal, Write};

use anyhow::anyhow;

use super::args::ChatArgs;
use super::backend;
use super::exit::{Code, CommandResult, Failure};
use super::settings_file::no_color;
use crate::chat::SessionStore;
use crate::hardware::{GpuFinding, Machine};
use crate::messages;
use crate::plan::{DeviceChoice, best_adapter, no_hardware};
use crate::printable::printable_line;
use crate::settings::Settings;
use crate::tui::keymap::Keymap;
use crate::tui::{self, Left, ModelFinder, NotOpened, ScreenConfig, state::StateConfig};
use crate::worker::{Purpose, kv_folder};

/// Shows the screen until the user leaves.
pub fn chat(args: &ChatArgs) -> CommandResult {
    let settings = backend::settings(&args.shared, &args.overrides())?;
    let on_terminal = io::stdout().is_terminal() && io::stdin().is_terminal();
    if let Some(why) = no_screen(on_terminal, std::env::var_os("TERM").as_deref()) {
        let remedy = "for one answer use `dovetail run \"prompt\"` (see `dovetail run --help`)";
        return Err(Failure::new(Code::Usage, anyhow!("{why}; {remedy}")));
    }
    let keys = keymap(&settings).map_err(|error| Failure::new(Code::Usage, error))?;
    let controls = backend::controls(&settings);
    let store = SessionStore::in_data_folder()
        .inspect_err(|error| tracing::warn!("conversations are not saved: {error}"))
        .ok();
    let state = StateConfig {
        controls: controls.get(),
        theme: settings.theme,
        colours: !no_color(),
        marks: settings.marks,
        system: settings.system.clone(),
        max_tokens: settings.max_tokens,
        thinking: settings.thinking,
        gpu: gpu_name(settings.device, &Machine::probe()),
        mouse: settings.mouse,
        keys,
        first_run: args.shared.script.is_none()
            && store.as_ref().is_some_and(SessionStore::is_untouched),
        replay: false,
    };
    let models = ModelFinder::new(settings.model_folders.clone(), settings.threads);
    let start = |controls, sink| {
        let record = args.record.as_deref();
        backend::start_recorded(&args.shared, settings, Purpose::Chat, controls, sink, record)
    };
    let (open, questions) = (args.opening(), Vec::new());
    let config = ScreenConfig { state, store, kept_kv: kv_folder(), models, open, questions };
    let left = tui::run(config, controls, start);
    let left = left.map_err(|error| {
        let code = if error.is::<NotOpened>() { Code::Model } else { Code::Failed };
        Failure::new(code, error)
    })?;
    for line in way_back(&left) {
        // The terminal may be gone with the program.
        let _ = writeln!(io::stdout(), "{line}");
    }
    match left.lost {
        Some(lost) => Err(Failure::new(Code::Failed, anyhow!("{lost}"))),
        None => Ok(()),
    }
}

/// The keys in force.
pub(super) fn keymap(settings: &Settings) -> anyhow::Result<Keymap> {
    let changes: Vec<(&str, &[String])> =
        settings.keys.iter().map(|change| (change.action.as_str(), &change.keys[..])).collect();
    Keymap::with(&changes).map_err(|(at, problem)| match settings.keys.get(at) {
        Some(change) => anyhow!("{}", change.wrong(&problem)),
        None => problem.into(),
    })
}

/// How to come back to what was left, a line each.
fn way_back(left: &Left) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(title) = left.title.as_ref().filter(|_| left.lost.is_none()) {
        let title = printable_line(title);
        let quoted = title.replace('\'', "'\\''");
        let with = if left.unsent { ", with the message that you did not send" } else { "" };
        lines.push(format!(
            "“{title}” is saved{with}: dovetail --continue, or later dovetail --resume '{quoted}'"
        ));
    }
    if left.unsent_alone {
        lines.push("dovetail begins with the message that you did not send".to_string());
    }
    lines
}

/// Why there can be no full screen, if so.
pub(super) fn no_screen(on_terminal: bool, term: Option<&OsStr>) -> Option<&'static str> {
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

/// The GPU that the screen speaks of: the one that is named, else NVML's, else the one that would
/// be taken; or why there is none. One that is left alone is said to be.
fn gpu_name(choice: DeviceChoice, machine: &Machine) -> String {
    let named = match choice {
        DeviceChoice::Gpu(Some(number)) => machine.adapters.get(number),
        _ => None,
    };
    let there = match (named, &machine.gpu, best_adapter(&machine.adapters)) {
        (Some(adapter), _, _) => &adapter.name,
        (None, GpuFinding::Found(gpu), _) => &gpu.name,
        (None, GpuFinding::Absent { .. }, Some(adapter)) => &adapter.name,
        (None, GpuFinding::Absent { reason }, None) if machine.adapters.is_empty() => {
            return reason.clone();
        }
        (None, GpuFinding::Absent { .. }, None) => {
            return messages::obstacle(&no_hardware(&machine.adapters));
        }
    };
    if choice == DeviceChoice::Cpu { format!("{there}, not taken") } else { there.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::{Adapter, AdapterKind, Cpu, Memory};

    #[test]
    fn a_gpu_that_is_left_alone_is_not_denied() {
        let adapter = |number, kind| Adapter {
            number,
            name: format!("card {number}"),
            kind,
            interface: "Vulkan".into(),
            driver: String::new(),
            memory: None,
        };
        let mut machine = Machine {
            cpu: Cpu {
                name: "test".into(),
                physical: 2,
                logical: 2,
                performance: None,
                features: Vec::new(),
            },
            memory: Memory { total: 1 << 30, free: 1 << 30 },
            gpu: GpuFinding::Absent { reason: "no NVIDIA GPU: no driver".into() },
            adapters: Vec::new(),
            built_with: Vec::new(),
        };
        let auto = DeviceChoice::Auto;
        assert_eq!(gpu_name(auto, &machine), "no NVIDIA GPU: no driver");
        machine.adapters = vec![adapter(0, AdapterKind::Software)];
        assert!(gpu_name(auto, &machine).starts_with("no GPU found except card 0"));
        assert_eq!(gpu_name(DeviceChoice::Gpu(Some(0)), &machine), "card 0");
        machine.adapters.push(adapter(1, AdapterKind::Discrete));
        assert_eq!(gpu_name(auto, &machine), "card 1");
        assert_eq!(gpu_name(DeviceChoice::Cpu, &machine), "card 1, not taken");
    }

    #[test]
    fn the_way_back_can_be_pasted_into_a_shell() {
        let title = Some("What's \u{1b}new?".to_string());
        let words = way_back(&Left { title: title.clone(), ..Left::default() });
        assert!(words[0].ends_with(r"--resume 'What'\''s ␛new?'"), "{words:?}");
        assert!(!words[0].contains("not send"), "{words:?}");
        let words = way_back(&Left { title, unsent: true, ..Left::default() });
        assert!(words[0].contains("did not send: dovetail --continue"), "{words:?}");
        let words = way_back(&Left { unsent_alone: true, ..Left::default() });
        assert_eq!(words, ["dovetail begins with the message that you did not send"]);
        assert!(way_back(&Left::default()).is_empty());
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
