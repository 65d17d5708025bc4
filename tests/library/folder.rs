use std::fs;
use std::path::Path;

use super::{open_head, open_target};
use crate::support::golden::GOLDEN;
use crate::support::library::{self, change_json, demo_copy, spec};
use dovetail::library::{LibraryError, Spec, check_fit};
use dovetail::model::head::HeadWeights;
use serde_json::{Value, json};
use tempfile::TempDir;

fn change(folder: &TempDir, file: &str, change: impl FnOnce(&mut Value)) {
    change_json(folder.path(), file, change);
}

fn refusal(folder: &TempDir) -> String {
    library::refusal(open_target(&spec(folder.path())))
}

#[test]
fn a_folder_is_a_model() {
    let folder = demo_copy();
    let target = open_target(&spec(folder.path())).unwrap();
    let bundled = open_target(&Spec::Bundled).unwrap();
    assert_eq!(target.config, bundled.config);
    assert_eq!((target.eos, target.bos, target.bytes), (bundled.eos, bundled.bos, bundled.bytes));
    let name = folder.path().file_name().unwrap().to_str().unwrap();
    assert!(target.name.starts_with(name), "{}", target.name);
}

#[test]
fn a_missing_file_is_named_with_the_remedy() {
    for (file, remedy) in [
        ("config.json", "download all files"),
        ("tokenizer.json", "GGUF"),
        ("model.safetensors", "GGUF"),
    ] {
        let folder = demo_copy();
        fs::remove_file(folder.path().join(file)).unwrap();
        let text = refusal(&folder);
        assert!(text.contains(&format!("{file} is missing")) && text.contains(remedy), "{text}");
    }
}

#[test]
fn a_damaged_file_is_named() {
    for file in ["config.json", "tokenizer.json", "generation_config.json", "tokenizer_config.json"]
    {
        let folder = demo_copy();
        fs::write(folder.path().join(file), "{\"torn\": ").unwrap();
        assert!(refusal(&folder).contains(file));
    }
}

#[test]
fn a_config_that_does_not_fit_is_refused_by_its_value() {
    for (field, value, expected) in [
        ("model_type", json!("gpt_neox"), "gpt_neox"),
        ("vocab_size", json!(100), "the model has only 100"),
    ] {
        let folder = demo_copy();
        change(&folder, "config.json", |config| config[field] = value);
        let text = refusal(&folder);
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn templates_are_found_in_every_place() {
    let folder = demo_copy();
    let first = |folder: &TempDir| {
        let target = open_target(&spec(folder.path())).unwrap();
        let question = dovetail::chat::Message::new(dovetail::chat::Role::User, "Q".to_owned());
        target.template.render(&[question], true).unwrap()
    };
    change(&folder, "tokenizer_config.json", |config| {
        config["chat_template"] = json!([
            {"name": "tool_use", "template": "tools"},
            {"name": "default", "template": "default {{ messages[0].content }}"}
        ]);
        config["bos_token"] = json!({"content": "<|begin|>", "lstrip": false});
    });
    assert_eq!(first(&folder), "default Q");
    fs::write(
        folder.path().join("chat_template.jinja"),
        "file {{ bos_token }}{{ messages[0].content }}",
    )
    .unwrap();
    assert_eq!(first(&folder), "file <|begin|>Q");
    fs::remove_file(folder.path().join("chat_template.jinja")).unwrap();
    change(&folder, "tokenizer_config.json", |config| config["chat_template"] = Value::Null);
    assert_eq!(first(&folder), "User: Q\nAssistant:");
}

#[test]
fn several_end_tokens_are_all_known() {
    let folder = demo_copy();
    change(&folder, "generation_config.json", |config| {
        config["eos_token_id"] = json!([5, 7, 999_999])
    });
    change(&folder, "config.json", |config| config["eos_token_id"] = json!(6));
    let target = open_target(&spec(folder.path())).unwrap();
    // The template ends a turn with 2; an id outside the vocabulary can never occur.
    assert_eq!(target.eos, [2, 5, 6, 7]);
}

#[test]
fn a_head_for_another_target_is_refused_before_its_weights_are_read() {
    let target = open_target(&Spec::Bundled).unwrap();
    let head = open_head(&spec(&Path::new(GOLDEN).join("draft_dgf_m1"))).unwrap();
    let error = check_fit(&target.config, &head).unwrap_err();
    assert!(matches!(error, LibraryError::Misfit { .. }), "{error}");
}

#[test]
fn what_names_nothing_is_explained() {
    let text = Spec::parse("/no/such/folder").unwrap_err().to_string();
    assert!(text.contains("no model named \"/no/such/folder\""), "{text}");
}

#[test]
fn a_head_may_be_a_pytorch_file() {
    // Saved by torch with the prefix that training leaves; W_z is transposed in the file.
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/library/data/pickled_head");
    let head = open_head(&spec(&folder)).unwrap();
    let weights = HeadWeights::load(&head.config, &*head.tensors).unwrap();
    let value = |name: &str, row: usize, column: usize| {
        let tensor = weights.get(name).unwrap();
        let rows = tensor.to_dtype(candle_core::DType::F32).unwrap().to_vec2::<f32>().unwrap();
        rows[row][column]
    };
    assert_eq!((value("W_1", 1, 0), value("W_1", 0, 1)), (8.0 / 64.0, 1.0 / 64.0));
    assert_eq!((value("W_z", 1, 0), value("W_z", 0, 1)), (1.0 / 64.0, 16.0 / 64.0));
    assert!(weights.get("embed_tokens.weight").is_some());
}

#[test]
fn a_torn_pytorch_file_is_refused() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/library/data/pickled_head");
    let whole = fs::read(source.join("pytorch_model.bin")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::copy(source.join("config.json"), folder.path().join("config.json")).unwrap();
    for length in [0, 100, whole.len() / 2, whole.len() - 10] {
        fs::write(folder.path().join("pytorch_model.bin"), &whole[..length]).unwrap();
        let text = library::refusal(open_head(&spec(folder.path())));
        assert!(text.contains("pytorch_model.bin") && text.contains("download it again"), "{text}");
    }
    fs::remove_file(folder.path().join("pytorch_model.bin")).unwrap();
    let text = library::refusal(open_head(&spec(folder.path())));
    assert!(text.contains("model.safetensors or pytorch_model.bin is missing"));
}

#[test]
fn a_models_own_sampling_is_read() {
    let folder = demo_copy();
    change(&folder, "generation_config.json", |config| {
        config["do_sample"] = json!(true);
        config["temperature"] = json!(0.6);
        config["top_p"] = json!(0.9);
    });
    let target = open_target(&spec(folder.path())).unwrap();
    assert_eq!(target.sampling.origin, "generation_config.json");
    let expected = [("sampler.temperature", 0.6), ("sampler.top_p", 0.9)];
    assert_eq!(target.sampling.values, expected);
}
