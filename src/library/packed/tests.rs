//! Packed weights over three starts: no matter what happened to the stored file, the logits are the
//! same.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::*;
use crate::kernels::KvFormat;
use crate::model::{CpuTarget, LoadRequest, RandomWeights, Repacked, Target, config_for_tests};

/// Random weights that claim to come from a file.
struct OfFile(RandomWeights, &'static str);

impl WeightSource for OfFile {
    fn describe(&self) -> String {
        self.1.to_owned()
    }
    fn inner(&self) -> Option<&dyn WeightSource> {
        Some(&self.0)
    }
    fn identity(&self) -> Option<String> {
        Some(self.1.to_owned())
    }
}

fn source(format: Format, seed: u64, name: &'static str) -> OfFile {
    OfFile(RandomWeights::new(&config(), format, seed), name)
}

/// Rows long enough for every format.
fn config() -> Config {
    Config { hidden: 256, intermediate: 512, heads: 4, head_dim: 64, ..config_for_tests() }
}

fn logits(source: &dyn WeightSource) -> Vec<u32> {
    let config = &config();
    let pool = Arc::new(Pool::new(2));
    let request = LoadRequest::new(config, source, pool, 16, KvFormat::F32);
    let mut target = CpuTarget::load(&request).unwrap();
    target.prefill(&[1, 2, 3]).unwrap().logits.into_iter().map(f32::to_bits).collect()
}

/// The result of a start: logits, whether it started to read the stored file, and the notice.
fn start(source: &dyn WeightSource, cache: &DiskCache) -> (Vec<u32>, bool, Option<String>) {
    let packed = PackedWeights::new(source, &config(), 1, cache).unwrap();
    let reads = packed.reads();
    (logits(&packed), reads, packed.finish())
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

#[test]
fn what_was_stored_gives_the_same_bits_in_every_format() {
    for format in Format::ALL {
        let folder = tempfile::tempdir().unwrap();
        let cache = packed_cache(folder.path().join("new/folder"), 1 << 30);
        let source = source(format, 7, "model");
        let wanted = logits(&source);
        assert_eq!(start(&source, &cache), (wanted.clone(), false, None), "{format}");
        assert_eq!(start(&source, &cache), (wanted, true, None), "{format}");
        assert_eq!(cache.files().len(), 1);
    }
}

#[test]
fn repacked_weights_are_stored_apart_from_others() {
    let folder = tempfile::tempdir().unwrap();
    let cache = packed_cache(folder.path().to_owned(), 1 << 30);
    let source = source(Format::Iq2Xs, 7, "model");
    let wanted = logits(&source);
    for (reads, repack) in [(false, false), (false, true), (true, false), (true, true)] {
        let source = Repacked { source: &source, repack };
        assert_eq!(start(&source, &cache), (wanted.clone(), reads, None), "{repack}");
    }
    assert_eq!(cache.files().len(), 2);
}

#[test]
fn a_damaged_file_is_never_used_and_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let cache = packed_cache(folder.path().to_owned(), 1 << 30);
    let source = source(Format::Q4K, 7, "model");
    let (wanted, ..) = start(&source, &cache);
    let path = files(folder.path()).remove(0);
    let whole = fs::read(&path).unwrap();
    // Its head, and places in the matrices and in the index.
    for case in (0..=9).map(|ninth| (whole.len() - 1) * ninth / 9) {
        let mut bytes = whole.clone();
        bytes[case] ^= 0x10;
        fs::write(&path, bytes).unwrap();
        let (found, _, notice) = start(&source, &cache);
        assert_eq!((&found, notice), (&wanted, None), "case {case}");
        // If a matrix was damaged, this start removed the file and the next writes it.
        start(&source, &cache);
        assert_eq!(start(&source, &cache), (wanted.clone(), true, None), "case {case}");
        assert_eq!(fs::read(&path).unwrap().len(), whole.len());
    }
}

#[test]
fn what_was_packed_from_something_else_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let cache = packed_cache(folder.path().to_owned(), 1 << 30);
    start(&source(Format::Q4K, 7, "model"), &cache);
    let stored = files(folder.path()).remove(0);
    // Another model whose file now has this name.
    let other = source(Format::Q4K, 8, "another");
    start(&other, &cache);
    let name = files(folder.path()).into_iter().find(|path| *path != stored).unwrap();
    fs::copy(&stored, &name).unwrap();
    let (found, reads, _) = start(&other, &cache);
    assert_eq!((found, reads), (logits(&other), false));
    // Weights that changed while path, size and time stayed the same: rows are compared.
    let changed = source(Format::Q4K, 9, "model");
    let (found, reads, _) = start(&changed, &cache);
    assert_eq!((found, reads), (logits(&changed), true));
    assert!(!stored.exists(), "it is removed");
    // Weights that are not in a file are not stored.
    let config = config();
    let nowhere = RandomWeights::new(&config, Format::F16, 1);
    assert!(PackedWeights::new(&nowhere, &config, 1, &cache).is_none());
}

#[test]
fn a_file_that_is_read_counts_as_used_and_one_above_the_limit_is_not_stored() {
    let folder = tempfile::tempdir().unwrap();
    let cache = packed_cache(folder.path().to_owned(), 1 << 30);
    let first = source(Format::Q4K, 1, "first");
    start(&first, &cache);
    let path = files(folder.path()).remove(0);
    let used = || fs::metadata(&path).unwrap().modified().unwrap().elapsed().unwrap();
    let before = SystemTime::now() - Duration::from_secs(36_000);
    fs::File::options().write(true).open(&path).unwrap().set_modified(before).unwrap();
    assert!(start(&first, &cache).1 && used() < Duration::from_secs(1000));
    // Expected to be above the limit, or found to be.
    let small = packed_cache(folder.path().join("small"), 1000);
    let config = config();
    for expected in [1 << 20, 1] {
        let packed = PackedWeights::new(&first, &config, expected, &small).unwrap();
        assert_eq!(logits(&packed), logits(&first));
        assert!(packed.finish().unwrap().contains("`pack_cache` allows"));
        assert!(small.files().is_empty());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_keeps_nothing_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let cache = packed_cache(folder.path().to_owned(), 1 << 30);
    let source = source(Format::Q4K, 7, "model");
    let packed = PackedWeights::new(&source, &config(), 1, &cache).unwrap();
    let full = CacheWriter::on_full_disk(cache.clone(), &packed.path).unwrap();
    *packed.state.borrow_mut() = State::Writing(full, Matrices::default());
    assert_eq!(logits(&packed), logits(&source));
    let notice = packed.finish().unwrap();
    assert!(notice.contains("No space left") && notice.contains("free some space"), "{notice}");
    assert!(files(folder.path()).is_empty());
}

#[test]
fn a_folder_that_cannot_be_made_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("file");
    fs::write(&place, "in the way").unwrap();
    let cache = packed_cache(place.join("packed"), 1 << 30);
    let source = source(Format::F32, 7, "model");
    let (found, _, notice) = start(&source, &cache);
    assert_eq!(found, logits(&source));
    assert!(notice.unwrap().contains("Cannot store the packed weights in"));
}
