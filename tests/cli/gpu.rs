//! The program with a named GPU: the first one that the machine has, which is a software GPU in
//! most places.

use crate::support::golden::golden;
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

/// The counts in a record's `traffic`; 0 if it has none.
fn counts(record: &Value) -> [u64; 3] {
    ["submissions", "bytes_up", "bytes_down"]
        .map(|name| record["traffic"][name].as_u64().unwrap_or_default())
}

#[test]
fn json_says_what_each_round_sent_over_the_bus() {
    if !has_gpu() {
        return;
    }
    // A tree requested explicitly, because none pays off on a software device.
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
    let (_, bus) = out.split_once("Traffic on the GPU's bus\n").unwrap_or_else(|| panic!("{out}"));
    assert!(bus.contains(" submissions, ") && bus.contains(" kB down (mean of "), "{bus}");
    assert!(!doctor("cpu").contains("Traffic on the GPU's bus"));
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
    assert!(table("cpu").contains("all on the CPU: you chose the CPU"));
}

/// The same device gives the same text, whether blocks stay there or are sent in every pass.
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
fn a_sweep_of_placements_sets_what_was_measured_beside_what_was_expected() {
    if !has_gpu() {
        return;
    }
    // Refusing a head is reported while loading, and does not stop anything from running where it
    // should.
    let other = golden("eagle3/head_eagle3").display().to_string();
    let args = ["bench", "sweep", "--over", "placement", "--device", "gpu:0", "--quick", "--json"];
    let short = ["--max-tokens", "8", "--limit", "1"];
    let heads = ["--draft", "assets/demo/head", "--draft", &other];
    let mut command = Home::new().command(&args);
    let (code, out, err) = outcome(command.args(short).args(heads));
    assert_eq!(code, 0, "{err}");
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
fn a_sweep_of_placements_without_a_gpu_says_why() {
    // The former name of the command.
    for args in [&["gpu"][..], &["sweep", "--over", "placement"]] {
        let args = [&["bench"], args, &["--device", "cpu"]].concat();
        let (code, _, err) = outcome(&mut Home::new().command(&args));
        assert_eq!((code, err.contains("you chose the CPU")), (1, true), "{err}");
    }
}

#[test]
fn a_gpu_that_is_not_there_is_told_on_stderr() {
    let args = ["run", "hi", "--max-tokens", "2", "--device", "gpu:77"];
    for more in [&[][..], &["--draft", "lookup"], &["--plain"]] {
        let (code, out, err) = outcome(Home::new().command(&args).args(more));
        assert!(code == 0 && !out.is_empty(), "{err}");
        assert!(err.contains("gpu:77 does not exist"), "{more:?}: {err}");
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

#[test]
fn a_long_prompt_is_read_on_a_gpu_where_that_is_asked_for() {
    if !has_gpu() {
        return;
    }
    let run = |more: &[&str]| {
        let args = ["run", "--json", LONG, "--max-tokens", "16", "--device", "gpu:0"];
        let (code, out, err) = outcome(Home::new().command(&args).args(more));
        assert_eq!(code, 0, "{err}");
        let lines: Vec<Value> = out.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        let tokens = lines.iter().flat_map(|line| line["committed"].as_array().cloned());
        let tokens: Vec<Value> = tokens.flatten().map(|token| token["token"].clone()).collect();
        let sent = lines.last().unwrap()["prefill_traffic"]["bytes_up"].as_u64();
        (tokens, sent)
    };
    let (plain, sent) = run(&["--prefill", "gpu", "--strategy", "plain"]);
    assert!(sent.is_some_and(|bytes| bytes > 1_000_000), "the weights went there: {sent:?}");
    assert!(!plain.is_empty());
    assert_eq!(run(&["--prefill", "gpu", "--strategy", "context"]).0, plain);
    // It is never used by default, even if the user has only requested a device.
    assert_eq!(run(&["--strategy", "plain"]).1, None);
}

#[test]
fn doctor_says_where_long_prompts_are_read() {
    if !has_gpu() {
        return;
    }
    let doctor = |more: &[&str]| {
        let (code, out, err) = outcome(Home::new().command(&["doctor"]).args(more));
        assert_eq!(code, 0, "{err}");
        out
    };
    let out = doctor(&["--device", "gpu:0", "--prefill", "gpu", "--strategy", "plain"]);
    assert!(out.contains("reads long prompts in slices") && out.contains("slices of 512"), "{out}");
    let out = doctor(&["--prefill", "gpu"]);
    assert!(out.contains("The CPU reads the prompts: no GPU"), "{out}");
    let out = doctor(&["--placements", "--device", "gpu:0"]);
    assert!(out.contains("Expected for a long prompt: "), "{out}");
}

/// What was read on another device may give another text if two tokens are nearly equally likely;
/// such a record must not be called wrong.
#[test]
fn a_record_is_verified_on_the_device_that_read_its_prompts() {
    if !has_gpu() {
        return;
    }
    let home = Home::new();
    let file = home.path().join("record.jsonl");
    let file = file.to_str().unwrap();
    let long = ["run", LONG, "--max-tokens", "16", "--record", file, "--strategy", "context"];
    let (code, _, err) =
        outcome(home.command(&long).args(["--device", "gpu:0", "--prefill", "gpu"]));
    assert_eq!(code, 0, "{err}");
    let (code, out, err) = outcome(&mut home.command(&["verify", file, "--device", "gpu:0"]));
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("are the target's own"), "{out}");
    let (code, out, err) = outcome(&mut home.command(&["verify", file]));
    assert_eq!(code, 2, "{out}{err}");
    assert!(err.contains("its long prompts were read on ") && err.contains("--device"), "{err}");
}
