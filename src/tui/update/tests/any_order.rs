//! Events in any order and at any size.

use proptest::prelude::*;

use super::*;
use crate::tui::tests::{pending, usage};

fn event() -> impl Strategy<Value = ScreenEvent> {
    use KeyCode::*;
    let named = [
        Enter, Esc, Tab, BackTab, Up, Down, Left, Right, Home, End, PageUp, PageDown, Backspace,
        Delete,
    ];
    let codes = prop_oneof![
        prop::char::any().prop_map(Char),
        prop::char::range(' ', '~').prop_map(Char),
        (1u8..13).prop_map(F),
        prop::sample::select(named.to_vec()),
    ];
    let modifiers = prop::sample::select(vec![
        KeyModifiers::NONE,
        KeyModifiers::SHIFT,
        KeyModifiers::CONTROL,
        KeyModifiers::ALT,
    ]);
    let key = (codes, modifiers).prop_map(|(code, m)| ScreenEvent::Key(KeyEvent::new(code, m)));
    let answer = (0u64..5, "[a-z`*#>|&;👩日é\u{301}\\- \n]{1,60}", 1usize..65, 0usize..20)
        .prop_filter_map("an event", |(generation, text, nodes, at)| {
            answer(generation, &text, nodes).into_iter().nth(at).map(ScreenEvent::Worker)
        });
    let size = prop_oneof![
        (0u16..4, 0u16..4),
        (1u16..60, 1u16..20),
        Just((80, 24)),
        Just((120, 40)),
        Just((200, 50)),
        (0u16..250, 0u16..3),
    ];
    prop_oneof![
        6 => key,
        2 => answer,
        1 => ".{0,20}".prop_map(ScreenEvent::Paste),
        1 => "/[a-z-]{0,6} ?[a-z0-9.]{0,4}".prop_map(ScreenEvent::Paste),
        1 => size.prop_map(|(w, h)| ScreenEvent::Resize(w, h)),
        1 => any::<i8>().prop_map(ScreenEvent::Wheel),
        1 => prop::sample::select(vec![
            ScreenEvent::Worker(Event::Ready(Box::new(ready()))),
            ScreenEvent::Worker(Event::Failed { generation: None, error: "x".repeat(300) }),
            ScreenEvent::Worker(Event::Loading { stage: "read".into(), fraction: Some(f32::NAN) }),
            ScreenEvent::WorkerGone(None),
            ScreenEvent::Usage(usage()),
            ScreenEvent::Loaded(Ok(vec![saved("a\tb", false)].into())),
            ScreenEvent::Failed("no folder".into()),
            ScreenEvent::Worker(Event::LoadProgress {
                load: 1,
                stage: "reading".into(),
                fraction: Some(f32::NAN),
            }),
            ScreenEvent::Worker(pending(1, 0)),
            ScreenEvent::Worker(pending(2, 3)),
            ScreenEvent::Worker(Event::Unloaded { load: 1, reason: "no room".into() }),
            ScreenEvent::Worker(Event::Swapped { load: 1, ready: Box::new(ready()) }),
            ScreenEvent::Worker(Event::NotSwapped { load: 1, error: Some("x".repeat(300)) }),
            ScreenEvent::Models { part: ModelPart::Target, rows: Vec::new() },
            ScreenEvent::Tick,
        ]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Nothing that can happen, in any order and at any size, breaks the screen.
    #[test]
    fn no_sequence_of_events_breaks_the_screen(
        events in prop::collection::vec(event(), 1..60),
    ) {
        let mut state = loaded(80, 24);
        state.controls.worker.generation = 0;
        for (at, event) in events.into_iter().enumerate() {
            update(&mut state, event, Duration::from_millis(at as u64 * 200));
            drawn(&mut state);
        }
    }
}
