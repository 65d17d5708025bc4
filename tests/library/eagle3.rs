//! Every part of an EAGLE-3 head's files that does not fit is named, with what to do.

use crate::support::program::assert_has;
use std::collections::HashMap;
use std::fs;

use candle_core::{DType, Device, Tensor};
use dovetail::library::{HeadFiles, LibraryError, Spec, check_fit, open_head};
use dovetail::model::head::{HeadConfig, HeadWeights};
use dovetail::model::{Config, FeatureSource};
use serde_json::{Value, json};

use crate::support::eagle3::{EAGLE3_HEADS, eagle3_files};
use crate::support::golden::{config, golden, json as recorded_json};
use crate::support::pickled::pickle;

fn target() -> Config {
    config("eagle3/target")
}

/// A recorded head with another `config.json`.
fn changed(name: &str, changes: &Value) -> Result<HeadFiles, LibraryError> {
    let folder = tempfile::tempdir().unwrap();
    let mut config = recorded_json(&format!("eagle3/{name}/config.json"));
    for (field, value) in changes.as_object().unwrap() {
        config[field] = value.clone();
    }
    fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    let weights = golden(&format!("eagle3/{name}/model.safetensors"));
    fs::copy(weights, folder.path().join("model.safetensors")).unwrap();
    open_head(&Spec::Folder(folder.path().to_owned()), &mut |_| {})
}

#[test]
fn every_published_layout_is_known() {
    for name in EAGLE3_HEADS {
        let files = eagle3_files(name);
        check_fit(&target(), &files).unwrap();
        let weights = HeadWeights::load(&files.config, files.tensors.as_ref()).unwrap();
        assert!(weights.config.kind.eagle3().is_some());
        assert_eq!(weights.config.blocks(), 1);
        assert!(weights.get("lm_head.weight").is_some());
        assert_eq!(files.config.feature_width(), 192);
        let states = if name == "head_speculators" { [3, 5, 7] } else { [2, 4, 5] };
        assert_eq!(files.config.features(8), Ok(FeatureSource::States(states.to_vec())));
    }
}

#[test]
fn another_target_is_refused_by_file_figure_and_remedy() {
    let files = eagle3_files("head_eagle3");
    let told = |target: Config| check_fit(&target, &files).unwrap_err().to_string();
    for (target, expected) in [
        (Config { hidden: 128, ..target() }, "its hidden size is 64, but the target's is 128"),
        (Config { vocab: 640, ..target() }, "its vocabulary size is 512, but the target's is 640"),
        (Config { layers: 6, ..target() }, "eagle_aux_hidden_state_layer_ids"),
    ] {
        let text = told(target);
        assert_has(&text, &["head_eagle3", expected]);
    }
    let speculators = eagle3_files("head_speculators");
    let text = check_fit(&Config { layers: 6, ..target() }, &speculators).unwrap_err().to_string();
    assert_has(&text, &["read state 7, but the target has 6 layers"]);
}

#[test]
fn what_a_config_asks_for_and_is_not_supported_is_named() {
    for (changes, field) in [
        (json!({"num_hidden_layers": 2}), "num_hidden_layers"),
        (json!({"eagle_config": {"use_aux_hidden_state": false}}), "use_aux_hidden_state"),
        (json!({"mask_token_id": 3}), "mask_token_id"),
        (json!({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}), "rope_scaling"),
        (json!({"draft_vocab_size": 513}), "draft_vocab_size"),
    ] {
        let text = changed("head_eagle3", &changes).err().expect(field).to_string();
        assert_has(&text, &[field, "config.json"]);
    }
}

#[test]
fn tensors_that_do_not_match_the_config_are_listed_as_the_file_calls_them() {
    let problems = |name: &str, changes: Value| {
        let files = changed(name, &changes).unwrap();
        HeadWeights::load(&files.config, files.tensors.as_ref()).unwrap_err().to_string()
    };
    // Without the head's own embedding there is none of its width.
    let text = problems("head_ownembed", json!({"target_hidden_size": 32}));
    assert_has(&text, &["`fc.weight` is [48, 192], expected [48, 96]"]);
    let text = problems("head_eagle3", json!({"fc_norm": true, "intermediate_size": 80}));
    assert_has(&text, &["`fc_norm.0.weight` [64] is missing"]);
    assert_has(&text, &["`midlayer.mlp.up_proj.weight` is [96, 64], expected [80, 64]"]);
    let nested = recorded_json("eagle3/head_speculators/config.json");
    let mut nested = nested["transformer_layer_config"].clone();
    nested["intermediate_size"] = json!(80);
    let text = problems("head_speculators", json!({"transformer_layer_config": nested}));
    assert_has(&text, &["`layers.0.mlp.up_proj.weight` is [72, 64]"]);
    let text = problems("head_eagle31", json!({"fc_norm": false}));
    assert_has(&text, &["`fc_norm.1.weight` [64] is not a tensor of a draft head"]);
}

/// The tensors of the plain head, by name.
fn tensors() -> (HeadConfig, HashMap<String, Tensor>) {
    let files = eagle3_files("head_eagle3");
    let read = |name: &String| (name.clone(), files.tensors.tensor(name).unwrap());
    let all = files.tensors.names().iter().map(read).collect();
    (files.config, all)
}

#[test]
fn both_maps_of_the_draft_vocabulary_must_agree() {
    let (config, mut all) = tensors();
    assert_eq!(all["t2d"].dtype(), DType::U8);
    let mut flags = all["t2d"].to_vec1::<u8>().unwrap();
    let token = flags.iter().position(|&flag| flag != 0).unwrap();
    flags[token] = 0;
    all.insert("t2d".into(), Tensor::from_slice(&flags, flags.len(), &Device::Cpu).unwrap());
    let text = HeadWeights::load(&config, &all).unwrap_err().to_string();
    let expected = format!("disagree on whether the head scores token {token}");
    assert_has(&text, &[&expected]);
    // A file may leave it out.
    all.remove("t2d");
    HeadWeights::load(&config, &all).unwrap();
}

/// As the first EAGLE-3 heads were published: a PyTorch file whose `t2d` holds flags.
#[test]
fn a_pytorch_file_holds_the_same_head() {
    for name in EAGLE3_HEADS {
        let source = golden(&format!("eagle3/{name}"));
        let folder = tempfile::tempdir().unwrap();
        fs::copy(source.join("config.json"), folder.path().join("config.json")).unwrap();
        let saved = folder.path().join("pytorch_model.bin");
        pickle(&source.join("model.safetensors"), &saved);
        let pickled = open_head(&Spec::Folder(folder.path().to_owned()), &mut |_| {}).unwrap();
        let files = eagle3_files(name);
        assert_eq!(pickled.config, files.config);
        assert_eq!(pickled.tensors.names(), files.tensors.names());
        for name in files.tensors.names() {
            let (a, b) = (pickled.tensors.tensor(&name), files.tensors.tensor(&name));
            let floats = |tensor: &Tensor| {
                tensor.to_dtype(DType::F64).unwrap().flatten_all().unwrap().to_vec1::<f64>()
            };
            let (a, b) = (a.unwrap(), b.unwrap());
            assert_eq!((a.dtype(), a.dims()), (b.dtype(), b.dims()), "{name}");
            assert_eq!(floats(&a).unwrap(), floats(&b).unwrap(), "{name}");
        }
        HeadWeights::load(&pickled.config, pickled.tensors.as_ref()).unwrap();
    }
}

#[test]
fn what_a_head_can_take_from_its_target_may_be_left_out() {
    let (config, mut all) = tensors();
    all.remove("lm_head.weight");
    all.insert("verifier_lm_head.weight".into(), all["norm.weight"].clone());
    assert!(HeadWeights::load(&config, &all).unwrap().get("lm_head.weight").is_none());
    let prefixed: HashMap<_, _> =
        all.into_iter().map(|(name, tensor)| (format!("model.{name}"), tensor)).collect();
    HeadWeights::load(&config, &prefixed).unwrap();

    let wide = eagle3_files("head_ownembed");
    let read = |name: &String| (name.clone(), wide.tensors.tensor(name).unwrap());
    let mut all: HashMap<_, _> = wide.tensors.names().iter().map(read).collect();
    all.remove("embed_tokens.weight");
    all.remove("lm_head.weight");
    let text = HeadWeights::load(&wide.config, &all).unwrap_err().to_string();
    assert_has(&text, &["`embed_tokens.weight` [512, 48] is missing"]);
    assert_has(&text, &["`lm_head.weight` [128, 48] is missing"]);
}
