//! A complete run of `dovetail train`, on a toy target with the bundled tokenizer: from a file of
//! chats to a head that drafts, with interruptions, bad lines and a full disk.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::support::hub::{Manners, Server};
use crate::support::library::DEMO;
use crate::support::program::{assert_has, ended, in_home};
use candle_core::{Device, Tensor};
use dovetail::library::{Spec, open_head};
use dovetail::model::Config;
use dovetail::model::head::HeadConfig;
use dovetail::model::weights::tensors;
use dovetail::train::run::{
    Recipe, RunRequest, Stage, TrainDevice, TrainEvent, estimate, stored, train,
};
use dovetail::train::{Length, TrainError};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A folder with a target, chats, and room for heads.
struct Bench(TempDir);

impl Bench {
    fn new() -> Self {
        let bench = Self(tempfile::tempdir().unwrap());
        bench.write_target(1);
        let chat = |i: usize| {
            let (asked, said) = (format!("What is {i}?"), format!("It is {i} and {}. ", i + 1));
            json!({"messages": [
                {"role": "user", "content": asked},
                {"role": "assistant", "content": said.repeat(3)},
                {"role": "user", "content": "And then?"}, {"role": "assistant", "content": said},
            ]})
        };
        let lines: Vec<String> = (0..24).map(|i| chat(i).to_string()).collect();
        fs::write(bench.chats(), lines.join("\n")).unwrap();
        bench
    }

    /// A target of one narrow layer with random weights.
    fn write_target(&self, seed: u64) {
        let folder = self.target();
        fs::create_dir_all(&folder).unwrap();
        for file in ["tokenizer.json", "tokenizer_config.json", "generation_config.json"] {
            fs::copy(Path::new(DEMO).join(file), folder.join(file)).unwrap();
        }
        let mut config: Value =
            serde_json::from_slice(&fs::read(Path::new(DEMO).join("config.json")).unwrap())
                .unwrap();
        for (field, value) in [
            ("hidden_size", 32),
            ("intermediate_size", 48),
            ("num_hidden_layers", 1),
            ("num_attention_heads", 2),
            ("num_key_value_heads", 1),
        ] {
            config[field] = json!(value);
        }
        fs::write(folder.join("config.json"), config.to_string()).unwrap();
        let mut state = seed;
        let mut weight = |norm: bool| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let x = (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5;
            if norm { 1.0 } else { x }
        };
        let mut all = HashMap::new();
        for (name, shape) in tensors(&Config::from_hf_json(&config).unwrap()) {
            let norm = name.contains("norm");
            let count: usize = shape.iter().product();
            let values: Vec<f32> = (0..count).map(|_| weight(norm)).collect();
            all.insert(name, Tensor::from_vec(values, shape, &Device::Cpu).unwrap());
        }
        candle_core::safetensors::save(&all, folder.join("model.safetensors")).unwrap();
    }

    fn target(&self) -> PathBuf {
        self.0.path().join("target")
    }

    fn chats(&self) -> PathBuf {
        self.0.path().join("chats.jsonl")
    }

    fn head(&self) -> PathBuf {
        self.0.path().join("head")
    }

    fn order(&self, resume: bool) -> RunRequest {
        let mut recipe = Recipe::quick();
        recipe.target = self.target().display().to_string();
        recipe.data = self.chats();
        (recipe.blocks, recipe.held_out, recipe.decode) = (2, 0.2, 2);
        recipe.mlp = Some(40);
        recipe.options.length = Length::Steps(8);
        (recipe.options.batch_tokens, recipe.options.window) = (256, 96);
        let (out, device) = (self.head(), TrainDevice::Cpu);
        let model_folders = Vec::new();
        RunRequest { out, resume, recipe, threads: 1, device, keep_work: true, model_folders }
    }

    /// The program in its own home folder.
    fn program(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dovetail"));
        in_home(&mut command, self.0.path());
        command.args(self.args(args));
        command
    }

    /// Exit code, stdout and stderr of the program.
    fn ran(&self, args: &[&str]) -> (i32, String, String) {
        ended(self.program(args).output().unwrap())
    }

    fn args(&self, more: &[&str]) -> Vec<String> {
        let own = [
            "train".to_owned(),
            format!("--target={}", self.target().display()),
            format!("--data={}", self.chats().display()),
            format!("--out={}", self.head().display()),
        ];
        let small = "--threads=1 --blocks=1 --window=96 --batch-tokens=256 --decode=1 --device=cpu";
        let small = small.split(' ').map(str::to_owned);
        own.into_iter().chain(small).chain(more.iter().map(|&arg| arg.to_owned())).collect()
    }

    fn log(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.head().join("log.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Whether the third step is over.
fn third(event: &TrainEvent<'_>) -> bool {
    matches!(event, TrainEvent::Step(report) if report.step == 3)
}

/// Runs until `enough`, then requests a stop. Returns whether the head is finished.
fn until(order: &RunRequest, enough: impl Fn(&TrainEvent<'_>) -> bool) -> bool {
    let stop = AtomicBool::new(false);
    let mut record = |event: TrainEvent<'_>| {
        if enough(&event) {
            stop.store(true, Ordering::Relaxed);
        }
    };
    match train(order, &stop, &mut record) {
        Err(TrainError::Stopped) => false,
        done => done.map(|()| true).unwrap(),
    }
}

#[test]
fn an_estimate_counts_what_the_training_will_and_makes_nothing() {
    let bench = Bench::new();
    let stop = AtomicBool::new(false);
    let request = bench.order(false);
    let found = estimate(&request, &stop, &mut |_| {}).unwrap();
    assert!(!bench.head().exists());
    let stages: Vec<Stage> = found.stages.iter().map(|share| share.stage).collect();
    assert_eq!(stages, [Stage::Features, Stage::Training]);
    // 8 steps of 256 tokens.
    assert_eq!(found.stages[1].amount, 8 * 256);
    assert!(found.stages.iter().all(|share| share.seconds > 0.0), "{found:?}");
    let mut chats = None;
    let mut record = |event: TrainEvent<'_>| {
        if let TrainEvent::Chats(found) = event {
            chats = Some(found.clone());
        }
    };
    train(&request, &stop, &mut record).unwrap();
    let chats = chats.unwrap();
    assert_eq!((found.chats, found.tokens), (chats.used, chats.tokens as u64));
    let on_disk = |file: &str| fs::metadata(bench.head().join(file)).unwrap().len();
    let near = |a: u64, b: u64| a.abs_diff(b) < b / 10 + 4096;
    assert!(near(found.head, on_disk("model.safetensors")), "{found:?}");
    assert!(near(found.checkpoint, 2 * on_disk("work/checkpoint.safetensors")), "{found:?}");
    assert!(found.memory > found.checkpoint, "{found:?}");
    let minutes = Length::Minutes(3.0);
    let mut timed = bench.order(false);
    timed.recipe.options.length = minutes;
    timed.recipe.self_answers = true;
    let found = estimate(&timed, &stop, &mut |_| {}).unwrap();
    let stages: Vec<Stage> = found.stages.iter().map(|share| share.stage).collect();
    assert_eq!(stages, [Stage::Answers, Stage::Features, Stage::Training]);
    assert_eq!(found.stages[2].seconds, 180.0);
}

#[test]
fn the_head_is_the_best_that_was_seen_and_not_the_last() {
    let bench = Bench::new();
    assert!(!until(&bench.order(false), third));
    let state = bench.head().join("work/run.json");
    let mut json: Value = serde_json::from_slice(&fs::read(&state).unwrap()).unwrap();
    let seen = json["best"]["step"].as_u64().unwrap();
    assert!((1..=3).contains(&seen), "{seen}");
    // No later step will be as good as this.
    json["best"]["score"] = 99.0.into();
    fs::write(&state, json.to_string()).unwrap();
    let best = fs::read(bench.head().join("work/best/model.safetensors")).unwrap();
    let (mut notes, mut taus) = (Vec::new(), 0);
    let mut record = |event: TrainEvent<'_>| match event {
        TrainEvent::Note(note) => notes.push(note.to_owned()),
        TrainEvent::Held { tau, .. } => taus += usize::from(tau.is_some_and(|tau| tau >= 1.0)),
        _ => {}
    };
    train(&bench.order(true), &AtomicBool::new(false), &mut record).unwrap();
    assert!(fs::read(bench.head().join("model.safetensors")).unwrap() == best);
    let said = format!("using the head of step {seen}, which did better");
    assert!(notes.iter().any(|note| note.starts_with(&said)), "{notes:?}");
    assert!(taus > 0 && bench.log().iter().any(|line| line["held"]["tau"].is_f64()));
    open_head(&Spec::Folder(bench.head()), &mut |_| {}).unwrap();
}

#[test]
fn a_training_that_is_stopped_in_every_stage_comes_to_the_same_head() {
    let whole = Bench::new();
    assert!(until(&whole.order(false), |_| false));
    let parts = Bench::new();
    let begins = |wanted: Stage| {
        move |event: &TrainEvent<'_>| match event {
            TrainEvent::Stage { stage, .. } => *stage == wanted,
            _ => false,
        }
    };
    assert!(!until(&parts.order(false), begins(Stage::Render)));
    let second = |event: &TrainEvent<'_>| matches!(event, TrainEvent::At(done) if *done > 400);
    assert!(!until(&parts.order(true), second));
    assert!(parts.head().join("work/features-00000.safetensors").exists());
    assert!(!until(&parts.order(true), begins(Stage::Training)));
    assert!(!until(&parts.order(true), third));
    assert!(!parts.head().join("model.safetensors").exists());
    assert!(!until(&parts.order(true), begins(Stage::Decoding)));
    assert!(until(&parts.order(true), |_| false));

    let read = |bench: &Bench, file: &str| fs::read(bench.head().join(file)).unwrap();
    for file in ["model.safetensors", "config.json"] {
        assert!(read(&whole, file) == read(&parts, file), "{file} differs");
    }
    let steps: Vec<u64> =
        parts.log().iter().filter_map(|entry| entry["step"]["step"].as_u64()).collect();
    assert_eq!(steps, (1..=8).collect::<Vec<_>>());

    // The program can read the head, and its card says what it is.
    let head = open_head(&Spec::Folder(parts.head()), &mut |_| {}).unwrap();
    let HeadConfig { body, elastic, .. } = &head.config;
    assert_eq!((body.layers, body.intermediate, *elastic), (2, 40, true));
    let card = String::from_utf8(read(&parts, "README.md")).unwrap();
    for part in
        ["fingerprint", "chats used | 24 |", "held out | 5 |", "top 1", "| none |", "2 of 2"]
    {
        assert!(card.contains(part), "{part} is missing from\n{card}");
    }
    assert!(String::from_utf8(read(&parts, "loss.svg")).unwrap().contains("<svg"));
}

#[test]
fn the_papers_chats_are_fetched_or_the_way_to_get_them_is_named() {
    let bench = Bench::new();
    let chats = fs::read_to_string(bench.chats()).unwrap();
    let chats: Vec<Value> = chats.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let file = "ShareGPT_V4.3_unfiltered_cleaned_split.json".to_owned();
    let array = serde_json::to_vec_pretty(&chats).unwrap();
    let server = Server::start(HashMap::from([(file, array)]), Manners::default());
    let train = |home: &str, variables: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dovetail"));
        in_home(&mut command, &bench.0.path().join(home));
        command.envs(variables.iter().copied()).arg("train").arg("--target").arg(bench.target());
        command.args("--data sharegpt --steps 1 --batch-texts 2 --blocks 1 --out".split(' '));
        command.arg(bench.0.path().join(home).join("head"));
        ended(command.args(["--threads=1", "--decode=0", "--device=cpu"]).output().unwrap())
    };
    let (code, _, err) = train("offline", &[("HF_HUB_OFFLINE", "1")]);
    assert_eq!(code, 1, "{err}");
    assert_has(&err, &["unset HF_HUB_OFFLINE", "on another machine", "--data FILE"]);
    let hub = format!("http://127.0.0.1:{}", server.port);
    let (code, _, err) = train("online", &[("HF_ENDPOINT", &hub)]);
    assert_eq!(code, 0, "{err}");
    let card = fs::read_to_string(bench.0.path().join("online/head/README.md")).unwrap();
    assert_has(&card, &["`sharegpt`, 24 lines", "| chats used | 24 |", "| batch | 2 chats"]);
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let bench = Bench::new();
    let refused =
        |order: &RunRequest| train(order, &AtomicBool::new(false), &mut |_| {}).unwrap_err();
    assert!(matches!(refused(&bench.order(true)), TrainError::Nothing(_)));
    until(&bench.order(false), |event| matches!(event, TrainEvent::Step(_)));
    assert!(matches!(refused(&bench.order(false)), TrainError::Unfinished(_)));
    let mut other = bench.order(true);
    other.recipe.options.learning_rate = 0.5;
    let error = refused(&other).to_string();
    assert!(error.contains("options.learning_rate") && error.contains("0.5"), "{error}");
    // The rate is fixed when a training begins; this target is not a wide one.
    assert_eq!(stored(&bench.head()).unwrap(), bench.order(true).recipe.for_width(1));
    bench.write_target(2);
    let error = refused(&bench.order(true)).to_string();
    assert!(error.contains("another target: weights was"), "{error}");
    // Nothing of it is lost: with its own target it continues.
    bench.write_target(1);
    assert!(until(&bench.order(true), |_| false));

    fs::write(bench.chats(), "{\"messages\": [{\"role\"").unwrap();
    let order = RunRequest { out: bench.0.path().join("other"), ..bench.order(false) };
    let error = refused(&order).to_string();
    assert!(error.contains("0 of 1 lines") && error.contains("line 1: not valid JSON"), "{error}");
}

#[test]
fn bad_lines_are_named_and_survived() {
    let bench = Bench::new();
    let good = fs::read_to_string(bench.chats()).unwrap();
    let long = json!({"messages": [
        {"role": "user", "content": "word ".repeat(300)},
        {"role": "assistant", "content": "Hm."}]});
    let bad = [
        r#"{"messages": [{"role": "user", "content": "torn"#.to_owned(),
        r#"{"messages": []}"#.to_owned(),
        r#"{"messages": [{"role": "oracle", "content": "Hi"}]}"#.to_owned(),
        long.to_string(),
    ];
    fs::write(bench.chats(), format!("{}\n{good}\n", bad.join("\n"))).unwrap();
    let (code, out, err) = bench.ran(&["--steps=2"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("The head is in"), "{out}");
    for told in [
        "line 1 skipped: not valid JSON, or cut off",
        "line 2 skipped: the chat is empty",
        "line 3 skipped: message 1: unknown role `oracle`",
        "line 4 skipped: the first answer begins at token",
        "24 of 28 chats used, 1 of them held out, 0 cut at the window, 4 skipped",
        "training: ",
        "same text as plain decoding: 1",
    ] {
        assert!(err.contains(told), "{told} is missing from\n{err}");
    }
    let card = fs::read_to_string(bench.head().join("README.md")).unwrap();
    assert!(card.contains("- line 3: message 1: unknown role `oracle`"), "{card}");
    assert!(!bench.head().join("work").exists());
    let (code, _, err) = bench.ran(&[]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("is not an empty folder"), "{err}");
}

#[test]
fn the_target_answers_questions_itself() {
    let asked = |i: usize| json!({"id": i, "turns": [format!("What is {i}?"), "Why?"]}).to_string();
    let lines: Vec<String> = (0..20).map(asked).collect();
    let order = |bench: &Bench| {
        fs::write(bench.chats(), lines.join("\n")).unwrap();
        let mut order = bench.order(false);
        (order.recipe.self_answers, order.recipe.answer_tokens) = (true, 12);
        order.recipe.options.length = Length::Steps(1);
        order.keep_work = true;
        order
    };
    let answers =
        |bench: &Bench| fs::read_to_string(bench.head().join("work/answers.jsonl")).unwrap();
    // It was stopped after the first answers and continues after them.
    let bench = Bench::new();
    let stopped = order(&bench);
    assert!(!until(&stopped, |event| matches!(event, TrainEvent::At(2))));
    let before = answers(&bench);
    assert!((2..20).contains(&before.lines().count()), "{before}");
    assert!(until(&RunRequest { resume: true, ..stopped }, |_| false));
    let after = answers(&bench);
    assert!(after.starts_with(&before));
    // Which chats are answered in parallel does not change the answers.
    let other = Bench::new();
    assert!(until(&order(&other), |_| false));
    let by_line = |text: String| {
        let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        rows.map(|row| (row["line"].as_u64(), row)).collect::<BTreeMap<_, _>>()
    };
    let after = by_line(after);
    assert_eq!(after.len(), 20);
    assert_eq!(after, by_line(answers(&other)));
    for row in after.values() {
        let roles: Vec<_> =
            row["messages"].as_array().unwrap().iter().map(|m| &m["role"]).collect();
        assert_eq!(roles, ["user", "assistant", "user", "assistant"]);
    }
}

#[cfg(unix)]
#[test]
fn a_full_disk_loses_nothing() {
    let bench = Bench::new();
    // No file may grow beyond the limit: the texts fit, the features do not.
    let mut limited = Command::new("sh");
    in_home(&mut limited, bench.0.path());
    limited.arg("-c").arg("trap '' XFSZ; ulimit -f 48; exec \"$@\"").arg("sh");
    limited.arg(env!("CARGO_BIN_EXE_dovetail")).args(bench.args(&["--steps=2"]));
    let (code, _, err) = ended(limited.output().unwrap());
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("features-00000") && err.contains("free some disk space"), "{err}");
    assert!(bench.head().join("work/texts.jsonl").exists());
    let (code, _, err) = bench.ran(&["--steps=2", "--resume"]);
    assert_eq!(code, 0, "{err}");
    // A head is readable by others in the same way as the user's other files.
    let mode = |file: &str| {
        use std::os::unix::fs::PermissionsExt;
        fs::metadata(bench.head().join(file)).unwrap().permissions().mode() & 0o777
    };
    assert_eq!(mode("model.safetensors"), mode("README.md"));
}

#[cfg(unix)]
#[test]
fn an_interrupt_says_how_to_go_on() {
    let bench = Bench::new();
    let mut command = bench.program(&["--minutes=30"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let log = bench.head().join("log.jsonl");
    let since = Instant::now();
    while fs::metadata(&log).map_or(0, |file| file.len()) == 0 {
        assert!(since.elapsed() < Duration::from_secs(100), "no step was made");
        std::thread::sleep(Duration::from_millis(20));
    }
    let told = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(told.success());
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{err}");
    assert!(err.contains("continue with: dovetail train --resume --out"), "{err}");
    assert!(bench.head().join("work/checkpoint.safetensors").exists());
}
