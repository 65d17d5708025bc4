//! The result of `bench gpu`, as tables to send and as JSON. Must never measure.

use std::io::{self, Write};

use serde::Serialize;

use super::{PlacedRun, PlacedTimes, PromptRun};
use crate::bench::{Table, TableStyle};
use crate::hardware::Machine;
use crate::load::Placements;
use crate::messages;
use crate::plan::{BlockTime, DeviceTimes, LevelCost, PlacementForecast};
use crate::printable::{json_line, printable};
use crate::settings::Settings;

/// γ whose T_V is shown.
const SHOWN: [usize; 3] = [1, 4, 16];

/// What is printed.
#[derive(Clone, Debug, Serialize)]
pub struct GpuReport {
    #[serde(rename = "type")]
    kind: &'static str,
    version: &'static str,
    cpu: String,
    cores: usize,
    threads: usize,
    gpu: String,
    interface: String,
    driver: String,
    target: String,
    times: DeviceTimes,
    placements: Vec<Row>,
    /// Name of the placement that is expected to be the best.
    predicted: String,
    /// And of that which was.
    measured: Option<String>,
    /// Placements that the time did not suffice for.
    left_out: usize,
    prompts: Vec<Prompt>,
    reasons: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
struct Row {
    name: String,
    layers: usize,
    expected: PlacementForecast,
    #[serde(skip_serializing_if = "Option::is_none")]
    measured: Option<Measured>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
}

/// A prompt that was read.
#[derive(Clone, Debug, Serialize)]
struct Prompt {
    name: String,
    tokens: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected_tokens_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
}

impl Prompt {
    /// Of a target with `of` blocks.
    fn new(run: PromptRun, of: usize) -> Self {
        let streamed = if run.streamed { ", its blocks streamed to the GPU" } else { "" };
        let name = messages::target_place(run.layers, of) + streamed;
        let expected_tokens_s = run.expected;
        let (tokens_s, failed) = match run.found {
            Ok(rate) => (Some(rate), None),
            Err(reason) => (None, Some(reason)),
        };
        Self { name, tokens: run.tokens, expected_tokens_s, tokens_s, failed }
    }
}

#[derive(Clone, Debug, Serialize)]
struct Measured {
    tokens_s: f64,
    tau: f64,
    verify_ms: Vec<(usize, f64)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    draft_pass_ms: Option<DraftPass>,
}

/// Milliseconds of a draft pass at the corners of what can be chosen.
#[derive(Clone, Debug, Serialize)]
struct DraftPass {
    blocks: [usize; 2],
    rows: [usize; 2],
    /// `ms[i][j]`: through `blocks[i]` blocks with `rows[j]` rows.
    ms: [[f64; 2]; 2],
}

impl From<LevelCost> for DraftPass {
    fn from(level: LevelCost) -> Self {
        Self { blocks: level.blocks, rows: level.widths, ms: level.ms }
    }
}

impl From<PlacedTimes> for Measured {
    fn from(found: PlacedTimes) -> Self {
        let PlacedTimes { verify, level, rate, tau } = found;
        Self { tokens_s: rate, tau, verify_ms: verify, draft_pass_ms: level.map(Into::into) }
    }
}

impl GpuReport {
    pub(super) fn new(
        machine: &Machine,
        settings: &Settings,
        found: Placements,
        (runs, left_out): (Vec<PlacedRun>, usize),
        prompts: Vec<PromptRun>,
    ) -> Self {
        let Placements { gpu, times, best, reasons, .. } = found;
        let adapter = machine.adapters.iter().find(|adapter| adapter.name == gpu);
        let of = |what: fn(&crate::hardware::Adapter) -> &String| {
            adapter.map(|adapter| what(adapter).clone()).unwrap_or_default()
        };
        let row = |run: PlacedRun| {
            let PlacedRun { expected, found } = run;
            let (measured, failed) = match found {
                Ok(found) => (Some(Measured::from(found)), None),
                Err(reason) => (None, Some(reason)),
            };
            let layers = expected.layers;
            Row { name: messages::placement(&expected), layers, expected, measured, failed }
        };
        let placements: Vec<Row> = runs.into_iter().map(row).collect();
        let rates =
            placements.iter().filter_map(|row| Some((row, row.measured.as_ref()?.tokens_s)));
        let fastest = rates.max_by(|a, b| a.1.total_cmp(&b.1));
        Self {
            kind: "gpu",
            version: env!("CARGO_PKG_VERSION"),
            cpu: machine.cpu.name.clone(),
            cores: machine.cpu.physical,
            threads: settings.threads.unwrap_or(machine.cpu.physical),
            interface: of(|adapter| &adapter.interface),
            driver: of(|adapter| &adapter.driver),
            gpu,
            target: settings.target.clone().unwrap_or_else(|| "bundled".to_owned()),
            times,
            predicted: messages::placement(&best),
            measured: fastest.map(|(row, _)| row.name.clone()),
            placements,
            left_out,
            prompts: prompts.into_iter().map(|run| Prompt::new(run, best.of)).collect(),
            reasons: messages::load_reasons(&reasons),
        }
    }

    /// Writes it as one line of JSON.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(json_line(self)?.as_bytes())
    }

    /// Writes it as tables.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let head = format!(
            "dovetail {} on {}, {} cores, {} threads; {}, {}, {}; target {}",
            self.version,
            self.cpu,
            self.cores,
            self.threads,
            self.gpu,
            self.interface,
            self.driver,
            self.target
        );
        writeln!(out, "{}\n", printable(&head))?;
        self.devices().write(TableStyle::Plain, out)?;
        self.drafts().into_iter().try_for_each(|table| table.write(TableStyle::Plain, out))?;
        self.rates().write(TableStyle::Plain, out)?;
        self.read().into_iter().try_for_each(|table| table.write(TableStyle::Plain, out))?;
        writeln!(out, "Predicted best: {}", self.predicted)?;
        writeln!(out, "Measured best:  {}", self.measured.as_deref().unwrap_or("none"))
    }

    /// A block on both devices, and the bus.
    fn devices(&self) -> Table {
        let cell = |at: Option<&BlockTime>, what: fn(&BlockTime) -> f64| {
            at.map(|at| format!("{:.3}", what(at))).unwrap_or_default()
        };
        let rows = self.times.cpu.iter().map(|cpu| {
            let card = self.times.gpu.iter().find(|at| at.gamma == cpu.gamma);
            vec![
                format!("γ = {}", cpu.gamma),
                cell(Some(cpu), |at| at.block_ms),
                cell(card, |at| at.block_ms),
                cell(Some(cpu), |at| at.rest_ms),
                cell(card, |at| at.rest_ms),
            ]
        });
        Table {
            title: "A block of the target, and the rest of a pass, ms".to_owned(),
            head: ["", "block CPU", "block GPU", "rest CPU", "rest GPU"].map(Into::into).to_vec(),
            rows: rows.collect(),
            notes: vec![format!(
                "To the GPU: {:.2} GB/s; a submission and its reply take {:.3} ms.",
                self.times.transfer / 1e9,
                self.times.trip_ms
            )],
        }
    }

    /// T_D of the drafts that were measured, by M and rows; none without drafts.
    fn drafts(&self) -> Option<Table> {
        let drafted = self
            .placements
            .iter()
            .filter_map(|row| Some((row, row.measured.as_ref()?.draft_pass_ms.as_ref()?)));
        let rows: Vec<Vec<String>> = drafted
            .map(|(row, pass)| {
                let cells = pass.ms.iter().flatten().map(|ms| format!("{ms:.3}"));
                let blocks = format!("{} and {}", pass.blocks[0], pass.blocks[1]);
                std::iter::once(row.name.clone()).chain([blocks]).chain(cells).collect()
            })
            .collect();
        (!rows.is_empty()).then(|| Table {
            title: "A draft pass with 1 and 10 rows, ms".to_owned(),
            head: ["", "M", "few, 1", "few, 10", "most, 1", "most, 10"].map(Into::into).to_vec(),
            rows,
            notes: Vec::new(),
        })
    }

    /// Every placement that was measured, with what was expected of it.
    fn rates(&self) -> Table {
        let rows = self.placements.iter().map(|row| {
            let mut cells = vec![row.name.clone(), format!("{:.1}", row.expected.rate)];
            match &row.measured {
                Some(found) => {
                    cells.push(format!("{:.1}", found.tokens_s));
                    cells.push(format!("{:.2}", found.tau));
                    let at = |gamma: usize| found.verify_ms.iter().find(|(g, _)| *g == gamma);
                    let times = SHOWN.map(|gamma| {
                        at(gamma).map(|(_, ms)| format!("{ms:.2}")).unwrap_or_default()
                    });
                    cells.extend(times);
                }
                None => cells.push("–".to_owned()),
            }
            cells
        });
        let failures = self.placements.iter().filter_map(|row| {
            row.failed.as_ref().map(|reason| format!("{}: {}", row.name, printable(reason)))
        });
        let more = (self.left_out > 0).then(|| {
            format!("{} further placements were left out to save time (--seconds).", self.left_out)
        });
        let head = ["", "expected", "tokens/s", "τ", "T_V(1)", "T_V(4)", "T_V(16)"];
        Table {
            title: "Placements: tokens per second expected and measured, T_V in ms".to_owned(),
            head: head.map(Into::into).to_vec(),
            rows: rows.collect(),
            notes: failures.chain(more).collect(),
        }
    }

    /// How fast prompts were read; none where nothing is known to compare with.
    fn read(&self) -> Option<Table> {
        let number = |rate: Option<f64>| rate.map(|rate| format!("{rate:.1}")).unwrap_or_default();
        let rows = self.prompts.iter().map(|prompt| {
            let (tokens, measured) = match prompt.failed {
                None => (prompt.tokens.to_string(), number(prompt.tokens_s)),
                Some(_) => (String::new(), "–".to_owned()),
            };
            vec![prompt.name.clone(), tokens, number(prompt.expected_tokens_s), measured]
        });
        let failures = self.prompts.iter().filter_map(|prompt| {
            prompt.failed.as_ref().map(|why| format!("{}: {}", prompt.name, printable(why)))
        });
        (!self.prompts.is_empty()).then(|| Table {
            title: "Reading a prompt: tokens per second expected and measured".to_owned(),
            head: ["", "tokens", "expected", "tokens/s"].map(Into::into).to_vec(),
            rows: rows.collect(),
            notes: failures.collect(),
        })
    }
}
