//! What a draft would gain: `bench round` on the bundled pair.

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
    let (code, out, err) = outcome(
        &mut home.command(&[&round[..], &["--json", "--check", "--head-blocks", "1,2"]].concat()),
    );
    assert_eq!(code, 0, "{err}");
    let results: Value = serde_json::from_str(&out).unwrap();
    let points = results["points"].as_array().unwrap();
    assert_eq!(points.len(), 1 + 2 * 6, "the target alone once: {out}");
    let accepted = |gamma: u64, blocks: u64| {
        let at = |point: &&Value| point["gamma"] == gamma && point["blocks"] == blocks;
        points.iter().find(at).unwrap()["accepted"].as_f64()
    };
    let plain: Vec<&Value> = points.iter().filter(|point| point["gamma"] == 1).collect();
    assert!(plain.len() == 1 && plain[0]["blocks"].is_null(), "{out}");
    assert_eq!(plain[0]["accepted"].as_f64(), Some(0.0));
    let of: Vec<f64> = [2, 4, 8, 16, 32].map(|gamma| accepted(gamma, 1).unwrap()).to_vec();
    assert!(of.is_sorted() && of[4] > 0.5, "{of:?}");
    assert_eq!(accepted(48, 1), None, "larger than what was recorded");
    assert_eq!(accepted(16, 2), None, "of other blocks nothing was recorded");
    let checks = results["checks"].as_array().unwrap();
    assert_eq!(checks.len(), 4, "{out}");
    assert!(checks.iter().all(|check| check["measured"].as_f64().unwrap() > 0.0), "{out}");

    let svg = home.path().join("svg");
    let drawn =
        ["bench", "round", "--accept", record, "--gammas", "1,8", "--svg", svg.to_str().unwrap()];
    let (code, out, err) = outcome(&mut home.command(&drawn));
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("M = 4"), "every number of blocks: {out}");
    for words in
        ["T_D ms", "Expected tokens per second", "Best draft: γ = ", "within 5 %", "accept.jsonl"]
    {
        assert!(out.contains(words), "{words}: {out}");
    }
    assert!(svg.join("round.svg").is_file(), "{err}");
}

#[test]
fn what_a_paper_prints_can_stand_in_for_a_record() {
    let home = Home::new();
    let round = ["bench", "round", "--accept", "paper:mt_bench", "--gammas", "1,8,16"];
    let blocks = ["--head-blocks", "1,2"];
    let json = [&round[..], &blocks, &["--json"]].concat();
    let (code, out, err) = outcome(&mut home.command(&json));
    assert_eq!(code, 0, "{err}");
    let results: Value = serde_json::from_str(&out).unwrap();
    let point = |gamma: u64, blocks: u64| {
        let points = results["points"].as_array().unwrap().iter();
        let of = |point: &&Value| point["gamma"] == gamma && point["blocks"] == blocks;
        points.clone().find(of).unwrap_or_else(|| panic!("{gamma} {blocks}: {out}"))
    };
    let accepted = point(16, 2)["accepted"].as_f64().unwrap();
    assert!((accepted - 3.31).abs() < 1e-9, "{accepted}");
    assert!(point(8, 2)["tokens_s"].is_null(), "the paper has γ = 16 alone: {out}");
    // (1 + accepted) tokens in the time that a round takes here.
    let of = |name: &str| point(16, 2)[name].as_f64().unwrap();
    let ms = of("draft_ms") + of("verify_ms") + of("other_ms");
    assert!((of("tokens_s") * ms / 1e3 - 4.31).abs() < 1e-6, "{out}");
    let source = results["acceptance"][0].as_str().unwrap();
    assert!(source.contains("arXiv 2412.18934") && source.contains("Table III"), "{source}");
}

/// A record of large trees of the bundled small model.
fn small_record(home: &Home, name: &str) -> String {
    let record = home.path().join(name).to_str().unwrap().to_owned();
    let ask = ["run", "Tell me a story about a dog.", "--max-tokens", "64", "--record", &record];
    let tree = ["--strategy", "small-model", "--gamma", "48", "--width", "4", "--depth", "8"];
    let (code, _, err) = outcome(&mut home.command(&[&ask[..], &tree].concat()));
    assert_eq!(code, 0, "{err}");
    record
}

#[test]
fn a_record_of_a_small_model_tells_of_its_trees_chains_and_sequences() {
    let home = Home::new();
    let record = small_record(&home, "small.jsonl");
    let points = |flags: &[&str]| {
        let round = ["bench", "round", "--accept", &record, "--json"];
        let (code, out, err) = outcome(&mut home.command(&[&round[..], flags].concat()));
        assert_eq!(code, 0, "{flags:?}: {err}");
        let results: Value = serde_json::from_str(&out).unwrap();
        let number = |point: &Value, name: &str| point[name].as_f64();
        let of = |point: &Value| {
            let (gamma, width) = (point["gamma"].as_u64().unwrap(), point["width"].as_u64());
            assert!(point["blocks"].is_null(), "{out}");
            // The tokens per time: a round takes the sum of both times only if draft and target
            // take turns.
            let won = 1.0 + number(point, "accepted")?;
            let rate = 1e3 * won / number(point, "round_ms")?;
            assert!((number(point, "tokens_s")? / rate - 1.0).abs() < 1e-9, "{point}");
            Some((width, gamma, won - 1.0))
        };
        let all = results["points"].as_array().unwrap();
        let told: Vec<(Option<u64>, u64, f64)> = all.iter().filter_map(of).collect();
        (told, results["checks"].as_array().unwrap().len())
    };
    let of = |all: &[(Option<u64>, u64, f64)], k| {
        let own = all.iter().filter(|(width, ..)| *width == Some(k));
        own.map(|&(_, gamma, accepted)| (gamma, accepted)).collect::<Vec<_>>()
    };
    let trees = ["--strategy", "small-model", "--widths", "1,2,4", "--gammas", "1,2,4,8,16,48"];
    let (all, checks) = points(&[&trees[..], &["--check"]].concat());
    assert_eq!((all[0], checks), ((None, 1, 0.0), 5));
    for k in [2, 4] {
        let by_gamma = of(&all, k);
        assert!(by_gamma.len() == 5 && by_gamma.is_sorted_by(|a, b| a.1 <= b.1), "{by_gamma:?}");
    }
    // A root with a single guess is the same tree, however wide it might be.
    let first: Vec<f64> = [1, 2, 4].map(|k| of(&all, k)[0].1).to_vec();
    assert!(first[0] > 0.2 && first.iter().all(|share| *share == first[0]), "{first:?}");

    let (chains, _) = points(&["--strategy", "sps", "--gammas", "1,2,6"]);
    assert_eq!(of(&chains, 1)[0], (2, first[0]));
    assert!(of(&chains, 1)[1].1 > first[0], "{chains:?}");

    let (duo, _) = points(&[
        "--strategy",
        "duo",
        "--gammas",
        "1,4,6",
        "--widths",
        "1,3",
        "--draft-threads",
        "1",
    ]);
    let budgets: Vec<(Option<u64>, u64)> = duo.iter().map(|&(k, gamma, _)| (k, gamma)).collect();
    assert_eq!(budgets, [(None, 1), (Some(1), 4), (Some(1), 6), (Some(3), 6)], "{duo:?}");
    assert!(duo[1..].iter().all(|&(.., accepted)| accepted > 0.1), "{duo:?}");
    // A search makes another tree, about which this record says nothing.
    let (none, _) = points(&["--strategy", "specexec", "--gammas", "1,8"]);
    assert_eq!(none.len(), 1, "{none:?}");

    let round = ["bench", "round", "--accept", &record, "--gammas", "1,4", "--widths", "1,2"];
    let (code, out, err) =
        outcome(&mut home.command(&[&round[..], &["--strategy", "small-model"]].concat()));
    assert_eq!(code, 0, "{err}");
    for words in ["k = 2", "Best draft: γ = 4, k = ", "small-model of "] {
        assert!(out.contains(words), "{words}: {out}");
    }
}

#[test]
fn a_small_model_that_is_not_here_is_timed_by_its_shape() {
    let home = Home::new();
    let record = small_record(&home, "small.jsonl");
    let shapes = ["bench", "round", "--shape", "68m", "--draft-shape", "68m", "--json"];
    let small = ["--prompt-tokens", "16", "--threads", "2", "--accept", &record];
    // T_D comes from the trees in the record; chains and sequences are drafted unchanged.
    let flags = ["--gammas", "1,4", "--strategy", "small-model", "--widths", "2"];
    let (code, out, err) = outcome(&mut home.command(&[&shapes[..], &small, &flags].concat()));
    assert_eq!(code, 0, "{err}");
    let results: Value = serde_json::from_str(&out).unwrap();
    let points = results["points"].as_array().unwrap();
    assert_eq!(points.len(), 2, "{out}");
    let of = |name: &str| points[1][name].as_f64().unwrap_or_default();
    assert_eq!(points[1]["width"], 2, "{out}");
    assert!(of("draft_ms") > 0.0 && of("verify_ms") > 0.0 && of("tokens_s") > 0.0, "{out}");
    let subject = results["subject"].as_str().unwrap();
    assert!(subject.contains("a small model of the 68m shape (small-model)"), "{subject}");
}

#[test]
fn what_cannot_be_predicted_from_is_named() {
    let home = Home::new();
    let record = home.path().join("plain.jsonl");
    let record = record.to_str().unwrap();
    let ask = ["run", "Hello", "--max-tokens", "8", "--plain", "--record", record];
    assert_eq!(outcome(&mut home.command(&ask)).0, 0);
    for (flags, words) in [
        (&["--accept", record][..], "no round with a draft tree"),
        (&["--accept", "/no/such"], "/no/such"),
        (&["--accept", "paper:qa"], "choose from paper:mt_bench, paper:humaneval"),
        (&["--accept", "paper:mt_bench", "--check"], "the questions of a record"),
        (&["--accept", "paper:mt_bench,/no/such"], "give only one of them"),
        (&["--shape", "8b"], "1b, 7b, 13b"),
        (&["--gammas", "0"], "at least 1"),
        (&["--head-blocks", "9"], "the draft can use 1 to 4"),
        (&["--head-blocks", "x"], "is not a list"),
        (&["--strategy", "plain"], "does not draft"),
        (&["--strategy", "sps", "--widths", "0"], "the smallest width is 1"),
        (&["--strategy", "sps", "--widths", "x"], "is not a list"),
        (&["--strategy", "duo", "--gammas", "5", "--widths", "3"], "--widths 1,2"),
        (&["--draft-shape", "68m"], "--shape"),
        (&["--shape", "1b", "--draft-shape", "9b"], "68m, 160m, 1b"),
        (&["--shape", "1b", "--draft-shape", "68m", "--strategy", "dovetail"], "use sps, duo"),
        (&["--shape", "1b", "--strategy", "sps"], "with --draft-shape"),
        (&["--shape", "1b", "--draft-shape", "68m", "--strategy", "specexec"], "give a record"),
    ] {
        let (code, _, err) = outcome(&mut home.command(&[&["bench", "round"], flags].concat()));
        assert!(code == 2 && err.contains(words), "{flags:?}: {code} {err}");
    }
}
