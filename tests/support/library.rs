//! Models opened as the program opens them.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use dovetail::kernels::{KvFormat, Pool};
use dovetail::library::{self, HeadFiles, LibraryError, Spec, TargetFiles};
use dovetail::model::{CpuTarget, Target};
use safetensors::SafeTensors;
use tempfile::TempDir;

use super::golden::GOLDEN;
use super::models::load_target;

pub const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo/target");

/// A copy of the bundled target that a test may damage.
pub fn demo_copy() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy_folder(DEMO.as_ref(), folder.path());
    folder
}

/// Copies the files of a folder.
pub fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

pub fn open_target(spec: &Spec) -> Result<TargetFiles, LibraryError> {
    library::open_target(spec, &mut |_| {})
}

/// A folder or file, as a user names it.
pub fn spec(path: &Path) -> Spec {
    Spec::parse(path.to_str().unwrap()).unwrap()
}

/// Why a file that must be refused is refused.
#[track_caller]
pub fn refusal<T>(opened: Result<T, LibraryError>) -> String {
    match opened {
        Ok(_) => panic!("a file that must be refused was opened"),
        Err(error) => error.to_string(),
    }
}

/// Changes a JSON file in a folder.
pub fn change_json(folder: &Path, file: &str, change: impl FnOnce(&mut serde_json::Value)) {
    let path = folder.join(file);
    let mut value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut value);
    fs::write(path, value.to_string()).unwrap();
}

pub fn open_head(spec: &Spec) -> Result<HeadFiles, LibraryError> {
    library::open_head(spec, &mut |_| {})
}

/// A file of the tiny models of every architecture.
pub fn arch_file(name: &str) -> PathBuf {
    Path::new(GOLDEN).join("arch").join(name)
}

/// A tiny model.
pub fn arch(name: &str) -> TargetFiles {
    open_target(&Spec::Gguf(arch_file(&format!("{name}.gguf")))).unwrap()
}

/// The tiny models, each in one file.
pub fn arch_names() -> Vec<String> {
    let files = fs::read_dir(Path::new(GOLDEN).join("arch")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let names = names.filter(|name| !name.contains("-of-"));
    let mut names: Vec<String> =
        names.filter_map(|name| Some(name.strip_suffix(".gguf")?.to_owned())).collect();
    names.sort_unstable();
    assert!(names.len() > 20, "{names:?}");
    names
}

/// The recorded tokens of a tiny model and a recorded tensor of floats.
pub fn arch_recording(name: &str, tensor: &str) -> (Vec<u32>, Vec<f32>) {
    let bytes = fs::read(arch_file(&format!("{name}.safetensors"))).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let words = |name: &str| tensors.tensor(name).unwrap().data().as_chunks::<4>().0.to_vec();
    let tokens = words("tokens").into_iter().map(|b| i32::from_le_bytes(b) as u32).collect();
    (tokens, words(tensor).into_iter().map(f32::from_le_bytes).collect())
}

/// How far `found`, the logits at the end of a text, are from the recorded ones of the whole text.
pub fn off_by(found: &[f32], recorded: &[f32]) -> f32 {
    let last = &recorded[recorded.len() - found.len()..];
    found.iter().zip(last).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// How far the logits of a model are from the recorded ones of the tiny model `name`.
pub fn off_by_recorded(files: &TargetFiles, name: &str) -> f32 {
    let (tokens, recorded) = arch_recording(name, "logits");
    off_by(&load_files(files, 64, 2).prefill(&tokens).unwrap().logits, &recorded)
}

pub fn load_files(files: &TargetFiles, context: usize, threads: usize) -> CpuTarget {
    load_target(&files.config, &*files.weights, Pool::new(threads), context, KvFormat::F32)
}

/// A published model's file, too big to be in the repository, in `DOVETAIL_REAL_MODELS` or
/// `~/.cache/dovetail-tests`; `tests/real/fetch.sh FOLDER` downloads SmolLM2. If it is missing,
/// prints that the test is left out and returns `None`.
pub fn published(test: &str, name: &str) -> Option<PathBuf> {
    let cached = || Some(Path::new(&std::env::var_os("HOME")?).join(".cache/dovetail-tests"));
    let folder = std::env::var_os("DOVETAIL_REAL_MODELS").map(PathBuf::from).or_else(cached);
    let found = folder.map(|folder| folder.join(name)).filter(|path| path.is_file());
    if found.is_none() {
        // Written past the test harness, which shows no output of a test that passes.
        let _ = writeln!(std::io::stderr(), "left out: {test} needs {name}");
    }
    found
}
