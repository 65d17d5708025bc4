//! Candidates with their own settings, and the papers' tables.

use crate::support::program::{Home, assert_has, outcome};
use serde_json::Value;

const QUICK: [&str; 7] = ["bench", "--prompts", "everyday", "--limit", "1", "--max-tokens", "8"];

fn names(results: &Value) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for answer in results["answers"].as_array().unwrap() {
        let name = answer["strategy"].as_str().unwrap().to_owned();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

#[test]
fn those_that_cannot_take_part_are_named_and_the_others_run() {
    let home = Home::new();
    let misfit = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/draft_dgf_m1");
    let wanted = format!(
        "dovetail:gamma=4,k=2,d=1,m=1;dovetial;pld;dovetail:head={misfit};sps:draft-model=/no/such;\
         dovetail:m=9;eagle2-60:gamma=5"
    );
    let flags = ["--json", "--gamma", "3", "--strategies", &wanted];
    let (out, err) = home.ran(1, &[&QUICK[..], &flags].concat());
    for words in
        ["did you mean `dovetail`", "draft_dgf_m1`", "/no/such", "`dovetail:m=9` asks for M = 9"]
    {
        let line = err.lines().find(|line| line.contains(words));
        assert!(line.is_some_and(|line| line.starts_with("left out: ")), "{words}: {err}");
    }
    let results: Value = serde_json::from_str(&out).unwrap();
    let expected =
        ["plain", "dovetail:gamma=4,k=2,d=1,m=1", "pld", "eagle2-60:gamma=5"].map(str::to_owned);
    let mut found = names(&results);
    found.sort_by_key(|name| expected.iter().position(|other| other == name));
    assert_eq!(found, expected);
    assert_eq!(results["notes"].as_array().unwrap().len(), 4, "{}", results["notes"]);
    for answer in results["answers"].as_array().unwrap() {
        let most = match answer["strategy"].as_str().unwrap() {
            name if name.starts_with("dovetail") => 3,
            name if name.starts_with("eagle2-60") => 4,
            _ => continue,
        };
        let (drafted, rounds) = (answer["drafted"].as_u64(), answer["rounds"].as_u64());
        assert!(drafted.unwrap() <= most * rounds.unwrap(), "{answer}");
    }
    // If a candidate that cannot take part is the only one, nothing is left to run.
    home.refuses(2, &[&QUICK[..], &["--strategies", "duo:k=77"]].concat(), &["`k` must be"]);
}

#[test]
fn a_process_of_its_own_has_memory_of_its_own() {
    let home = Home::new();
    let file = home.path().join("candidates.txt");
    std::fs::write(&file, "# two\npld\ndovetail:label=ours,gamma=4,m=all\n").unwrap();
    let file = file.to_str().unwrap();
    let flags = ["--isolated", "--json", "--candidates", file, "--temperature", "0,1"];
    let results = home.json(&[&QUICK[..], &flags].concat());
    let mut found = names(&results);
    found.sort();
    assert_eq!(found, ["ours", "plain", "pld"]);
    let answers = results["answers"].as_array().unwrap();
    let batch = |name: &str| {
        let of = answers.iter().filter(|answer| answer["strategy"] == name);
        let mut all: Vec<u64> = of.map(|answer| answer["batch"].as_u64().unwrap()).collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    assert_eq!((batch("plain"), batch("pld"), batch("ours")), (vec![0, 1, 2], vec![1], vec![2]));
    assert!(answers.iter().all(|answer| answer["ram"].as_u64().unwrap() > 1 << 20));
    assert!(answers.iter().all(|answer| answer["differs_at"].is_null()));
    assert_eq!(results["models"]["parameters"][0][0], "ours");
}

#[test]
fn a_table_of_a_paper_has_theirs_and_ours() {
    let home = Home::new();
    let quick = ["--limit", "1", "--max-tokens", "8"];
    let table = ["bench", "paper", "--table", "3"];
    // The bundled head has four blocks: rows with more blocks are absent.
    let (out, err) = home.ran(0, &[&table[..], &quick].concat());
    let eagle = "left out: `w/o both` needs an EAGLE-1 or EAGLE-2 head";
    assert_has(&err, &["left out: `w/ DGF + 4` asks for M = 5", eagle]);
    assert_has(&out, &["Table III", "L parameters", "ours/paper", "2.62× 5.38", "--eagle-head"]);
    let ours = out.lines().find(|line| line.starts_with("w/ DGF + 1")).unwrap();
    assert!(ours.contains('×') && ours.contains('M'), "{ours}");
    // The head has the precision of its file, and the table names it.
    let drafts = out.lines().find(|line| line.starts_with("Drafts here: "));
    assert!(drafts.is_some_and(|line| line.contains("F16 on ")), "{out}");
    // Without any of a table's models there are the paper's figures and the target alone.
    let without = ["--draft", "none", "--prompts", "everyday"];
    let figure = ["bench", "paper", "--figure", "4"];
    let (out, err) = home.ran(0, &[&figure[..], &quick, &without].concat());
    assert!(err.contains("left out: `γ = 16` needs "), "{err}");
    assert!(out.contains("Figure 4"), "{out}");

    let table = ["bench", "paper", "--table", "duo-3", "--prompts", "mt_bench,gsm8k"];
    let (code, out, err) = outcome(&mut home.command(&[&table[..], &quick].concat()));
    assert!(matches!(code, 0 | 1), "{err}");
    assert_has(
        &out,
        &[
            "c+2",
            "98.71",
            "`gsm8k` is used for math.",
            "There are no prompts for translation",
            "DuoDecoding's draft on the CPU. Here the target ran on the CPU.",
        ],
    );
    for (flags, words) in [
        (&["--table", "9"][..], "duo-3, duo-4"),
        (&["--figure", "9"], "duo-5"),
        (&["--table", "duo-3", "--prompts", "everyday"], "no prompts for mt_bench"),
        (&["--table", "3", "--block-head", "2"], "write M=MODEL"),
        (&["--table", "3", "--block-head", "9=x"], "no row with M = 9"),
        (&["--table", "duo-4", "--block-head", "2=x"], "only tables have rows with M = 2"),
    ] {
        home.refuses(2, &[&["bench", "paper"], flags].concat(), &[words]);
    }
}

#[test]
fn a_figure_of_a_paper_is_drawn() {
    let home = Home::new();
    let svg = home.path().join("svg");
    let flags = ["--limit", "1", "--max-tokens", "6", "--svg", svg.to_str().unwrap()];
    for (flag, figure, words, file) in [
        ("--figure", "4", "All 22 answers are identical", "nodes-t0.svg"),
        ("--figure", "duo-1", "verify ms", "lengths-t0.svg"),
        ("--figure", "duo-4", "transfer ms", "parts-t0.svg"),
        ("--figure", "duo-5", "k = 1", "sequences-t0.svg"),
        ("--table", "duo-4", "34.8 %", "choices-t0.svg"),
    ] {
        let figure = ["bench", "paper", flag, figure];
        let (out, err) = home.ran(0, &[&figure[..], &flags].concat());
        assert!(out.contains(words), "{out}");
        assert!(svg.join(file).is_file(), "{err}");
    }
}
