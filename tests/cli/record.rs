//! Records from outside: written by `run --record`, checked by `verify`.

use crate::support::program::{Home, outcome};

/// A record of the bundled pair's answer, and its text.
fn recorded(home: &Home, flags: &[&str]) -> (String, String) {
    let path = home.path().join("record.jsonl");
    let path = path.to_str().unwrap();
    let ask = ["run", "Tell me about a river.", "--max-tokens", "24", "--record", path];
    let (code, _, err) = outcome(&mut home.command(&[&ask[..], flags].concat()));
    assert_eq!(code, 0, "{err}");
    (path.to_owned(), std::fs::read_to_string(path).unwrap())
}

#[test]
fn a_recorded_answer_is_the_target_s_own() {
    let home = Home::new();
    let (path, text) = recorded(&home, &["--temperature", "0.9", "--seed", "5", "--gamma", "8"]);
    let (code, out, err) = outcome(&mut home.command(&["verify", &path]));
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("answer 1: all") && out.contains("The answer is"), "{out}");

    let ask = ["run", "Hello", "--record", &path];
    let (code, _, err) = outcome(&mut home.command(&ask));
    assert!(code == 1 && err.contains("already exists"), "{code}: {err}");

    // Another question has another answer: the record then claims a text that was not generated.
    let change = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
        outcome(&mut home.command(&["verify", &path]))
    };
    let (code, out, err) = change("about a river", "about a shoe");
    assert_eq!(code, 1, "{out}{err}");
    assert!(out.contains("is not the target's: recorded") && err.contains("1 of 1"), "{out}{err}");
    let (code, out, _) = change("\"format\":2", "\"format\":9");
    assert!(code == 2 && out.is_empty());
    let lines: Vec<&str> = text.lines().collect();
    std::fs::write(&path, lines[..lines.len() - 1].join("\n")).unwrap();
    let (code, out, err) = outcome(&mut home.command(&["verify", &path]));
    assert_eq!(code, 1, "{out}{err}");
    assert!(out.contains("(the record ends there)"), "{out}");
    std::fs::write(&path, &text[..text.len() - 20]).unwrap();
    let (code, _, err) = outcome(&mut home.command(&["verify", &path]));
    assert!(code == 2 && err.contains("in the middle of a line"), "{err}");
}

#[test]
fn a_conversation_is_checked_by_its_text() {
    let home = Home::new();
    let question = "Tell me about a river.";
    let say = ["run", question, "--max-tokens", "16"];
    let (code, answer, err) = outcome(&mut home.command(&say));
    assert_eq!(code, 0, "{err}");
    let session = |said: &str, interrupted: bool| {
        let text = serde_json::json!({
            "title": question, "created": 1, "updated": 1, "target": "",
            "messages": [
                {"role": "user", "content": question, "at": 1},
                {"role": "assistant", "content": said, "at": 1, "interrupted": interrupted},
            ],
        });
        let path = home.path().join("session.json");
        std::fs::write(&path, text.to_string()).unwrap();
        let check = ["verify", path.to_str().unwrap(), "--max-tokens", "16"];
        outcome(&mut home.command(&check))
    };
    // The limit cut it off, and nothing in the file says so.
    let (code, out, err) = session(answer.trim(), false);
    assert!(code == 0 && out.contains("the target's own (it was cut off there)"), "{out}{err}");
    let begun: String = answer.trim().chars().take(4).collect();
    let (code, out, _) = session(&begun, true);
    assert!(code == 0 && out.contains("the target's own (it was stopped there)"), "{out}");
    let (code, out, _) = session(&format!("{} Indeed.", answer.trim()), false);
    assert!(code == 1 && out.contains("is not what the target says"), "{out}");
    // Continued after the limit, to the end.
    let (code, all, err) = outcome(&mut home.command(&["run", question, "--max-tokens", "400"]));
    assert!(code == 0 && all.trim().len() > answer.trim().len(), "{all}{err}");
    let (code, out, err) = session(all.trim(), false);
    assert!(code == 0 && out.contains("characters are the target's own\n"), "{out}{err}");
    let (code, out, _) = session(&format!("{} Indeed.", all.trim()), false);
    assert!(code == 1 && out.contains("is not what the target says"), "{out}");
}

#[test]
fn a_conversation_that_was_forgotten_in_part_is_checked_with_what_was_left() {
    let home = Home::new();
    let path = home.path().join("session.json");
    let path = path.to_str().unwrap();
    let ask = |text: &str| {
        let (code, out, err) =
            outcome(&mut home.command(&["run", text, "--max-tokens", "12", "--context", "512"]));
        assert_eq!(code, 0, "{err}");
        out.trim().to_owned()
    };
    let verify = |first: &str, second: &str, forgotten: serde_json::Value| {
        let text = serde_json::json!({
            "title": "x", "created": 1, "updated": 1, "target": "",
            "messages": [
                {"role": "user", "content": "Tell me about a river.", "at": 1},
                {"role": "assistant", "content": first, "at": 1},
                {"role": "user", "content": "What is the sun?", "at": 1},
                {"role": "assistant", "content": second, "at": 1},
            ],
            "extras": {"forgotten": forgotten},
        });
        std::fs::write(path, text.to_string()).unwrap();
        outcome(&mut home.command(&["verify", path]))
    };
    let (river, sun) = (ask("Tell me about a river."), ask("What is the sun?"));
    let short = "(Summary of our conversation so far: rivers)\n\nWhat is the sun?";
    let after = ask(short);
    for (second, summary) in [(&sun, None), (&after, Some("rivers"))] {
        let forgotten = serde_json::json!({"messages": 2, "summary": summary});
        let (code, out, err) = verify(&river, second, forgotten);
        assert_eq!(code, 0, "{summary:?}: {out}{err}");
        assert!(out.contains("All 2 answers are"), "{out}");
    }
    // Neither with the remaining conversation nor with the whole: something else was given, or
    // answered.
    let other = "No star at all.";
    let forgotten = serde_json::json!({"messages": 2});
    let (code, out, err) = verify(&river, other, forgotten.clone());
    assert!(code == 1 && out.contains("answer 2: unknown"), "{out}{err}");
    assert!(err.contains("could not be checked completely"), "{err}");
    // The first answer was certainly given the whole beginning.
    let (code, out, _) = verify(other, &sun, forgotten);
    assert!(code == 1 && out.contains("answer 1: character 1 is not what"), "{out}");
}

#[test]
fn an_answer_to_other_instructions_cannot_be_told() {
    let home = Home::new();
    let path = home.path().join("session.json");
    let path = path.to_str().unwrap();
    let verify = |answer: &str, instructed: u64| {
        let text = serde_json::json!({
            "title": "x", "created": 1, "updated": 9, "target": "",
            "messages": [
                {"role": "system", "content": "Answer in one word.", "at": instructed},
                {"role": "user", "content": "What is the sun?", "at": 5},
                {"role": "assistant", "content": answer, "at": 5},
            ],
        });
        std::fs::write(path, text.to_string()).unwrap();
        outcome(&mut home.command(&["verify", path]))
    };
    let (code, out, err) = verify("No star at all.", 6);
    assert!(code == 1 && out.contains("unknown: the system prompt"), "{out}{err}");
    assert!(err.contains("could not be checked completely"), "{err}");
    // They are as old as the answer, so they are the ones that it was given.
    let (code, out, _) = verify("No star at all.", 5);
    assert!(code == 1 && out.contains("is not what the target says"), "{out}");
}

#[test]
fn other_files_are_refused_and_a_replay_needs_a_terminal() {
    let home = Home::new();
    let path = home.path().join("notes.txt");
    let path = path.to_str().unwrap();
    for command in ["verify", "replay"] {
        let (code, _, err) = outcome(&mut home.command(&[command, path]));
        assert!(code == 2 && err.contains("notes.txt"), "{command}: {err}");
    }
    std::fs::write(path, "hello").unwrap();
    let (code, _, err) = outcome(&mut home.command(&["verify", path]));
    assert!(code == 2 && err.contains("neither a record nor"), "{err}");
    let (code, _, err) = outcome(&mut home.command(&["replay", path]));
    assert!(code == 2 && err.contains("is not a record"), "{err}");
    let (record, _) = recorded(&home, &[]);
    let (code, _, err) = outcome(&mut home.command(&["replay", &record]));
    assert!(code == 2 && err.contains("needs a terminal"), "{err}");
}
