//! A file of n-gram tables for the bundled target, and the use of an accepted table. Input that
//! does not begin like a header gets one, so that a fuzzer changes tables too.
#![no_main]

use std::fs;

use dovetail::library::{NgramOwner, Spec, TargetFiles, open_ngrams, open_target, write_ngrams};
use dovetail::speculate::ngrams::{KEPT, NgramTable};
use dovetail_fuzz::{folder, place};
use libfuzzer_sys::fuzz_target;

/// Bytes of a slot of the bundled target, whose tokens take two.
const SLOT: usize = 4 + KEPT * 3;
/// How the header of a table with one slot ends.
const ONE_SLOT: &str = "\"slots\":1}";

thread_local! {
    static TARGET: TargetFiles =
        open_target(&Spec::Bundled, &mut |_| {}).expect("it is part of the program");
    static HEADER: String = TARGET.with(|target| {
        let table = NgramTable::new(vec![0], vec![0; KEPT], vec![0; KEPT]).expect("one slot");
        let path = folder().join("one.ngrams");
        write_ngrams(&path, NgramOwner::of(target), 1, &table).expect("the folder takes a file");
        let bytes = fs::read(&path).expect("it was written");
        let header = bytes.split(|&byte| byte == b'\n').next().expect("it has a first line");
        let header = String::from_utf8(header.to_vec()).expect("it is JSON");
        assert!(header.ends_with(ONE_SLOT), "{header}");
        header
    });
}

fuzz_target!(|bytes: &[u8]| {
    let path = if bytes.starts_with(b"{") {
        place("table.ngrams", bytes)
    } else {
        let slots = format!("\"slots\":{}}}\n", bytes.len() / SLOT);
        let header = HEADER.with(|header| header.replace(ONE_SLOT, &slots));
        let whole = &bytes[..bytes.len() / SLOT * SLOT];
        place("table.ngrams", &[header.as_bytes(), whole].concat())
    };
    TARGET.with(|target| {
        let Ok(file) = open_ngrams(&path, target) else { return };
        for text in [&[][..], &[1], &[5, 6, 7, 8, 9, 10], &[u32::MAX; 9]] {
            if let Some((_, after)) = file.table.after(text) {
                assert!(after.iter().all(|(token, _)| (*token as usize) < target.config.vocab));
            }
        }
    });
});
