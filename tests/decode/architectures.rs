//! The central promise on every architecture: a tiny model of each (tests/golden/arch) decodes
//! under every strategy whose drafter runs on the CPU, and the text is its own, token for token.

use crate::support::drafters::{ON_CPU, drafters, every_strategy_gives_plain_text, on_the_cpu};
use crate::support::library::{arch, arch_names, arch_recording, load_files};
use dovetail::decode::Engine;
use dovetail::model::Target;

const CONTEXT: usize = 192;

#[test]
fn every_architecture_gives_plain_text_under_every_strategy() {
    for name in arch_names() {
        let files = arch(&name);
        let target = load_files(&files, CONTEXT, 2);
        let prompt = arch_recording(&name, "logits").0;
        let prompt = [&prompt[..20], &prompt[..6]].concat();
        let vocab = target.vocab() as u32;
        assert!(prompt.iter().all(|&token| token < vocab), "{name}");
        let drafters = drafters(&files, &target, &prompt, CONTEXT);
        let mut engine = Engine::new(Box::new(target), drafters);
        every_strategy_gives_plain_text(&name, &mut engine, &prompt, 14, ON_CPU, |_| {
            on_the_cpu().collect()
        });
    }
}
