//! The program from outside: arguments, pipes, exit codes. It uses a script where the model does
//! not matter, and the bundled pair where it does.

use crate::support::program::{HELLO, Home, outcome, run, script};
use dovetail::kernels::Format;
use serde_json::Value;
use std::io::Read;
use std::process::Stdio;

#[test]
fn help_names_the_commands_and_the_shared_flags() {
    let (code, out, _) = run(&["--help"]);
    assert_eq!(code, 0);
    for word in ["chat", "run", "doctor", "--gamma", "--blocks", "Exit codes"] {
        assert!(out.contains(word), "{word} is missing from\n{out}");
    }
    let (code, out, _) = run(&["run", "--help"]);
    assert_eq!(code, 0);
    let flags = "--target --draft --gamma --blocks --width --depth --temperature --top-k --top-p \
        --min-p --seed --max-tokens --system --plain --threads --device --json";
    for flag in flags.split(' ') {
        assert!(out.contains(flag), "{flag} is missing from\n{out}");
    }
    let (code, out, _) = run(&["--version"]);
    assert_eq!((code, out), (0, format!("dovetail {}\n", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn wrong_flags_and_values_exit_with_two_and_name_themselves() {
    for (args, words) in [
        (&["run", "hi", "--gama", "3"][..], &["--gama", "--gamma"][..]),
        (&["run", "hi", "--gamma", "129"], &["--gamma", "from 1 to 128", "auto", "129"]),
        (&["run", "hi", "--strategy", "dovetial"], &["--strategy", "did you mean `dovetail`?"]),
        (&["run", "hi", "--strategy", "magic"], &["the strategies are plain, auto, dovetail"]),
        (&["run", "hi", "--top-p", "0"], &["--top-p", "above 0"]),
        (&["run", "hi", "--device", "tpu"], &["--device", "gpu:N", "tpu"]),
        (&["run", "hi", "--temperature", "nan"], &["--temperature", "from 0 to 2"]),
        (&["--gamma", "x"], &["--gamma", "auto"]),
        (&["run", "hi", "--config", "no/such.toml"], &["no/such.toml", "--config"]),
    ] {
        let (code, out, err) = run(args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
        for word in words {
            assert!(err.contains(word), "{args:?}: {word} is missing from\n{err}");
        }
    }
}

#[test]
fn a_typo_in_the_settings_file_is_named_with_its_line() {
    let home = Home::new();
    home.write_settings("max_tokens = 20\n[sampler]\ntemprature = 0.5\n");
    let (code, _, err) = outcome(&mut home.command(&["run", "hi"]));
    assert_eq!(code, 2);
    assert!(err.contains("settings.toml:3:1:"), "{err}");
    assert!(err.contains("did you mean `sampler.temperature`?"), "{err}");
}

#[test]
fn an_error_tells_its_cause_once() {
    let home = Home::new();
    let folder = home.path().join("folder.toml");
    std::fs::create_dir(&folder).unwrap();
    let latin = home.path().join("latin.toml");
    std::fs::write(&latin, b"system = \"caf\xe9\"\n").unwrap();
    let (folder, latin) = (folder.to_str().unwrap(), latin.to_str().unwrap());
    let gone = "os error 2";
    for (args, cause, remedy) in [
        (&["verify", "/no-such.json"][..], gone, "/no-such.json"),
        (&["replay", "/no-such.json"], gone, "/no-such.json"),
        (&["run", "hi", "--target", "/no-such.gguf"], "/no-such.gguf", "/no-such.gguf"),
        (&["doctor", "--target", "/no-such.gguf"], "/no-such.gguf", "/no-such.gguf"),
        (&["run", "hi", "--config", "/no-such.toml"], gone, "name another with --config"),
        (&["run", "hi", "--config", folder], "it is a folder", "move it away or name another"),
        (&["run", "hi", "--config", latin], "it is not UTF-8 text", "save it as UTF-8"),
    ] {
        let (_, _, err) = outcome(&mut home.command(args));
        assert_eq!(err.matches(cause).count(), 1, "{args:?}: {err}");
        assert!(err.contains(remedy), "{args:?}: {err}");
        if cause == "it is a folder" {
            assert!(!err.contains("permissions"), "{err}");
        }
    }
}

#[test]
fn an_answer_comes_as_text() {
    let script = script("answers.jsonl");
    let (code, out, err) = run(&["run", "hi", "--script", &script]);
    assert_eq!((code, out, err.as_str()), (0, format!("{HELLO}\n"), ""));
}

#[test]
fn json_is_one_line_a_round_and_a_summary() {
    let script = script("answers.jsonl");
    let (code, out, err) = run(&["run", "hi", "--json", "--script", &script]);
    assert_eq!((code, err.as_str()), (0, ""));
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (summary, rounds) = lines.split_last().unwrap();
    assert!(rounds.iter().all(|line| line["type"] == "round"));
    assert_eq!(summary["type"], "summary");
    assert_eq!(summary["text"], HELLO);
    assert_eq!(summary["rounds"], rounds.len());
    let fields = "tokens tau tokens_per_second prefill_ms draft_ms verify_ms gamma blocks";
    for field in fields.split(' ') {
        assert!(summary[field].is_number(), "{field} in {summary}");
    }
    let named = run(&["run", "hi", "--json", "--script", &script, "--strategy", "pld"]).1;
    let last: Value = serde_json::from_str(named.lines().last().unwrap()).unwrap();
    assert_eq!(last["strategy"], "pld");
}

#[test]
fn thoughts_go_to_stderr_unless_they_are_hidden() {
    const THOUGHT: &str = "They ask where the fox ran.\n\nOver the hill, I think.";
    let script = script("thoughts.jsonl");
    let (code, out, err) = run(&["run", "hi", "--script", &script]);
    assert_eq!((code, out.as_str()), (0, "Over the hill.\n"), "{err}");
    assert_eq!(err, format!("{THOUGHT}\n\n"));
    let (_, out, err) = run(&["run", "hi", "--hide-thinking", "--script", &script]);
    assert_eq!((out.as_str(), err.as_str()), ("Over the hill.\n", ""));
    let (_, out, _) = run(&["run", "hi", "--json", "--script", &script]);
    let last: serde_json::Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!((&last["text"], &last["thought"]), (&"Over the hill.".into(), &THOUGHT.into()));
    let (code, _, err) = run(&["run", "hi", "--think", "maybe", "--script", &script]);
    assert!(code == 2 && err.contains("auto"), "{err}");
}

#[test]
fn the_prompt_may_be_piped_in() {
    let home = Home::new();
    let script = script("answers.jsonl");
    for args in [&["run"][..], &["run", "-"], &["run", "sum this up", "-"]] {
        let mut command = home.command(args);
        command.args(["--script", &script]).write_stdin("a text\n");
        assert_eq!(outcome(&mut command).0, 0, "{args:?}");
    }
    for empty in ["", " \n"] {
        let mut command = home.command(&["run", "--script", &script]);
        let (code, _, err) = outcome(command.write_stdin(empty));
        assert_eq!(code, 2);
        assert!(err.contains("the prompt is empty"), "{err}");
    }
}

#[test]
fn a_failed_answer_and_an_unloadable_model_have_codes_of_their_own() {
    let (code, _, err) = run(&["run", "hi", "--script", &script("failing.jsonl")]);
    assert_eq!(code, 1, "{err}");
    assert!(err.starts_with("note: ") && err.contains("\nerror: "), "{err}");
    let (code, out, err) = run(&["run", "hi", "--script", &script("unloadable.jsonl")]);
    assert_eq!((code, out.as_str()), (3, ""), "{err}");
    let (code, _, err) = run(&["run", "hi", "--target", "/no/such/model"]);
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("/no/such/model"), "{err}");
}

#[test]
fn a_reader_that_leaves_ends_it_quietly() {
    let home = Home::new();
    let mut command = home.std_command();
    command.args(["run", "hi", "--script", &script("slow.jsonl")]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 4];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[cfg(unix)]
#[test]
fn ctrl_c_stops_the_answer_with_the_line_closed() {
    let home = Home::new();
    let mut command = home.std_command();
    command.args(["run", "hi", "--script", &script("slow.jsonl")]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut first = [0; 4];
    out.read_exact(&mut first).unwrap();
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert!(rest.ends_with('\n'), "{rest:?}");
}

#[test]
fn a_chat_without_a_terminal_points_to_run() {
    let (code, out, err) = run(&[]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("dovetail run"), "{err}");
}

#[test]
fn pull_says_what_is_no_id_and_what_is_not_here() {
    let (code, _, err) = run(&["pull", "no-owner"]);
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("owner/name"), "{err}");
    let home = Home::new();
    let mut command = home.command(&["pull", "owner/name"]);
    let cache = home.path().join("hub");
    command.env("HF_HUB_OFFLINE", "1").env("HF_HOME", &cache).env_remove("HF_HUB_CACHE");
    let (code, out, err) = outcome(&mut command);
    assert_eq!((code, out.as_str()), (3, ""), "{err}");
    assert!(err.contains("owner/name"), "{err}");
}

#[test]
fn a_measurement_takes_a_model_or_a_shape() {
    let small = ["bench", "pass", "--model", "bundled", "--gammas", "1,4", "--context", "16"];
    let (code, out, err) = run(&[&small[..], &["--quick", "--json"]].concat());
    assert_eq!(code, 0, "{err}");
    let result: Value = serde_json::from_str(&out).unwrap();
    let gammas = result["rows"].as_array().unwrap().iter().map(|row| row["gamma"].as_u64());
    assert!(gammas.eq([Some(1), Some(4)]), "{out}");
    for (flags, word) in [
        (&["--shape", "2b"][..], "1b, 7b, 13b"),
        (&["--shape", "1b", "--format", "q3"], "q4_k"),
        (&["--gammas", "0"], "at least 1"),
        (&["--context", "many"], "tokens before the tree"),
        (&["--model", "bundled", "--shape", "1b"], "--shape"),
    ] {
        let (code, _, err) = run(&[&["bench", "pass"][..], flags].concat());
        assert_eq!(code, 2, "{flags:?}: {err}");
        assert!(err.contains(word), "{flags:?}: {err}");
    }
}

#[test]
fn verification_is_timed_for_every_tensor_format() {
    let (code, _, err) = run(&["bench", "pass", "--shape", "1b", "--format", "none"]);
    assert_eq!(code, 2, "{err}");
    for format in Format::ALL {
        let name = format.name().to_lowercase();
        assert!(err.contains(&name), "{name} is missing from {err}");
        assert_eq!(Format::from_name(&name), Some(format));
    }
}

#[test]
fn quality_is_measured_and_refused_with_the_remedy() {
    let (code, out, err) = run(&["bench", "quality", "--window", "64", "--threads", "2"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("perplexity  ") && out.contains("text: bundled"), "{out}");
    for (flags, code, words) in [
        (&["--target", "nowhere.gguf"][..], 3, "nowhere.gguf"),
        (&["--text", "nowhere.txt"], 2, "nowhere.txt"),
        (&["--window", "1"], 2, "--window must be 2 or more"),
    ] {
        let (found, _, err) = run(&[&["bench", "quality"][..], flags].concat());
        assert_eq!(found, code, "{flags:?}: {err}");
        assert!(err.contains(words), "{flags:?}: {err}");
    }
}

#[test]
fn completions_and_manual_are_made_from_the_flags() {
    for shell in ["bash", "zsh", "fish"] {
        let (code, out, _) = run(&["completions", shell]);
        assert_eq!(code, 0);
        assert!(out.contains("dovetail") && out.contains("gamma"), "{shell}");
    }
    let (code, out, _) = run(&["man"]);
    assert_eq!(code, 0);
    assert!(out.contains(".TH dovetail") && out.contains("DOVETAIL RUN"), "{out}");
}

#[test]
fn doctor_describes_machine_models_and_choice() {
    let (code, out, err) = run(&["doctor"]);
    assert_eq!(code, 0, "{err}");
    let at = |word: &str| out.find(word).unwrap_or_else(|| panic!("{word} is missing from\n{out}"));
    let titles = [
        "Machine\n",
        "Build\n",
        "Files\n",
        "Models\n",
        "Choice\n",
        "Sampling\n",
        "Strategies\n",
        "Why\n",
    ];
    let places: Vec<usize> = titles.iter().map(|title| at(title)).collect();
    assert!(places.is_sorted(), "{out}");
    for row in
        ["  CPU ", "  features ", "  GPU ", "  target ", "  kernels ", "  draft ", "  γ ", "  M "]
    {
        at(row);
    }
    for (strategy, words) in [("auto", "(in use)"), ("rest", "name one with --rest-text")] {
        let row = out[places[6]..].lines().find(|row| row.trim_start().starts_with(strategy));
        assert!(row.is_some_and(|row| row.contains(words)), "{out}");
    }
    let why = &out[places[7]..];
    assert!(why.contains("rafting on"), "{why}");
    assert!(why.contains("The times were measured while loading."), "{why}");
}

#[test]
fn doctor_describes_the_machine_even_without_models() {
    let (code, out, err) = run(&["doctor", "--target", "/no/such/model"]);
    assert_eq!(code, 3);
    assert!(out.contains("Machine\n") && err.contains("/no/such/model"), "{out}{err}");
}

#[test]
fn the_bundled_pair_says_the_same_with_and_without_speculation() {
    let answer = |flags: &[&str]| {
        let prompt = ["run", "Tell me a story about a dog.", "--max-tokens", "40"];
        let (code, out, err) = run(&[&prompt[..], flags].concat());
        assert_eq!(code, 0, "{err}");
        out
    };
    let plain = answer(&["--plain"]);
    assert!(plain.split_whitespace().count() > 5, "{plain:?}");
    assert_eq!(answer(&["--gamma", "16", "--depth", "5", "--width", "8"]), plain);
    assert_eq!(answer(&["--prefer", "show", "--threads", "1"]), plain);
    let warm = ["--temperature", "0.9", "--seed", "7", "--top-p", "0.95"];
    let plain = answer(&[&warm[..], &["--plain"]].concat());
    assert_eq!(answer(&[&warm[..], &["--gamma", "24"]].concat()), plain);
}

#[test]
fn strategies_are_run_against_plain_and_say_so_in_every_form() {
    let home = Home::new();
    let (save, svg) = (home.path().join("a.json"), home.path().join("charts"));
    let (save, svg) = (save.to_str().unwrap(), svg.to_str().unwrap());
    let quick = ["bench", "--prompts", "everyday,gsm8k", "--limit", "1", "--max-tokens", "12"];
    let more = ["--temperature", "0,1", "--markdown", "--save", save, "--svg", svg];
    let (code, out, err) = outcome(&mut home.command(&[&quick[..], &more].concat()));
    assert_eq!(code, 0, "{err}");
    for words in [
        "Speed-up over plain, and τ; T = 0",
        "Speed-up over plain, and τ; T = 1",
        "| everyday |",
        "| plain ",
        "| dovetail ",
        "identical to plain decoding, token for token.",
    ] {
        assert!(out.contains(words), "{words} is missing from\n{out}");
    }
    for chart in ["speed-up-t0.svg", "time-t1.svg"] {
        assert!(std::path::Path::new(svg).join(chart).is_file(), "{chart}: {err}");
    }

    let text = std::fs::read_to_string(save).unwrap();
    let results: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(results["complete"], true);
    assert!(results["environment"]["threads"].as_u64().unwrap() >= 1, "{text}");
    let answers = results["answers"].as_array().unwrap();
    assert!(answers.len() >= 8 && answers.iter().all(|answer| answer["differs_at"].is_null()));
    assert!(answers.iter().all(|answer| answer["tokens"].as_u64().unwrap() <= 12), "{text}");
    for strategy in ["plain", "dovetail", "dovetail+overlap", "pld"] {
        assert!(answers.iter().any(|answer| answer["strategy"] == strategy), "{strategy}: {text}");
    }

    let (code, out, err) = outcome(&mut home.command(&["bench", "compare", save, save]));
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("B over A; T = 0") && out.contains("1.00×"), "{out}");

    let (code, out, err) = outcome(&mut home.command(&["bench", "show", save, save]));
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("Speed-up over plain, and τ; T = 1"), "{out}");

    let sweep = ["bench", "sweep", "--prompts", "everyday", "--limit", "1"];
    let short = ["--max-tokens", "4", "--gamma", "4", "--svg", svg];
    let (code, out, err) = outcome(&mut home.command(&[&sweep[..], &short].concat()));
    assert_eq!(code, 0, "{err}");
    for words in
        ["Blocks of", "Nodes of the tree; T = 0", "\n64 ", "Width of the tree", "expansions"]
    {
        assert!(out.contains(words), "{words} is missing from\n{out}");
    }
    assert!(std::path::Path::new(svg).join("nodes-of-the-tree-cost-t0.svg").is_file(), "{err}");

    for (flags, words) in [
        (&["--strategies", "plain,warp"][..], "warp"),
        (&["--prompts", "no-such-set"], "mt_bench"),
        (&["--temperature", "0,9"], "--temperature"),
        (&["--limit", "0"], "--limit"),
    ] {
        let (code, _, err) = run(&[&["bench"][..], flags].concat());
        assert_eq!(code, 2, "{flags:?}: {err}");
        assert!(err.contains(words), "{flags:?}: {err}");
    }
}
