//! Records from outside: written by `run --record`, checked by `verify`.

use dovetail::chat::{Given, Message, Role};
use dovetail::speculate::SamplerSettings;
use serde_json::{Value, json};

use crate::support::chat::saved;
use crate::support::program::{Home, assert_has, ends};

/// A record of the bundled pair's answer, and its text.
fn recorded(home: &Home, flags: &[&str]) -> (String, String) {
    let path = home.path().join("record.jsonl");
    let path = path.to_str().unwrap();
    let ask = ["run", "Tell me about a river.", "--max-tokens", "24", "--record", path];
    home.ran(0, &[&ask[..], flags].concat());
    (path.to_owned(), std::fs::read_to_string(path).unwrap())
}

#[test]
fn a_recorded_answer_is_the_target_s_own() {
    let home = Home::new();
    let (path, text) = recorded(&home, &["--temperature", "0.9", "--seed", "5", "--gamma", "8"]);
    assert_has(&home.ran(0, &["verify", &path]).0, &["answer 1: all", "The answer is"]);
    home.refuses(1, &["run", "Hello", "--record", &path], &["already exists"]);

    let lines: Vec<&str> = text.lines().collect();
    let unfinished = lines[..lines.len() - 1].join("\n");
    for (changed, code, says, fails) in [
        // Another question has another answer: the record then claims a text that was not
        // generated.
        (text.replacen("about a river", "about a shoe", 1), 1, "is not the target's:", "1 of 1"),
        (text.replacen("\"format\":3", "\"format\":9", 1), 2, "", ""),
        (unfinished, 1, "(the record ends there)", ""),
        (text[..text.len() - 20].to_owned(), 2, "", "in the middle of a line"),
    ] {
        assert_ne!(changed, text);
        std::fs::write(&path, changed).unwrap();
        let (out, err) = home.ran(code, &["verify", &path]);
        assert_has(&out, &[says]);
        assert_has(&err, &[fails]);
        assert_eq!(out.is_empty(), code == 2);
    }
}

/// What `verify` says of a saved conversation: it must end with `code`, and print `says`.
#[track_caller]
fn verified(home: &Home, session: Value, flags: &[&str], code: i32, says: &str) -> String {
    let path = home.path().join("session.json");
    let mut file = json!({"title": "x", "created": 1, "updated": 9, "target": ""});
    file.as_object_mut().unwrap().extend(session.as_object().unwrap().clone());
    std::fs::write(&path, file.to_string()).unwrap();
    let (out, err) = home.ran(code, &[&["verify", path.to_str().unwrap()], flags].concat());
    assert_has(&out, &[says]);
    err
}

const RIVER: &str = "Tell me about a river.";
const SUN: &str = "What is the sun?";

fn answer(home: &Home, question: &str, flags: &[&str]) -> String {
    home.ran(0, &[&["run", question], flags].concat()).0.trim().to_owned()
}

/// What a file says of an answer to these messages, of which `forgotten` came before in the file.
fn given(forgotten: usize, asked: &[(Role, &str)]) -> Value {
    let asked: Vec<Message> = asked.iter().map(|&(role, text)| Message::new(role, text)).collect();
    json!(Given::new(forgotten, &asked, None, SamplerSettings::default()))
}

#[test]
fn a_conversation_is_checked_by_its_text() {
    let home = Home::new();
    let cut = answer(&home, RIVER, &["--max-tokens", "16"]);
    let whole = answer(&home, RIVER, &["--max-tokens", "400"]);
    assert!(whole.len() > cut.len(), "{whole}");
    let given = given(0, &[(Role::User, RIVER)]);
    for (said, given, interrupted, code, says) in [
        // The limit cut it off, and nothing in the file says so.
        (cut.clone(), &given, false, 0, "the target's own (it was cut off there)"),
        (cut.chars().take(4).collect(), &given, true, 0, "the target's own (it was stopped there)"),
        (format!("{cut} Indeed."), &given, false, 1, "is not what the target says"),
        // Continued after the limit, to the end.
        (whole.clone(), &given, false, 0, "characters are the target's own\n"),
        (format!("{whole} Indeed."), &given, false, 1, "is not what the target says"),
        (whole.clone(), &Value::Null, false, 1, "not checked: the file does not say how"),
    ] {
        let session = json!({"messages": [
            {"role": "user", "content": RIVER, "at": 1},
            {"role": "assistant", "content": said, "at": 1, "interrupted": interrupted,
             "given": given},
        ]});
        verified(&home, session, &[], code, says);
    }
}

#[test]
fn what_the_chat_saved_can_be_checked() {
    let home = Home::new();
    let flags = ["--temperature", "0.9", "--seed", "3", "--max-tokens", "24"];
    let mut chat = home.command(&[&["chat", "--plain-screen"], &flags[..]].concat());
    ends(0, chat.write_stdin(format!("{RIVER}\n{SUN}\n/quit\n")));
    let all = saved(home.path());
    let conversation = &all[all.find("{\n  \"title\"").unwrap()..];
    let conversation = serde_json::Deserializer::from_str(conversation).into_iter::<Value>().next();
    let path = home.path().join("copy.txt");
    std::fs::write(&path, conversation.unwrap().unwrap().to_string()).unwrap();
    let path = path.to_str().unwrap();
    let (out, _) = home.ran(0, &["verify", path]);
    assert_has(&out, &["All 2 answers are"]);
    // With the model that the conversation names.
    let mut moved: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    moved["models"] = json!({"target": "/no-such.gguf"});
    std::fs::write(path, moved.to_string()).unwrap();
    home.refuses(3, &["verify", path], &["/no-such.gguf"]);
    home.ran(0, &["verify", path, "--target", "bundled"]);
}

#[test]
fn every_answer_is_checked_with_its_own_sampler() {
    let home = Home::new();
    let sampler = SamplerSettings { temperature: 0.9, seed: 7, ..SamplerSettings::default() };
    let flags = ["--temperature", "0.9", "--seed", "7", "--max-tokens", "24"];
    let said = answer(&home, RIVER, &flags);
    let asked = [Message::new(Role::User, RIVER)];
    for (seed, code, says) in [(7, 0, "own"), (3, 1, "is not what the target says")] {
        let given = Given::new(0, &asked, None, SamplerSettings { seed, ..sampler });
        let session = json!({"messages": [
            {"role": "user", "content": RIVER, "at": 1},
            {"role": "assistant", "content": said, "at": 1, "interrupted": true, "given": given},
        ]});
        verified(&home, session, &[], code, says);
    }
}

#[test]
fn a_conversation_that_was_forgotten_in_part_is_checked_with_what_was_left() {
    let home = Home::new();
    let ask = |text: &str| answer(&home, text, &["--max-tokens", "12", "--context", "512"]);
    let (river, sun) = (ask(RIVER), ask(SUN));
    let asked = format!("(Summary of our conversation so far: rivers)\n\n{SUN}");
    let after = ask(&asked);
    let other = "No star at all.";
    for (first, second, summary, code, says) in [
        (&*river, &*sun, None, 0, "All 2 answers are"),
        (&river, &after, Some("rivers"), 0, "All 2 answers are"),
        // The file has another summary than the one that the model was given.
        (&river, &after, Some("lakes"), 1, "answer 2: not checked: the file does not have"),
        (&river, other, None, 1, "answer 2: character 1 is not what"),
        (other, &sun, None, 1, "answer 1: character 1 is not what"),
    ] {
        let asked = if summary.is_some() { asked.as_str() } else { SUN };
        let session = json!({
            "messages": [
                {"role": "user", "content": RIVER, "at": 1},
                {"role": "assistant", "content": first, "at": 1,
                 "given": given(0, &[(Role::User, RIVER)])},
                {"role": "user", "content": SUN, "at": 1},
                {"role": "assistant", "content": second, "at": 1,
                 "given": given(2, &[(Role::User, asked)])},
            ],
            "extras": {"forgotten": {"messages": 2, "summary": summary}},
        });
        let err = verified(&home, session, &[], code, says);
        let unknown = says.contains("not checked");
        assert!(!unknown || err.contains("could not be checked completely"), "{err}");
    }
}

#[test]
fn a_long_conversation_is_soon_checked_as_far_as_it_fits() {
    let home = Home::new();
    let said = answer(&home, SUN, &["--max-tokens", "1", "--context", "64"]);
    let given = given(0, &[(Role::User, SUN)]);
    let exchange = [
        json!({"role": "user", "content": SUN, "at": 1}),
        json!({"role": "assistant", "content": said, "at": 1, "given": given}),
    ];
    let all: Vec<Value> = (0..20_000).flat_map(|_| exchange.clone()).collect();
    let says = "answer 20000: not checked: it has more messages before it than";
    let err = verified(&home, json!({"messages": all}), &["--context", "64"], 1, says);
    assert_has(&err, &["of 20000 answers"]);
}

#[test]
fn an_answer_to_other_instructions_cannot_be_told() {
    let home = Home::new();
    for (instructions, says, fails) in [
        ("Answer in two words.", "not checked: the file does not have", "could not be checked"),
        ("Answer in one word.", "is not what the target says", ""),
    ] {
        let asked = [(Role::System, "Answer in one word."), (Role::User, SUN)];
        let session = json!({"messages": [
            {"role": "system", "content": instructions, "at": 5},
            {"role": "user", "content": SUN, "at": 5},
            {"role": "assistant", "content": "No star at all.", "at": 5,
             "given": given(0, &asked)},
        ]});
        assert_has(&verified(&home, session, &[], 1, says), &[fails]);
    }
}

#[test]
fn other_files_are_refused_and_a_replay_needs_a_terminal() {
    let home = Home::new();
    let path = home.path().join("notes.txt");
    let path = path.to_str().unwrap();
    for command in ["verify", "replay"] {
        home.refuses(2, &[command, path], &["notes.txt"]);
    }
    std::fs::write(path, "hello").unwrap();
    home.refuses(2, &["verify", path], &["neither a record nor"]);
    home.refuses(2, &["replay", path], &["is not a record"]);
    let (record, _) = recorded(&home, &[]);
    home.refuses(2, &["replay", &record], &["needs a terminal"]);
}
