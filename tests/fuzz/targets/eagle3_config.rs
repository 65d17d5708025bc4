//! The `config.json` of an EAGLE-3 head, in either form, with the tensors of one.
#![no_main]

use dovetail::library::{Spec, open_head};
use dovetail_fuzz::{folder, place};
use libfuzzer_sys::fuzz_target;

const TENSORS: &[u8] = include_bytes!("../../golden/eagle3/head_eagle3/model.safetensors");

fuzz_target!(init: { place("model.safetensors", TENSORS); }, |bytes: &[u8]| {
    place("config.json", bytes);
    if let Ok(head) = open_head(&Spec::Folder(folder()), &mut |_| {}) {
        assert!(head.config.blocks() > 0);
    }
});
