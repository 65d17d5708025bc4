//! Models opened as the program opens them.

use std::fs;
use std::path::{Path, PathBuf};

use dovetail::kernels::{KvFormat, Pool};
use dovetail::library::{self, HeadFiles, LibraryError, Spec, TargetFiles};
use dovetail::model::CpuTarget;
use tempfile::TempDir;

use super::golden::GOLDEN;

pub const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo/target");

/// A copy of the bundled target that a test may spoil.
pub fn demo_copy() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(DEMO).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    folder
}

pub fn open_target(spec: &Spec) -> Result<TargetFiles, LibraryError> {
    library::open_target(spec, &mut |_| {})
}

pub fn open_head(spec: &Spec) -> Result<HeadFiles, LibraryError> {
    library::open_head(spec, &mut |_| {})
}

/// A file of the tiny models of every architecture.
pub fn arch_file(name: &str) -> PathBuf {
    Path::new(GOLDEN).join("arch").join(name)
}

pub fn load_files(files: &TargetFiles, context: usize, threads: usize) -> CpuTarget {
    let pool = Pool::new(threads).into();
    CpuTarget::load(&files.config, &*files.weights, pool, context, KvFormat::F32, &mut |_| {})
        .unwrap()
}
