//! Conversations of other programs: what is imported stays the same when it is exported and
//! imported again.
#![no_main]

use dovetail::chat::Exchange;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    for format in [Exchange::Markdown, Exchange::Json, Exchange::ShareGpt] {
        let Ok((chat, _)) = format.read(text) else { continue };
        let (again, _) =
            format.read(&format.write(&chat.turns)).expect("what was written can be read");
        let said = |turns: &[dovetail::chat::SavedTurn]| -> Vec<_> {
            turns.iter().map(|turn| (turn.message.role, turn.message.content.clone())).collect()
        };
        assert_eq!(said(&again.turns), said(&chat.turns));
    }
});
