//! The header of a safetensors file as that of a draft head, which needs no tokenizer.
#![no_main]

use dovetail::library::{Spec, open_head};
use dovetail_fuzz::{folder, place};
use libfuzzer_sys::fuzz_target;

const CONFIG: &[u8] = include_bytes!("../../golden/draft_eagle_m1/config.json");

fuzz_target!(init: { place("config.json", CONFIG); }, |bytes: &[u8]| {
    place("model.safetensors", bytes);
    if let Ok(head) = open_head(&Spec::Folder(folder()), &mut |_| {}) {
        let _ = head.tensors.tensor("fc.weight");
    }
});
