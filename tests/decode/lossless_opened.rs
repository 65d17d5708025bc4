//! The central promise on models that the library opens: EAGLE-3 heads and the bundled pair.

use crate::support::assistant::AssistantCase;
use crate::support::bundled::{asked, bundled, heldout, user};
use crate::support::dflash::DflashCase;
use crate::support::eagle3::{EAGLE3_HEADS, Eagle3Case, eagle3_target, eagle3_trees};
use crate::support::generate::{Ascii, changing, generate, options, plain, request, samplers};
use crate::support::heads::Backend;
use crate::support::library::load_files;
use crate::support::mtp::{MTP_HEADS, agreeing, mtp_files, own_head};
use dovetail::chat::{Message, Role};
use dovetail::decode::{Engine, Request, RoundOptions};
use dovetail::draft::{Budget, Drafter};
use dovetail::kernels::Pool;
use dovetail::speculate::Shape;
use std::sync::Arc;

#[test]
fn eagle3_heads_under_every_sampler_and_changing_options() {
    let trees = eagle3_trees();
    for name in EAGLE3_HEADS {
        let case = Eagle3Case::load(name);
        let mut alone = Engine::new(Box::new(eagle3_target()), None::<Box<dyn Drafter>>);
        let target = eagle3_target();
        let pool = Arc::new(Pool::borrowing(Arc::clone(target.pool()), 1));
        let head = case.drafter(Backend::Packed).with_cores(pool);
        let mut speculative = Engine::new(Box::new(target), [Box::new(head) as Box<dyn Drafter>]);
        let mut ahead = 0;
        for prompt in ["p0", "p1", "p2"] {
            for (i, sampler) in samplers().into_iter().enumerate() {
                let request = request(&trees.prompt(prompt), 40);
                let want = generate(&mut alone, &Ascii, request.clone(), plain(sampler)).0;
                let (got, rounds, notices) =
                    generate(&mut speculative, &Ascii, request, changing(sampler, i * 3));
                assert_eq!(got, want, "{name} {prompt} {sampler:?}");
                assert_eq!(notices, [""; 0]);
                assert!(rounds.len() < 39, "{name} {prompt} {sampler:?}: nothing was accepted");
                ahead += rounds.iter().filter(|round| round.timing.ahead_ms > 0.0).count();
            }
        }
        assert!(ahead > 0, "{name}: nothing was drafted ahead");
    }
}

/// With texts that end at a token that the drafter may propose, and that fill the context.
#[test]
fn dflash_drafters_under_every_sampler_and_changing_options() {
    for case in DflashCase::all() {
        let mut alone = Engine::new(Box::new(case.target()), None::<Box<dyn Drafter>>);
        let drafter = Box::new(case.drafter()) as Box<dyn Drafter>;
        let mut speculative = Engine::new(Box::new(case.target()), [drafter]);
        let prompt = case.tokens("tokens");
        let mut trees = 0;
        for (i, sampler) in samplers().into_iter().enumerate() {
            for (length, most) in [(24, 40), (1, 30), (24, 400)] {
                let request = request(&prompt[..length], most);
                let want = generate(&mut alone, &Ascii, request.clone(), plain(sampler)).0;
                let (got, rounds, _) =
                    generate(&mut speculative, &Ascii, request, changing(sampler, i * 3));
                assert_eq!(got, want, "{} {length} {most} {sampler:?}", case.name);
                trees += rounds.iter().filter(|round| round.tree.len() > 1).count();
            }
            // The tokens that it proposes first, and one of the text.
            let request = request(&prompt, 30);
            let steady = |_| options(Shape { gamma: 16, width: 4, depth: 5 }, true, sampler);
            let (text, rounds, _) = generate(&mut speculative, &Ascii, request.clone(), steady);
            let proposed = rounds.iter().filter_map(|round| round.tree.nodes().get(1));
            for eos in proposed.map(|node| node.token).take(8).chain([text[12]]) {
                let request = Request { eos: vec![eos], ..request.clone() };
                let want = generate(&mut alone, &Ascii, request.clone(), plain(sampler)).0;
                let got = generate(&mut speculative, &Ascii, request, steady).0;
                assert_eq!(got, want, "{} ends at {eos} {sampler:?}", case.name);
            }
        }
        assert!(trees > 20, "{}", case.name);
    }
}

#[test]
fn mtp_heads_under_every_sampler_and_changing_options() {
    let files = MTP_HEADS.map(|name| (name, mtp_files(name)));
    for (name, files) in files.into_iter().chain([("a head that is always right", agreeing())]) {
        let mut alone = Engine::new(Box::new(load_files(&files, 256, 2)), None::<Box<dyn Drafter>>);
        let target = load_files(&files, 256, 2);
        let head = own_head(&files, &target, 256).unwrap();
        assert!(head.describe().starts_with("MTP head, 1 block, "), "{}", head.describe());
        let mut speculative = Engine::new(Box::new(target), [Box::new(head) as Box<dyn Drafter>]);
        let mut ahead = 0;
        for prompt in [&[7][..], &[1, 2, 3, 4, 5], &(20..60).collect::<Vec<_>>()] {
            for (i, sampler) in samplers().into_iter().enumerate() {
                let request = request(prompt, 40);
                let want = generate(&mut alone, &Ascii, request.clone(), plain(sampler)).0;
                let changing = changing(sampler, i * 3);
                let (got, rounds, notices) =
                    generate(&mut speculative, &Ascii, request.clone(), changing);
                assert_eq!(got, want, "{name} {prompt:?} {sampler:?}");
                assert_eq!(notices, [""; 0]);
                ahead += rounds.iter().filter(|round| round.timing.ahead_ms > 0.0).count();
                if i == 0 && name.ends_with("right") {
                    let shape = Shape { gamma: 5, width: 1, depth: 4 };
                    let chain = |_| RoundOptions::new(Budget::new(shape, 1), sampler);
                    let (got, rounds, _) = generate(&mut speculative, &Ascii, request, chain);
                    assert_eq!(got, want, "{name} {prompt:?}");
                    // The first token comes with the prompt; every round gives five.
                    assert_eq!(rounds.len(), 8, "all drafts are accepted");
                }
            }
        }
        assert!(ahead > 0, "{name}: nothing was drafted ahead");
    }
}

#[test]
fn an_assistant_under_every_sampler_and_changing_options() {
    let case = AssistantCase::load();
    let mut alone = Engine::new(Box::new(case.target()), None::<Box<dyn Drafter>>);
    let target = case.target();
    let head = case.drafter(&target);
    let mut speculative = Engine::new(Box::new(target), [Box::new(head) as Box<dyn Drafter>]);
    let (mut ahead, mut trees) = (0, 0);
    let text = case.tokens("tokens");
    // The last text fills the context.
    for (prompt, most) in [(&text[..1], 40), (&text[..5], 40), (&text[..], 400)] {
        for (i, sampler) in samplers().into_iter().enumerate() {
            let request = request(prompt, most);
            let want = generate(&mut alone, &Ascii, request.clone(), plain(sampler)).0;
            let changing = changing(sampler, i * 3);
            let (got, rounds, notices) = generate(&mut speculative, &Ascii, request, changing);
            assert_eq!(got, want, "{prompt:?} {sampler:?}");
            assert_eq!(notices, [""; 0]);
            ahead += rounds.iter().filter(|round| round.timing.ahead_ms > 0.0).count();
            trees += rounds.iter().filter(|round| round.tree.len() > 1).count();
        }
    }
    assert!(ahead > 0 && trees > 50, "{ahead} of {trees} trees were drafted ahead");
}

#[test]
fn the_bundled_pair_gives_the_text_of_its_target() {
    let (mut speculative, mut alone) = (bundled(), bundled());
    let paper = Shape { gamma: 16, width: 10, depth: 7 };
    let (mut won, mut passes) = (0, 0);
    for (i, turns) in heldout().into_iter().step_by(2).enumerate() {
        let sampler = samplers()[i % 4];
        let steady = |_| RoundOptions::new(Budget::new(paper, 4), sampler);
        let mut messages = Vec::new();
        // A second turn reuses the cache of the first.
        for content in turns.into_iter().chain(["Tell me more.".to_owned()]).take(2) {
            messages.push(user(content));
            let request = asked(&mut alone, &messages, 32);
            let names = alone.names.as_ref();
            let want = generate(&mut alone.engine, names, request.clone(), plain(sampler)).0;
            let options = changing(sampler, i);
            let got = generate(&mut speculative.engine, names, request.clone(), options).0;
            assert_eq!(got, want, "{messages:?} {sampler:?}");
            let (got, rounds, _) = generate(&mut speculative.engine, names, request, steady);
            assert_eq!(got, want, "{messages:?} {sampler:?}");
            won += got.len() - 1;
            passes += rounds.len();
            messages.push(Message::new(Role::Assistant, names.text(&want)));
        }
    }
    assert!(won > passes, "nothing that the head drafted was ever accepted");
}
