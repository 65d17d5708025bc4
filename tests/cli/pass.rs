//! What a draft would gain: `bench pass` on the bundled pair.

use crate::support::program::{Home, assert_has};
use dovetail::kernels::Isa;
use serde_json::Value;

#[test]
fn a_record_gives_the_acceptance_of_smaller_trees() {
    let home = Home::new();
    let record = home.path().join("accept.jsonl");
    let record = record.to_str().unwrap();
    let tree = ["--gamma", "32", "--width", "4", "--depth", "4", "--blocks", "1"];
    let ask = ["run", "Tell me a story about a dog.", "--max-tokens", "64", "--record", record];
    let strategy = ["--strategy", "dovetail"];
    home.ran(0, &[&ask[..], &strategy, &tree].concat());

    let pass = ["bench", "pass", "--accept", record, "--gammas", "1,2,4,8,16,32,48"];
    let results = home.json(&[&pass[..], &["--json", "--head-blocks", "1,2"]].concat());
    let points = results["points"].as_array().unwrap();
    assert_eq!(points.len(), 1 + 2 * 6, "the target alone once: {results}");
    let accepted = |gamma: u64, blocks: u64| {
        let at = |point: &&Value| point["gamma"] == gamma && point["blocks"] == blocks;
        points.iter().find(at).unwrap()["accepted"].as_f64()
    };
    let plain: Vec<&Value> = points.iter().filter(|point| point["gamma"] == 1).collect();
    assert!(plain.len() == 1 && plain[0]["blocks"].is_null(), "{results}");
    assert_eq!(plain[0]["accepted"].as_f64(), Some(0.0));
    let of: Vec<f64> = [2, 4, 8, 16, 32].map(|gamma| accepted(gamma, 1).unwrap()).to_vec();
    assert!(of.is_sorted() && of[4] > 0.5, "{of:?}");
    assert_eq!(accepted(48, 1), None, "larger than what was recorded");
    assert_eq!(accepted(16, 2), None, "of other blocks nothing was recorded");
    let svg = home.path().join("svg");
    let drawn =
        ["bench", "pass", "--accept", record, "--gammas", "1,8", "--svg", svg.to_str().unwrap()];
    let (out, err) = home.ran(0, &drawn);
    let words = ["T_D ms", "Expected tokens per second", "Best draft: γ = ", "within 5 %"];
    // M = 4 is there because every number of blocks is.
    assert_has(&out, &[&words[..], &["accept.jsonl", "M = 4"]].concat());
    assert!(svg.join("round.svg").is_file(), "{err}");
}

#[test]
fn what_a_paper_prints_can_stand_in_for_a_record() {
    let home = Home::new();
    let pass = ["bench", "pass", "--accept", "paper:mt_bench", "--gammas", "1,8,16"];
    let blocks = ["--head-blocks", "1,2"];
    let results = home.json(&[&pass[..], &blocks, &["--json"]].concat());
    let point = |gamma: u64, blocks: u64| {
        let points = results["points"].as_array().unwrap().iter();
        let of = |point: &&Value| point["gamma"] == gamma && point["blocks"] == blocks;
        points.clone().find(of).unwrap_or_else(|| panic!("{gamma} {blocks}: {results}"))
    };
    let accepted = point(16, 2)["accepted"].as_f64().unwrap();
    assert!((accepted - 3.31).abs() < 1e-9, "{accepted}");
    assert!(point(8, 2)["tokens_s"].is_null(), "the paper has γ = 16 alone: {results}");
    // (1 + accepted) tokens in the time that a round takes here.
    let of = |name: &str| point(16, 2)[name].as_f64().unwrap();
    let ms = of("draft_ms") + of("verify_ms") + of("other_ms");
    assert!((of("tokens_s") * ms / 1e3 - 4.31).abs() < 1e-6, "{results}");
    let source = results["acceptance"][0].as_str().unwrap();
    assert!(source.contains("arXiv 2412.18934") && source.contains("Table III"), "{source}");
}

#[test]
fn rounds_of_a_small_model_are_timed_and_predicted_from_its_own_trees() {
    let home = Home::new();
    let record = home.path().join("small.jsonl");
    let record = record.to_str().unwrap();
    let ask = ["run", "Tell me a story about a dog.", "--max-tokens", "64", "--record", record];
    let tree = ["--strategy", "small-model", "--gamma", "32", "--width", "4", "--depth", "8"];
    home.ran(0, &[&ask[..], &tree].concat());
    let points = |strategy: &str| {
        let pass = ["bench", "pass", "--accept", record, "--json", "--gammas", "1,4,16"];
        let results = home.json(&[&pass[..], &["--strategy", strategy]].concat());
        results["points"].as_array().unwrap().clone()
    };
    let of = |point: &Value, name: &str| point[name].as_f64();
    let trees = points("small-model");
    assert!(trees.len() == 3 && trees.iter().all(|point| point["tokens_s"].is_f64()), "{trees:?}");
    assert!(of(&trees[2], "accepted") >= of(&trees[1], "accepted"), "{trees:?}");
    assert!(trees[1..].iter().all(|point| of(point, "draft_ms") > Some(0.0)), "{trees:?}");
    // A chain is another tree, about which this record says nothing; 15 passes take longer than 3.
    let chains = points("sps");
    assert!(chains[1..].iter().all(|point| point["tokens_s"].is_null()), "{chains:?}");
    assert!(of(&chains[2], "draft_ms") > of(&chains[1], "draft_ms"), "{chains:?}");
}

#[test]
fn random_weights_are_timed_by_their_shape() {
    let home = Home::new();
    let shape = ["bench", "pass", "--shape", "68m", "--json", "--context", "16", "--quick"];
    let flags = ["--gammas", "1,16", "--threads", "2", "--accept", "paper:mt_bench"];
    let points = |blocks: &str| {
        let results = home.json(&[&shape[..], &flags, &["--head-blocks", blocks]].concat());
        assert_eq!(results["rows"].as_array().unwrap().len(), 2, "passes alone: {results}");
        assert_eq!((&results["type"], &results["rows"][1]["gamma"]), (&"pass".into(), &16.into()));
        assert!(results["limits"]["read_gb_s"].is_f64() && results["subject"].is_string());
        results["points"].as_array().cloned()
    };
    let heads = points("1").unwrap();
    assert_eq!((heads.len(), &heads[1]["blocks"]), (2, &1.into()), "{heads:?}");
    let of = |name: &str| heads[1][name].as_f64().unwrap_or_default();
    assert!(of("draft_ms") > 0.0 && of("verify_ms") > 0.0 && of("tokens_s") > 0.0, "{heads:?}");
    assert_eq!(points("0"), None, "the target alone");
}

#[test]
fn passes_are_timed_with_every_instruction_set() {
    let home = Home::new();
    let flags = ["bench", "pass", "--model", "bundled", "--gammas", "1,8", "--quick"];
    let results = home.json(&[&flags[..], &["--isa", "all", "--json"]].concat());
    let others = results["other_isas"].as_array().cloned().unwrap_or_default();
    let isas: Vec<Isa> = std::iter::once(&results)
        .chain(&others)
        .map(|passes| {
            assert_eq!(passes["rows"].as_array().unwrap().len(), 2, "{passes}");
            passes["isa"].as_str().and_then(Isa::named).unwrap()
        })
        .collect();
    assert_eq!(isas, Isa::here().filter(|isa| *isa != Isa::Portable).collect::<Vec<_>>());
    let (out, _) = home.ran(0, &[&flags[..], &["--isa", "portable"]].concat());
    assert_has(&out, &["portable; context"]);
    home.refuses(2, &[&flags[..], &["--isa", "mmx"]].concat(), &["`mmx`", "portable or all"]);
    home.refuses(2, &["bench", "pass", "--isa", "all"], &["--model or --shape"]);
}

#[test]
fn what_cannot_be_predicted_from_is_named() {
    let home = Home::new();
    let record = home.path().join("plain.jsonl");
    let record = record.to_str().unwrap();
    let ask = ["run", "Hello", "--max-tokens", "8", "--plain", "--record", record];
    home.ran(0, &ask);
    for (flags, words) in [
        (&["--accept", record][..], "no round with a draft tree"),
        (&["--accept", "/no/such"], "/no/such"),
        (&["--accept", "paper:qa"], "choose from paper:mt_bench, paper:humaneval"),
        (&["--accept", "paper:mt_bench,/no/such"], "give only one of them"),
        (&["--shape", "8b"], "1b, qwen3.5-4b, gemma4-e4b, 7b, 13b"),
        (&["--gammas", "0"], "at least 1"),
        (&["--head-blocks", "9"], "the draft can use 1 to 4"),
        (&["--head-blocks", "x"], "is not a list"),
        (&["--strategy", "plain"], "does not draft"),
        (&["--strategy", "duo"], "dovetail bench --strategies duo"),
        (&["--shape", "1b", "--strategy", "sps"], "does not draft with a head"),
    ] {
        home.refuses(2, &[&["bench", "pass"], flags].concat(), &[words]);
    }
}
