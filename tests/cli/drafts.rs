//! What a draft may use: fewer tokens, earlier chats. The text is still the target's own.

use std::fs;
use std::path::Path;

use dovetail::library::{Spec, TargetFingerprint, made_for, open_target};
use serde_json::{Value, json};

use crate::support::library::copy_folder;
use crate::support::program::{Home, assert_has, flat, last_json};

const QUESTION: &str = "Tell me a story about a fox.";

/// The summary of `run --json` with these flags, and its text.
fn summary(home: &Home, flags: &[&str]) -> (String, Value) {
    let args = [&["run", QUESTION, "--json", "--max-tokens", "48", "--threads", "1"], flags];
    let (out, err) = home.ran(0, &args.concat());
    assert_eq!(err, "");
    let last = last_json(&out);
    (last["text"].as_str().unwrap().to_owned(), last)
}

#[test]
fn a_draft_vocabulary_changes_no_text() {
    let home = Home::new();
    let story = home.path().join("story.txt");
    fs::write(&story, "Once upon a time there was a little fox. He was happy.").unwrap();
    let of_text = format!("text:{}", story.display());
    let drawn = ["--temperature", "0.8", "--seed", "5"];
    for (sampling, counts) in [
        (&["--temperature", "0"][..], &["1", "1000", "auto", "all", &of_text][..]),
        (&drawn, &["1000"]),
    ] {
        let plain = summary(&home, &[&["--plain"], sampling].concat()).0;
        for &count in counts {
            let flags = ["--strategy", "dovetail", "--gamma", "12", "--draft-vocab", count];
            let (text, found) = summary(&home, &[&flags[..], sampling].concat());
            assert_eq!(text, plain, "{count}");
            let accepted = found["accepted_by"]["head"].as_u64().unwrap_or(0);
            assert!(count == "1" || accepted > 0, "{found}");
        }
    }
    // Including the tokens that end a turn, if they are not among the first.
    let (out, _) = home.ran(0, &["doctor", "--draft-vocab", "1000"]);
    assert_has(&out, &["of the target's 4096 tokens."]);
    let (out, _) = home.ran(0, &["doctor", "--draft-vocab", &of_text]);
    let told = format!("tokens, the most frequent ones in {}.", story.display());
    assert_has(&flat(&out), &[&told]);
    let (empty, none) = (home.path().join("empty.txt"), home.path().join("none.txt"));
    fs::write(&empty, "").unwrap();
    for (file, why) in [(&empty, "contains no text"), (&none, "none.txt")] {
        let value = format!("text:{}", file.display());
        let args = ["run", "hi", "--draft-vocab", &value];
        home.refuses(3, &args, &[&value, why, "use a text file"]);
    }
    home.refuses(2, &["run", "hi", "--draft-vocab", "text:"], &["text:FILE"]);
    home.refuses(2, &["run", "hi", "--draft-vocab", "few"], &["a number of tokens"]);
}

#[test]
fn an_ngram_table_is_made_found_named_and_left_out() {
    let home = Home::new();
    let (plain, _) = summary(&home, &["--plain", "--temperature", "0"]);
    let message = |role: &str, text: &str| json!({"role": role, "content": text});
    let chat = json!({"messages": [message("user", QUESTION), message("assistant", &plain)]});
    let data = home.path().join("chats.jsonl");
    fs::write(&data, format!("{chat}\n{chat}\n{chat}\nno chat\n")).unwrap();
    let data = data.to_str().unwrap();
    let by_table = |summary: &Value| summary["accepted_by"]["ngram"].as_u64().unwrap_or(0);
    let flags = ["--strategy", "context", "--gamma", "12", "--temperature", "0"];
    let (text, found) = summary(&home, &flags);
    assert_eq!((text, by_table(&found)), (plain.clone(), 0), "there is none yet");
    let (out, err) = home.ran(0, &["ngrams", "--data", data]);
    assert!(out.contains("in 3 chats.") && out.contains("uses it from now on"), "{out}");
    assert!(err.contains("1 lines could not be used"), "{err}");
    let (text, found) = summary(&home, &flags);
    assert_eq!(text, plain);
    assert!(by_table(&found) > 20 && found["plan_ms"].as_f64().unwrap() > 0.0, "{found}");
    let (text, found) = summary(&home, &[&flags[..], &["--ngrams", "none"]].concat());
    assert_eq!((text, by_table(&found)), (plain.clone(), 0), "left out");
    let named = home.path().join("named.ngrams");
    let named = named.to_str().unwrap();
    let measured = ["ngrams", "--data", data, "--out", named, "--held-out", "0.4"];
    let (out, _) = home.ran(0, &measured);
    assert!(out.contains("held-out tokens") && out.contains("--ngrams"), "{out}");
    let (text, found) = summary(&home, &[&flags[..], &["--ngrams", named]].concat());
    assert_eq!(text, plain);
    assert!(by_table(&found) > 20, "{found}");
    let (text, _) = summary(&home, &["--temperature", "0.8", "--seed", "4", "--ngrams", named]);
    assert_eq!(text, summary(&home, &["--temperature", "0.8", "--seed", "4", "--plain"]).0);
    for (flags, says) in [
        (&["run", "hi", "--ngrams", data][..], "n-gram table"),
        (&["run", "hi", "--ngrams", "none.ngrams"], "none.ngrams"),
    ] {
        home.refuses(3, flags, &[says]);
    }
    for flags in [["--contexts", "0"], ["--held-out", "1"], ["--limit", "0"]] {
        let all = [&["ngrams", "--data", data][..], &flags].concat();
        home.refuses(2, &all, &[flags[0]]);
    }
}

#[test]
fn a_head_is_recognised_by_its_target_and_left_out_where_none_is_wished() {
    let home = Home::new();
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/demo");
    let (target, head) = (home.path().join("model"), home.path().join("data/dovetail/heads/mine"));
    copy_folder(&demo.join("target"), &target);
    copy_folder(&demo.join("head"), &head);
    let named = target.display().to_string();
    let doctor = |flags: &[&str]| {
        let args = [&["doctor", "--target", &named], flags].concat();
        let (out, err) = home.ran(0, &args);
        flat(&(out + &err))
    };
    let told = "was trained for this model";
    let estimated = || home.ran(0, &["models", &named]).0.contains("  drafted ");
    assert!(!doctor(&[]).contains(told) && !estimated(), "its folder does not say so");

    let files = open_target(&Spec::Folder(target.clone()), &mut |_| {}).unwrap();
    made_for(&head, &TargetFingerprint::of(&files)).unwrap();
    assert!(doctor(&[]).contains(told) && estimated());
    assert!(!doctor(&["--draft", "none"]).contains(told));
    let flags = ["--target", &named, "--temperature", "0"];
    let (plain, _) = summary(&home, &[&["--plain"], &flags[..]].concat());
    let tree = ["--strategy", "dovetail", "--gamma", "12"];
    let (text, found) = summary(&home, &[&tree, &flags[..]].concat());
    assert_eq!(text, plain);
    assert!(found["accepted_by"]["head"].as_u64().unwrap() > 0, "{found}");
    let none = [&tree[..], &flags, &["--draft", "none"]].concat();
    home.refuses(2, &[&["run", "hi"], &none[..]].concat(), &["`draft` is `none`"]);

    // If one bit of the weights changes, it is a different model.
    drop(files);
    let weights = target.join("model.safetensors");
    let mut bytes = fs::read(&weights).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&weights, bytes).unwrap();
    assert!(!doctor(&[]).contains(told));
    home.refuses(3, &[&["run", "hi"], &tree[..], &flags].concat(), &["name one with --draft"]);

    fs::write(head.join("target.json"), "[").unwrap();
    let found = doctor(&[]);
    assert!(!found.contains(told) && found.contains("Ignoring the draft head"), "{found}");
}

#[test]
fn earlier_chats_are_drafted_from_only_where_the_user_wants_it() {
    let home = Home::new();
    let flags = ["--strategy", "suffix", "--gamma", "12", "--temperature", "0"];
    let (plain, _) = summary(&home, &["--plain", "--temperature", "0"]);
    let chats = home.path().join("data/dovetail/sessions");
    fs::create_dir_all(&chats).unwrap();
    let message = |role: &str, text: &str| json!({"role": role, "content": text, "at": 1});
    let messages = [message("user", QUESTION), message("assistant", &plain)];
    let chat = json!({"title": "A fox", "created": 1, "updated": 1, "target": "",
        "messages": messages});
    fs::write(chats.join("20260101-000000.json"), chat.to_string()).unwrap();
    let history = |summary: &Value| summary["accepted_by"]["history"].as_u64().unwrap_or(0);
    let (text, found) = summary(&home, &flags);
    assert_eq!((text, history(&found)), (plain.clone(), 0), "off by default");
    home.write_settings("history = true\n");
    for strategy in ["suffix", "context"] {
        let (text, found) = summary(&home, &[&["--strategy", strategy], &flags[2..]].concat());
        assert_eq!(text, plain);
        assert!(history(&found) > 20, "{strategy}: {found}");
    }
    let (text, _) = summary(&home, &["--temperature", "0"]);
    assert_eq!(text, plain, "auto");
}

#[test]
fn duo_s_budget_is_c_and_doctor_says_what_that_is() {
    let home = Home::new();
    let doctor = |flags: &[&str]| {
        let flags = [&["doctor", "--strategy", "duo"], flags].concat();
        let (out, _) = home.ran(0, &flags);
        let row = |name: &str| {
            let row =
                out.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(' '));
            row.map(|row| row.split_whitespace().next().unwrap().parse::<f64>().unwrap())
        };
        (row("γ").unwrap(), row("c").unwrap(), flat(&out))
    };
    let (gamma, c, out) = doctor(&[]);
    // `c` is printed with one digit.
    assert!((gamma - c.max(2.0)).abs() < 1.06, "γ = {gamma}, c = {c}");
    assert!(out.contains("by the paper's rule, γ = c"), "{out}");
    let (_, _, out) = doctor(&["--duo-budget", "acceptance"]);
    assert!(out.contains("gains the most at the acceptance rate"), "{out}");
}
