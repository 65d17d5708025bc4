//! The program from outside: arguments, pipes, exit codes. It uses a script where the model does
//! not matter, and the bundled pair where it does.

use crate::support::program::{HELLO, Home, assert_has, ends, last_json, script};
use dovetail::kernels::Format;
use serde_json::Value;
use std::io::Read;
use std::process::Stdio;

#[test]
fn help_names_the_commands_and_the_shared_flags() {
    let home = Home::new();
    let shared = ["chat", "run", "doctor", "--gamma", "--blocks", "Exit codes"];
    assert_has(&home.ran(0, &["--help"]).0, &shared);
    let flags = "--target --draft --gamma --blocks --width --depth --temperature --top-k --top-p \
        --min-p --seed --max-tokens --system --plain --threads --device --json";
    assert_has(&home.ran(0, &["run", "--help"]).0, &flags.split(' ').collect::<Vec<_>>());
    let (version, _) = home.ran(0, &["--version"]);
    assert_eq!(version, format!("dovetail {}\n", env!("CARGO_PKG_VERSION")));
}

/// What is refused before anything is loaded: nothing is on stdout, and stderr names the flag, what
/// it takes, and what was given.
#[test]
fn wrong_flags_values_and_contradictions_exit_with_two_and_name_themselves() {
    let home = Home::new();
    let script = script("thoughts.jsonl");
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
        (&["run", "hi", "--think", "maybe", "--script", &script], &["auto"]),
        (&["run", "hi", "--strategy", "rest"], &["`rest` needs a text", "--rest-text"]),
        (&["run", "hi", "--plain", "--strategy", "sps"], &["--plain", "--strategy sps"]),
        (
            &["run", "hi", "--target", "/no/such/model", "--strategy", "sps"],
            &["a small language model", "--draft-model"],
        ),
        (&["doctor", "--draft", "lookup", "--strategy", "dovetail"], &["`lookup`", "--draft"]),
        (&["--pace", "300"], &["--pace", "such as 0.5s or 500ms"]),
        // A chat without a terminal.
        (&[], &["dovetail run"]),
        (&["bench", "--strategies", "plain,warp"], &["warp"]),
        (&["bench", "--prompts", "no-such-set"], &["mt_bench"]),
        (&["bench", "--temperature", "0,9"], &["--temperature"]),
        (&["bench", "--limit", "0"], &["--limit"]),
        (&["bench", "pass", "--shape", "2b"], &["1b, qwen3.5-4b, gemma4-e4b, 7b, 13b"]),
        (&["bench", "pass", "--shape", "1b", "--format", "q3"], &["q4_k"]),
        (&["bench", "pass", "--gammas", "0"], &["at least 1"]),
        (&["bench", "pass", "--context", "many"], &["tokens before the tree"]),
        (&["bench", "pass", "--model", "bundled", "--shape", "1b"], &["--shape"]),
        (&["bench", "quality", "--text", "nowhere.txt"], &["nowhere.txt"]),
        (&["bench", "quality", "--window", "1"], &["--window must be 2 or more"]),
    ] {
        home.refuses(2, args, words);
    }
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
    for (code, args, cause, remedy) in [
        (2, &["verify", "/no-such.json"][..], gone, "/no-such.json"),
        (2, &["replay", "/no-such.json"], gone, "/no-such.json"),
        (3, &["run", "hi", "--target", "/no-such.gguf"], "/no-such.gguf", "/no-such.gguf"),
        (3, &["bench", "quality", "--target", "/no-such.gguf"], "/no-such.gguf", ""),
        (2, &["run", "hi", "--config", "/no-such.toml"], gone, "name another with --config"),
        (2, &["run", "hi", "--config", folder], "it is a folder", "move it away or name another"),
        (2, &["run", "hi", "--config", latin], "it is not UTF-8 text", "save it as UTF-8"),
    ] {
        let err = home.refuses(code, args, &[remedy]);
        assert_eq!(err.matches(cause).count(), 1, "{args:?}: {err}");
        assert!(cause != "it is a folder" || !err.contains("permissions"), "{err}");
    }
    // What is known without the models is described first.
    let (out, err) = home.ran(3, &["doctor", "--target", "/no-such.gguf"]);
    assert_has(&out, &["Machine\n"]);
    assert_eq!(err.matches("/no-such.gguf").count(), 1, "{err}");
}

#[test]
fn an_answer_comes_as_text_or_as_one_line_a_round_and_a_summary() {
    let home = Home::new();
    let script = script("answers.jsonl");
    let text = home.ran(0, &["run", "hi", "--script", &script]);
    assert_eq!(text, (format!("{HELLO}\n"), String::new()));
    let (out, err) = home.ran(0, &["run", "hi", "--json", "--script", &script]);
    assert_eq!(err, "");
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (summary, before) = lines.split_last().unwrap();
    let (first, rounds) = before.split_first().unwrap();
    assert_eq!(first["type"], "first");
    assert!(rounds.iter().all(|line| line["type"] == "round"));
    assert_eq!(summary["type"], "summary");
    assert_eq!(summary["text"], HELLO);
    assert_eq!(summary["rounds"], rounds.len());
    let fields = "tokens tau tokens_per_second prefill_ms draft_ms verify_ms gamma blocks";
    for field in fields.split(' ') {
        assert!(summary[field].is_number(), "{field} in {summary}");
    }
    let named = ["run", "hi", "--json", "--script", &script, "--strategy", "pld"];
    assert_eq!(last_json(&home.ran(0, &named).0)["strategy"], "pld");
}

#[test]
fn thoughts_go_to_stderr_unless_they_are_hidden() {
    const THOUGHT: &str = "They ask where the fox ran.\n\nOver the hill, I think.";
    let home = Home::new();
    let script = script("thoughts.jsonl");
    let answer =
        |flags: &[&str]| home.ran(0, &[&["run", "hi", "--script", &script], flags].concat());
    let said = || "Over the hill.\n".to_owned();
    assert_eq!(answer(&[]), (said(), format!("{THOUGHT}\n\n")));
    assert_eq!(answer(&["--hide-thinking"]), (said(), String::new()));
    let last = last_json(&answer(&["--json"]).0);
    assert_eq!((&last["text"], &last["thought"]), (&"Over the hill.".into(), &THOUGHT.into()));
}

#[test]
fn the_prompt_may_be_piped_in() {
    let home = Home::new();
    let script = script("answers.jsonl");
    for args in [&["run"][..], &["run", "-"], &["run", "sum this up", "-"]] {
        let mut command = home.command(args);
        ends(0, command.args(["--script", &script]).write_stdin("a text\n"));
    }
    for empty in ["", " \n"] {
        let mut command = home.command(&["run", "--script", &script]);
        let (_, err) = ends(2, command.write_stdin(empty));
        assert_has(&err, &["the prompt is empty"]);
    }
    let prompt_tokens = |piped: &str| {
        let mut command = home.command(&["run", "Say it:", "-", "--json", "--max-tokens", "1"]);
        let (out, _) = ends(0, command.write_stdin(piped.to_owned()));
        last_json(&out)["prompt_tokens"].as_u64().unwrap()
    };
    assert!(prompt_tokens("The river is long and wide.") >= prompt_tokens("") + 5);
    // In a loop over lines, the lines are the loop's.
    let mut command = home.command(&["run", "sum this up", "--script", &script]);
    ends(0, command.write_stdin(vec![0xff; 17 << 20]));
}

#[test]
fn a_failed_answer_and_an_unloadable_model_have_codes_of_their_own() {
    let home = Home::new();
    let (_, err) = home.ran(1, &["run", "hi", "--script", &script("failing.jsonl")]);
    assert!(err.starts_with("note: ") && err.contains("\nerror: "), "{err}");
    home.refuses(3, &["run", "hi", "--script", &script("unloadable.jsonl")], &[]);
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
fn pull_says_what_is_no_id_and_what_is_not_here() {
    let home = Home::new();
    home.refuses(3, &["pull", "no-owner"], &["owner/name"]);
    let mut command = home.command(&["pull", "owner/name"]);
    let cache = home.path().join("hub");
    command.env("HF_HUB_OFFLINE", "1").env("HF_HOME", &cache).env_remove("HF_HUB_CACHE");
    let (out, err) = ends(3, &mut command);
    assert!(out.is_empty() && err.contains("owner/name"), "{out}{err}");
}

#[test]
fn a_model_is_measured_and_every_tensor_format_can_be() {
    let small = ["bench", "pass", "--model", "bundled", "--gammas", "1,4", "--context", "16"];
    let home = Home::new();
    let result = home.json(&[&small[..], &["--quick", "--json"]].concat());
    let gammas = result["rows"].as_array().unwrap().iter().map(|row| row["gamma"].as_u64());
    assert!(gammas.eq([Some(1), Some(4)]), "{result}");
    let names = Format::ALL.map(|format| format.name().to_lowercase());
    let names = names.each_ref().map(String::as_str);
    home.refuses(2, &["bench", "pass", "--shape", "1b", "--format", "none"], &names);
    assert_eq!(names.map(Format::from_name), Format::ALL.map(Some));
    let quality = ["bench", "quality", "--window", "64", "--threads", "2"];
    assert_has(&home.ran(0, &quality).0, &["perplexity  ", "text: bundled"]);
}

#[test]
fn completions_and_manual_are_made_from_the_flags() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish"] {
        assert_has(&home.ran(0, &["completions", shell]).0, &["dovetail", "gamma"]);
    }
    assert_has(&home.ran(0, &["man"]).0, &[".TH dovetail", "DOVETAIL RUN"]);
}

#[test]
fn doctor_describes_machine_models_and_choice() {
    let (out, _) = Home::new().ran(0, &["doctor"]);
    let titles = "Machine Build Files Models Choice Sampling Strategies Why";
    let places: Vec<usize> = titles
        .split(' ')
        .map(|title| out.find(&format!("{title}\n")).unwrap_or_else(|| panic!("{title}: {out}")))
        .collect();
    assert!(places.is_sorted(), "{out}");
    let rows = ["  CPU ", "  features ", "  GPU ", "  target ", "  kernels ", "  draft "];
    assert_has(&out, &[&rows[..], &["  γ ", "  M "]].concat());
    for (strategy, words) in [("auto", "(in use)"), ("rest", "name one with --rest-text")] {
        let row = out[places[6]..].lines().find(|row| row.trim_start().starts_with(strategy));
        assert!(row.is_some_and(|row| row.contains(words)), "{out}");
    }
    assert_has(&out[places[7]..], &["rafting on", "The times were measured while loading."]);
    let (_, costs) = out.split_once("Cost model of a pass on the CPU\n").unwrap();
    let share = |name: &str| -> f64 {
        let row = costs.lines().find_map(|line| line.trim_start().strip_prefix(name));
        row.and_then(|row| row.split_whitespace().next()?.trim_end_matches(':').parse().ok())
            .unwrap_or_else(|| panic!("{name}: {costs}"))
    };
    assert!((0.0..=1.0).contains(&share("β")), "{costs}");
    // A model as small as this one may be read from a cache, faster than from memory.
    assert!(share("E_c") > 0.0 && share("E_m") > 0.0, "{costs}");
}

#[test]
fn the_bundled_pair_says_the_same_with_and_without_speculation() {
    let home = Home::new();
    let answer = |flags: &[&str]| {
        let prompt = ["run", "Tell me a story about a dog.", "--max-tokens", "40"];
        home.ran(0, &[&prompt[..], flags].concat()).0
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
    let drawn = |chart: &str| {
        assert!(std::path::Path::new(svg).join(chart).is_file(), "{chart}");
    };
    let quick = ["bench", "--prompts", "everyday,gsm8k", "--limit", "1", "--max-tokens", "12"];
    let more = ["--temperature", "0,1", "--markdown", "--save", save, "--svg", svg];
    let (out, _) = home.ran(0, &[&quick[..], &more].concat());
    let words = [
        "Speed-up over plain, and τ; T = 0",
        "Speed-up over plain, and τ; T = 1",
        "| everyday |",
        "| plain ",
        "| dovetail ",
        "identical to plain decoding, token for token.",
    ];
    assert_has(&out, &words);
    drawn("speed-up-t0.svg");
    drawn("time-t1.svg");

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
    let (out, _) = home.ran(0, &["bench", "compare", save, save]);
    assert_has(&out, &["B over A; T = 0", "1.00×"]);
    assert_has(&home.ran(0, &["bench", "show", save, save]).0, &words[1..2]);

    let sweep = ["bench", "sweep", "--prompts", "everyday", "--limit", "1"];
    let short = ["--max-tokens", "4", "--gamma", "4", "--svg", svg];
    let (out, _) = home.ran(0, &[&sweep[..], &short].concat());
    let words = ["Blocks of", "Nodes of the tree; T = 0", "\n64 ", "Width of the tree"];
    assert_has(&out, &[&words[..], &["expansions"]].concat());
    drawn("nodes-of-the-tree-cost-t0.svg");
}

#[test]
fn an_empty_variable_counts_as_not_set() {
    let home = Home::new();
    let script = script("answers.jsonl");
    let mut command = home.command(&["run", "--script", &script, "Hi"]);
    for name in ["TARGET", "DRAFT", "DRAFT_MODEL", "STRATEGY", "THREADS", "DEVICE", "VRAM"] {
        command.env(format!("DOVETAIL_{name}"), "");
    }
    for name in ["GPU_LAYERS", "PREFILL", "CONFIG", "LOG", "ISA"] {
        command.env(format!("DOVETAIL_{name}"), "");
    }
    assert_has(&ends(0, &mut command).0, &[HELLO]);
}

#[test]
fn doctor_finds_wrong_names_of_keys() {
    let home = Home::new();
    home.write_settings("[keys]\nno_such_action = [\"Ctrl+X\"]\n");
    home.refuses(2, &["doctor"], &["settings.toml:2:", "no_such_action"]);
}

#[test]
fn one_kind_of_failure_has_one_exit_code() {
    let home = Home::new();
    let hello = script("answers.jsonl");
    let table: [(i32, &[&[&str]]); 3] = [
        // A file that cannot be written.
        (
            1,
            &[
                &["run", "hi", "--script", &hello, "--record", "/no/such/folder/x"],
                &["run", "hi", "--script", &hello, "--record", &hello],
            ],
        ),
        // Wrong flags or settings, or a file that they name and that cannot be read.
        (
            2,
            &[
                &["run", "hi", "--gamma", "999"],
                &["run", "hi", "--strategy", "nope"],
                &["run", "hi", "--config", "/no.toml"],
                &["run", "--no-such-flag"],
                &["help", "nope"],
                &["replay", "/no.jsonl"],
                &["replay", &hello],
                &["verify", "/no.jsonl"],
                &["bench", "show", "/no"],
                &["bench", "compare", "/no", "/no"],
                &["ngrams", "--data", "/no"],
                &["chat"],
            ],
        ),
        // A model, or what drafts for it.
        (
            3,
            &[
                &["run", "hi", "--target", "/no.gguf"],
                &["run", "hi", "--draft", "nope"],
                &["run", "hi", "--draft-model", "nope"],
                &["run", "hi", "--ngrams", "/no"],
                &["race", "hi", "--target", "nope"],
                &["chat", "--plain-screen", "--target", "nope"],
                &["doctor", "--target", "nope"],
                &["models", "nope"],
                &["pull", "nope"],
                &["bench", "--target", "nope"],
            ],
        ),
    ];
    for (code, all) in table {
        for args in all {
            assert_has(&home.ran(code, args).1, &["error"]);
        }
    }
}
