//! The program with a GPU that is named: the first that the machine has, a software one in most
//! places.

use crate::support::program::{Home, outcome};
use dovetail::hardware::adapters;
use serde_json::Value;

/// Whether there is a `gpu:0`.
fn has_gpu() -> bool {
    let found = !adapters().is_empty();
    if !found {
        println!("left out: everything on a GPU, for there is none (mesa-vulkan-drivers)");
    }
    found
}

/// The counts of a record's `traffic`; 0 where it has none.
fn counts(record: &Value) -> [u64; 3] {
    ["submissions", "bytes_up", "bytes_down"]
        .map(|name| record["traffic"][name].as_u64().unwrap_or_default())
}

#[test]
fn json_says_what_each_round_sent_over_the_bus() {
    if !has_gpu() {
        return;
    }
    // A tree that is asked for, since none pays on a software device.
    let drafts = ["--strategy", "dovetail", "--gamma", "8"];
    let args = [&["run", "--json", "Hello", "--max-tokens", "24"][..], &drafts].concat();
    let run = |device| {
        let (code, out, err) = outcome(Home::new().command(&args).args(["--device", device]));
        assert_eq!(code, 0, "{err}");
        let lines = out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.collect::<Vec<_>>()
    };
    let lines = run("gpu:0");
    let (summary, rounds) = lines.split_last().unwrap();
    let mut all = [0; 3];
    for round in rounds {
        counts(round).iter().zip(&mut all).for_each(|(count, sum)| *sum += count);
    }
    assert!(all.iter().all(|&count| count > 0), "{all:?}");
    assert_eq!(counts(summary), all);
    assert!(counts(&rounds[0])[0] > 1, "a tree takes several passes: {:?}", rounds[0]["traffic"]);
    assert!(run("cpu").iter().all(|line| line.get("traffic").is_none()));
}

#[test]
fn doctor_says_what_a_round_sends_over_the_bus() {
    if !has_gpu() {
        return;
    }
    let doctor = |device: &str| {
        let args = ["doctor", "--device", device, "--strategy", "dovetail"];
        let (code, out, err) = outcome(&mut Home::new().command(&args));
        assert_eq!(code, 0, "{err}");
        out
    };
    let out = doctor("gpu:0");
    let (_, bus) = out.split_once("Bus to the GPU\n").unwrap_or_else(|| panic!("{out}"));
    assert!(bus.contains(" submissions, ") && bus.contains(" kB down (mean of "), "{bus}");
    assert!(!doctor("cpu").contains("Bus to the GPU"));
}

#[test]
fn a_bench_keeps_what_each_answer_sent_over_the_bus() {
    if !has_gpu() {
        return;
    }
    let home = Home::new();
    let file = home.path().join("result.json");
    let args = ["bench", "--limit", "1", "--max-tokens", "16", "--device", "gpu:0"];
    let mut command = home.command(&args);
    command.args(["--prompts", "everyday", "--strategies", "plain,dovetail", "--gamma", "8"]);
    let (code, _, err) = outcome(command.arg("--save").arg(&file));
    assert_eq!(code, 0, "{err}");
    let saved: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    for answer in saved["answers"].as_array().unwrap() {
        let drafts = answer["strategy"] == "dovetail";
        assert_eq!(counts(answer).iter().all(|&count| count > 0), drafts, "{answer}");
    }
}

#[test]
fn doctor_prints_the_placements_of_a_device() {
    if !has_gpu() {
        return;
    }
    let table = |device: &str| {
        let args = ["doctor", "--placements", "--device", device];
        let (code, out, err) = outcome(&mut Home::new().command(&args));
        assert_eq!(code, 0, "{err}");
        out
    };
    let out = table("gpu:0");
    for words in ["tokens/s", "plain, target on the CPU", "duo: ", "(best)", "T_offload"] {
        assert!(out.contains(words), "{words} is missing from\n{out}");
    }
    assert!(table("cpu").contains("all on the CPU: as you asked"));
}

/// One device, one text: blocks that stay there and blocks that come in every pass.
#[test]
fn a_streamed_target_says_what_a_resident_one_does() {
    if !has_gpu() {
        return;
    }
    let answer = |strategy: &str, more: &[&str]| {
        let args = ["run", "Tell me about a fox.", "--max-tokens", "24", "--device", "gpu:0"];
        let home = Home::new();
        let mut command = home.command(&args);
        let (code, out, err) = outcome(command.args(["--strategy", strategy]).args(more));
        assert_eq!(code, 0, "{err}");
        out
    };
    let streamed = answer("offload", &[]);
    assert_eq!(streamed, answer("partial-plain", &["--gpu-layers", "all"]));
    assert!(streamed.split_whitespace().count() > 5, "{streamed}");
}

#[test]
fn a_bench_of_the_gpu_sets_what_was_measured_beside_what_was_expected() {
    if !has_gpu() {
        return;
    }
    let bench = |more: &[&str]| {
        let args = ["bench", "gpu", "--device", "gpu:0", "--seconds", "0"];
        let (code, out, err) = outcome(Home::new().command(&args).args(more));
        assert_eq!(code, 0, "{err}");
        out
    };
    let out = bench(&[]);
    for words in ["γ = 1 ", "GB/s", "T_V(16)", "Predicted best: ", "Measured best:  ", "left out"]
    {
        assert!(out.contains(words), "{words} is missing from\n{out}");
    }
    let found: Value = serde_json::from_str(&bench(&["--json"])).unwrap();
    let rows = found["placements"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "the best of the CPU and one more in any case: {found}");
    for row in rows {
        assert!(row["expected"]["rate"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["measured"]["tokens_s"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["measured"]["verify_ms"].as_array().unwrap().len() > 2, "{row}");
    }
    assert!(found["left_out"].as_u64().unwrap() > 4);
    assert!(found["times"]["transfer"].as_f64().unwrap() > 0.0);
    let (code, _, err) = outcome(&mut Home::new().command(&["bench", "gpu", "--device", "cpu"]));
    assert_eq!((code, err.contains("as you asked")), (1, true), "{err}");
}

#[test]
fn a_gpu_that_is_not_there_is_told_on_stderr() {
    let args = ["run", "hi", "--max-tokens", "2", "--device", "gpu:77"];
    for more in [&[][..], &["--draft", "lookup"], &["--plain"]] {
        let (code, out, err) = outcome(Home::new().command(&args).args(more));
        assert!(code == 0 && !out.is_empty(), "{err}");
        assert!(err.contains("there is no gpu:77"), "{more:?}: {err}");
    }
}

/// What is on a GPU is not packed for the CPU, and a part of a model is no use at the next start.
#[test]
fn a_target_on_a_gpu_leaves_no_packed_weights_behind() {
    if !has_gpu() {
        return;
    }
    let home = Home::new();
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/arch/qwen3.gguf");
    let packed = || {
        let folder = home.path().join("cache/dovetail/packed");
        std::fs::read_dir(folder).map_or(0, |found| found.count())
    };
    for (layers, files) in [("all", 0), ("1", 0), ("0", 1)] {
        let args = ["run", "hi", "--max-tokens", "2", "--target", model, "--pack-cache"];
        let mut command = home.command(&args);
        command.args(["--device", "gpu:0", "--gpu-layers", layers]);
        let (code, _, err) = outcome(&mut command);
        assert_eq!(code, 0, "{err}");
        assert_eq!(packed(), files, "--gpu-layers {layers}: {err}");
    }
}
