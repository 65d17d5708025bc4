//! Models by name, as a user types them: listed, run, and downloaded in pairs.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use dovetail::kernels::{Format, random_row};
use serde_json::{Value, json};

use crate::support::assistant::{assistant_spec, published_assistant};
use crate::support::gguf;
use crate::support::golden::golden;
use crate::support::hub::{Manners, Server};
use crate::support::library::{DEMO, arch_file, copy_folder, open_head};
use crate::support::program::{Home, assert_has, ends};

/// A home folder with a model folder, and an Ollama store with one model and one that has
/// disappeared.
fn home() -> Home {
    let home = Home::new();
    copy_folder(DEMO.as_ref(), &home.path().join("my models/demo-target"));
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

#[test]
fn models_are_listed_with_what_to_expect_of_them() {
    let home = home();
    let (out, err) = home.ran(0, &["models"]);
    assert_eq!(err, "");
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

    let all = home.json(&["models", "--json"]);
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
    let (out, err) = home.ran(0, &["models", "DEMO-t"]);
    assert_eq!(err, "");
    assert_has(
        &out,
        &["demo-target", "parameters", "BF16", "context", "tokens per second", "my models"],
    );
    assert_eq!(home.json(&["models", "tiny:1", "--json"])["name"], "tiny:1b");
    for args in [
        &["models", "demo-tarjet"][..],
        &["run", "hi", "--target", "demo-tarjet"],
        &["run", "hi", "--target", "demo-tarjet.gguf"],
    ] {
        let said = format!("no model named \"{}\"", args.last().unwrap());
        home.refuses(3, args, &["similar names: demo-target", "dovetail models", &said]);
    }
    // A language model is no draft head.
    for draft in ["tiny:1b", "demo-target"] {
        let args = ["run", "Hello", "--target", "demo-target", "--draft", draft];
        let said = format!("`{draft}` is a language model");
        home.refuses(3, &args, &[&said, "--draft-model"]);
    }
}

#[test]
fn drafters_are_listed_by_their_kind() {
    let home = home();
    for name in ["dflash", "dspark", "gemma4-assistant"] {
        let path = home.path().join(format!("my models/{name}.gguf"));
        fs::copy(golden(&format!("drafters2026/{name}.gguf")), path).unwrap();
    }
    let published = published_assistant(&open_head(&assistant_spec()).unwrap());
    copy_folder(published.path(), &home.path().join("my models/published"));
    let gemma = home.path().join("my models/gemma.gguf");
    fs::copy(arch_file("gemma4.gguf"), gemma).unwrap();
    let (out, _) = home.ran(0, &["models"]);
    for (name, kind) in [
        ("dflash ", "DFlash drafter"),
        ("dspark ", "DSpark drafter"),
        ("gemma4-", "assistant"),
        ("published ", "assistant"),
    ] {
        let line = out.lines().find(|line| line.trim_start().starts_with(name));
        assert!(line.is_some_and(|line| line.contains(kind)), "{name}: {out}");
    }
    let (out, _) = home.ran(0, &["models", "dflash"]);
    assert!(out.contains("DFlash, 5 tokens per pass, for a target of width 64"), "{out}");
    let (out, _) = home.ran(0, &["models", "gemma4-assistant"]);
    assert!(out.contains("assistant, 2 blocks, for a target of width 64"), "{out}");
    let target = home.json(&["models", "gemma", "--json"]);
    let drafts = target["drafts"].as_array().unwrap();
    let drafts = drafts.iter().map(|draft| (draft["name"].as_str().unwrap(), &draft["head"]));
    let head = Value::Bool(true);
    assert!(drafts.clone().any(|draft| draft == ("gemma4-assistant", &head)), "{target}");
    assert!(drafts.clone().all(|(name, _)| name != "dflash"), "{target}");
}

#[test]
fn a_file_or_folder_is_shown_like_a_named_model() {
    let home = home();
    let shown = |path: &Path| {
        let (out, err) = home.ran(0, &["models", &path.display().to_string()]);
        assert_eq!(err, "", "{out}");
        out
    };
    // No store has it.
    let alone = home.path().join("elsewhere/model.gguf");
    fs::create_dir_all(alone.parent().unwrap()).unwrap();
    fs::write(&alone, gguf::small().bytes()).unwrap();
    let out = shown(&alone);
    assert_has(&out, &["elsewhere", "llama", "Q8_0", "64 tokens", "tokens per second"]);
    // A listed one keeps its name.
    let folder = home.path().join("my models/demo-target");
    assert!(shown(&folder).contains("name         demo-target\n"));
    let typed = alone.to_str().unwrap();
    assert_eq!(home.json(&["models", typed, "--json"])["name"], typed);
    // What is no model says why; what does not exist is a name that nothing has.
    let text = home.path().join("elsewhere/notes.txt");
    fs::write(&text, "no model").unwrap();
    for (path, part) in [(text, ".gguf"), (home.path().join("no.gguf"), "dovetail models")] {
        let typed = path.display().to_string();
        home.refuses(3, &["models", &typed], &[part, &typed]);
    }
}

#[test]
fn a_base_model_answers_with_a_warning_and_an_instruct_model_without() {
    let home = home();
    for (name, warned) in [("base", true), ("small-instruct", false)] {
        let path = home.path().join(format!("{name}.gguf"));
        fs::write(&path, gguf::small().bytes()).unwrap();
        let target = path.display().to_string();
        let (_, err) = home.ran(0, &["run", "a", "--target", &target]);
        assert_eq!(err.contains("probably a base model"), warned, "{name}: {err}");
    }
}

#[test]
fn a_model_answers_by_its_name() {
    let home = home();
    let (out, _) = home.ran(0, &["run", "Hello", "--target", "demo"]);
    assert!(!out.trim().is_empty());
    // Every command that takes a model knows the folders in the settings.
    let chats = home.path().join("chats.jsonl");
    fs::write(&chats, "").unwrap();
    let (chats, head) = (chats.display().to_string(), home.path().join("head"));
    let train = ["train", "--target", "demo-t", "--data", &chats, "--out", head.to_str().unwrap()];
    let pass = ["bench", "pass", "--model", "demo-t", "--gammas", "1", "--context", "1"];
    let quality = ["bench", "quality", "--target", "demo-t", "--window", "8"];
    for (args, expected) in [(&train[..], 1), (&pass, 0), (&quality, 0)] {
        let (_, err) = home.ran(expected, args);
        assert!(!err.contains("demo-t"), "{err}");
    }
    // If a model cannot be opened, the error says why.
    home.refuses(3, &["run", "Hello", "--target", "broken"], &["broken-one.gguf", "GGUF"]);
    // Two names begin with this.
    fs::write(home.path().join("my models/demo-2.gguf"), "GGUF").unwrap();
    let said = "matches several models: demo-2, demo-target";
    home.refuses(3, &["run", "Hello", "--target", "demo"], &[said]);
}

#[test]
fn packed_weights_are_kept_where_the_user_wants_it() {
    let home = home();
    let cache = home.path().join("cache/dovetail");
    let kept = || {
        let files = fs::read_dir(cache.join("packed")).into_iter().flatten();
        files.filter(|file| file.as_ref().unwrap().path().is_file()).count()
    };
    let run = |command: &str, flags: &[&str]| {
        let question = if command == "run" { &["Hello"][..] } else { &[] };
        let target = ["--target", "demo-target"];
        home.ran(0, &[&[command][..], question, &target, flags].concat())
    };
    let plain = run("run", &[]);
    for (flags, files) in [(&[][..], 0), (&["--pack-cache"], 1), (&["--pack-cache=1"], 1)] {
        assert_eq!(run("run", flags), (plain.0.clone(), String::new()));
        assert_eq!(kept(), files, "{flags:?}");
    }
    let doctor = |flags: &[&str]| run("doctor", flags).0;
    assert!(doctor(&["--pack-cache"]).contains("read from the pack cache"));
    assert!(!doctor(&[]).contains("pack cache"));
    fs::remove_dir_all(cache.join("packed")).unwrap();
    assert!(doctor(&["--pack-cache"]).contains("saved in the pack cache for the next start"));
    // If nothing can be stored, that is reported and the answer is the same.
    fs::remove_dir_all(&cache).unwrap();
    fs::write(&cache, "in the way").unwrap();
    let (out, err) = run("run", &["--pack-cache"]);
    assert_eq!(out, plain.0);
    assert_has(&err, &["Cannot store the packed weights in"]);
}

#[test]
fn weights_that_are_repacked_give_the_same_answer() {
    let home = home();
    let mut file = gguf::small();
    let blocks: Vec<u8> = (0..32).flat_map(|i| random_row(Format::Nvfp4, 64, i)).collect();
    file.blocks("blk.0.ffn_down.weight", Format::Nvfp4, [32, 64], &blocks);
    fs::write(home.path().join("my models/rare.gguf"), file.bytes()).unwrap();
    let ran = |args: &[&str], repack: &str| {
        home.ran(0, &[args, &["--target", "rare", "--repack", repack]].concat()).0
    };
    assert_eq!(ran(&["run", "ab"], "always"), ran(&["run", "ab"], "never"));
    let repacked = ["repacked     NVFP4", "NVFP4 weights are repacked for speed", "as you chose"];
    assert_has(&ran(&["doctor"], "always"), &repacked);
    let expanded = ["expanded     NVFP4", "NVFP4 weights are expanded each time they are used"];
    assert_has(&ran(&["doctor"], "never"), &expanded);
}

#[cfg(target_os = "linux")]
#[test]
fn a_name_that_is_not_utf_8_is_listed_too() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let home = home();
    let folder = home.path().join("my models");
    let odd = folder.join(OsStr::from_bytes(b"odd\xff.gguf"));
    fs::write(odd, gguf::small().bytes()).unwrap();
    let gone = folder.join(OsStr::from_bytes(b"gone\xff.gguf"));
    std::os::unix::fs::symlink("nowhere", gone).unwrap();
    let all = home.json(&["models", "--json"]);
    let paths: Vec<&Value> =
        all["models"].as_array().unwrap().iter().map(|model| &model["paths"][0]).collect();
    let ends = |path: &Value, end: &str| path.as_str().is_some_and(|path| path.ends_with(end));
    assert!(paths.iter().any(|path| ends(path, "odd\u{fffd}.gguf")), "{all}");
    let skipped = all["skipped"].as_array().unwrap();
    assert!(skipped.iter().any(|it| ends(&it["path"], "gone\u{fffd}.gguf")), "{all}");
}

#[test]
fn a_model_of_nan_is_refused_by_name() {
    let home = Home::new();
    let folder = home.path().join("nan");
    copy_folder(DEMO.as_ref(), &folder);
    let weights = folder.join("model.safetensors");
    let mut bytes = fs::read(&weights).unwrap();
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    bytes[8 + header..].fill(0xFF);
    fs::write(&weights, bytes).unwrap();
    let target = folder.to_str().unwrap();
    let run = ["run", "Hello", "--max-tokens", "4", "--target", target];
    home.refuses(3, &run, &["nan", "computes no numbers (NaN)", "download it again"]);
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
    let mut pull = home.command(&["pull", "llama3-8b-eagle"]);
    pull.env("HF_ENDPOINT", format!("http://127.0.0.1:{}", server.port));
    let (out, err) = ends(0, &mut pull);
    let places: Vec<&Path> = out.lines().map(Path::new).collect();
    assert!(places.len() == 2 && places.iter().all(|place| place.exists()), "{out}");
    assert!(out.contains("m-Q4_K_M.gguf") && out.contains("EAGLE-LLaMA3-Instruct-8B"), "{out}");
    let start = "dovetail --target bartowski/Meta-Llama-3-8B-Instruct-GGUF:Q4_K_M --draft yuhuili/";
    assert!(err.contains(start) && err.contains("Llama 3 Community"), "{err}");
    assert!(server.requests("Q8_0").is_empty(), "what was not asked for is not fetched");

    let all = home.json(&["models", "--json"]);
    let stores: Vec<_> =
        all["models"].as_array().unwrap().iter().map(|m| m["store"].as_str().unwrap()).collect();
    assert_eq!(stores, ["bundled", "hub cache", "hub cache"], "{all}");

    home.refuses(3, &["pull", "lama3-8b-eagle"], &["similar names: llama3-8b-eagle"]);
}
