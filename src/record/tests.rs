//! What is written can be read again, and anything else is refused with its line.

use std::path::Path;
use std::sync::mpsc;

use super::*;
use crate::chat::Role;
use crate::decode::Round;
use crate::overlap::{OutcomeRecord, sequences_for_tests as ahead};
use crate::plan::Setting;
use crate::settings::Settings;
use crate::speculate::Tree;
use crate::worker::{Command, Controls, Event, Job, SharedControls};

/// The first answer in the script.
const HELLO: &str = "Hello! The red fox ran over the hill, and then it slept in the sun.";
const SCRIPT: &str = include_str!("../../tests/scripts/answers.jsonl");

/// A record of two scripted answers.
fn written(folder: &Path) -> String {
    let path = folder.join("record.jsonl");
    let controls = SharedControls::new(crate::worker::Controls::default());
    let recording = Recording::create(&path, &Settings::default(), &controls).unwrap();
    let (sender, events) = mpsc::channel();
    let (sink, tap) = recorded(recording, Box::new(move |event| sender.send(event).is_ok()));
    let worker = Script::parse(SCRIPT).unwrap().play(controls, sink).unwrap().tapped(tap);
    for generation in 1..=2 {
        let messages = vec![Message::new(Role::User, format!("question {generation}"))];
        assert!(worker.send(Command::Generate(Job {
            generation,
            messages,
            max_tokens: 64,
            ..Job::default()
        })));
        let ended = |event: &Event| matches!(event, Event::Finished { .. });
        assert!(events.iter().any(|event| ended(&event)));
    }
    worker.join();
    let again =
        Recording::create(&path, &Settings::default(), &SharedControls::new(Default::default()));
    assert!(matches!(again, Err(RecordError::Exists(_))), "nothing is written over");
    std::fs::read_to_string(path).unwrap()
}

fn read(folder: &Path, text: &str) -> Result<Record, String> {
    let path = folder.join("read.jsonl");
    std::fs::write(&path, text).unwrap();
    Record::read(&path).map_err(|error| error.to_string())
}

#[test]
fn a_record_is_read_as_it_was_written_and_played_again() {
    let folder = tempfile::tempdir().unwrap();
    let text = written(folder.path());
    let record = read(folder.path(), &text).unwrap();
    assert_eq!((record.head.format, record.head.kv.as_str()), (FORMAT, "f32"));
    assert_eq!(record.ready.as_ref().unwrap().target, "scripted 6M");
    let asked: Vec<&str> =
        record.answers.iter().map(|a| a.question.messages[0].content.as_str()).collect();
    assert_eq!(asked, ["question 1", "question 2"]);
    for answer in &record.answers {
        assert!(answer.complete && answer.ended && !answer.turned && !answer.swapped);
        assert_eq!(answer.tokens.len(), answer.texts.len());
        assert!(answer.tokens.len() > 3, "{answer:?}");
    }
    let first = &record.answers[0];
    assert_eq!(first.texts.concat().trim(), HELLO);

    // The replay gives the same.
    let mut tokens = Vec::new();
    for event in replayed(&record, Controls::default()) {
        match event {
            Event::First { token, .. } => tokens.push(token.token),
            Event::Round { round, .. } => tokens.extend(round.committed.iter().map(|c| c.token)),
            _ => {}
        }
    }
    assert_eq!(tokens, first.tokens);
}

/// The events of the first answer of a replay under `controls`.
fn replayed(record: &Record, controls: Controls) -> Vec<Event> {
    let (sender, events) = mpsc::channel();
    let sink = Box::new(move |event| sender.send(event).is_ok());
    let controls = SharedControls::new(controls);
    let worker = Script::of_record(record, true).unwrap().play(controls, sink).unwrap();
    let job = Job { generation: 1, messages: vec![], max_tokens: 1, ..Job::default() };
    assert!(worker.send(Command::Generate(job)));
    let mut all = Vec::new();
    for event in events.iter() {
        let ended = matches!(event, Event::Finished { .. });
        all.push(event);
        if ended {
            break;
        }
    }
    all
}

#[test]
fn a_replay_shows_the_rounds_as_they_were_whatever_is_set() {
    let folder = tempfile::tempdir().unwrap();
    let text = written(folder.path());
    let record = read(folder.path(), &text).unwrap();
    let mut asked = Controls { generation: 1, speculate: false, ..Controls::default() };
    asked.tree.gamma = Setting::Fixed(2);
    let events = replayed(&record, asked);
    let rounds = events.iter().filter_map(|event| match event {
        Event::Round { round, .. } => Some(Line::Round(round.clone())),
        _ => None,
    });
    let first = record.lines.iter().take_while(|line| !matches!(line, Line::Summary { .. }));
    let recorded = first.filter(|line| matches!(line, Line::Round(_))).cloned();
    assert_eq!(rounds.collect::<Vec<_>>(), recorded.collect::<Vec<_>>());
    let sampled = events.iter().find_map(|event| match event {
        Event::Sampled(sampler) => Some(*sampler),
        _ => None,
    });
    assert_eq!(sampled, Some(record.answers[0].question.sampler));
}

#[test]
fn other_files_and_formats_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let text = written(folder.path());
    let other = text.replacen("\"format\":3", "\"format\":9", 1);
    let error = read(folder.path(), &other).unwrap_err();
    assert!(error.contains("format 9") && error.contains("record it again"), "{error}");
    for no_record in ["", "{}", "hello", "{\"type\":\"record\"}", SCRIPT] {
        let error = read(folder.path(), no_record).unwrap_err();
        assert!(error.contains("is not a record"), "{no_record:.20}: {error}");
    }
}

#[test]
fn sequences_are_kept_and_records_without_them_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let text = written(folder.path());
    let old = text.replacen("\"format\":3", "\"format\":1", 1);
    assert_eq!(read(folder.path(), &old).unwrap().head.format, 1);
    let old = text.replacen("\"format\":3", "\"format\":2", 1);
    let old = read(folder.path(), &old).unwrap();
    assert!(old.answers.iter().all(|answer| answer.question.forced.is_empty()));
    // A tail of one token that was accepted, then the first token of the second sequence.
    let mut tree = Tree::root(1);
    tree.push(0, 2, -0.1);
    let lines: Vec<Line> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let Some(Line::Round(first)) = lines.iter().find(|line| matches!(line, Line::Round(_))) else {
        panic!("no round")
    };
    let bonus = first.bonus;
    let round = Round {
        tree,
        accepted: vec![1],
        ahead: Some(ahead(4, &[&[7, 8], &[bonus, 9]], Some(1))),
        ..(**first).clone()
    };
    let line = serde_json::to_string(&Line::Round(Box::new(round.clone()))).unwrap();
    assert_eq!(serde_json::from_str::<Line>(&line).unwrap(), Line::Round(Box::new(round.clone())));
    assert!(round.check_ahead().is_ok());
    assert!(!round.judged_count().unwrap().one_was_enough);
    let broken = Round { accepted: Vec::new(), ..round };
    assert_eq!(broken.judged_count(), None, "the sequences follow a tail that was wrong");
    assert!(broken.check_ahead().is_err());
}

#[test]
fn what_is_cut_off_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let text = written(folder.path());
    let cut = &text[..text.len() - 9];
    let error = read(folder.path(), cut).unwrap_err();
    let last = text.lines().count();
    assert!(error.contains(&format!("read.jsonl:{last}: the file ends in the middle")), "{error}");
    let whole = text.lines().take(last - 1).map(|line| format!("{line}\n"));
    let record = read(folder.path(), &whole.collect::<String>()).unwrap();
    let answer = record.answers.last().unwrap();
    assert!(!answer.ended && !answer.complete && !answer.tokens.is_empty());
    assert!(Script::of_record(&record, true).is_ok());
}

/// A tree of one node that was drafted ahead, for a token other than the round's own.
fn outcome(round: &Round, node: usize, came: bool) -> OutcomeRecord {
    let tree = Tree::root(round.bonus + 1);
    let labels = vec!["x".to_owned()];
    OutcomeRecord { node, log_prob: -0.5, tree, labels, came }
}

#[test]
fn edits_by_hand_are_found_by_line() {
    let folder = tempfile::tempdir().unwrap();
    let text = written(folder.path());
    let lines: Vec<Line> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let at = lines.iter().position(|line| matches!(line, Line::Round(_))).unwrap();
    let Line::Round(round) = &lines[at] else { unreachable!() };
    let edited = |change: fn(&mut Round)| {
        let mut round = round.clone();
        change(&mut round);
        let mut lines = lines.clone();
        lines[at] = Line::Round(round);
        let text: Vec<String> =
            lines.iter().map(|line| serde_json::to_string(line).unwrap()).collect();
        read(folder.path(), &text.join("\n")).unwrap_err()
    };
    let place = format!("read.jsonl:{}: ", at + 1);
    type Edit = fn(&mut Round);
    let edits: [(Edit, &str); 13] = [
        (|r| r.committed[0].token += 1, "committed"),
        (|r| r.index = 7, "round 7 instead of 0"),
        (|r| r.bonus += 1, "committed"),
        (|r| r.accepted.reverse(), "not a child"),
        (|r| r.accepted[0] = 9_999, "not a child"),
        (|r| drop(r.labels.pop()), "labels"),
        (|r| drop(r.committed.pop()), "missing"),
        (|r| r.tree = Tree::root(12_345), "labels"),
        (|r| r.ahead = Some(ahead(3, &[&[7, 8], &[9, 9]], None)), "4 tokens were drafted ahead"),
        (|r| r.ahead = Some(ahead(4, &[&[7, 8], &[]], None)), "no token"),
        (|r| r.outcomes = vec![outcome(r, 99, false)], "not in the round's tree"),
        (|r| r.outcomes = vec![outcome(r, 0, true)], "the round had another one"),
        (
            |r| r.ahead = Some(ahead(4, &[&[r.bonus + 1]], Some(0))),
            "does not follow the accepted \
            tokens",
        ),
    ];
    for (change, words) in edits {
        let error = edited(change);
        assert!(error.contains(&place) && error.contains(words), "{words}: {error}");
    }
    let summed = text.replace("\"type\":\"summary\"", "\"type\":\"summary\",\"x\":1");
    assert!(read(folder.path(), &summed).is_ok(), "what is not known is passed over");
    let twice = format!("{text}{}", text.lines().next().unwrap());
    assert!(read(folder.path(), &twice).unwrap_err().contains("second first line"));
}

/// The messages of the page of a record that has these questions, each answered by the first answer
/// of the script.
fn page_of(questions: &[Question]) -> Vec<(String, String)> {
    let folder = tempfile::tempdir().unwrap();
    let mut record = read(folder.path(), &written(folder.path())).unwrap();
    let is_answer = |line: &Line| matches!(line, Line::First { .. } | Line::Round(_));
    let ends = record.lines.iter().position(|line| matches!(line, Line::Summary { .. })).unwrap();
    let answer: Vec<Line> = record.lines[..ends].iter().filter(|l| is_answer(l)).cloned().collect();
    let asked = questions.iter().map(|question| Line::Question(Box::new(question.clone())));
    record.lines = asked.flat_map(|asked| [vec![asked], answer.clone()].concat()).collect();
    let page = record.page();
    let data = page.split("type=\"application/json\">").nth(1).unwrap();
    let data = data.split("</script>").next().unwrap();
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    let text = |message: &serde_json::Value| -> String {
        let words = message["words"].as_array().unwrap().iter();
        words.map(|word| word["text"].as_str().unwrap()).collect()
    };
    let messages = data["messages"].as_array().unwrap().iter();
    messages.map(|it| (it["role"].as_str().unwrap().to_owned(), text(it))).collect()
}

#[test]
fn a_page_has_each_question_once_whatever_became_of_its_answer() {
    let user = |text: &str| Message::new(Role::User, text);
    let of = |messages: Vec<Message>| Question { messages, ..Question::default() };
    let said = |role: &str, text: &str| (role.to_owned(), text.to_owned());
    let one = || of(vec![user("one")]);
    let goes_on = |text: &str| of(vec![user("one"), Message::new(Role::Assistant, text)]);
    let (once, twice) = (HELLO.to_owned(), HELLO.repeat(2));
    let continued = [one(), goes_on(&once), goes_on(&twice)];
    assert_eq!(page_of(&continued), [said("user", "one"), said("assistant", &HELLO.repeat(3))]);
    // Begun again from its second token, and that continued.
    let folder = tempfile::tempdir().unwrap();
    let record = read(folder.path(), &written(folder.path())).unwrap();
    let begun = record.answers[0].tokens[..2].to_vec();
    let start = record.answers[0].texts[..2].concat();
    let forced = Question { begun, forced: vec![(2, 7)], ..one() };
    let again = format!("{start}{HELLO}");
    let all = [one(), forced.clone(), goes_on(&again)];
    assert_eq!(page_of(&all), [said("user", "one"), said("assistant", &format!("{again}{HELLO}"))]);
    // Answered again, raced and asked more.
    let raced = || Question { race: true, ..one() };
    let more = of(vec![user("one"), Message::new(Role::Assistant, HELLO), user("two")]);
    let answer = || said("assistant", HELLO);
    let (first, second) = (said("user", "one"), said("user", "two"));
    let all = [one(), one(), raced(), raced(), more];
    assert_eq!(page_of(&all), [first, answer(), answer(), second, answer()]);
}
