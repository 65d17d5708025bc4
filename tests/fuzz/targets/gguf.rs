//! The header of a GGUF file, and what a target makes of it: tokenizer, template and packed
//! weights.
#![no_main]

use dovetail::kernels::{KvFormat, Pool};
use dovetail::library::{Spec, open_target};
use dovetail::model::{CpuTarget, LoadRequest};
use dovetail_fuzz::{ask, place_header};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let path = place_header("model.gguf", bytes);
    if let Ok(files) = open_target(&Spec::Gguf(path), &mut |_| {}) {
        assert!(files.tokenizer.vocab_size() <= files.config.vocab);
        ask(&files.template, &files.tokenizer);
        // The weights too, of every type and architecture, if there are few.
        if files.bytes < 1 << 20 && files.config.layers < 16 {
            let request = LoadRequest::new(
                &files.config,
                &*files.weights,
                Pool::new(1).into(),
                16,
                KvFormat::F32,
            );
            let _ = CpuTarget::load(&request);
        }
    }
});
