//! Weights that were packed at an earlier start, for every architecture: the logits are the same.

use std::sync::Arc;

use dovetail::kernels::{KvFormat, Pool};
use dovetail::library::{PackedWeights, Spec, TargetFiles, packed_cache};
use dovetail::model::{CpuTarget, LoadRequest, Target, WeightSource};

use super::open_target;
use crate::support::library::{arch, arch_file, arch_names, arch_recording, demo_copy};

fn logits(files: &TargetFiles, source: &dyn WeightSource, prompt: &[u32]) -> Vec<u32> {
    let (config, pool) = (&files.config, Arc::new(Pool::new(2)));
    let request = LoadRequest::new(config, source, pool, 64, KvFormat::F32);
    let mut target = CpuTarget::load(&request).unwrap();
    target.prefill(prompt).unwrap().logits.into_iter().map(f32::to_bits).collect()
}

/// Starts without a store, then with an empty one, then with stored weights.
fn check(files: &TargetFiles, prompt: &[u32], name: &str) {
    let folder = tempfile::tempdir().unwrap();
    let cache = packed_cache(folder.path().to_owned(), 1 << 30);
    let want = logits(files, files.weights.as_ref(), prompt);
    for reads in [false, true] {
        let packed =
            PackedWeights::new(files.weights.as_ref(), &files.config, files.bytes, &cache).unwrap();
        assert_eq!(packed.reads(), reads, "{name}");
        assert_eq!(logits(files, &packed, prompt), want, "{name}, reads: {reads}");
        // It was not given up on the way.
        assert!(!reads || packed.reads(), "{name}");
        assert_eq!(packed.finish(), None, "{name}");
    }
}

#[test]
fn every_architecture_says_the_same_from_packed_weights() {
    for name in arch_names() {
        let files = arch(&name);
        check(&files, &arch_recording(&name, "logits").0[..8], &name);
    }
}

#[test]
fn a_folder_and_a_model_in_several_files_do_too() {
    let shards = arch_file("llama-00001-of-00003.gguf");
    let files = open_target(&Spec::Gguf(shards)).unwrap();
    check(&files, &[1, 2, 3], "shards");
    let folder = demo_copy();
    let files = open_target(&Spec::Folder(folder.path().to_owned())).unwrap();
    check(&files, &[1, 2, 3], "folder");
    // A file that was rewritten counts as a different one.
    let identity = files.weights.identity().unwrap();
    // Windows does not replace a file that is mapped.
    drop(files);
    let path = folder.path().join("model.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(20));
    std::fs::write(&path, bytes).unwrap();
    let again = open_target(&Spec::Folder(folder.path().to_owned())).unwrap();
    assert_ne!(again.weights.identity().unwrap(), identity);
    // What is part of the program is not in any file.
    assert_eq!(open_target(&Spec::Bundled).unwrap().weights.identity(), None);
}
