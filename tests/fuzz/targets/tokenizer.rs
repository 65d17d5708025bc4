//! A `tokenizer.json`, and the use of an accepted tokenizer.
#![no_main]

use std::sync::LazyLock;

use dovetail::chat::{ChatTemplate, SpecialTokens};
use dovetail::library::Tokenizer;
use dovetail_fuzz::ask;
use libfuzzer_sys::fuzz_target;

static TEMPLATE: LazyLock<ChatTemplate> = LazyLock::new(|| {
    ChatTemplate::built_in("any", SpecialTokens::default()).expect("it is built in")
});

fuzz_target!(|bytes: &[u8]| {
    if let Ok(tokenizer) = Tokenizer::from_json(bytes, "tokenizer.json") {
        ask(&TEMPLATE, &tokenizer);
        let _ = tokenizer.pieces(tokenizer.vocab_size());
        let _ = tokenizer.fingerprint();
        let _ = tokenizer.least_tokens(100);
    }
});
