//! Models are found in stores laid out like those of the programs that fill them, each once and by
//! its name; damaged ones are left out with a reason and do not stop the search.

use std::collections::BTreeMap;
use std::fs;
#[cfg(unix)]
use std::path::Path;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use candle_core::quantized::gguf_file::Value;
use serde_json::json;
use tempfile::TempDir;

use crate::support::gguf::{self, dims_of};
use crate::support::golden::golden;
use crate::support::library::{DEMO, arch_file};
use dovetail::library::{Found, ModelEntry, ModelPlaces, Runs, Spec, Store, find, open_target};

/// A model of a few kilobytes whose name is `name`.
fn model(name: &str) -> Vec<u8> {
    let mut file = gguf::small();
    file.set("general.name", Value::String(name.to_owned()));
    file.set("general.file_type", Value::U32(7));
    file.bytes()
}

/// A folder for stores.
struct Machine(TempDir);

impl Machine {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn at(&self, path: &str) -> PathBuf {
        // With the system's own separators.
        self.0.path().join(path.split('/').collect::<PathBuf>())
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    #[cfg(unix)]
    fn link(&self, target: impl AsRef<Path>, path: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, path).unwrap();
    }

    /// A copy of a recorded model's folder.
    fn copy(&self, recorded: &str, path: &str) {
        for file in fs::read_dir(golden(recorded)).unwrap() {
            let file = file.unwrap();
            let name = file.file_name().into_string().unwrap();
            self.write(&format!("{path}/{name}"), fs::read(file.path()).unwrap());
        }
    }

    /// Ollama's manifest of a model with this blob; returns the blob's path.
    fn ollama(&self, tag: &str, digit: char, content: &[u8]) -> PathBuf {
        let hash = digit.to_string().repeat(64);
        let blob = self.write(&format!("ollama/blobs/sha256-{hash}"), content);
        let layer = |kind: &str, digest: &str, size: usize| {
            json!({"mediaType": format!("application/vnd.ollama.image.{kind}"),
                "digest": digest, "size": size})
        };
        let other = format!("sha256:{}", "9".repeat(64));
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
            "config": {"mediaType": "application/vnd.docker.container.image.v1+json",
                "digest": other, "size": 5},
            "layers": [
                layer("template", &other, 7),
                layer("model", &format!("sha256:{hash}"), content.len()),
            ],
        });
        self.write(&format!("ollama/manifests/{tag}"), manifest.to_string());
        blob
    }

    /// A file of a repository in the hub's cache: a link to its content, or on Windows, where links
    /// need a permission, a copy of the content.
    fn hub(&self, repo: &str, commit: &str, file: &str, blob: &str, content: &[u8]) {
        let folder = format!("hub/models--{}", repo.replace('/', "--"));
        self.write(&format!("{folder}/blobs/{blob}"), content);
        let path = format!("{folder}/snapshots/{commit}/{file}");
        #[cfg(unix)]
        self.link(format!("{}blobs/{blob}", "../".repeat(2 + file.matches('/').count())), &path);
        #[cfg(not(unix))]
        self.write(&path, content);
    }

    fn find(&self) -> Found {
        let there = |name: &str| Some(self.at(name)).filter(|path| path.exists());
        let places = [
            (Store::Folder, there("models")),
            (Store::Current, Some(self.at("here"))),
            (Store::Downloads, Some(self.at("got"))),
            (Store::Hub, there("hub")),
            (Store::LmStudio, there("lmstudio")),
            (Store::Ollama, Some(self.at("ollama"))),
        ];
        let places = places.into_iter().filter_map(|(store, folder)| Some((store, folder?)));
        let places = ModelPlaces(places.collect());
        let before = self.listing();
        let found = find(&places);
        assert_eq!(self.listing(), before, "stores are only read");
        found
    }

    /// Every path with its modification time.
    fn listing(&self) -> BTreeMap<PathBuf, std::time::SystemTime> {
        let (mut all, mut folders) = (BTreeMap::new(), vec![self.0.path().to_owned()]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten() {
                let entry = entry.unwrap();
                let metadata = entry.metadata().unwrap();
                if metadata.is_dir() {
                    folders.push(entry.path());
                }
                all.insert(entry.path(), metadata.modified().unwrap());
            }
        }
        all
    }
}

/// Name, store and title of everything that is not bundled.
fn rows(found: &Found) -> Vec<(String, Store, String)> {
    let row = |model: &ModelEntry| (model.located.name.clone(), model.located.store, model.title());
    found.models[1..].iter().map(row).collect()
}

fn skipped(found: &Found) -> String {
    let lines: String = found.skipped.iter().map(|skipped| format!("{skipped}\n")).collect();
    lines.replace(std::path::MAIN_SEPARATOR, "/")
}

/// The line about `file` gives this reason.
fn assert_line(text: &str, file: &str, reason: &str) {
    let line = text.lines().find(|line| line.contains(&format!("/{file}: ")));
    assert!(line.is_some_and(|line| line.contains(reason)), "{file}: {text}");
}

fn row(name: &str, store: Store, title: &str) -> (String, Store, String) {
    (name.to_owned(), store, title.to_owned())
}

#[test]
fn every_store_is_looked_through() {
    let machine = Machine::new();
    machine.write("models/sub/mine-q8_0.gguf", model("My Own"));
    machine.write("models/notes.txt", "no model");
    machine.hub("owner/repo-GGUF", "abc", "hub-Q8_0.gguf", "b1", &model("From the hub"));
    machine.write("hub/models--owner--repo-GGUF/refs/main", "abc");
    for file in fs::read_dir(DEMO).unwrap() {
        let file = file.unwrap();
        let name = file.file_name().into_string().unwrap();
        machine.hub("owner/demo", "def", &name, &name, &fs::read(file.path()).unwrap());
    }
    machine.write("hub/models--owner--demo/refs/main", "def\n");
    machine.write("hub/version.txt", "1");
    machine.write("lmstudio/publisher/repo/lms.Q8_0.gguf", model("Lms Q8_0"));
    machine.ollama("registry.ollama.ai/library/qwen2.5/0.5b", 'a', &model("Qwen2.5 0.5B"));
    let found = machine.find();
    assert_eq!(skipped(&found), "");
    assert_eq!(
        rows(&found),
        [
            row("mine-q8_0", Store::Folder, "My Own Q8_0"),
            row("demo", Store::Hub, "demo BF16"),
            row("hub-Q8_0", Store::Hub, "From the hub Q8_0"),
            row("lms.Q8_0", Store::LmStudio, "Lms Q8_0"),
            row("qwen2.5:0.5b", Store::Ollama, "qwen2.5:0.5b Q8_0"),
        ]
    );
    for entry in &found.models {
        assert_eq!(entry.problem(), None, "{entry:?}");
        assert!(entry.located.bytes > 1000 && !entry.is_head(), "{entry:?}");
        let Some(Runs::Model { config, pass_bytes, .. }) = &entry.facts.runs else { panic!() };
        assert!(*pass_bytes > 0 && *pass_bytes <= entry.located.bytes);
        let opened = open_target(&entry.located.spec, &mut |_| {}).unwrap();
        assert_eq!(opened.config, **config);
    }
    let demo = &found.models[2];
    assert_eq!(demo.facts.vocabulary, found.models[0].facts.vocabulary);
    assert!(demo.facts.vocabulary.is_some());
    assert_eq!(demo.located.aliases, ["owner/demo"]);
    assert_eq!(found.models[3].located.aliases, ["owner/repo-GGUF:hub-Q8_0.gguf"]);
}

#[test]
fn models_of_the_same_title_are_told_apart_by_their_names() {
    let machine = Machine::new();
    let content = |byte| [model("Assistant"), vec![byte]].concat();
    machine.write("models/one-q8_0.gguf", content(1));
    machine.write("models/two-q8_0.gguf", content(2));
    machine.write("models/SmolLM2-135M-Instruct.Q8_0.gguf", content(3));
    let found = machine.find();
    assert_eq!(
        rows(&found),
        [
            row("SmolLM2-135M-Instruct.Q8_0", Store::Folder, "SmolLM2 135M Instruct Q8_0"),
            row("one-q8_0", Store::Folder, "one-q8_0"),
            row("two-q8_0", Store::Folder, "two-q8_0"),
        ]
    );
    let opened = open_target(&found.models[1].located.spec, &mut |_| {}).unwrap();
    assert_eq!(opened.name, "SmolLM2 135M Instruct");
}

#[test]
fn files_in_the_current_and_in_the_download_folder_are_found() {
    let machine = Machine::new();
    machine.write("here/near-q8_0.gguf", model("Near"));
    machine.write("here/notes.txt", "no model");
    machine.write("here/.hidden.gguf", model("Hidden"));
    machine.write("here/below/far-q8_0.gguf", model("Far"));
    machine.write("got/SmolLM2-135M-Instruct.Q8_0.GGUF", model("Smollm2 135M Mix1 Ep2"));
    let found = machine.find();
    assert_eq!(skipped(&found), "");
    assert_eq!(
        rows(&found),
        [
            row("near-q8_0", Store::Current, "Near Q8_0"),
            row("SmolLM2-135M-Instruct.Q8_0", Store::Downloads, "SmolLM2 135M Instruct Q8_0"),
        ]
    );
}

#[test]
fn a_draft_head_is_told_from_a_model() {
    let machine = Machine::new();
    machine.copy("draft_dgf_m2", "models/dgf");
    machine.copy("draft_eagle_m1", "models/eagle");
    machine.copy("target_mha", "models/target");
    let found = machine.find();
    let heads: Vec<_> = found.models.iter().map(ModelEntry::is_head).collect();
    assert_eq!(heads, [false, true, true, false], "{found:?}");
}

#[test]
fn a_model_in_several_files_is_one() {
    let machine = Machine::new();
    let whole = fs::read_dir(arch_file("")).unwrap().map(|entry| entry.unwrap().path());
    let shards: Vec<_> = whole.filter(|path| path.to_string_lossy().contains("-of-0000")).collect();
    assert!(shards.len() > 1, "{shards:?}");
    for shard in &shards {
        let name = shard.file_name().unwrap().to_str().unwrap();
        machine.write(&format!("models/{name}"), fs::read(shard).unwrap());
    }
    let found = machine.find();
    assert_eq!(found.models.len(), 2, "{:?}", rows(&found));
    let entry = &found.models[1];
    assert_eq!(entry.problem(), None);
    assert_eq!(entry.located.paths.len(), shards.len());
    assert!(!entry.located.name.contains("-of-"), "{}", entry.located.name);
    let bytes: u64 = shards.iter().map(|path| fs::metadata(path).unwrap().len()).sum();
    assert_eq!(entry.located.bytes, bytes);
    // One of them is missing: the model is still listed, with what to do.
    fs::remove_file(&entry.located.paths[0]).unwrap();
    let found = machine.find();
    assert_eq!(found.models.len(), 2);
    let problem = found.models[1].problem().unwrap();
    assert!(problem.contains("00001-of-") && problem.contains("check the path"), "{problem}");
}

// It uses links, which need a permission on Windows.
#[cfg(unix)]
#[test]
fn the_same_content_is_one_model_with_several_names() {
    let machine = Machine::new();
    let blob = machine.ollama("registry.ollama.ai/library/m/latest", 'a', &model("M"));
    let manifest = fs::read(machine.at("ollama/manifests/registry.ollama.ai/library/m/latest"));
    machine.write("ollama/manifests/registry.ollama.ai/library/copy/1", manifest.unwrap());
    // Another program's link to the blob.
    machine.link(&blob, "lmstudio/linked.gguf");
    // Two snapshots of a repository that share a file.
    machine.hub("o/r", "new", "a.gguf", "b1", &model("A"));
    machine.hub("o/r", "old", "a.gguf", "b1", &model("A"));
    machine.hub("o/r", "old", "b.gguf", "b2", &model("B"));
    machine.write("hub/models--o--r/refs/main", "new");
    let found = machine.find();
    let names: Vec<_> = found.models[1..].iter().map(|model| &model.located.name).collect();
    assert_eq!(names, ["a", "b", "linked"]);
    let aliases = |at: usize| &found.models[at].located.aliases;
    assert_eq!(aliases(1)[..], ["o/r:a.gguf", "o/r@old:a.gguf"]);
    assert_eq!(aliases(2)[..], ["o/r@old:b.gguf"]);
    assert_eq!(aliases(3)[..], ["copy:1", "m:latest"]);
}

#[test]
fn models_that_are_called_alike_get_names_apart() {
    let machine = Machine::new();
    machine.write("models/one/m.gguf", model("M"));
    machine.write("models/two/M.gguf", model("M"));
    machine.write("lmstudio/one/m.gguf", model("M"));
    let found = machine.find();
    let names: Vec<_> = found.models[1..].iter().map(|model| &*model.located.name).collect();
    let path = |path: &str| machine.at(path).display().to_string();
    assert_eq!(names, [&*path("models/one/m.gguf"), "two/M", &*path("lmstudio/one/m.gguf")]);
    for model in &found.models[1..] {
        assert!(model.located.aliases.iter().any(|alias| alias.eq_ignore_ascii_case("m")));
    }
}

#[test]
fn what_cannot_be_opened_is_listed_with_the_reason() {
    let machine = Machine::new();
    let mut other = gguf::small();
    other.set("general.architecture", Value::String("mamba".to_owned()));
    machine.write("models/a.gguf", other.bytes());
    let mut unknown = gguf::small().bytes();
    let at = dims_of(&unknown, "token_embd.weight") + 16;
    unknown[at..at + 4].copy_from_slice(&200u32.to_le_bytes());
    machine.write("models/b.gguf", unknown);
    let whole = model("C");
    machine.write("models/c.gguf", &whole[..whole.len() / 2]);
    machine.write("models/d.gguf", "no GGUF at all");
    let mut tokenizer = gguf::small();
    tokenizer.set("tokenizer.ggml.model", Value::String("rwkv".to_owned()));
    machine.write("models/e.gguf", tokenizer.bytes());
    machine.write("models/f/config.json", "{");
    machine.write("models/f/model.safetensors", "");
    let found = machine.find();
    assert_eq!(skipped(&found), "");
    let problems = ["`mamba`", "200", "", "GGUF", "`rwkv`", "config.json"];
    assert_eq!(found.models.len(), 1 + problems.len());
    for (entry, word) in found.models[1..].iter().zip(problems) {
        let problem = entry.problem().unwrap_or_else(|| panic!("{}", entry.located.name));
        assert!(problem.contains(word), "{problem}");
        assert_eq!(entry.facts.runs, None);
        // Opening it gives the same message.
        let error = open_target(&entry.located.spec, &mut |_| {}).map(|_| ()).unwrap_err();
        assert_eq!(error.to_string(), problem);
    }
    assert_eq!(found.models[1].facts.architecture.as_deref(), Some("mamba"));
    assert!(found.models[1].facts.parameters.is_some());
}

#[cfg(unix)]
#[test]
fn links_in_circles_and_to_nothing_are_left_out_with_their_reason() {
    let machine = Machine::new();
    machine.write("models/good.gguf", model("Good"));
    machine.link("circle.gguf", "models/circle.gguf");
    machine.link("two.gguf", "models/one.gguf");
    machine.link("one.gguf", "models/two.gguf");
    machine.link("/no/such/blob", "models/gone.gguf");
    machine.link("..", "models/sub/up");
    machine.link(machine.at("models"), "models/sub/self");
    machine.link("loop", "models/sub/loop");
    let pipe = machine.at("models/pipe.gguf");
    assert!(std::process::Command::new("mkfifo").arg(pipe).status().unwrap().success());
    fs::create_dir(machine.at("models/folder.gguf")).unwrap();
    let found = machine.find();
    assert_eq!(rows(&found), [row("good", Store::Folder, "Good Q8_0")]);
    let text = skipped(&found);
    for (file, reason) in [
        ("circle.gguf", "leads back to itself"),
        ("one.gguf", "leads back to itself"),
        ("two.gguf", "leads back to itself"),
        ("gone.gguf", "a link to something that no longer exists"),
        ("sub/up", "which is already listed"),
        ("sub/self", "which is already listed"),
        ("sub/loop", "leads back to itself"),
        ("pipe.gguf", "not a regular file"),
        ("folder.gguf", "a folder with the name of a file"),
    ] {
        assert_line(&text, file, reason);
    }
    assert_eq!(found.skipped.len(), 9, "{text}");
}

// Some of its manifests are links.
#[cfg(unix)]
#[test]
fn a_damaged_ollama_store_gives_what_is_whole() {
    let machine = Machine::new();
    let own = |tag: &str| format!("registry.ollama.ai/library/{tag}");
    machine.ollama(&own("good/1b"), 'a', &model("Good"));
    machine.ollama("ollama.com/someone/other/latest", 'b', &model("Other"));
    fs::remove_file(machine.ollama(&own("vanished/1b"), 'c', &model("Gone"))).unwrap();
    let cut = machine.ollama(&own("cut/1b"), 'd', &model("Cut"));
    fs::write(&cut, &model("Cut")[..100]).unwrap();
    let manifest = |tag: &str, text: &str| {
        machine.write(&format!("ollama/manifests/{}", own(tag)), text);
    };
    manifest("torn/1b", "{\"schemaVersion\": 2, \"layers\": [{\"medi");
    manifest("newer/1b", "{\"schemaVersion\": 3, \"layers\": []}");
    manifest("old/1b", "{\"layers\": []}");
    manifest("none/1b", "{\"schemaVersion\": 2}");
    manifest("binary/1b", "\u{0}\u{1}\u{fffd}");
    manifest("odd/1b", "[1, 2]");
    let layer = |digest: &str| {
        let kind = "application/vnd.ollama.image.model";
        json!({"schemaVersion": 2, "layers": [{"mediaType": kind, "digest": digest, "size": 1}]})
            .to_string()
    };
    manifest("escape/1b", &layer("sha256:../../../etc/passwd"));
    manifest("short/1b", &layer("sha256:abc"));
    let adapted =
        layer(&format!("sha256:{}", "a".repeat(64))).replace("image.model", "image.adapter");
    manifest("adapter/1b", &adapted);
    machine.link("1b", &format!("ollama/manifests/{}", own("alias/1b")));
    machine.link("../good", &format!("ollama/manifests/{}", own("good/folder")));
    machine.write("ollama/manifests/.DS_Store", "x");
    // Newer programs store further manifests next to it, and tags that are links.
    machine.link(
        format!("../../../../manifests/{}", own("good/1b")),
        "ollama/manifests-v2/ollama.com/library/linked/1b",
    );
    let found = machine.find();
    let names: Vec<_> = rows(&found).into_iter().map(|row| row.0).collect();
    assert_eq!(names, ["good:1b", "someone/other:latest"]);
    assert_eq!(found.models[1].located.aliases, ["linked:1b"]);
    let text = skipped(&found);
    for (tag, reason) in [
        ("vanished/1b", "is missing; pull the model again"),
        ("cut/1b", "has 100 of"),
        ("torn/1b", "a damaged manifest"),
        ("newer/1b", "a manifest of version 3; only 2 is supported"),
        ("old/1b", "schemaVersion is missing"),
        ("none/1b", "it has no GGUF model"),
        ("binary/1b", "a damaged manifest"),
        ("odd/1b", "a damaged manifest"),
        ("escape/1b", "the digest is `sha256:../../../etc/passwd`"),
        ("short/1b", "the digest is `sha256:abc`"),
        ("adapter/1b", "a model with an adapter"),
        ("alias/1b", "leads back to itself"),
        ("good/folder", "a folder where a manifest should be"),
    ] {
        assert_line(&text, tag, reason);
    }
    assert_eq!(found.skipped.len(), 13, "{text}");
}

// Windows does not have modes.
#[cfg(unix)]
#[test]
fn a_folder_that_cannot_be_read_is_named_and_the_rest_is_found() {
    let machine = Machine::new();
    machine.write("models/good.gguf", model("Good"));
    machine.write("models/locked/hidden.gguf", model("Hidden"));
    machine.write("models/secret.gguf", model("Secret"));
    let set = |path: &str, mode| {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(machine.at(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    set("models/locked", 0o000);
    set("models/secret.gguf", 0o000);
    let readable = fs::read_dir(machine.at("models/locked")).is_ok();
    let found = machine.find();
    set("models/locked", 0o755);
    let missing = find(&ModelPlaces(vec![(Store::Folder, machine.at("nowhere"))]));
    assert!(skipped(&missing).contains("nowhere: the folder does not exist"), "{missing:?}");
    assert_eq!(missing.models.len(), 1);
    if readable {
        // The superuser may read everything.
        assert_eq!(found.models.len(), 4);
        return;
    }
    assert!(skipped(&found).contains("locked: no permission to read it"), "{found:?}");
    assert_eq!(found.models.len(), 3);
    assert!(found.models[2].problem().unwrap().contains("allow reading it"));
}

#[test]
fn thousands_of_files_are_soon_looked_through() {
    let machine = Machine::new();
    for i in 0..4000 {
        machine.write(&format!("models/{}/{i}.txt", i % 40), "");
    }
    let content = model("M");
    for i in 0..400 {
        machine.write(&format!("models/{}/m{i}.gguf", i % 40), &content);
    }
    let start = Instant::now();
    let found = find(&ModelPlaces(vec![(Store::Folder, machine.at("models"))]));
    let took = start.elapsed();
    assert_eq!((found.models.len(), found.skipped.len()), (401, 0));
    assert!(found.models[1..].iter().all(|model| model.problem().is_none()));
    assert!(took < Duration::from_secs(20), "{took:?}");
}

#[test]
fn a_file_without_an_ending_opens_by_its_first_bytes() {
    let machine = Machine::new();
    let blob = machine.ollama("registry.ollama.ai/library/m/1", 'a', &model("M"));
    let spec = Spec::parse(blob.to_str().unwrap()).unwrap();
    assert_eq!(spec, Spec::Gguf(blob));
    open_target(&spec, &mut |_| {}).unwrap();
}
