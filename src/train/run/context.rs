//! What every stage works with: run directory, state, target files, pool, stop flag, event sink. It
//! must not depend on a stage.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::run_dir::RunDir;
use super::state::{Stage, TrainState};
use super::{Reports, TrainEvent};
use crate::hardware::UsageMeter;
use crate::kernels::{KvFormat, Pool};
use crate::library::{TargetFiles, TargetFingerprint, find_spec, open_target};
use crate::model::CpuTarget;
use crate::model::head::HeadConfig;
use crate::train::{Elastic, Result, head_config, sharegpt};

pub(super) struct RunContext<'a> {
    pub dir: RunDir,
    pub state: TrainState,
    pub files: TargetFiles,
    pub pool: Arc<Pool>,
    pub stop: &'a AtomicBool,
    pub report: Reports<'a>,
    gauge: UsageMeter,
    stage: Option<(Stage, Instant, u64)>,
}

impl<'a> RunContext<'a> {
    pub fn new(
        dir: RunDir,
        state: TrainState,
        files: TargetFiles,
        threads: usize,
        stop: &'a AtomicBool,
        report: Reports<'a>,
    ) -> Self {
        let pool = Arc::new(Pool::new(threads));
        let gauge = UsageMeter::new(None);
        Self { dir, state, files, pool, stop, report, gauge, stage: None }
    }

    /// Opens the target called `name`; `folders` are those in the settings.
    pub fn open(
        name: &str,
        folders: &[String],
        report: Reports<'_>,
    ) -> Result<(TargetFiles, TargetFingerprint)> {
        let files = open_target(&find_spec(name, folders)?, &mut |progress| {
            report(TrainEvent::Fetching(&progress.to_string()));
        })?;
        let fingerprint = TargetFingerprint::of(&files);
        Ok((files, fingerprint))
    }

    /// The file of chats, downloaded if it is one that the program knows.
    pub fn data(&mut self) -> Result<PathBuf> {
        let report = &mut self.report;
        let data = &self.state.recipe.data;
        sharegpt::chats_file(data, &mut |said| report(TrainEvent::Fetching(said)))
    }

    /// The target, for texts of up to `positions` tokens.
    pub fn target(&self, positions: usize) -> Result<CpuTarget> {
        let capacity = positions.clamp(1, self.files.config.max_positions);
        Ok(self.files.on_cpu(Arc::clone(&self.pool), capacity, KvFormat::F32)?)
    }

    /// The configuration of the head to train.
    pub fn head_config(&self) -> HeadConfig {
        let recipe = &self.state.recipe;
        let elastic = recipe.options.elastic != Elastic::Off && recipe.blocks > 1;
        let mut config = head_config(recipe.kind, &self.files.config, recipe.blocks, elastic);
        config.body.intermediate = recipe.mlp.unwrap_or(config.body.intermediate);
        config
    }

    /// How many tokens of a chat are used: at most as many as the target supports.
    pub fn window(&self) -> usize {
        self.state.recipe.options.window.min(self.files.config.max_positions)
    }

    /// How many of the chats are held out.
    pub fn held(&self) -> usize {
        self.state.chats.as_ref().map_or(0, |chats| chats.held)
    }

    /// Begins a stage of `total` units; 0 if that is unknown.
    pub fn begin(&mut self, stage: Stage, total: u64) {
        self.gauge.sample();
        self.stage = Some((stage, Instant::now(), 0));
        (self.report)(TrainEvent::Stage { stage, total });
    }

    /// Reports the progress of the stage and notes its memory.
    pub fn at(&mut self, done: u64) {
        self.look();
        (self.report)(TrainEvent::At(done));
    }

    /// Notes how much memory the stage uses.
    pub fn look(&mut self) {
        if let Some((_, _, peak)) = &mut self.stage {
            *peak = (*peak).max(self.gauge.sample().memory_ours);
        }
    }

    /// Ends the stage, temporarily or finally: the time and memory that it took are added up and
    /// saved.
    pub fn end(&mut self, amount: u64) -> Result<()> {
        self.look();
        if let Some((stage, since, peak)) = self.stage.take() {
            self.state.spend(stage, amount, since.elapsed(), peak);
            if let Some(spent) = self.state.stages.iter().find(|spent| spent.stage == stage) {
                (self.report)(TrainEvent::Spent(spent));
            }
        }
        self.dir.save(&self.state)
    }

    pub fn note(&mut self, text: &str) {
        (self.report)(TrainEvent::Note(text));
    }

    pub(crate) fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
