//! The program with a named GPU: the first one that the machine has, which is a software GPU in
//! most places.

use crate::support::golden::golden;
use crate::support::program::{Home, assert_has};
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

/// The counts in a record's `traffic`; 0 if it has none.
fn counts(record: &Value) -> [u64; 3] {
    ["submissions", "bytes_up", "bytes_down"]
        .map(|name| record["traffic"][name].as_u64().unwrap_or_default())
}

/// What the program prints on this device.
fn on(device: &str, args: &[&str], more: &[&str]) -> String {
    Home::new().ran(0, &[args, &["--device", device], more].concat()).0
}

fn lines(out: &str) -> Vec<Value> {
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_command_says_what_was_sent_over_the_bus() {
    if !has_gpu() {
        return;
    }
    // A tree requested explicitly, because none pays off on a software device.
    let tree = ["--strategy", "dovetail", "--gamma", "8"];
    let run = ["run", "--json", "Hello", "--max-tokens", "24"];
    let there = lines(&on("gpu:0", &run, &tree));
    let (summary, before) = there.split_last().unwrap();
    // The first token comes before them.
    let rounds = &before[1..];
    let mut all = [0; 3];
    for round in rounds {
        counts(round).iter().zip(&mut all).for_each(|(count, sum)| *sum += count);
    }
    assert!(all.iter().all(|&count| count > 0), "{all:?}");
    assert_eq!(counts(summary), all);
    assert!(counts(&rounds[0])[0] > 1, "a tree takes several passes: {:?}", rounds[0]["traffic"]);
    assert!(lines(&on("cpu", &run, &tree)).iter().all(|line| line.get("traffic").is_none()));

    let out = on("gpu:0", &["doctor"], &tree[..2]);
    let (_, bus) = out.split_once("Traffic on the GPU's bus\n").unwrap_or_else(|| panic!("{out}"));
    assert_has(bus, &[" submissions, ", " kB down (mean of "]);
    assert!(!on("cpu", &["doctor"], &tree[..2]).contains("Traffic on the GPU's bus"));

    let home = Home::new();
    let file = home.path().join("result.json");
    let bench = ["bench", "--limit", "1", "--max-tokens", "16", "--device", "gpu:0", "--save"];
    let what = ["--prompts", "everyday", "--strategies", "plain,dovetail", "--gamma", "8"];
    home.ran(0, &[&bench[..], &[file.to_str().unwrap()], &what].concat());
    let saved: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    for answer in saved["answers"].as_array().unwrap() {
        let drafts = answer["strategy"] == "dovetail";
        assert_eq!(counts(answer).iter().all(|&count| count > 0), drafts, "{answer}");
    }
}

#[test]
fn doctor_prints_the_placements_of_a_device_and_where_long_prompts_are_read() {
    if !has_gpu() {
        return;
    }
    let table = ["doctor", "--placements"];
    let words = ["tokens/s", "plain, target on the CPU", "duo: ", "(best)", "T_offload"];
    let out = on("gpu:0", &table, &[]);
    assert_has(&out, &[&words[..], &["Expected for a long prompt: "]].concat());
    assert_has(&on("cpu", &table, &[]), &["all on the CPU: you chose the CPU"]);
    let there = ["doctor", "--prefill", "gpu"];
    let out = on("gpu:0", &there, &["--strategy", "plain"]);
    assert_has(&out, &["reads long prompts in slices", "slices of 512"]);
    assert_has(&on("cpu", &there, &[]), &["The CPU reads the prompts: you chose the CPU"]);
}

/// The same device gives the same text, whether blocks stay there or are sent in every pass.
#[test]
fn a_streamed_target_says_what_a_resident_one_does() {
    if !has_gpu() {
        return;
    }
    let ask = ["run", "Tell me about a fox.", "--max-tokens", "24"];
    let streamed = on("gpu:0", &ask, &["--strategy", "offload"]);
    let resident = ["--strategy", "partial-plain", "--gpu-layers", "all"];
    assert_eq!(streamed, on("gpu:0", &ask, &resident));
    assert!(streamed.split_whitespace().count() > 5, "{streamed}");
}

/// Every strategy can be measured on a streamed target, in one load, and its text is the same.
#[test]
fn a_bench_streams_the_target_for_any_strategy() {
    if !has_gpu() {
        return;
    }
    let what = "offload;specexec:gpu-layers=stream;dovetail:gpu-layers=stream,gamma=8,k=2,d=3";
    let short = ["--prompts", "everyday", "--limit", "1", "--max-tokens", "12", "--json"];
    let out = on("gpu:0", &["bench", "--strategies", what], &short);
    let found: Value = serde_json::from_str(&out).unwrap();
    let answers = found["answers"].as_array().unwrap();
    let mut names: Vec<&str> = answers.iter().filter_map(|a| a["strategy"].as_str()).collect();
    names.dedup();
    let expected = [
        "plain",
        "offload",
        "specexec:gpu-layers=stream",
        "dovetail:gpu-layers=stream,gamma=8,k=2,d=3",
    ];
    assert_eq!(names, expected, "{out}");
    assert!(answers.iter().all(|answer| answer["differs_at"].is_null()), "{out}");
    // All weights go there in every pass, so fewer passes send less.
    let sent = |name: &str| -> u64 {
        answers.iter().filter(|a| a["strategy"] == name).map(|a| counts(a)[1]).sum()
    };
    let all = [sent(expected[1]), sent(expected[2]), sent(expected[3])];
    assert!(all[1] < all[0] && all[2] < all[0] && all[1] > 0, "{all:?}");
    Home::new().refuses(
        2,
        &["bench", "--strategies", what, "--device", "cpu"],
        &["`specexec:gpu-layers=stream` needs a GPU to stream to"],
    );
}

#[test]
fn a_sweep_of_placements_sets_what_was_measured_beside_what_was_expected() {
    // The former name of the command too.
    for args in [&["gpu"][..], &["sweep", "--over", "placement"]] {
        let args = [&["bench"], args, &["--device", "cpu"]].concat();
        Home::new().refuses(1, &args, &["you chose the CPU"]);
    }
    if !has_gpu() {
        return;
    }
    // Refusing a head is reported while loading, and does not stop anything from running where it
    // should.
    let other = golden("eagle3/head_eagle3").display().to_string();
    let sweep = ["bench", "sweep", "--over", "placement", "--quick", "--json"];
    let short = ["--max-tokens", "8", "--limit", "1"];
    let heads = ["--draft", "assets/demo/head", "--draft", &other];
    let out = on("gpu:0", &sweep, &[short, heads].concat());
    let found: Value = serde_json::from_str(&out).unwrap();
    let sweep = &found["sweeps"][0];
    let points = sweep["points"].as_array().unwrap();
    assert_eq!(points.len(), 2, "the best of the CPU and one more in any case: {found}");
    for (point, expected) in points.iter().zip(sweep["expected"].as_array().unwrap()) {
        assert_eq!(point[0], expected[0], "{sweep}");
        assert!(expected[1].as_f64().unwrap() > 0.0, "{sweep}");
        let answers = found["answers"].as_array().unwrap().iter();
        let own = answers.filter(|answer| answer["strategy"] == point[0]);
        assert!(own.clone().count() > 0, "{sweep}");
        assert!(own.clone().all(|answer| answer["differs_at"].is_null()), "{found}");
    }
}

#[test]
fn a_gpu_that_is_not_there_is_told_on_stderr() {
    let ask = ["run", "hi", "--max-tokens", "2", "--device", "gpu:77"];
    for more in [&[][..], &["--draft", "lookup"], &["--plain"]] {
        let (out, err) = Home::new().ran(0, &[&ask[..], more].concat());
        assert!(!out.is_empty() && err.contains("gpu:77 does not exist"), "{more:?}: {err}");
    }
}

/// What is on a GPU is not packed for the CPU, and a part of a model cannot be used at the next
/// start.
#[test]
fn a_target_on_a_gpu_leaves_no_packed_weights_behind() {
    if !has_gpu() {
        return;
    }
    let home = Home::new();
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/arch/qwen3.gguf");
    for (layers, files) in [("all", 0), ("1", 0), ("0", 1)] {
        let ask = ["run", "hi", "--max-tokens", "2", "--target", model, "--pack-cache"];
        let there = ["--device", "gpu:0", "--gpu-layers", layers];
        let (_, err) = home.ran(0, &[&ask[..], &there].concat());
        let packed = std::fs::read_dir(home.path().join("cache/dovetail/packed"));
        let packed = packed.map_or(0, |found| found.count());
        assert_eq!(packed, files, "--gpu-layers {layers}: {err}");
    }
}

/// Long enough to be read on a GPU.
const LONG: &str = "\
    Here is a story. Once upon a time a little fox lived in a wood with its mother. Every \
    day it went to the river to look at the fish, and every day the fish said: come in, the \
    water is nice. But the fox could not swim. One day a big bird came and sat on a stone. \
    The bird said: I will show you how to swim. The fox was happy and jumped into the water, \
    and then it was very wet and very cold. The bird laughed. The fox went home and told its \
    mother all of it, and the mother said: never listen to a bird that cannot swim. The next \
    day the fox went to the river again. The fish said: come in, the water is nice. The fox \
    said: no, thank you, I am a fox. Then it went to play with its friend the rabbit, and \
    they ate berries until the sun went down. Now tell me, who lived in the wood?";

/// What was read on another device may give another text if two tokens are nearly equally likely;
/// a record of that must not be called wrong.
#[test]
fn a_long_prompt_is_read_on_a_gpu_where_that_is_asked_for_and_verified_there() {
    if !has_gpu() {
        return;
    }
    let run = |more: &[&str]| {
        let lines = lines(&on("gpu:0", &["run", "--json", LONG, "--max-tokens", "16"], more));
        let tokens = lines.iter().flat_map(|line| line["committed"].as_array().cloned());
        let tokens: Vec<Value> = tokens.flatten().map(|token| token["token"].clone()).collect();
        let sent = lines.last().unwrap()["prefill_traffic"]["bytes_up"].as_u64();
        (tokens, sent)
    };
    let (plain, sent) = run(&["--prefill", "gpu", "--strategy", "plain"]);
    assert!(sent.is_some_and(|bytes| bytes > 1_000_000), "the weights went there: {sent:?}");
    assert!(!plain.is_empty());
    // It is never used by default, even if the user has only requested a device.
    assert_eq!(run(&["--strategy", "plain"]).1, None);

    let home = Home::new();
    let file = home.path().join("record.jsonl");
    let file = file.to_str().unwrap();
    assert_eq!(run(&["--prefill", "gpu", "--strategy", "context", "--record", file]).0, plain);
    let (out, _) = home.ran(0, &["verify", file, "--device", "gpu:0"]);
    assert_has(&out, &["are the target's own"]);
    home.refuses(2, &["verify", file], &["its long prompts were read on ", "--device"]);
}
