//! A file of packed weights with damage: the model loads and says the same as without the file.
#![no_main]

use std::sync::Arc;

use dovetail::files::DiskCache;
use dovetail::kernels::{KvFormat, Pool};
use dovetail::library::{PackedWeights, TargetFiles, packed_cache};
use dovetail::model::{CpuTarget, LoadRequest, Target, WeightSource};
use dovetail_fuzz::{MODEL, damaged, folder, only_file, opened, place};
use libfuzzer_sys::fuzz_target;

/// The logits after a token.
fn logits(files: &TargetFiles, source: &dyn WeightSource) -> Vec<u32> {
    let (config, pool) = (&files.config, Arc::new(Pool::new(1)));
    let request = LoadRequest::new(config, source, pool, 8, KvFormat::F32);
    let mut target = CpuTarget::load(&request).expect("the model can be loaded");
    let row = target.prefill(&[1]).expect("there is room for a token").logits;
    row.into_iter().map(f32::to_bits).collect()
}

thread_local! {
    static FILES: TargetFiles = opened(MODEL);
    static CACHE: DiskCache = packed_cache(folder(), 1 << 30);
    static WANT: Vec<u32> = FILES.with(|files| logits(files, files.weights.as_ref()));
    /// The name of the file of packed weights, and its bytes.
    static STORED: (String, Vec<u8>) = {
        said();
        CACHE.with(only_file)
    };
}

/// What the model says with the stored weights, which are stored if they are not there.
fn said() -> Vec<u32> {
    FILES.with(|files| {
        CACHE.with(|cache| {
            let weights = files.weights.as_ref();
            let packed = PackedWeights::new(weights, &files.config, files.bytes, cache);
            let packed = packed.expect("the model is a file");
            let said = logits(files, &packed);
            packed.finish();
            said
        })
    })
}

fuzz_target!(|edits: &[u8]| {
    STORED.with(|(name, whole)| place(name, &damaged(whole, edits)));
    WANT.with(|want| assert_eq!(&said(), want));
});
