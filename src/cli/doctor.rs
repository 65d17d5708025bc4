//! `dovetail doctor`: the machine, the models and settings in use, and the reasons for each choice.

use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;

use anyhow::anyhow;

use super::args::DoctorArgs;
use super::backend::{self, with_progress};
use super::chat::keymap;
use super::exit::{CommandResult, Failure};
use super::logging;
use super::output::stdout;
use crate::bench::TableStyle;
use crate::bench::quality::{self, QualityOptions};
use crate::draft::Depths;
use crate::hardware::{Adapter, Machine};
use crate::kernels::{Format, KvFormat, Storage};
use crate::library::find_spec;
use crate::load::{
    FittedCosts, LoadReason, LoadedModels, PackedFrom, Placements, Purpose, placements,
};
use crate::messages;
use crate::plan::{Obstacle, Strategy, best_adapter};
use crate::printable::{bytes, printable_line};
use crate::settings::{self, Settings};
use crate::worker::{Backend, Event, Ready};

/// Prints the report. The machine is described even when the models cannot be loaded.
pub fn doctor(args: &DoctorArgs) -> CommandResult {
    let settings = backend::settings(&args.shared, &args.shared.settings.0)?;
    keymap(&settings).map_err(Failure::usage)?;
    let mut out = stdout()?;
    if let Some(model) = &args.check {
        return check(model, &settings, &mut out);
    }
    let machine = Machine::probe();
    out.write_all(describe(&machine, args.shared.file.config.clone()).as_bytes())?;
    out.flush()?;
    if args.placements {
        let found = with_progress(|progress| placements(&settings, &machine, progress))?;
        return Ok(out.write_all(placement_table(&found).as_bytes())?);
    }
    let loaded = backend::load(&settings, &machine, Purpose::Chat)?;
    out.write_all(chosen(&loaded).as_bytes())?;
    if let Some(found) = loaded.drafts.shared.fit_costs() {
        out.write_all(cost_model(&found).as_bytes())?;
    }
    Ok(out.write_all(traffic(loaded, &settings).as_bytes())?)
}

/// Compares our engine with candle-transformers' on the bundled text.
fn check(model: &str, settings: &Settings, out: &mut impl Write) -> CommandResult {
    let spec = find_spec(model, &settings.model_folders).map_err(Failure::model)?;
    let options = QualityOptions {
        text: None,
        window: 512,
        kv: KvFormat::F32,
        against: Some(quality::Reference::Candle),
    };
    let found = quality::run(&spec, &options, backend::compute_threads(settings.threads))?;
    found.table().write(TableStyle::Plain, out)?;
    if found.agrees() == Some(false) {
        let engines = "Dovetail and candle-transformers";
        return Err(anyhow!("{engines} disagree about {model}; please report it").into());
    }
    Ok(writeln!(out, "Both engines predict alike.")?)
}

/// The report: titles, and rows with a name and a value.
#[derive(Default)]
struct DoctorReport(String);

impl DoctorReport {
    fn title(&mut self, title: &str) {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "{title}");
    }

    fn row(&mut self, name: &str, value: impl std::fmt::Display) {
        self.row_behind(name, 12, value);
    }

    /// A row whose name takes `width` columns.
    fn row_behind(&mut self, name: &str, width: usize, value: impl std::fmt::Display) {
        let value = value.to_string();
        let _ = writeln!(self.0, "  {name:<width$} {}", printable_line(&value));
    }
}

/// The machine, the build and the places of files.
fn describe(machine: &Machine, config: Option<PathBuf>) -> String {
    let mut report = DoctorReport::default();
    let list = |items: &[&str]| match items {
        [] => "none".to_owned(),
        some => some.join(", "),
    };
    report.title("Machine");
    let cpu = &machine.cpu;
    report.row("CPU", &cpu.name);
    let fast = match &cpu.performance {
        Some(fast) => format!(", {} of them fast", fast.cores),
        None => String::new(),
    };
    report.row("cores", format!("{} physical{fast}, {} threads", cpu.physical, cpu.logical));
    report.row("features", list(&cpu.features));
    let memory = machine.memory;
    report.row("memory", format!("{} total, {} free", bytes(memory.total), bytes(memory.free)));
    match &machine.gpu {
        Ok(gpu) => {
            report.row("GPU", &gpu.name);
            let total = bytes(gpu.vram_total);
            let free = bytes(gpu.vram_free);
            report.row("VRAM", format!("{total} total, {free} free"));
            report.row("driver", &gpu.driver);
        }
        Err(reason) => report.row("GPU", reason),
    }
    for adapter in &machine.adapters {
        let Adapter { number, name, kind, interface, driver, bus, .. } = adapter;
        let memory = match adapter.memory {
            Some(memory) => {
                format!("{} total, {} free", bytes(memory.total), bytes(memory.free()))
            }
            None if adapter.shares_memory() => "shares the main memory".to_owned(),
            None => "memory unknown (set it with --vram)".to_owned(),
        };
        let kind = kind.name();
        let place = if bus.is_empty() { String::new() } else { format!(" at {bus}") };
        let line = format!("{name}{place}, {kind}, {interface}, {driver}; {memory}");
        report.row(&format!("gpu:{number}"), line);
    }
    report.row("default GPU", taken(&machine.adapters));
    report.title("Build");
    report.row("version", env!("CARGO_PKG_VERSION"));
    report.row("GPU support", "Vulkan, Metal or DirectX 12");
    report.row("training", if cfg!(feature = "cuda") { "CPU, CUDA" } else { "CPU" });
    report.title("Files");
    let settings_file = config.or_else(settings::default_path).map(|path| {
        let there = if path.exists() { "" } else { " (does not exist; defaults apply)" };
        format!("{}{there}", path.display())
    });
    let nowhere = || "none on this system".to_owned();
    report.row("settings", settings_file.unwrap_or_else(nowhere));
    let log = logging::folder().map(|path| path.display().to_string());
    report.row("log", log.unwrap_or_else(nowhere));
    report.0
}

/// Which adapter `device = "gpu"` takes, and why.
fn taken(adapters: &[Adapter]) -> String {
    match (best_adapter(adapters), adapters) {
        (Some(best), _) => format!(
            "gpu:{} by default: the {} GPU with the most free memory (GPUs with memory of \
             their own come first)",
            best.number,
            best.kind.name()
        ),
        (None, []) => "none: no GPU found (Vulkan, Metal or DirectX 12)".to_owned(),
        (None, some) => format!(
            "none by default: a software GPU is used only if you name it (--device gpu:{})",
            some[0].number
        ),
    }
}

/// The target's formats by how their products are computed, with the cost of each way.
fn kernels(formats: &[(Format, u64)], repacked: bool) -> Vec<(&'static str, String)> {
    let of = |expanded: bool| -> Vec<String> {
        let wanted = |format: Format| (format.storage() == Storage::Expanded) == expanded;
        let wanted = formats.iter().filter(|(format, _)| wanted(*format));
        wanted.map(|(format, size)| format!("{format} {}", bytes(*size))).collect()
    };
    let ways = [
        (
            "kernels",
            of(false),
            "each with its own kernel; at most 5 % larger in memory than in the \
                                file",
        ),
        match repacked {
            true => {
                ("repacked", of(true), "repacked when they are loaded, to about 5 bits per weight")
            }
            false => (
                "expanded",
                of(true),
                "expanded each time they are used; as small as the file, but many times slower \
                 than formats with their own kernel",
            ),
        },
    ];
    let used = ways.into_iter().filter(|(_, formats, _)| !formats.is_empty());
    used.map(|(name, formats, cost)| (name, format!("{} ({cost})", formats.join(", ")))).collect()
}

/// Where the packed weights came from, if the pack cache had a part in it.
fn packed_from(from: PackedFrom) -> Option<&'static str> {
    match from {
        PackedFrom::Files => None,
        PackedFrom::FilesAndKept => {
            Some("packed from the model's files and saved in the pack cache for the next start")
        }
        PackedFrom::Cache => Some("read from the pack cache"),
    }
}

/// The models and the choice.
fn chosen(loaded: &LoadedModels) -> String {
    let setup = &loaded.drafts.setup;
    let ready = &Ready::from(setup);
    let mut report = DoctorReport(String::from("\nModels\n"));
    report.row("target", format!("{} ({})", ready.target, ready.target_detail));
    report.row("engine", ready.engine.name());
    report.row("draft", ready.draft.as_deref().unwrap_or("none"));
    for (name, formats) in kernels(&loaded.formats, loaded.repacked) {
        report.row(name, formats);
    }
    if let Some(words) = packed_from(loaded.packed_from) {
        report.row("weights", words);
    }
    report.row("context", format!("{} tokens", ready.context));
    if let Some(bytes) = loaded.kv_bytes {
        report.row("KV cache", messages::kv_cache(bytes, ready.context));
    }
    report.title("Choice");
    report.row("γ", ready.gamma);
    let plan = |reason: &LoadReason| match reason {
        LoadReason::Plan(reason) => reason.duo_c(),
        _ => None,
    };
    if let Some(c) = setup.reasons.iter().find_map(plan) {
        report.row("c", format!("{c:.1} draft steps in one pass of the target"));
    }
    let blocks = match ready.depths {
        // What drafts first may have no blocks.
        _ if ready.blocks == 0 => "none".to_owned(),
        Depths::Elastic(most) => format!("{} of {most}", ready.blocks),
        Depths::Fixed(blocks) => format!("{blocks} (fixed)"),
    };
    report.row("M", blocks);
    report.row("tree", format!("width {}, depth {}", ready.width, ready.depth));
    report.title("Sampling");
    for row in &setup.sampling {
        let name = row.name.replace('_', "-");
        let _ = writeln!(report.0, "  {name:<18} {:<6} ({})", row.value, row.origin);
    }
    report.title("Strategies");
    let width = ready.strategies.iter().map(|status| status.name.chars().count()).max();
    let width = width.unwrap_or(0).max(12);
    for status in &ready.strategies {
        let summary = Strategy::named(&status.name).map(|row| row.summary).unwrap_or_default();
        let words = match &status.missing {
            Some(missing) => format!("unavailable, needs {missing}"),
            None if status.name == ready.strategy => format!("{summary} (in use)"),
            None => summary.to_owned(),
        };
        report.row_behind(&status.name, width, words);
    }
    report.title("Why");
    for reason in ready.reasons.iter().chain(&messages::notices(&setup.notices)) {
        let _ = writeln!(report.0, "  {}", printable_line(reason));
    }
    report.0
}

/// The cost model as the target's passes follow it here.
fn cost_model(found: &FittedCosts) -> String {
    let FittedCosts { fit, deviation, reached, limits } = found;
    let mut report = DoctorReport(String::from("\nCost model of a pass on the CPU\n"));
    let part = "of the shorter of computing (T_c) and reading (T_p) adds to the longer";
    report.row("β", format!("{:.2} {part}", fit.beta));
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    let share = |part: f64, whole: f64| percent(part / whole);
    let computed = share(reached.multiply_adds, limits.multiply_adds);
    let rate = limits.multiply_adds / 1e9;
    let row = fit.row_ms;
    report.row(
        "E_c",
        format!("{computed} of {rate:.0} G multiply-adds/s; T_c = {row:.2} ms per row"),
    );
    let read = share(reached.bandwidth, limits.bandwidth);
    let (rate, whole) = (limits.bandwidth / 1e9, fit.read_ms);
    // Memory alone cannot give more than all of it.
    let faster = reached.bandwidth > limits.bandwidth;
    let why = if faster { " from memory: a cache holds a part of the weights" } else { "" };
    report.row("E_m", format!("{read} of {rate:.1} GB/s{why}; T_p = {whole:.2} ms per pass"));
    report.row("fit", format!("within {} of every measured pass", percent(*deviation)));
    report.0
}

/// Every placement with what to expect of it.
fn placement_table(found: &Result<Placements, Obstacle>) -> String {
    let mut report = DoctorReport::default();
    report.title("\nPlacements");
    let Placements { gpu, rows, best, prefill, reasons, .. } = match found {
        Ok(found) => found,
        Err(why) => {
            let why = messages::obstacle(why);
            let _ = writeln!(report.0, "  all on the CPU: {}", printable_line(&why));
            return report.0;
        }
    };
    let _ = writeln!(report.0, "  tokens/s  T_V ms  T_D ms    γ  M     Ω");
    for row in rows {
        let shape = row.budget.shape;
        let blocks = row.budget.blocks;
        let mark = if row == best { " (best)" } else { "" };
        let _ = writeln!(
            report.0,
            "  {:>8.1} {:>7.2} {:>7.2} {:>4} {blocks:>2} {:>5.2}  {}{mark}",
            row.rate,
            row.verify_ms,
            row.draft_ms,
            shape.gamma,
            row.omega,
            messages::placement(row)
        );
    }
    report.title("Why");
    let prompts = prefill.map(|prefill| messages::long_prompt(&prefill, gpu));
    for reason in messages::load_reasons(reasons).iter().chain(&prompts) {
        let _ = writeln!(report.0, "  {}", printable_line(reason));
    }
    report.0
}

/// Tokens of the answer that is made to see what goes over the bus.
const SAMPLE: usize = 16;

/// What a round takes over the bus, by a short answer; nothing where no part is on a GPU.
fn traffic(loaded: LoadedModels, settings: &Settings) -> String {
    let mut backend = Backend::from(loaded);
    if !backend.engine.is_on_gpu() {
        return String::new();
    }
    let generation = 1;
    let controls = backend::controls(settings);
    controls.update(|controls| controls.generation = generation);
    let job = backend::job(settings, "Tell me a story.", generation, SAMPLE);
    let mut words = String::new();
    backend.answer(&job, &controls, &mut |event| {
        match event {
            Event::Finished { summary, .. } if summary.rounds > 0 => {
                let rounds = summary.rounds;
                let all = summary.traffic;
                words = format!("{} (mean of {rounds})", all.a_round(rounds));
            }
            Event::Failed { error, .. } => words = error,
            _ => {}
        }
        true
    });
    let mut report = DoctorReport(String::from("\nTraffic on the GPU's bus\n"));
    report.row("per round", words);
    report.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_apart_by_their_kernels() {
        let mixed =
            [(Format::Q4_1, 84_900_000), (Format::Iq2Xs, 7_300_000), (Format::F32, 140_000)];
        let rows = kernels(&mixed, false);
        assert_eq!(rows.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["kernels", "expanded"]);
        assert!(
            rows[0].1.starts_with("Q4_1 85 MB, F32 140 kB (each with its own kernel"),
            "{rows:?}"
        );
        assert!(rows[1].1.starts_with("IQ2_XS 7.3 MB (expanded each time"), "{rows:?}");
        assert_eq!(kernels(&mixed, true)[1].0, "repacked");
        assert_eq!(kernels(&mixed[..1], false).len(), 1);
    }
}
