//! `dovetail chat`, the default: hands over to the screen.

use std::io::{self, IsTerminal};

use anyhow::anyhow;

use super::args::ChatArgs;
use super::backend;
use super::exit::{Code, Failure, Outcome};
use crate::chat::SessionStore;
use crate::hardware::{GpuFinding, Machine};
use crate::tui::{self, ScreenConfig, state::ModelConfig};
use crate::worker::Purpose;

/// Shows the screen until the user leaves.
pub fn chat(args: &ChatArgs) -> Outcome {
    let settings = backend::settings(&args.shared, &args.overrides())?;
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        let message = "the chat needs a terminal for input and output; for pipes and scripts use \
                       `dovetail run \"prompt\"` (see `dovetail run --help`)";
        return Err(Failure::new(Code::Usage, anyhow!(message)));
    }
    let controls = backend::controls(&settings);
    let model = ModelConfig {
        controls: controls.get(),
        theme: settings.theme,
        colours: !backend::no_color(),
        marks: settings.marks,
        system: settings.system.clone(),
        max_tokens: settings.max_tokens,
        gpu: match Machine::probe().gpu {
            GpuFinding::Found(gpu) => gpu.name,
            GpuFinding::Absent { reason } => reason,
        },
    };
    let store = SessionStore::in_data_folder()
        .inspect_err(|error| tracing::warn!("conversations are not saved: {error}"))
        .ok();
    let start =
        |controls, sink| backend::start(&args.shared, settings, Purpose::Chat, controls, sink);
    Ok(tui::run(ScreenConfig { model, store }, controls, start)?)
}
