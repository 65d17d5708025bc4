//! Controls: budgets, strategies, pauses, the sampler.

use super::*;

#[test]
fn rounds_are_paused_stepped_and_looked_back_through() {
    let mut state = loaded(120, 40);
    type_keys(&mut state, "one<enter><f6>");
    assert!(state.controls.worker.paused);
    assert_eq!(state.controls.worker.steps, 0, "the first step only holds");
    type_keys(&mut state, "<f6><f6>");
    assert_eq!(state.controls.worker.steps, 2);
    let mut events = answer(1, "one two three four five six seven eight nine ten", 16);
    let later = events.split_off(5);
    say_all(&mut state, events);
    type_keys(&mut state, "<f2><tab><left>");
    assert_eq!(state.tree.shown().map(|(at, _)| at), Some(1));
    say(&mut state, later[0].clone());
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
    let told = |effects: &[Effect]| (!effects.is_empty()).then(|| applied(effects).watched);
    for (keys, seen) in [("<f2>", Some(true)), ("<down>", None), ("<f3>", Some(false))] {
        assert_eq!(told(&type_keys(&mut state, keys)), seen, "{keys}");
    }
    for (width, height, seen) in [(120, 40, Some(true)), (200, 50, None), (200, 12, Some(false))] {
        let effects = tell(&mut state, ScreenEvent::Resize(width, height));
        assert_eq!(told(&effects), seen, "{width} {height}");
    }
}

#[test]
fn only_an_answer_on_its_way_is_paused() {
    let mut state = loaded(120, 40);
    for keys in ["<f5>", "<f6>", "<tab> ", "n"] {
        assert!(type_keys(&mut state, keys).is_empty(), "{keys}");
        assert!(!state.controls.worker.paused, "{keys}");
    }
    type_keys(&mut state, "ione<enter><f5>");
    assert!(state.controls.worker.paused);
    answered(&mut state, "First answer.");
    assert!(!state.controls.worker.paused, "the next answer begins by itself");
    type_keys(&mut state, "two<enter><f5><esc>");
    assert!(!applied(&type_keys(&mut state, "three<enter>")).paused);
}

#[test]
fn strategies_are_picked_in_the_middle_of_an_answer() {
    let mut state = typed("one<enter>");
    let effects = type_keys(&mut state, "<f4><tab><down><down><left>");
    assert_eq!(only_applied(&effects).tree.blocks, Setting::Fixed(3));
    type_keys(&mut state, "<f4>");
    assert_eq!(state.strategy(), "dovetail");
    let effects = type_keys(&mut state, "<c-p><down><enter>");
    assert_eq!(only_applied(&effects).strategy.unwrap().name, "eagle2-60");
    // One that cannot run says why and leaves things as they are.
    assert!(type_keys(&mut state, "<c-p><pgdn><enter>").is_empty());
    assert_said(&state, Tone::Wrong, "--rest-text");
    assert_eq!(state.strategy(), "eagle2-60");
    type_keys(&mut state, "<f4><tab>xP");
    assert_eq!((state.strategy(), state.controls.worker.pace), ("pld", 50));
    type_keys(&mut state, "i/strategy plain<enter>/pace 300ms<enter>/overlap on<enter>");
    assert_eq!((state.strategy(), state.controls.worker.pace), ("plain", 300));
    assert!(state.controls.worker.overlap);
    type_keys(&mut state, "/strategy rest<enter>");
    assert!(state.input.is_empty() && state.answering());
}

#[test]
fn a_loaded_model_sets_the_sampler_except_what_the_user_changed() {
    let mut state = unloaded();
    type_keys(&mut state, "/seed 7<enter>");
    let found = SamplerSettings { temperature: 0.6, top_p: 0.9, seed: 3, ..Default::default() };
    let effects =
        say(&mut state, Event::Ready(Box::new(Ready { sampler: Some(found), ..ready() })));
    assert_eq!(only_applied(&effects).sampler, SamplerSettings { seed: 7, ..found });
}
