//! What a draft would bring: `bench round` on the bundled pair.

use crate::support::program::{Home, outcome};
use serde_json::Value;

#[test]
fn a_record_gives_the_acceptance_of_smaller_trees() {
    let home = Home::new();
    let record = home.path().join("accept.jsonl");
    let record = record.to_str().unwrap();
    let tree = ["--gamma", "32", "--width", "4", "--depth", "4", "--blocks", "1"];
    let ask = ["run", "Tell me a story about a dog.", "--max-tokens", "64", "--record", record];
    let strategy = ["--strategy", "dovetail"];
    let (code, _, err) = outcome(&mut home.command(&[&ask[..], &strategy, &tree].concat()));
    assert_eq!(code, 0, "{err}");

    let round = ["bench", "round", "--accept", record, "--gammas", "1,2,4,8,16,32,48"];
    let (code, out, err) =
        outcome(&mut home.command(&[&round[..], &["--json", "--check"]].concat()));
    assert_eq!(code, 0, "{err}");
    let results: Value = serde_json::from_str(&out).unwrap();
    let points = results["points"].as_array().unwrap();
    assert_eq!(points.len(), 4 * 7, "every number of blocks: {out}");
    let accepted = |gamma: u64, blocks: u64| {
        let at = |point: &&Value| point["gamma"] == gamma && point["blocks"] == blocks;
        points.iter().find(at).unwrap()["accepted"].as_f64()
    };
    assert_eq!(accepted(1, 1), Some(0.0));
    let of: Vec<f64> = [2, 4, 8, 16, 32].map(|gamma| accepted(gamma, 1).unwrap()).to_vec();
    assert!(of.is_sorted() && of[4] > 0.5, "{of:?}");
    assert_eq!(accepted(48, 1), None, "larger than what was recorded");
    assert_eq!(accepted(16, 2), None, "of other blocks nothing was recorded");
    let checks = results["checks"].as_array().unwrap();
    assert_eq!(checks.len(), 4, "{out}");
    assert!(checks.iter().all(|check| check["measured"].as_f64().unwrap() > 0.0), "{out}");

    let svg = home.path().join("svg");
    let drawn = ["--head-blocks", "1", "--svg", svg.to_str().unwrap()];
    let (code, out, err) = outcome(&mut home.command(&[&round[..], &drawn].concat()));
    assert_eq!(code, 0, "{err}");
    for words in ["T_D ms", "Tokens a second to expect", "Best: γ = ", "within 5 %", "accept.jsonl"]
    {
        assert!(out.contains(words), "{words}: {out}");
    }
    assert!(svg.join("round.svg").is_file(), "{err}");
}

#[test]
fn what_cannot_be_predicted_from_is_named() {
    let home = Home::new();
    let record = home.path().join("plain.jsonl");
    let record = record.to_str().unwrap();
    let ask = ["run", "Hello", "--max-tokens", "8", "--plain", "--record", record];
    assert_eq!(outcome(&mut home.command(&ask)).0, 0);
    for (flags, words) in [
        (&["--accept", record][..], "no round of it was drafted"),
        (&["--accept", "/no/such"], "/no/such"),
        (&["--shape", "8b"], "1b, 7b, 13b"),
        (&["--gammas", "0"], "at least 1"),
        (&["--head-blocks", "9"], "the draft has 1 to 4"),
        (&["--head-blocks", "x"], "neither a list"),
        (&["--strategy", "plain"], "drafts nothing"),
    ] {
        let (code, _, err) = outcome(&mut home.command(&[&["bench", "round"], flags].concat()));
        assert!(code == 2 && err.contains(words), "{flags:?}: {code} {err}");
    }
}
