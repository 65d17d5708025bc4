//! Models by name, as a user types them: listed, run, and downloaded in pairs.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use assert_cmd::Command;
use serde_json::{Value, json};

use crate::support::gguf;
use crate::support::hub::{Manners, Server};
use crate::support::library::DEMO;
use crate::support::program::{Home, outcome};

/// A home folder with a model folder, and an Ollama store with one model and one that has
/// disappeared.
fn home() -> Home {
    let home = Home::new();
    let folder = home.path().join("my models/demo-target");
    fs::create_dir_all(&folder).unwrap();
    for file in fs::read_dir(DEMO).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), folder.join(file.file_name())).unwrap();
    }
    fs::write(home.path().join("my models/broken-one.gguf"), "no model").unwrap();
    home.write_settings("max_tokens = 4\nmodel_folders = [\"~/my models\"]\n");
    let store = home.path().join(".ollama/models");
    fs::create_dir_all(store.join("blobs")).unwrap();
    let model = gguf::small().bytes();
    for (tag, digit) in [("1b", "a"), ("gone", "b")] {
        let hash = digit.repeat(64);
        let layer = json!({"mediaType": "application/vnd.ollama.image.model",
            "digest": format!("sha256:{hash}"), "size": model.len()});
        let manifest = store.join("manifests/registry.ollama.ai/library/tiny").join(tag);
        fs::create_dir_all(manifest.parent().unwrap()).unwrap();
        let text = json!({"schemaVersion": 2, "layers": [layer]}).to_string();
        fs::write(manifest, text).unwrap();
        if tag == "1b" {
            fs::write(store.join(format!("blobs/sha256-{hash}")), &model).unwrap();
        }
    }
    home
}

/// The program without any of this machine's stores.
fn command(home: &Home, args: &[&str]) -> Command {
    let mut command = home.command(args);
    for name in ["HF_HUB_CACHE", "HF_TOKEN", "OLLAMA_MODELS"] {
        command.env_remove(name);
    }
    command.env("HF_HOME", home.path().join("hf"));
    command
}

#[test]
fn models_are_listed_with_what_to_expect_of_them() {
    let home = home();
    let (code, out, err) = outcome(&mut command(&home, &["models"]));
    assert_eq!((code, err.as_str()), (0, ""));
    let line = |start: &str| {
        let found = out.lines().find(|line| line.trim_start().starts_with(start));
        found.unwrap_or_else(|| panic!("no {start}: {out}")).to_owned()
    };
    for (name, parts) in [
        ("bundled", ["MB", "BF16", "fits"]),
        ("demo-target", ["MB", "BF16", "fits"]),
        ("tiny:1b", ["kB", "Q8_0", "fits"]),
        ("broken-one: ", ["GGUF", "magic", ""]),
        ("qwen2.5-7b ", ["Qwen2.5 7B Instruct", "Apache-2.0", ""]),
    ] {
        let line = line(name);
        assert!(parts.iter().all(|part| line.contains(part)), "{line}");
    }
    // A pair says which repository is the target's and which the draft's.
    let pair = out.split("qwen2.5-7b ").nth(1).unwrap();
    let mut repositories = pair.lines().skip(1).map(|line| line.split_whitespace());
    for (of, id) in [("target", "2.5-7B-Instruct-GGUF"), ("draft", "2.5-0.5B-Instruct-GGUF")] {
        let words: Vec<&str> = repositories.next().unwrap().collect();
        assert!(words[0] == of && words[1].contains(id), "{words:?}");
    }
    let slashes = out.replace(std::path::MAIN_SEPARATOR, "/");
    assert!(slashes.contains("tiny/gone: its blob ") && out.contains("estimated"), "{out}");

    let (code, out, _) = outcome(&mut command(&home, &["models", "--json"]));
    let all: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(code, 0);
    let names: Vec<&str> =
        all["models"].as_array().unwrap().iter().map(|m| m["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["bundled", "broken-one", "demo-target", "tiny:1b"]);
    let bundled = &all["models"][0];
    assert!(bundled["tokens_per_second"].as_f64().unwrap() > 1.0, "{bundled}");
    assert_eq!(bundled["drafts"].as_array().unwrap().len(), 2);
    assert!(all["models"][1]["problem"].is_string() && all["memory_gb_s"].as_f64() > Some(0.0));
    assert!(all["pairs"].as_array().unwrap().len() > 10);
    let gone = all["skipped"].as_array().unwrap();
    assert!(gone.iter().any(|gone| gone["reason"].as_str().unwrap().contains("is missing")));
}

#[test]
fn one_model_is_shown_in_full_and_a_wrong_name_is_answered_with_near_ones() {
    let home = home();
    let (code, out, err) = outcome(&mut command(&home, &["models", "DEMO-t"]));
    assert_eq!((code, err.as_str()), (0, ""));
    for part in ["demo-target", "parameters", "BF16", "context", "tokens per second", "my models"] {
        assert!(out.contains(part), "{out} lacks {part}");
    }
    let (code, out, _) = outcome(&mut command(&home, &["models", "tiny:1", "--json"]));
    let one: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &one["name"]), (0, &json!("tiny:1b")));
    for args in [
        &["models", "demo-tarjet"][..],
        &["run", "hi", "--target", "demo-tarjet"],
        &["run", "hi", "--target", "demo-tarjet.gguf"],
    ] {
        let (code, out, err) = outcome(&mut command(&home, args));
        assert_eq!((code, out.as_str()), (3, ""), "{err}");
        assert!(
            err.contains("similar names: demo-target") && err.contains("dovetail models"),
            "{err}"
        );
        let typed = args.last().unwrap();
        assert!(err.contains(&format!("no model named \"{typed}\"")), "{err}");
    }
}

#[test]
fn a_file_or_folder_is_shown_like_a_named_model() {
    let home = home();
    let shown = |path: &Path| {
        let (code, out, err) =
            outcome(&mut command(&home, &["models", &path.display().to_string()]));
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        out
    };
    // No store has it.
    let alone = home.path().join("elsewhere/model.gguf");
    fs::create_dir_all(alone.parent().unwrap()).unwrap();
    fs::write(&alone, gguf::small().bytes()).unwrap();
    let out = shown(&alone);
    for part in ["elsewhere", "llama", "Q8_0", "64 tokens", "tokens per second"] {
        assert!(out.contains(part), "{out} lacks {part}");
    }
    // A listed one keeps its name.
    let folder = home.path().join("my models/demo-target");
    assert!(shown(&folder).contains("name         demo-target\n"));
    let (_, out, _) = outcome(&mut command(&home, &["models", alone.to_str().unwrap(), "--json"]));
    let one: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(one["name"], json!(alone.to_str().unwrap()));
    // What is no model says why; what does not exist is a name that nothing has.
    let text = home.path().join("elsewhere/notes.txt");
    fs::write(&text, "no model").unwrap();
    for (path, part) in [(text, ".gguf"), (home.path().join("no.gguf"), "dovetail models")] {
        let typed = path.display().to_string();
        let (code, out, err) = outcome(&mut command(&home, &["models", &typed]));
        assert_eq!((code, out.as_str()), (3, ""));
        assert!(err.contains(part) && err.contains(&typed), "{err}");
    }
}

#[test]
fn a_language_model_as_a_draft_head_is_refused_with_the_flag_for_it() {
    let home = home();
    for draft in ["tiny:1b", "demo-target"] {
        let args = ["run", "Hello", "--target", "demo-target", "--draft", draft];
        let (code, out, err) = outcome(&mut command(&home, &args));
        assert_eq!((code, out.as_str()), (3, ""), "{err}");
        let said = format!("`{draft}` is a language model");
        assert!(err.contains(&said) && err.contains("--draft-model"), "{err}");
    }
}

#[test]
fn a_base_model_answers_with_a_warning_and_an_instruct_model_without() {
    let home = home();
    for (name, warned) in [("base", true), ("small-instruct", false)] {
        let path = home.path().join(format!("{name}.gguf"));
        fs::write(&path, gguf::small().bytes()).unwrap();
        let target = path.display().to_string();
        let (code, _, err) = outcome(&mut command(&home, &["run", "a", "--target", &target]));
        assert_eq!(code, 0, "{err}");
        assert_eq!(err.contains("probably a base model"), warned, "{name}: {err}");
    }
}

#[test]
fn a_model_answers_by_its_name() {
    let home = home();
    let (code, out, err) = outcome(&mut command(&home, &["run", "Hello", "--target", "demo"]));
    assert_eq!(code, 0, "{err}");
    assert!(!out.trim().is_empty());
    // Every command that takes a model knows the folders in the settings.
    let chats = home.path().join("chats.jsonl");
    fs::write(&chats, "").unwrap();
    let (chats, head) = (chats.display().to_string(), home.path().join("head"));
    let train = ["train", "--target", "demo-t", "--data", &chats, "--out", head.to_str().unwrap()];
    let pass = ["bench", "pass", "--model", "demo-t", "--gammas", "1", "--context", "1"];
    let quality = ["bench", "quality", "--target", "demo-t", "--window", "8"];
    for (args, expected) in [(&train[..], 1), (&pass, 0), (&quality, 0)] {
        let (code, _, err) = outcome(&mut command(&home, args));
        assert_eq!(code, expected, "{args:?}: {err}");
        assert!(!err.contains("demo-t"), "{err}");
    }
    // If a model cannot be opened, the error says why.
    let (code, _, err) = outcome(&mut command(&home, &["run", "Hello", "--target", "broken"]));
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("broken-one.gguf") && err.contains("GGUF"), "{err}");
    // Two names begin with this.
    fs::write(home.path().join("my models/demo-2.gguf"), "GGUF").unwrap();
    let (code, _, err) = outcome(&mut command(&home, &["run", "Hello", "--target", "demo"]));
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("matches several models: demo-2, demo-target"), "{err}");
}

#[test]
fn packed_weights_are_kept_where_the_user_wants_it() {
    let home = home();
    let cache = home.path().join("cache");
    let kept = || {
        let files = fs::read_dir(cache.join("dovetail/packed"));
        files
            .map_or(0, |files| files.filter(|file| file.as_ref().unwrap().path().is_file()).count())
    };
    let answer = |flags: &[&str]| {
        let args = [&["run", "Hello", "--target", "demo-target"], flags].concat();
        let mut command = command(&home, &args);
        let (code, out, err) = outcome(command.env("XDG_CACHE_HOME", &cache));
        assert_eq!((code, err.as_str()), (0, ""));
        out
    };
    let plain = answer(&[]);
    assert_eq!(kept(), 0);
    assert_eq!(answer(&["--pack-cache"]), plain);
    assert_eq!(kept(), 1);
    assert_eq!(answer(&["--pack-cache=1"]), plain);
    assert_eq!(kept(), 1);
    let doctor = |flags: &[&str]| {
        let args = [&["doctor", "--target", "demo-target"], flags].concat();
        outcome(command(&home, &args).env("XDG_CACHE_HOME", &cache)).1
    };
    assert!(doctor(&["--pack-cache"]).contains("read from the pack cache"));
    assert!(!doctor(&[]).contains("pack cache"));
    fs::remove_dir_all(cache.join("dovetail/packed")).unwrap();
    assert!(doctor(&["--pack-cache"]).contains("saved in the pack cache for the next start"));
    // If nothing can be stored, that is reported and the answer is the same.
    fs::remove_dir_all(cache.join("dovetail")).unwrap();
    fs::write(cache.join("dovetail"), "in the way").unwrap();
    let mut run = command(&home, &["run", "Hello", "--target", "demo-target", "--pack-cache"]);
    let (code, out, err) = outcome(run.env("XDG_CACHE_HOME", &cache));
    assert_eq!((code, out), (0, plain), "{err}");
    assert!(err.contains("Cannot store the packed weights in"), "{err}");
}

#[test]
fn a_pair_of_the_catalogue_is_fetched_and_then_found() {
    let model = gguf::small().bytes();
    let files = HashMap::from([
        ("m-Q4_K_M.gguf".to_owned(), model),
        ("m-Q8_0.gguf".to_owned(), b"another".to_vec()),
        ("config.json".to_owned(), b"{}".to_vec()),
        ("pytorch_model.bin".to_owned(), b"no head".to_vec()),
    ]);
    let server = Server::start(files, Manners::default());
    let home = Home::new();
    let mut pull = command(&home, &["pull", "llama3-8b-eagle"]);
    pull.env("HF_ENDPOINT", format!("http://127.0.0.1:{}", server.port));
    let (code, out, err) = outcome(&mut pull);
    assert_eq!(code, 0, "{err}");
    let places: Vec<&Path> = out.lines().map(Path::new).collect();
    assert!(places.len() == 2 && places.iter().all(|place| place.exists()), "{out}");
    assert!(out.contains("m-Q4_K_M.gguf") && out.contains("EAGLE-LLaMA3-Instruct-8B"), "{out}");
    let start = "dovetail --target bartowski/Meta-Llama-3-8B-Instruct-GGUF:Q4_K_M --draft yuhuili/";
    assert!(err.contains(start) && err.contains("Llama 3 Community"), "{err}");
    assert!(server.requests("Q8_0").is_empty(), "what was not asked for is not fetched");

    let (_, out, _) = outcome(&mut command(&home, &["models", "--json"]));
    let all: Value = serde_json::from_str(&out).unwrap();
    let stores: Vec<_> =
        all["models"].as_array().unwrap().iter().map(|m| m["store"].as_str().unwrap()).collect();
    assert_eq!(stores, ["bundled", "hub cache", "hub cache"], "{out}");

    let (code, _, err) = outcome(&mut command(&home, &["pull", "lama3-8b-eagle"]));
    assert_eq!(code, 3);
    assert!(err.contains("similar names: llama3-8b-eagle"), "{err}");
}
