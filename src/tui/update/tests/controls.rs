//! Controls: budgets, strategies, pauses, the sampler.

use crate::speculate::SamplerSettings;
use crate::tui::event::{Effect, ScreenEvent};
use crate::tui::tests::{answer, loaded, say, say_all, type_keys, unloaded};
use crate::tui::toasts::Tone;
use crate::tui::update::update;
use crate::worker::{Event, Setting};

#[test]
fn controls_act_in_the_middle_of_an_answer() {
    let mut state = loaded(80, 24);
    type_keys(&mut state, "one<enter>");
    let effects = type_keys(&mut state, "<a-up>");
    assert!(
        matches!(
            &effects[..],
            [Effect::Apply(controls)] if controls.tree.gamma == Setting::Fixed(17)
        ),
        "{effects:?}"
    );
    let effects = type_keys(&mut state, "<f4><tab><down><down><left>");
    assert!(
        matches!(
            &effects[..],
            [Effect::Apply(controls)] if controls.tree.blocks == Setting::Fixed(3)
        ),
        "{effects:?}"
    );
    let effects = type_keys(&mut state, "<f8>");
    assert!(matches!(&effects[..], [Effect::Apply(controls)]
        if controls.tree.gamma == Setting::Auto && controls.tree.blocks == Setting::Auto));
    let effects = type_keys(&mut state, "<f7>");
    assert!(matches!(&effects[..], [Effect::Apply(controls)] if !controls.speculate));
    assert!(state.answering());
}

#[test]
fn rounds_are_paused_stepped_and_looked_back_through() {
    let mut state = loaded(120, 40);
    type_keys(&mut state, "one<enter>");
    type_keys(&mut state, "<f6>");
    assert!(state.controls.worker.paused);
    assert_eq!(state.controls.worker.steps, 0, "the first step only holds");
    type_keys(&mut state, "<f6><f6>");
    assert_eq!(state.controls.worker.steps, 2);
    let events = answer(1, "one two three four five six seven eight nine ten", 16);
    for event in &events[..5] {
        say(&mut state, event.clone());
    }
    type_keys(&mut state, "<f2><tab><left>");
    assert_eq!(state.tree.shown().map(|(at, _)| at), Some(1));
    say(&mut state, events[5].clone());
    assert_eq!(state.tree.shown().map(|(at, _)| at), Some(1), "looking back stays put");
    type_keys(&mut state, "<right><right><right>");
    assert!(state.tree.live());
    type_keys(&mut state, " ");
    assert!(!state.controls.worker.paused);
}

#[test]
fn the_worker_is_told_whether_the_tree_is_seen() {
    let mut state = loaded(80, 24);
    assert!(!state.controls.worker.watched);
    let told = |effects: &[Effect]| match effects {
        [Effect::Apply(controls)] => Some(controls.watched),
        [] => None,
        other => panic!("{other:?}"),
    };
    assert_eq!(told(&type_keys(&mut state, "<f2>")), Some(true));
    assert_eq!(told(&type_keys(&mut state, "<down>")), None);
    assert_eq!(told(&type_keys(&mut state, "<f3>")), Some(false));
    let mut resize = |width, height| {
        let now = state.now;
        told(&update(&mut state, ScreenEvent::Resize(width, height), now))
    };
    assert_eq!(resize(120, 40), Some(true));
    assert_eq!(resize(200, 50), None);
    assert_eq!(resize(200, 12), Some(false));
}

#[test]
fn only_an_answer_on_its_way_is_paused() {
    let mut state = loaded(120, 40);
    for keys in ["<f5>", "<f6>", "<f2><tab> ", "n"] {
        assert!(type_keys(&mut state, keys).is_empty(), "{keys}");
        assert!(!state.controls.worker.paused, "{keys}");
    }
    type_keys(&mut state, "ione<enter><f5>");
    assert!(state.controls.worker.paused);
    say_all(&mut state, answer(1, "First answer.", 8));
    assert!(!state.controls.worker.paused, "the next answer begins by itself");
    type_keys(&mut state, "two<enter><f5><esc>");
    let effects = type_keys(&mut state, "three<enter>");
    assert!(matches!(&effects[..], [Effect::Apply(controls), ..] if !controls.paused));
}

#[test]
fn strategies_are_picked_in_the_middle_of_an_answer() {
    let mut state = loaded(80, 24);
    type_keys(&mut state, "one<enter>");
    assert_eq!(state.strategy(), "dovetail");
    let effects = type_keys(&mut state, "<c-p><down><enter>");
    assert!(
        matches!(&effects[..], [Effect::Apply(controls)]
            if controls.strategy.is_some_and(|strategy| strategy.name == "eagle2-60")),
        "{effects:?}"
    );
    // One that cannot run says why and leaves things as they are.
    assert!(type_keys(&mut state, "<c-p><pgdn><enter>").is_empty());
    let toast = state.toasts.shown().unwrap();
    assert!(toast.tone == Tone::Wrong && toast.text.contains("--rest-text"), "{toast:?}");
    assert_eq!(state.strategy(), "eagle2-60");
    type_keys(&mut state, "<f4><tab>x");
    assert_eq!(state.strategy(), "pld");
    type_keys(&mut state, "P");
    assert_eq!(state.controls.worker.pace, 50);
    type_keys(&mut state, "i/strategy off<enter>/pace 300ms<enter>/overlap on<enter>");
    assert_eq!((state.strategy(), state.controls.worker.pace), ("plain", 300));
    assert!(state.controls.worker.overlap);
    type_keys(&mut state, "/strategy rest<enter>");
    assert!(state.input.is_empty());
    assert!(state.answering());
}

#[test]
fn a_loaded_model_sets_the_sampler_except_what_the_user_changed() {
    let mut state = unloaded();
    type_keys(&mut state, "/seed 7<enter>");
    let mut ready = crate::tui::tests::ready();
    let found = SamplerSettings { temperature: 0.6, top_p: 0.9, seed: 3, ..Default::default() };
    ready.sampler = Some(found);
    let effects = say(&mut state, Event::Ready(Box::new(ready)));
    let expected = SamplerSettings { seed: 7, ..found };
    assert!(
        matches!(&effects[..], [Effect::Apply(controls)] if controls.sampler == expected),
        "{effects:?}"
    );
}

#[test]
fn more_blocks_than_the_head_has_is_reported() {
    let mut state = loaded(80, 24);
    type_keys(&mut state, "/blocks 9<enter>");
    assert_eq!(state.controls.worker.tree.blocks, Setting::Fixed(4));
    let toast = state.toasts.shown().map(|toast| toast.text.as_str());
    assert!(toast.is_some_and(|text| text.ends_with("4, as many as this head has")), "{toast:?}");
}
