//! Hostile files: each is an error that names the file.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use super::{open_head, open_target};
use crate::support::library::{self, change_json, demo_copy, spec};
use dovetail::chat::{Message, Role};
use serde_json::{Value, json};
use tempfile::TempDir;
use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

const PICKLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/library/data/pickled_head");
/// Far more than any of these takes, even on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// The bundled target with one file changed.
fn target(file: &str, change: impl FnOnce(&mut Value)) -> TempDir {
    let folder = demo_copy();
    change_json(folder.path(), file, change);
    folder
}

fn refusal(folder: &TempDir) -> String {
    let begun = Instant::now();
    let text = library::refusal(open_target(&spec(folder.path())));
    assert!(begun.elapsed() < PATIENCE, "{text}");
    text
}

#[test]
fn a_tokenizer_is_refused_by_name() {
    let charsmap = |map: &str| json!({"type": "Precompiled", "precompiled_charsmap": map});
    for (field, part, words) in [
        (
            "normalizer",
            json!({"type": "Replace", "pattern": {"String": ""}, "content": "x"}),
            "empty pattern",
        ),
        (
            "pre_tokenizer",
            json!({"type": "Split", "pattern": {"Regex": "(".repeat(9000)},
                "behavior": "Isolated", "invert": false}),
            "",
        ),
        ("normalizer", charsmap("/P///wAAAAAAAAAA"), "index"),
        ("normalizer", charsmap("AAAA"), "bytes"),
        ("added_tokens", json!([{"id": u32::MAX, "content": "x"}]), "4294967295"),
        ("model", json!({"type": "BPE", "vocab": {"a": u32::MAX}, "merges": []}), "4294967295"),
        ("model", json!({"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]}), ""),
        ("decoder", json!({"type": "Nothing"}), ""),
    ] {
        let text = refusal(&target("tokenizer.json", |file| file[field] = part.clone()));
        assert!(text.contains("tokenizer.json") && text.contains(words), "{part}: {text}");
    }
    // An index that fits and leads nowhere: only using it shows whether it works.
    for unit in ["////", "AAAA", "gICA", "/38A", "AAQA"] {
        let map = format!("CAAAA{}", unit.repeat(8));
        let folder = target("tokenizer.json", |file| file["normalizer"] = charsmap(&map));
        if let Err(error) = open_target(&spec(folder.path())) {
            assert!(error.to_string().contains("tokenizer.json"), "{error}");
        }
    }
}

#[test]
fn a_chat_template_is_refused_by_name() {
    let doubling = "{% set n = namespace(s='x') %}{% for i in range(40) %}\
        {% set n.s = n.s + n.s %}{% endfor %}{{ n.s }}";
    for source in [
        doubling.to_owned(),
        "{{ messages[0].content | indent(1000000000) }}".to_owned(),
        format!("{{{{ strftime_now('{}') }}}}", "%A".repeat(100_000)),
        format!("{{{{ 1{} }}}}", "+1".repeat(100_000)),
        format!("{{{{ {}1 }}}}", "not ".repeat(100_000)),
        format!("{{# {} #}}", "x".repeat(1 << 20)),
    ] {
        let folder = target("tokenizer_config.json", |file| {
            file["chat_template"] = source.clone().into();
        });
        let text = refusal(&folder);
        let names = text.contains("tokenizer_config.json") && text.contains("limit");
        assert!(names, "{}: {text}", &source[..40]);
    }
    // Harmless until a message is longer.
    let source = "{% for m in messages %}{% if m.content | length > 99 %}{{ 'x' * 90000000 }}\
        {% endif %}{{ m.content }}{% endfor %}";
    let folder =
        target("tokenizer_config.json", |file| file["chat_template"] = source.to_owned().into());
    let target = open_target(&spec(folder.path())).unwrap();
    let prompt = |content: String| {
        let messages = [Message::new(Role::User, content)];
        target.template.prompt(&messages, true, &|text| target.tokenizer.controls_in(text))
    };
    assert_eq!(prompt("hi".to_owned()).unwrap().text, "hi");
    let text = prompt("hi ".repeat(99)).unwrap_err().to_string();
    assert!(text.contains("tokenizer_config.json") && text.contains("bytes"), "{text}");
}

/// The head that torch saved, with a changed pickle.
fn head(change: impl FnOnce(Vec<u8>) -> Vec<u8>) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(Path::new(PICKLED).join("config.json"), folder.path().join("config.json")).unwrap();
    let saved = File::open(Path::new(PICKLED).join("pytorch_model.bin")).unwrap();
    let mut saved = ZipArchive::new(saved).unwrap();
    let mut written =
        ZipWriter::new(File::create(folder.path().join("pytorch_model.bin")).unwrap());
    let mut change = Some(change);
    for index in 0..saved.len() {
        let mut entry = saved.by_index(index).unwrap();
        let name = entry.name().unwrap().into_owned();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        if name.ends_with("data.pkl") {
            content = change.take().unwrap()(content);
        }
        let stored =
            SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
        written.start_file(name, stored).unwrap();
        written.write_all(&content).unwrap();
    }
    written.finish().unwrap();
    folder
}

#[test]
fn a_pickle_is_refused_by_name() {
    let whole = head(|pickle| pickle);
    assert!(open_head(&spec(whole.path())).is_ok());
    let laughs = || [b"\x80\x02]q\0".to_vec(), b"h\0h\0\x86q\0".repeat(40), b".".to_vec()].concat();
    // The first tensor has 12 rows of 8; here it claims 2^31 - 1.
    let giant = |pickle: Vec<u8>| {
        let at = pickle.windows(5).position(|bytes| bytes == b"K\x0cK\x08\x86").unwrap();
        [&pickle[..at], b"J\xff\xff\xff\x7f", &pickle[at + 2..]].concat()
    };
    for (folder, words) in [
        (head(|_| b"\x80\x02X\xff\xff\xff\xffab.".to_vec()), "4294967295 bytes"),
        (head(|_| laughs()), "objects"),
        (head(|_| [b"\x80\x02]".to_vec(), vec![0x85; 100_000], b".".to_vec()].concat()), "nested"),
        (head(|_| vec![b'('; 5 << 20]), "the limit is 4194304"),
        (head(|pickle| pickle[..pickle.len() / 2].to_vec()), ""),
        (head(|_| Vec::new()), ""),
        (head(giant), "does not fit"),
    ] {
        let begun = Instant::now();
        let text = library::refusal(open_head(&spec(folder.path())));
        assert!(text.contains("pytorch_model.bin") && text.contains(words), "{words}: {text}");
        assert!(begun.elapsed() < PATIENCE, "{text}");
    }
}
