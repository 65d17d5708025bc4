use super::{open_head, open_target};
use dovetail::chat::{Message, Role};
use dovetail::library::{Spec, check_fit};
use dovetail::model::WeightSource;
use dovetail::model::head::HeadWeights;

#[test]
fn the_bundled_target_is_whole() {
    let target = open_target(&Spec::Bundled).unwrap();
    let config = &target.config;
    let weights: &dyn WeightSource = &*target.weights;
    let shape = |name: &str| weights.tensor(name).map(|tensor| tensor.shape);
    assert_eq!(shape("model.embed_tokens.weight"), Some(vec![config.vocab, config.hidden]));
    assert_eq!(shape("model.norm.weight"), Some(vec![config.hidden]));
    for layer in 0..config.layers {
        let down = format!("model.layers.{layer}.mlp.down_proj.weight");
        assert_eq!(shape(&down), Some(vec![config.hidden, config.intermediate]));
    }
    assert_eq!(target.tokenizer.vocab_size(), config.vocab);
    assert!(target.name.starts_with("dovetail-demo "), "{}", target.name);
    assert!(target.detail.contains("parameters"), "{}", target.detail);
}

#[test]
fn the_bundled_template_and_tokenizer_speak_of_the_same_tokens() {
    let target = open_target(&Spec::Bundled).unwrap();
    let question = Message::new(Role::User, "Hello there!".to_owned());
    let prompt = target.template.render(&[question], true).unwrap();
    let tokens = target.tokenizer.encode(&prompt, target.template.wants_bos()).unwrap();
    assert_eq!(tokens.first().copied(), target.bos);
    assert!(target.tokenizer.is_special(*tokens.last().unwrap()), "{prompt}");
    assert_eq!(target.tokenizer.text(&tokens), "Hello there!");
    let ends: Vec<String> = target.eos.iter().map(|&token| target.tokenizer.label(token)).collect();
    assert_eq!(ends, ["<|end|>"]);
}

#[test]
fn the_bundled_head_fits_the_bundled_target() {
    let target = open_target(&Spec::Bundled).unwrap();
    let head = open_head(&Spec::Bundled).unwrap();
    check_fit(&target.config, &head).unwrap();
    let weights = HeadWeights::load(&head.config, &*head.tensors).unwrap();
    assert_eq!(weights.blocks.len(), head.config.blocks());
}

#[test]
fn the_bundled_small_model_speaks_the_targets_tokens() {
    let target = open_target(&Spec::Bundled).unwrap();
    let small = dovetail::library::open_small(&Spec::Bundled, &mut |_| {}).unwrap();
    let words = |files: &dovetail::library::TargetFiles| {
        (0..4096).map(|token| files.tokenizer.label(token)).collect::<Vec<_>>()
    };
    assert!(words(&small) == words(&target));
    assert_eq!((small.config.vocab, small.bos), (target.config.vocab, target.bos));
    assert!(small.bytes * 4 < target.bytes, "{} of {}", small.bytes, target.bytes);
    assert!(small.name.starts_with("dovetail-small "), "{}", small.name);
}
