//! A chat template: read, tested, and rendered with and without marks for the messages' text.
#![no_main]

use dovetail::chat::{ChatTemplate, SpecialTokens};
use dovetail_fuzz::conversation;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|source: &str| {
    let tokens = SpecialTokens {
        bos: "<s>".to_owned(),
        eos: "</s>".to_owned(),
        unk: "<unk>".to_owned(),
        pad: String::new(),
    };
    if let Ok(template) = ChatTemplate::new(source, "chat_template.jinja", tokens) {
        let _ = template.end_of_turn();
        let control = |text: &str| text.match_indices("</s>").map(|(at, _)| at..at + 4).collect();
        let prompt = template.prompt(&conversation(), true, &control);
        if let Ok(prompt) = prompt {
            for said in prompt.said {
                assert!(prompt.text.get(said).is_some(), "places are within the text");
            }
        }
    }
});
