//! A recorded run: what is read of it hangs together, so that a replay shows it without checks.
#![no_main]

use dovetail::record::Record;
use dovetail_fuzz::place;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let path = place("record.jsonl", bytes);
    match Record::read(&path) {
        Ok(record) => {
            for answer in record.answers {
                assert_eq!(answer.tokens.len(), answer.texts.len());
            }
        }
        Err(error) => assert!(error.to_string().contains("record.jsonl"), "{error}"),
    }
});
