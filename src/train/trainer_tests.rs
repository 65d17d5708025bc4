//! A complete training, on a tiny target whose features follow from its tokens.

use std::sync::Arc;

use super::*;
use crate::kernels::{Format, Matrix, Pool};
use crate::model::head::{FusionKind, HeadConfig, HeadKind, HeadWeights};
use crate::train::{MaskRule, TrainPrecision, Used};
use half::f16;
use serde_json::json;

const HIDDEN: usize = 8;
const VOCAB: usize = 12;

fn config(kind: FusionKind) -> HeadConfig {
    let json = json!({
        "hidden_act": "silu", "hidden_size": HIDDEN, "intermediate_size": 12,
        "max_position_embeddings": 64, "num_attention_heads": 2, "num_key_value_heads": 1,
        "num_hidden_layers": 2, "rms_norm_eps": 1e-6, "vocab_size": VOCAB,
        "elastic_depth": true
    });
    HeadConfig::from_json(&json, kind).unwrap()
}

/// Tied embedding and LM head of a toy target: rows of ±1 that differ from each other.
fn shared() -> SharedTables {
    let sign = |bit: usize| if bit == 0 { 1.0 } else { -1.0 };
    let row = |token: usize| {
        (0..HIDDEN).map(move |i| sign((token >> (i % 4)) & 1) + 0.1 * (token * i) as f32 % 0.7)
    };
    let table: Vec<u8> = (0..VOCAB).flat_map(row).flat_map(f32::to_le_bytes).collect();
    let pool = Pool::new(1);
    let table = Arc::new(Matrix::pack(Format::F32, VOCAB, HIDDEN, &table, &pool).unwrap());
    SharedTables { embedding: Arc::clone(&table), lm_head: table }
}

/// Texts that count up; the toy target's feature at x is the embedding of x + 1.
fn examples() -> Vec<Example> {
    let rows = to_tensor(&shared().embedding, &Device::Cpu).unwrap().to_vec2::<f32>().unwrap();
    let text = |start: u32, len: u32| {
        let tokens: Vec<u32> = (start..start + len).map(|x| x % VOCAB as u32).collect();
        let next = tokens.iter().map(|&token| (token as usize + 1) % VOCAB);
        let features = next.flat_map(|token| rows[token].clone()).map(f16::from_f32).collect();
        let mask = (0..len).map(|i| i >= 2).collect();
        Example { tokens, features, mask }
    };
    (0..12).map(|i| text(i, 6 + i % 5)).collect()
}

#[test]
fn time_that_is_spent_elsewhere_is_none_to_learn() {
    let length = Length::Minutes(1.0);
    let mut timed = trainer(Options { length, ..options() });
    timed.position.seconds += 30.0;
    assert!((timed.progress() - 0.5).abs() < 1e-9);
    timed.reserved_seconds = 15.0;
    assert!((timed.progress() - 0.75).abs() < 1e-9);
    timed.reserved_seconds = 30.0;
    assert!(timed.finished());
    // Steps are counted as they are.
    let mut steps = trainer(options());
    steps.position.seconds += 1e6;
    assert_eq!(steps.progress(), 0.0);
}

fn options() -> Options {
    Options {
        length: Length::Steps(30),
        batch_tokens: 40,
        warmup: 3,
        learning_rate: 0.02,
        ploss: 1.0,
        ..Options::default()
    }
}

fn trainer(options: Options) -> Trainer {
    scoring(None, options)
}

fn scoring(draft_vocab: Option<DraftVocabulary>, options: Options) -> Trainer {
    let config = config(FusionKind::Dgf);
    let shared = shared();
    Trainer::new(config, draft_vocab, &shared, options, &Device::Cpu).unwrap()
}

fn some_tokens() -> DraftVocabulary {
    DraftVocabulary::new(vec![1, 2, 3, 5, 8, 9, 10])
}

fn run(trainer: &mut Trainer, steps: usize) -> Vec<StepReport> {
    let examples = examples();
    (0..steps).map(|_| trainer.step(&examples).unwrap()).collect()
}

/// All weights, bit for bit.
fn weights(trainer: &Trainer) -> Vec<(String, Vec<u32>)> {
    let bits = |tensor: &Tensor| -> Vec<u32> {
        let values = tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        values.iter().map(|value| value.to_bits()).collect()
    };
    trainer.net.weights.iter().map(|(name, weight)| (name.clone(), bits(weight))).collect()
}

#[test]
fn a_head_learns_at_every_depth_and_on_its_own_outputs() {
    for (kind, elastic) in
        [(FusionKind::Dgf, Elastic::AllExits), (FusionKind::Eagle, Elastic::Drawn)]
    {
        let options = Options { length: Length::Steps(120), elastic, ..options() };
        let mut trainer =
            Trainer::new(config(kind), None, &shared(), options, &Device::Cpu).unwrap();
        let examples = examples();
        let before = trainer.measure(&examples, 2, 2).unwrap();
        assert!(before.iter().all(|measure| measure.right[0] < 0.6), "{before:?}");
        while !trainer.finished() {
            trainer.step(&examples).unwrap();
        }
        for depth in 1..=2 {
            for measure in trainer.measure(&examples, depth, 2).unwrap() {
                assert!(measure.right[0] > 0.9, "{kind:?} {elastic:?} {measure:?}");
                assert!(measure.vloss < before[0].vloss / 2.0, "{measure:?}");
            }
        }
    }
}

#[test]
fn a_training_that_was_interrupted_makes_the_same_head() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint.safetensors");
    for scored in [None, Some(some_tokens())] {
        let options = Options { accumulate: 2, ..options() };
        let mut whole = scoring(scored.clone(), options.clone());
        let reports = run(&mut whole, 24);
        let mut parts = scoring(scored, options);
        for steps in [7, 12, 5] {
            run(&mut parts, steps);
            parts.save(&path).unwrap();
            parts = Trainer::resume(&path, &shared(), &Device::Cpu).unwrap();
        }
        assert_eq!(weights(&whole), weights(&parts));
        let position =
            |trainer: &Trainer| TrainPosition { seconds: 0.0, ..trainer.position.clone() };
        assert_eq!(position(&whole), position(&parts));
        assert!(reports.last().unwrap().epoch > 0, "the test should cross an epoch");
        assert!(parts.course(parts.progress()).feedback > 0, "and reach the later phase");
    }
}

#[test]
fn a_head_that_scores_some_tokens_learns_and_is_written_with_them() {
    let folder = tempfile::tempdir().unwrap();
    let scored = some_tokens();
    let mut whole = scoring(Some(scored.clone()), options());
    let before = whole.measure(&examples(), 2, 0).unwrap();
    let all = trainer(options()).measure(&examples(), 2, 0).unwrap();
    assert!(before[0].rows > 0 && before[0].rows < all[0].rows, "{before:?} {all:?}");
    run(&mut whole, 30);
    let after = whole.measure(&examples(), 2, 1).unwrap();
    assert!(after[0].right[0] > 0.9 && after[0].ploss < before[0].ploss / 2.0, "{after:?}");

    whole.net.export(folder.path()).unwrap();
    let spec = crate::library::Spec::Folder(folder.path().to_owned());
    let files = crate::library::open_head(&spec, &mut |_| {}).unwrap();
    assert_eq!((&files.config, files.config.draft_vocab), (&whole.net.config, Some(7)));
    let opened = HeadWeights::load(&files.config, files.tensors.as_ref()).unwrap();
    assert_eq!(opened.config.kind, HeadKind::Dgf);
    let values = |weights: &HeadWeights| {
        let gate = weights.get("layers.1.mlp.gate_proj.weight").unwrap();
        gate.flatten_all().unwrap().to_vec1::<f16>().unwrap()
    };
    assert_eq!(values(&opened), values(&whole.net.head_weights().unwrap()));
    assert_eq!(opened.draft_vocab, Some(scored));
}

#[test]
fn two_batches_accumulated_are_one_of_twice_the_size() {
    // With one example per batch the order does not matter: both see the same two examples in a
    // step.
    let both = examples()[..2].to_vec();
    let plain = Options {
        noise: 0.0,
        elastic: Elastic::Off,
        used: Used { share: 0.0, ..Used::default() },
        ..options()
    };
    let mut halves = trainer(Options { batch_tokens: 1, accumulate: 2, ..plain.clone() });
    let mut whole = trainer(Options { batch_tokens: 100, ..plain });
    let [a, b] = [&mut halves, &mut whole].map(|trainer| {
        let report = trainer.step(&both).unwrap();
        (report.tokens, report.loss)
    });
    assert_eq!(a.0, b.0);
    assert!((a.1 - b.1).abs() < 1e-5, "{a:?} {b:?}");
    for (name, gradient) in &halves.adam.moments {
        let off = (&gradient.first - &whole.adam.moments[name].first).unwrap();
        let off = off.abs().unwrap().max_all().unwrap().to_scalar::<f32>().unwrap();
        assert!(off < 1e-6, "{name}: {off}");
    }
}

#[test]
fn every_chat_of_a_step_counts_alike_however_long_it_is() {
    let both = examples()[..2].to_vec();
    let plain = Options {
        noise: 0.0,
        clip: 1e6,
        elastic: Elastic::Off,
        used: Used { share: 0.0, ..Used::default() },
        ..options()
    };
    let step = |options: Options, examples: &[Example]| {
        let mut trainer = trainer(options);
        let loss = trainer.step(&examples.to_vec()).unwrap().loss;
        (loss, trainer)
    };
    let texts = |count| Options { batch_texts: Some(count), ..plain.clone() };
    let (loss, whole) = step(texts(2), &both);
    let [(a, first), (b, second)] = [0, 1].map(|at| step(texts(1), &both[at..=at]));
    assert!((loss - (a + b) / 2.0).abs() < 1e-6, "{loss} {a} {b}");
    for (name, moments) in &whole.adam.moments {
        let [a, b] = [&first, &second].map(|trainer| &trainer.adam.moments[name].first);
        let off = (&moments.first - ((a + b).unwrap() * 0.5).unwrap()).unwrap();
        let off = off.abs().unwrap().max_all().unwrap().to_scalar::<f32>().unwrap();
        assert!(off < 1e-6, "{name}: {off}");
    }
    // Otherwise the longer one counts more.
    let (joined, _) = step(Options { batch_tokens: 1, accumulate: 2, ..plain.clone() }, &both);
    assert!((joined - loss).abs() > 1e-4, "{joined} {loss}");
}

#[test]
fn a_head_learns_in_bf16_with_weights_in_f32() {
    let options = Options { precision: TrainPrecision::Bf16, ..options() };
    let mut rounding = trainer(Options { length: Length::Steps(80), ..options });
    assert!(rounding.is_bf16() && !trainer(super::tests::options()).is_bf16());
    while !rounding.finished() {
        rounding.step(&examples()).unwrap();
    }
    for measure in rounding.measure(&examples(), 2, 1).unwrap() {
        assert!(measure.right[0] > 0.9, "{measure:?}");
    }
    let weights = weights(&rounding);
    let low = |bits: &u32| bits & 0xffff != 0;
    assert!(weights.iter().any(|(_, bits)| bits.iter().any(low)), "the weights were rounded");
}

#[test]
fn no_step_keeps_the_graph_of_another() {
    let mut trainer = trainer(Options { accumulate: 2, ..options() });
    run(&mut trainer, 2);
    let moments = trainer.adam.moments.values();
    for tensor in moments.flat_map(|moments| [&moments.first, &moments.second]) {
        assert!(tensor.sorted_nodes().is_empty(), "a moment can be differentiated");
    }
    // The check itself detects a graph where there is one.
    let weight = trainer.net.weights["W_1"].as_tensor();
    assert!(!(weight + weight).unwrap().sorted_nodes().is_empty());
}

#[test]
fn a_step_runs_what_the_options_say() {
    let blocks = 2;
    let course = |elastic, progress| trainer(Options { elastic, ..options() }).course(progress);
    assert_eq!(course(Elastic::AllExits, 0.4).depth, blocks);
    assert_eq!(course(Elastic::AllExits, 0.4).feedback, 0);
    assert_eq!(course(Elastic::AllExits, 0.5).feedback, 2);
    assert!(!course(Elastic::Off, 0.9).every_exit);
    assert_eq!(course(Elastic::Off, 0.9).depth, blocks);
    let mut drawn = trainer(Options { elastic: Elastic::Drawn, ..options() });
    let depths: Vec<usize> = (0..20)
        .map(|step| {
            drawn.position.steps = step;
            drawn.course(0.0).depth
        })
        .collect();
    assert!((1..=blocks).all(|depth| depths.contains(&depth)), "{depths:?}");
}

#[test]
fn a_report_names_every_exit_and_step() {
    let mut trainer = trainer(Options { elastic: Elastic::AllExits, ..options() });
    let reports = run(&mut trainer, 30);
    let names = |report: &StepReport| -> Vec<(usize, usize)> {
        report.measures.iter().map(|measure| (measure.depth, measure.step)).collect()
    };
    assert_eq!(names(&reports[0]), [(2, 0), (1, 0)]);
    let deepest = reports[15..].iter().find(|report| report.measures[0].depth == 2).unwrap();
    assert_eq!(names(deepest), [(2, 0), (1, 0), (2, 1), (2, 2)]);
    assert!(trainer.finished());
    assert!(reports.windows(2).all(|pair| pair[0].progress < pair[1].progress));
    assert!(reports.iter().all(|report| report.tokens > 0 && report.measures[0].rows > 0));
}

#[test]
fn errors_name_their_cause() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint.safetensors");
    let mut trainer = trainer(options());
    run(&mut trainer, 1);
    trainer.save(&path).unwrap();

    let fewer = examples()[1..].to_vec();
    let error = trainer.step(&fewer).unwrap_err();
    insta::assert_snapshot!(error, @"the training started with 12 examples of 93 tokens, but \
        now there are 11 examples of 87 tokens; continue with the same data, or start over with a \
        new --out");

    let bytes = std::fs::read(&path).unwrap();
    for torn in [&bytes[..0], &bytes[..100], &bytes[..bytes.len() - 1], b"not a checkpoint"] {
        std::fs::write(&path, torn).unwrap();
        let error = Trainer::resume(&path, &shared(), &Device::Cpu).err().unwrap().to_string();
        assert!(error.contains("checkpoint.safetensors") && error.contains("--resume"), "{error}");
    }

    let mut wide = examples();
    wide[3].features.pop();
    wide[5].tokens[0] = 99;
    for index in [3, 5] {
        let error = trainer.batch(&wide, &[index], None).unwrap_err();
        assert!(matches!(error, TrainError::Example(found, _) if found == index));
    }
    let none: Vec<Example> = Vec::new();
    let mut empty = super::tests::trainer(Options { mask: MaskRule::Published, ..options() });
    insta::assert_snapshot!(empty.step(&none).unwrap_err(), @"training example 0 cannot be used: \
        every example has fewer than three tokens");
}
