use crossterm::event::{KeyCode, KeyModifiers};
use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::*;
use crate::chat::{Message as Said, Role};
use crate::speculate::SamplerSettings;
use crate::tui::keymap::{BINDINGS, lookup};
use crate::tui::state::{Outcome, Side};
use crate::tui::testing::{answer, loaded, model, say, type_keys};
use crate::tui::view;
use crate::worker::{Job, Setting};

fn job(effects: &[Effect]) -> &Job {
    match effects.iter().find(|effect| matches!(effect, Effect::Send(_))) {
        Some(Effect::Send(Command::Generate(job))) => job,
        _ => panic!("nothing was sent: {effects:?}"),
    }
}

fn texts(model: &Model) -> Vec<(Role, String)> {
    model.chat.turns().iter().map(|turn| (turn.role, turn.text.clone())).collect()
}

#[test]
fn controls_are_applied_before_a_question_is_sent() {
    let mut model = loaded(80, 24);
    let effects = type_keys(&mut model, "hello<enter>");
    assert!(matches!(&effects[0], Effect::Apply(controls) if controls.generation == 1));
    let sent = job(&effects);
    assert_eq!((sent.generation, sent.max_tokens), (1, 512));
    assert_eq!(sent.messages.len(), 1);
    assert!(model.input.is_empty());
    for event in answer(1, "Once upon a time there was a fox.", 16) {
        say(&mut model, event);
    }
    assert_eq!(texts(&model)[1].1, "Once upon a time there was a fox.");
    assert_eq!(model.phase, Phase::Idle);
    let sent = type_keys(&mut model, "more<enter>");
    assert_eq!(job(&sent).messages.len(), 3);
}

#[test]
fn characters_that_come_together_do_what_they_do_one_by_one() {
    // In the message, in a panel, where `g` and `?` are keys, and in the help that opens there.
    for before in ["", "<tab>"] {
        let keys: Vec<KeyEvent> = "Ag G?qé日 /x"
            .chars()
            .map(|c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE))
            .collect();
        let (mut one, mut all) = (loaded(120, 36), loaded(120, 36));
        type_keys(&mut one, before);
        type_keys(&mut all, before);
        for key in &keys {
            update(&mut one, Message::Key(*key), Duration::ZERO);
        }
        update(&mut all, Message::Typed(keys), Duration::ZERO);
        let state = |model: &Model| {
            let lines = model.input.area().lines().to_vec();
            (lines, model.controls.tree, model.focus, format!("{:?}", model.overlay))
        };
        assert_eq!(state(&all), state(&one), "{before:?}");
    }
}

#[test]
fn late_events_of_a_stopped_answer_are_dropped() {
    let mut model = loaded(80, 24);
    type_keys(&mut model, "one<enter>");
    let events = answer(1, "This answer is not wanted any more after a while.", 16);
    for event in &events[..3] {
        say(&mut model, event.clone());
    }
    let effects = type_keys(&mut model, "<esc>");
    assert!(matches!(&effects[0], Effect::Apply(controls) if controls.generation == 2));
    assert!(matches!(&effects[1], Effect::Save { .. }));
    let before = texts(&model);
    for event in &events[3..] {
        say(&mut model, event.clone());
    }
    assert_eq!(texts(&model), before);
    assert!(matches!(model.chat.turns()[1].outcome, Some(Outcome::Stopped { .. })));
    // The next answer is not disturbed by what is left of the first.
    type_keys(&mut model, "two<enter>");
    say(&mut model, events[3].clone());
    assert_eq!(texts(&model)[3].1, "");
    for event in answer(model.generation(), "Wanted.", 4) {
        say(&mut model, event);
    }
    assert_eq!(texts(&model)[3].1, "Wanted.");
}

#[test]
fn a_failed_question_returns_to_the_input() {
    let mut model = loaded(80, 24);
    type_keys(&mut model, "a very long question<enter>");
    let error = "the prompt has 3,000 tokens, the context 2,048: shorten it".to_string();
    say(&mut model, Event::Failed { generation: Some(1), error: error.clone() });
    assert_eq!(model.input.text(), "a very long question");
    assert!(model.chat.turns().is_empty());
    assert!(matches!(&model.overlay, Some(Overlay::Error { text, .. }) if *text == error));
    // What was written meanwhile is not overwritten.
    type_keys(&mut model, "<esc><enter>");
    type_keys(&mut model, "next");
    say(&mut model, Event::Failed { generation: Some(2), error });
    assert_eq!(model.input.text(), "next");
    assert_eq!(texts(&model), [(Role::User, "a very long question".to_string())]);
}

#[test]
fn a_question_that_does_not_fit_the_context_changes_nothing() {
    let mut model = loaded(80, 24);
    type_keys(&mut model, "one<enter>");
    for event in answer(1, "First answer, which is here to stay.", 8) {
        say(&mut model, event);
    }
    let shown = |model: &Model| {
        let meters = &model.meters;
        (model.rounds.len(), meters.tokens(), meters.rounds(), meters.context(), texts(model))
    };
    let before = shown(&model);
    type_keys(&mut model, "more<enter>");
    assert!(model.rounds.is_empty());
    say(&mut model, Event::Prefill { generation: 2, done: 0, total: 2100 });
    let error = "the prompt has 2100 tokens, the context holds 2048".to_string();
    say(&mut model, Event::Failed { generation: Some(2), error });
    assert_eq!(shown(&model), before);
    assert_eq!(model.input.text(), "more");
    let Some(Overlay::Error { text, .. }) = &model.overlay else { panic!("nothing is said") };
    for words in ["2100", "2048", "/new", "/save", "--context", "8192"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // One that is stopped before its first token costs as little.
    type_keys(&mut model, "<esc><enter><esc>");
    assert_eq!((shown(&model), model.input.text()), (before, "more".to_string()));
    // Once the new answer has begun, the old tree is gone for good.
    type_keys(&mut model, "<enter>");
    let generation = model.generation();
    for event in answer(generation, "Second answer.", 8).into_iter().take(2) {
        say(&mut model, event);
    }
    type_keys(&mut model, "<esc>");
    assert!(model.rounds.is_empty() && model.meters.tokens() == 1);
}

#[test]
fn a_message_is_sent_as_it_was_typed() {
    let mut model = loaded(80, 24);
    for (typed, wanted) in
        [("    indented  ", "    indented"), (" /new is a command", "/new is a command")]
    {
        let effects = type_keys(&mut model, &format!("{typed}<enter>"));
        assert_eq!(job(&effects).messages.last().unwrap().content, wanted);
        type_keys(&mut model, "<esc><c-u>");
    }
}

#[test]
fn tokens_are_counted_once() {
    let mut model = loaded(80, 24);
    type_keys(&mut model, "one<enter>");
    let events = answer(1, "A fox is a small wild animal with a bushy tail.", 16);
    let Some(Event::Finished { summary, .. }) = events.last().cloned() else { panic!() };
    for event in &events[..events.len() - 1] {
        say(&mut model, event.clone());
    }
    let (tokens, tau) = (model.meters.tokens(), model.meters.tau());
    assert_eq!((tokens, model.meters.rounds()), (summary.tokens, summary.rounds));
    assert!((tau - summary.tau).abs() < 1e-9);
    say(&mut model, events[events.len() - 1].clone());
    assert_eq!(model.meters.tokens(), tokens);
    let mut terminal = Terminal::new(TestBackend::new(200, 50)).unwrap();
    let said = terminal.draw(|frame| view::draw(frame, &mut model)).unwrap().buffer.clone();
    let said: String = said.content.iter().map(|cell| cell.symbol()).collect();
    assert!(said.contains(&format!("{tokens} tokens ·")), "{said}");
    assert!(said.contains(&format!("tokens {tokens}  rounds {}", summary.rounds)), "{said}");
}

#[test]
fn a_question_stopped_before_its_first_token_can_be_edited() {
    let mut model = loaded(80, 24);
    type_keys(&mut model, "one<enter><esc>");
    assert_eq!(model.input.text(), "one");
    assert!(model.chat.turns().is_empty());
    // Written over meanwhile, it stays in the conversation and goes along with the next.
    type_keys(&mut model, "<enter>two<esc>");
    assert_eq!(model.input.text(), "two");
    let effects = type_keys(&mut model, "<enter>");
    assert_eq!(job(&effects).messages.len(), 1);
    assert_eq!(job(&effects).messages[0].content, "one\n\ntwo");
}

#[test]
fn an_answer_that_fails_half_way_keeps_its_text() {
    let mut model = loaded(80, 24);
    type_keys(&mut model, "go<enter>");
    for event in &answer(1, "Half of an answer is better than none.", 8)[..3] {
        say(&mut model, event.clone());
    }
    say(&mut model, Event::Failed { generation: Some(1), error: "device lost".to_string() });
    assert!(!texts(&model)[1].1.is_empty());
    assert_eq!(model.chat.turns()[1].outcome, Some(Outcome::Failed));
}

#[test]
fn typing_goes_on_while_an_answer_comes_but_sending_waits() {
    let mut model = loaded(80, 24);
    type_keys(&mut model, "one<enter>");
    let effects = type_keys(&mut model, "two<enter>");
    assert!(effects.is_empty());
    assert_eq!(model.input.text(), "two");
}

#[test]
fn controls_act_in_the_middle_of_an_answer() {
    let mut model = loaded(80, 24);
    type_keys(&mut model, "one<enter>");
    let effects = type_keys(&mut model, "<a-up>");
    assert!(
        matches!(
            &effects[..],
            [Effect::Apply(controls)] if controls.tree.gamma == Setting::Fixed(17)
        ),
        "{effects:?}"
    );
    let effects = type_keys(&mut model, "<f4><down><down><left>");
    assert!(
        matches!(
            &effects[..],
            [Effect::Apply(controls)] if controls.tree.blocks == Setting::Fixed(3)
        ),
        "{effects:?}"
    );
    let effects = type_keys(&mut model, "<f8>");
    assert!(matches!(&effects[..], [Effect::Apply(controls)]
        if controls.tree.gamma == Setting::Auto && controls.tree.blocks == Setting::Auto));
    let effects = type_keys(&mut model, "<f7>");
    assert!(matches!(&effects[..], [Effect::Apply(controls)] if !controls.speculate));
    assert!(model.answering());
}

#[test]
fn rounds_are_paused_stepped_and_looked_back_through() {
    let mut model = loaded(120, 40);
    type_keys(&mut model, "one<enter>");
    type_keys(&mut model, "<f6>");
    assert!(model.controls.paused);
    assert_eq!(model.controls.steps, 0, "the first step only holds");
    type_keys(&mut model, "<f6><f6>");
    assert_eq!(model.controls.steps, 2);
    let events = answer(1, "one two three four five six seven eight nine ten", 16);
    for event in &events[..5] {
        say(&mut model, event.clone());
    }
    type_keys(&mut model, "<f2><left>");
    assert_eq!(model.rounds.shown().map(|(at, _)| at), Some(1));
    say(&mut model, events[5].clone());
    assert_eq!(model.rounds.shown().map(|(at, _)| at), Some(1), "looking back stays put");
    type_keys(&mut model, "<right><right><right>");
    assert!(model.rounds.live());
    type_keys(&mut model, " ");
    assert!(!model.controls.paused);
}

#[test]
fn only_an_answer_on_its_way_is_paused() {
    let mut model = loaded(120, 40);
    for keys in ["<f5>", "<f6>", "<f2> ", "n"] {
        assert!(type_keys(&mut model, keys).is_empty(), "{keys}");
        assert!(!model.controls.paused, "{keys}");
    }
    type_keys(&mut model, "ione<enter><f5>");
    assert!(model.controls.paused);
    for event in answer(1, "First answer.", 8) {
        say(&mut model, event);
    }
    assert!(!model.controls.paused, "the next answer begins by itself");
    type_keys(&mut model, "two<enter><f5><esc>");
    let effects = type_keys(&mut model, "three<enter>");
    assert!(matches!(&effects[..], [Effect::Apply(controls), ..] if !controls.paused));
}

#[test]
fn regenerating_moves_the_seed_only_when_sampling() {
    let mut model = loaded(80, 24);
    assert!(type_keys(&mut model, "<c-r>").is_empty());
    type_keys(&mut model, "one<enter>");
    for event in answer(1, "First answer.", 8) {
        say(&mut model, event);
    }
    let effects = type_keys(&mut model, "<c-r>");
    assert_eq!(job(&effects).messages.len(), 1);
    assert_eq!(model.controls.sampler.seed, 0);
    for event in answer(2, "First answer.", 8) {
        say(&mut model, event);
    }
    type_keys(&mut model, "/temperature 0.8<enter><c-r>");
    assert_eq!(model.controls.sampler.seed, 1);
    assert_eq!(model.chat.turns().len(), 2);
}

#[test]
fn an_answer_survives_a_regeneration_without_tokens() {
    let mut model = loaded(80, 24);
    type_keys(&mut model, "one<enter>");
    for event in answer(1, "First answer.", 8) {
        say(&mut model, event);
    }
    for end in ["<esc>", "failed"] {
        type_keys(&mut model, "<c-r>");
        assert_eq!(model.chat.last_answer(), None);
        let generation = model.generation();
        let effects = if end == "failed" {
            let error = "the device is lost".to_string();
            say(&mut model, Event::Failed { generation: Some(generation), error })
        } else {
            type_keys(&mut model, end)
        };
        assert_eq!(model.chat.last_answer(), Some("First answer."), "{end}");
        assert!(model.input.is_empty(), "the question is answered");
        let saved = effects
            .iter()
            .any(|effect| matches!(effect, Effect::Save { turns, .. } if turns.len() == 2));
        assert!(saved, "{end}: {effects:?}");
        model.overlay = None;
    }
    // Once it says something else, that stands.
    type_keys(&mut model, "<c-r>");
    let generation = model.generation();
    for event in answer(generation, "Second answer.", 8).into_iter().take(2) {
        say(&mut model, event);
    }
    type_keys(&mut model, "<esc>");
    assert_eq!(model.chat.last_answer(), Some("Second"));
}

#[test]
fn commands_set_what_they_name_and_keep_their_text_when_wrong() {
    let mut model = loaded(80, 24);
    type_keys(&mut model, "/gamma 24<enter>");
    assert_eq!(model.controls.tree.gamma, Setting::Fixed(24));
    type_keys(&mut model, "/gamma auto<enter>");
    assert_eq!(model.controls.tree.gamma, Setting::Auto);
    type_keys(&mut model, "/top-p 0.9<enter>/max-tokens 9<enter>");
    assert_eq!(model.controls.sampler.top_p, 0.9);
    assert_eq!(model.max_tokens, 9);
    type_keys(&mut model, "/system Be brief.<enter>");
    assert_eq!(model.chat.system.as_deref(), Some("Be brief."));
    type_keys(&mut model, "/gamma 999<enter>");
    assert_eq!(model.input.text(), "/gamma 999");
    assert!(model.toast.as_ref().is_some_and(|toast| toast.error && toast.text.contains("128")));
    type_keys(&mut model, "<c-u>/mouse<enter>");
    assert!(model.mouse);
}

#[test]
fn strategies_are_picked_in_the_middle_of_an_answer() {
    let mut model = loaded(80, 24);
    type_keys(&mut model, "one<enter>");
    assert_eq!(model.strategy(), "dovetail");
    let effects = type_keys(&mut model, "<c-p><down><enter>");
    assert!(
        matches!(&effects[..], [Effect::Apply(controls)]
            if controls.strategy.is_some_and(|strategy| strategy.name == "eagle2-60")),
        "{effects:?}"
    );
    // One that cannot run says why and leaves things as they are.
    assert!(type_keys(&mut model, "<c-p><pgdn><enter>").is_empty());
    let toast = model.toast.as_ref().unwrap();
    assert!(toast.error && toast.text.contains("--rest-text"), "{toast:?}");
    assert_eq!(model.strategy(), "eagle2-60");
    type_keys(&mut model, "<f4>x");
    assert_eq!(model.strategy(), "pld");
    type_keys(&mut model, "P");
    assert_eq!(model.controls.pace, 50);
    type_keys(&mut model, "i/strategy plain<enter>/pace 300ms<enter>/overlap on<enter>");
    assert_eq!((model.strategy(), model.controls.pace), ("plain", 300));
    assert!(model.controls.overlap);
    type_keys(&mut model, "/strategy rest<enter>");
    assert_eq!(model.input.text(), "/strategy rest");
    assert!(model.answering());
}

#[test]
fn a_new_conversation_keeps_the_old_one_saved() {
    let mut model = loaded(80, 24);
    type_keys(&mut model, "one<enter>");
    let effects = type_keys(&mut model, "/new<enter>");
    let save = effects
        .iter()
        .position(|effect| matches!(effect, Effect::Save { turns, .. } if turns.len() == 1));
    let forget = effects.iter().position(|effect| *effect == Effect::Forget);
    assert!(save.is_some() && save < forget, "{effects:?}");
    assert!(model.chat.turns().is_empty());
    assert_eq!(model.phase, Phase::Idle);
}

#[test]
fn every_way_out_saves_first() {
    for way in ["<c-c>", "<c-q>", "/quit<enter>"] {
        let mut model = loaded(80, 24);
        type_keys(&mut model, "one<enter>");
        let effects = type_keys(&mut model, way);
        assert_eq!(effects.last(), Some(&Effect::Quit), "{way}");
        assert!(effects.iter().any(|effect| matches!(effect, Effect::Save { .. })), "{way}");
    }
    let mut model = loaded(80, 24);
    let now = model.now;
    assert_eq!(update(&mut model, Message::Terminate, now).last(), Some(&Effect::Quit));
}

#[test]
fn a_lost_decode_thread_is_reported_once_and_saved() {
    let mut model = loaded(80, 24);
    type_keys(&mut model, "one<enter>");
    let now = model.now;
    let effects = update(&mut model, Message::WorkerGone(Some("boom".to_string())), now);
    assert!(matches!(&effects[..], [Effect::Save { .. }]));
    assert!(matches!(&model.overlay, Some(Overlay::Error { text, .. }) if text.contains("boom")));
    model.overlay = None;
    assert!(update(&mut model, Message::WorkerGone(None), now).is_empty());
    type_keys(&mut model, "two<enter>");
    assert_eq!(model.input.text(), "two");
}

#[test]
fn the_screen_can_be_redrawn() {
    let mut model = loaded(80, 24);
    assert_eq!(type_keys(&mut model, "<c-l>"), [Effect::Redraw]);
}

#[test]
fn history_begins_above_the_first_row_of_the_screen() {
    let mut model = loaded(40, 24);
    type_keys(&mut model, "one<enter>");
    let long = "a message that is long enough to be wrapped into two rows";
    type_keys(&mut model, long);
    let mut terminal = Terminal::new(TestBackend::new(40, 24)).unwrap();
    terminal.draw(|frame| view::draw(frame, &mut model)).unwrap();
    type_keys(&mut model, "<up>");
    assert_eq!(model.input.text(), long);
    type_keys(&mut model, "<up>");
    assert_eq!(model.input.text(), "one");
    type_keys(&mut model, "<down>");
    assert_eq!(model.input.text(), long);
}

#[test]
fn passing_lines_pass() {
    let mut model = loaded(80, 24);
    say(&mut model, Event::Notice("the GPU is lost: drafting on the CPU".to_string()));
    let deadline = model.deadline().unwrap();
    update(&mut model, Message::Tick, deadline - Duration::from_millis(1));
    assert!(model.toast.is_some());
    update(&mut model, Message::Tick, deadline);
    assert!(model.toast.is_none() && model.deadline().is_none());
}

#[test]
fn narrow_panels_open_and_close_by_the_same_key() {
    let mut model = loaded(80, 24);
    type_keys(&mut model, "<f2>");
    assert_eq!((model.side, model.focus), (Some(Side::Tree), Focus::Tree));
    type_keys(&mut model, "<f3>");
    assert_eq!((model.side, model.focus), (Some(Side::Meters), Focus::Meters));
    type_keys(&mut model, "i<f3>");
    assert_eq!(model.focus, Focus::Meters);
    type_keys(&mut model, "<f3>");
    assert_eq!((model.side, model.focus), (None, Focus::Input));
}

#[test]
fn suggestions_complete_and_run() {
    let mut model = loaded(80, 24);
    type_keys(&mut model, "/ga<tab>");
    assert_eq!(model.input.text(), "/gamma ");
    type_keys(&mut model, "<c-u>/sta<enter>");
    assert_eq!(model.overlay, Some(Overlay::Details));
    type_keys(&mut model, "<esc>/<down><down><enter>");
    assert_eq!(model.input.text(), "/load ");
}

/// A question; with `interrupted`, an answer that lacks its end.
fn saved(content: &str, interrupted: bool) -> SavedTurn {
    let role = if interrupted { Role::Assistant } else { Role::User };
    SavedTurn { message: Said { role, content: content.into() }, interrupted }
}

#[test]
fn a_question_is_saved_before_its_answer_comes() {
    let mut model = loaded(80, 24);
    let effects = type_keys(&mut model, "Remember me<enter>");
    assert!(matches!(effects.last(), Some(Effect::Save { turns, .. }) if turns.len() == 1));
    // Giving an answer anew leaves the one there is on the disk until it has been replaced.
    for event in answer(1, "An answer.", 8) {
        say(&mut model, event);
    }
    let effects = type_keys(&mut model, "<c-r>");
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Save { .. })), "{effects:?}");
}

#[test]
fn an_interrupted_answer_is_marked_until_it_is_regenerated() {
    let mut model = loaded(80, 24);
    for way in ["<esc>", "/new<enter>", "<c-q>"] {
        type_keys(&mut model, "go<enter>");
        let generation = model.generation();
        for event in &answer(generation, "Half of an answer is better than none.", 8)[..3] {
            say(&mut model, event.clone());
        }
        let effects = type_keys(&mut model, way);
        let marked = effects.iter().any(|effect| {
            matches!(effect, Effect::Save { turns, .. }
                if turns.last().is_some_and(|turn| turn.interrupted))
        });
        assert!(marked, "{way}: {effects:?}");
    }
    let turns = vec![saved("go", false), saved("Half of", true)];
    let now = model.now;
    update(&mut model, Message::Loaded(Ok(turns.clone())), now);
    assert_eq!(model.chat.turns()[1].outcome, Some(Outcome::Interrupted));
    assert_eq!(model.chat.saved_turns(), turns, "the mark stays in the file");
    type_keys(&mut model, "<c-r>");
    for event in answer(model.generation(), "All of it.", 8) {
        say(&mut model, event);
    }
    assert!(model.chat.saved_turns().iter().all(|turn| !turn.interrupted));
}

#[test]
fn continuing_in_a_copy_is_reported() {
    let mut model = loaded(80, 24);
    let saved = Saved { path: "a.json".into(), copied: true };
    let now = model.now;
    update(&mut model, Message::Saved { asked: false, result: Ok(saved) }, now);
    let toast = model.toast.unwrap();
    assert!(toast.text.contains("another window") && toast.text.contains("copy"), "{toast:?}");
    assert!(toast.text.chars().count() < 80);
}

fn message() -> impl Strategy<Value = Message> {
    let codes = prop_oneof![
        prop::char::any().prop_map(KeyCode::Char),
        "[ -~]".prop_map(|s| KeyCode::Char(s.chars().next().unwrap_or('a'))),
        (1u8..13).prop_map(KeyCode::F),
        prop::sample::select(vec![
            KeyCode::Enter,
            KeyCode::Esc,
            KeyCode::Tab,
            KeyCode::BackTab,
            KeyCode::Up,
            KeyCode::Down,
            KeyCode::Left,
            KeyCode::Right,
            KeyCode::Home,
            KeyCode::End,
            KeyCode::PageUp,
            KeyCode::PageDown,
            KeyCode::Backspace,
            KeyCode::Delete,
        ]),
    ];
    let modifiers = prop::sample::select(vec![
        KeyModifiers::NONE,
        KeyModifiers::SHIFT,
        KeyModifiers::CONTROL,
        KeyModifiers::ALT,
    ]);
    let key = (codes, modifiers).prop_map(|(code, m)| Message::Key(KeyEvent::new(code, m)));
    let answer = (0u64..5, "[a-z`*#>|&;👩日é\u{301}\\- \n]{1,60}", 1usize..65, 0usize..20)
        .prop_filter_map("an event", |(generation, text, nodes, at)| {
            answer(generation, &text, nodes).into_iter().nth(at).map(Message::Worker)
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
        1 => ".{0,20}".prop_map(Message::Paste),
        1 => "/[a-z-]{0,6} ?[a-z0-9.]{0,4}".prop_map(Message::Paste),
        1 => size.prop_map(|(w, h)| Message::Resize(w, h)),
        1 => any::<i8>().prop_map(Message::Wheel),
        1 => prop::sample::select(vec![
            Message::Worker(Event::Ready(Box::new(crate::tui::testing::ready()))),
            Message::Worker(Event::Failed { generation: None, error: "x".repeat(300) }),
            Message::Worker(Event::Loading { stage: "reading".into(), fraction: Some(f32::NAN) }),
            Message::WorkerGone(None),
            Message::Usage(crate::tui::testing::usage()),
            Message::Loaded(Ok(vec![saved("a\tb", false)])),
            Message::Sessions(Err("no folder".into())),
            Message::Tick,
        ]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Nothing that can happen, in any order and at any size, breaks the screen.
    #[test]
    fn no_sequence_of_messages_breaks_the_screen(
        messages in prop::collection::vec(message(), 1..60),
    ) {
        let mut model = loaded(80, 24);
        model.controls.generation = 0;
        for (at, message) in messages.into_iter().enumerate() {
            update(&mut model, message, Duration::from_millis(at as u64 * 200));
            let (width, height) = model.size;
            let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            terminal.draw(|frame| view::draw(frame, &mut model)).unwrap();
        }
    }
}

#[test]
fn every_key_of_the_table_is_reached_somewhere() {
    // A row that another row hides would make the help untrue.
    let mut reached = vec![false; BINDINGS.len()];
    let mut models = Vec::new();
    for focus in [Focus::Input, Focus::Chat, Focus::Tree, Focus::Meters, Focus::Controls] {
        let mut model = loaded(80, 24);
        model.focus = focus;
        models.push(model);
    }
    let mut completing = loaded(80, 24);
    completing.input.set("/");
    models.push(completing);
    let mut helped = model();
    helped.overlay = Some(Overlay::Details);
    models.push(helped);
    for model in &models {
        for (at, row) in BINDINGS.iter().enumerate() {
            reached[at] |=
                row.keys.iter().all(|key| lookup(model, &key.event()) == Some(row.action));
        }
    }
    for (row, reached) in BINDINGS.iter().zip(reached) {
        assert!(reached, "{:?} {:?} is hidden", row.scope, row.action);
    }
}

#[test]
fn a_loaded_model_sets_the_sampler_except_what_the_user_changed() {
    let mut model = model();
    type_keys(&mut model, "/seed 7<enter>");
    let mut ready = crate::tui::testing::ready();
    let found = SamplerSettings { temperature: 0.6, top_p: 0.9, seed: 3, ..Default::default() };
    ready.sampler = Some(found);
    let effects = say(&mut model, Event::Ready(Box::new(ready)));
    let expected = SamplerSettings { seed: 7, ..found };
    assert!(
        matches!(&effects[..], [Effect::Apply(controls)] if controls.sampler == expected),
        "{effects:?}"
    );
}

#[test]
fn more_blocks_than_the_head_has_is_reported() {
    let mut model = loaded(80, 24);
    type_keys(&mut model, "/blocks 9<enter>");
    assert_eq!(model.controls.tree.blocks, Setting::Fixed(4));
    let toast = model.toast.as_ref().map(|toast| toast.text.as_str());
    assert!(toast.is_some_and(|text| text.ends_with("4, as many as this head has")), "{toast:?}");
}
