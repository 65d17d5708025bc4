//! The recorded DFlash drafters with their targets, tests/golden/drafters2026.

use std::path::PathBuf;
use std::sync::Arc;

use super::golden::{Tensors, floats, golden, tensors};
use super::library::{arch, load_files};
use dovetail::draft::Dflash;
use dovetail::kernels::{KvFormat, Pool};
use dovetail::library::{DflashFiles, DraftFiles, Spec, open_draft};
use dovetail::model::head::{DraftPrecision, HeadError, SharedTables};
use dovetail::model::{CpuDflash, CpuTarget, DflashModel, Gpu, GpuDflash, LoadRequest, Target};

/// The drafters, and their targets in tests/golden/arch.
pub const DFLASH: [(&str, &str); 4] = [
    ("dflash", "qwen35"),
    ("dspark", "qwen35"),
    ("dspark-gemma4", "gemma4"),
    ("dflash2", "qwen35"),
];
pub const CONTEXT: usize = 128;

pub fn dflash_path(name: &str) -> PathBuf {
    golden(&format!("drafters2026/{name}.gguf"))
}

pub fn open_dflash(spec: &Spec) -> DflashFiles {
    match open_draft(spec, &mut |_| {}).unwrap_or_else(|error| panic!("{error}")) {
        DraftFiles::Dflash(files) => files,
        DraftFiles::Head(files) => panic!("{} is a draft head", files.name),
    }
}

/// A drafter as the library opens it, its target, and the recording.
pub struct DflashCase {
    pub name: &'static str,
    pub files: DflashFiles,
    pub target: &'static str,
    pub shared: SharedTables,
    pub recorded: Tensors,
}

impl DflashCase {
    pub fn load((name, target): (&'static str, &'static str)) -> Self {
        let files = open_dflash(&Spec::Gguf(dflash_path(name)));
        let target_files = arch(target);
        files.config.fits_target(&target_files.config).unwrap();
        let shared = SharedTables::of(&load_files(&target_files, CONTEXT, 2));
        let recorded = tensors(&format!("drafters2026/{name}.safetensors"));
        Self { name, files, target, shared, recorded }
    }

    /// Every one of them.
    pub fn all() -> impl Iterator<Item = Self> {
        DFLASH.into_iter().map(Self::load)
    }

    pub fn model(&self) -> DflashModel {
        CpuDflash::load(&self.files.config, &self.request(), &self.shared).unwrap()
    }

    pub fn on_gpu(&self, gpu: &Arc<Gpu>) -> Result<DflashModel, HeadError> {
        let (config, precision) = (&self.files.config, DraftPrecision::Stored);
        GpuDflash::load(gpu, config, &self.request(), &self.shared, precision)
    }

    fn request(&self) -> LoadRequest<'_> {
        let DflashFiles { config, weights, .. } = &self.files;
        let (config, source, pool) = (&config.body, weights.as_ref(), Arc::new(Pool::new(2)));
        LoadRequest::new(config, source, pool, CONTEXT, KvFormat::F32)
    }

    pub fn drafter(&self) -> Dflash {
        Dflash::new(self.model(), CONTEXT)
    }

    /// The target, returning what the drafter reads.
    pub fn target(&self) -> CpuTarget {
        let mut target = load_files(&arch(self.target), CONTEXT, 2);
        target.set_features(self.files.config.features());
        target
    }

    pub fn floats(&self, name: &str) -> Vec<f32> {
        floats(&self.recorded[name])
    }

    pub fn tokens(&self, name: &str) -> Vec<u32> {
        self.floats(name).into_iter().map(|token| token as u32).collect()
    }
}
