//! The header of a GGUF file, and what a target does with it before its weights are read.
#![no_main]

use dovetail::library::{Spec, open_target};
use dovetail_fuzz::{ask, place_header};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let path = place_header("model.gguf", bytes);
    if let Ok(files) = open_target(&Spec::Gguf(path), &mut |_| {}) {
        assert!(files.tokenizer.vocab_size() <= files.config.vocab);
        let _ = files.weights.tensor("model.embed_tokens.weight");
        ask(&files.template, &files.tokenizer);
    }
});
