//! The trainer compared with the original program's numbers and with the head that decoding runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::support::eagle3::{Eagle3Case, eagle3_files, eagle3_trees};
use crate::support::golden::{HEADS, Tensors, assert_close, floats, json, target_of, tensors};
use crate::support::heads::packed_table;
use candle_core::{DType, Device, Tensor};
use dovetail::kernels::Pool;
use dovetail::model::Target;
use dovetail::model::head::{
    FusionKind, HeadBackend, HeadConfig, HeadRequest, HeadWeights, PackedHead, Pairs, SharedTables,
};
use dovetail::speculate::{BeamRow, Ranking, top_log_probs};
use dovetail::train::{AdamW, DraftNet, Estimate, LossComputer, Options, Past};
use serde_json::Value;

/// A head of the golden files and its target's matrices.
struct Case {
    config: HeadConfig,
    tensors: Tensors,
    embedding: Tensor,
    lm_head: Tensor,
}

impl Case {
    fn load(name: &str) -> Self {
        let target = tensors(&format!("{}/model.safetensors", target_of(name)));
        let tensors_of_head = tensors(&format!("{name}/model.safetensors"));
        let kind = FusionKind::of(tensors_of_head.keys().map(String::as_str)).unwrap();
        Self {
            config: HeadConfig::from_json(&json(&format!("{name}/config.json")), kind).unwrap(),
            tensors: tensors_of_head,
            embedding: target["model.embed_tokens.weight"].clone(),
            lm_head: target["lm_head.weight"].clone(),
        }
    }

    fn net(&self) -> DraftNet {
        DraftNet::load(self.config.clone(), &self.tensors, &Device::Cpu).unwrap()
    }

    /// Embeddings of `tokens`, `[batch, rows, H]`.
    fn embed(&self, tokens: &Tensor) -> Tensor {
        let (batch, rows) = tokens.dims2().unwrap();
        let flat = tokens.flatten_all().unwrap().to_dtype(DType::U32).unwrap();
        let embeddings = self.embedding.index_select(&flat, 0).unwrap();
        embeddings.reshape((batch, rows, self.config.body.hidden)).unwrap()
    }
}

#[test]
fn every_exit_is_the_original_forward_pass() {
    for name in HEADS {
        let case = Case::load(name);
        let forward = tensors(&format!("draft_forward_{name}.safetensors"));
        let features = forward["p0.in_hidden"].unsqueeze(0).unwrap();
        let embeddings = case.embed(&forward["p0.in_tokens"].unsqueeze(0).unwrap());
        let blocks = case.config.blocks();
        let outputs =
            case.net().outputs(&features, &embeddings, blocks, &mut Past::default()).unwrap();
        for (block, output) in outputs.iter().enumerate() {
            let expected = floats(&forward[&format!("p0.block{block}_out")]);
            assert_close(&format!("{name} block {block}"), &floats(output), &expected, 1e-4);
        }
        assert_close(name, &floats(&outputs[blocks - 1]), &floats(&forward["p0.out_hidden"]), 1e-4);
    }
}

/// `fc`, the block, its norm and the LM head of the EAGLE-3 heads in the layout that is trained.
#[test]
fn an_eagle3_head_is_the_original_forward_pass() {
    let trees = eagle3_trees();
    for name in ["head_eagle3", "head_ownembed"] {
        let case = Eagle3Case::load(name);
        let config = eagle3_files(name).config;
        let stored = tensors(&format!("eagle3/{name}/model.safetensors"));
        let net = DraftNet::load(config, &stored, &Device::Cpu).unwrap();
        let prompt = trees.prompt("p0");
        let read = case.target().prefill(&prompt).unwrap();
        let root = top_log_probs(&read.logits, 1)[0].0;
        let tokens = [&prompt[1..], &[root]].concat();
        let taps = Tensor::from_vec(read.features, (1, prompt.len(), 192), &Device::Cpu).unwrap();
        let state = net.state(&taps).unwrap();
        let embeddings = case.embeddings(&tokens).unsqueeze(0).unwrap();
        let outputs = net.outputs(&state, &embeddings, 1, &mut Past::default()).unwrap();
        let normed = net.scored(&outputs[0]).unwrap();
        let lm_head = net.lm_head().unwrap().as_tensor().t().unwrap();
        let logits = normed.matmul(&lm_head).unwrap();
        for (what, found, tolerance) in [
            ("fc_out", &state, 5e-5),
            ("out_hidden", &outputs[0], 5e-5),
            ("norm_hidden", &normed, 5e-5),
            ("logits", &logits, 3e-4),
        ] {
            let expected = floats(&case.vectors[&format!("p0.{what}")]);
            assert_close(&format!("{name} {what}"), &floats(found), &expected, tolerance);
        }
    }
}

/// For a row at step s, training computes what decoding computes for the s-th node of a chain: the
/// same stable rows, positions, path and features fed back.
#[test]
fn steps_on_own_outputs_are_what_a_draft_does() {
    for name in HEADS {
        let case = Case::load(name);
        let forward = tensors(&format!("draft_forward_{name}.safetensors"));
        let features = forward["p1.in_hidden"].clone();
        let tokens = floats(&forward["p1.in_tokens"]);
        let tokens: Vec<u32> = tokens.iter().map(|&token| token as u32).collect();
        let (rows, hidden) = features.dims2().unwrap();
        let (net, steps) = (case.net(), 3);
        let blocks = case.config.blocks();

        let embeddings = case.embed(&forward["p1.in_tokens"].unsqueeze(0).unwrap());
        let mut past = Past::default();
        let first = features.unsqueeze(0).unwrap();
        let mut input = first.clone();
        let mut by_step = Vec::new();
        for _ in 0..=steps {
            let outputs = net.outputs(&input, &embeddings, blocks, &mut past).unwrap();
            let last = outputs[blocks - 1].reshape((1, rows, hidden)).unwrap();
            let shifted = last.narrow(1, 0, rows - 1).unwrap();
            input = Tensor::cat(&[&first.narrow(1, 0, 1).unwrap(), &shifted], 1).unwrap();
            by_step.push(floats(&last));
        }

        let weights = HeadWeights::load(&case.config, &case.tensors).unwrap();
        let shared = SharedTables {
            embedding: packed_table(&case.embedding),
            lm_head: packed_table(&case.lm_head),
        };
        let request = HeadRequest::new(&weights, &shared, Arc::new(Pool::new(1)), 512).exact();
        let mut head = PackedHead::new(&request).unwrap();
        let flat = floats(&features);
        for begin in [1, rows - 1 - steps] {
            head.extend(
                0,
                Pairs { features: &flat[..begin * hidden], tokens: &tokens[..begin] },
                blocks,
            )
            .unwrap();
            head.rank_root(&Ranking::new(1)).unwrap();
            for (step, outputs) in by_step.iter().enumerate().skip(1) {
                // The stable rows end at begin − 1; row begin + step − 1 is the step-th node.
                let row = begin + step - 1;
                let beam = BeamRow {
                    token: tokens[row],
                    source: step.checked_sub(2),
                    ancestors: (0..step - 1).collect(),
                };
                head.step(&[beam], &Ranking::new(1)).unwrap();
                let expected = &outputs[row * hidden..(row + 1) * hidden];
                assert_close(
                    &format!("{name} step {step}"),
                    &head.outputs().unwrap(),
                    expected,
                    1e-4,
                );
            }
        }
    }
}

#[test]
fn a_step_of_training_is_the_original_one() {
    let recorded = json("train_step.json");
    let batch = tensors("train_step.safetensors");
    for name in ["draft_dgf_m1", "draft_dgf_m2", "draft_eagle_m1"] {
        let case = Case::load(name);
        let expected = &recorded["losses"][name];
        let (net, options) = (case.net(), Options::default());
        let losses = LossComputer::new(&case.lm_head, &options).unwrap();

        let depth = case.config.blocks();
        let embeddings = case.embed(&batch["batch.input_ids"]);
        let features = &batch["batch.hidden_states"];
        let outputs = net.outputs(features, &embeddings, depth, &mut Past::default()).unwrap();
        let hidden = case.config.body.hidden;
        let labels = batch["batch.target"].reshape(((), hidden)).unwrap();
        let counts: Vec<bool> =
            floats(&batch["batch.loss_mask"]).iter().map(|&mark| mark == 1.0).collect();
        let rows = counts.iter().filter(|&&counts| counts).count();
        let output = outputs[depth - 1].clone();
        let estimate = Estimate { output, depth, step: 0, weight: 1.0 };
        let output = losses.compute(None, &[estimate], &labels, &[counts], rows).unwrap();

        let close = |what: &str, found: f64, expected: &Value, tolerance: f64| {
            let expected = expected.as_f64().unwrap();
            let off = (found - expected).abs() / expected.abs().max(1e-3);
            assert!(off < tolerance, "{name} {what}: {found}, recorded {expected}");
        };
        let measure = output.sums[0].clone().mean();
        close("vloss", measure.vloss, &expected["vloss"], 1e-4);
        close("ploss", measure.ploss, &expected["ploss"], 1e-4);
        let loss = f64::from(output.loss.to_scalar::<f32>().unwrap());
        close("loss", loss, &expected["loss"], 1e-4);

        let found = output.loss.backward().unwrap();
        let gradients: BTreeMap<String, Tensor> = net
            .weights
            .iter()
            .map(|(weight, var)| (weight.clone(), found.get(var).unwrap().clone()))
            .collect();
        let norm = |tensor: &Tensor| {
            floats(tensor).iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt()
        };
        let norms = expected["grad_norms"].as_object().unwrap();
        assert_eq!(norms.len(), gradients.len());
        for (weight, recorded) in norms {
            close(
                &format!("norm of {weight}'s gradient"),
                norm(&gradients[weight]),
                recorded,
                1e-3,
            );
            if let Some(recorded) = batch.get(&format!("{name}.grad.{weight}")) {
                assert_close(weight, &floats(&gradients[weight]), &floats(recorded), 1e-5);
            }
        }

        AdamW::default().step(&net.weights, &gradients, options.learning_rate, &options).unwrap();
        for (weight, recorded) in
            expected["param_norms_after_adamw_lr3e-5_wd0.01"].as_object().unwrap()
        {
            close(&format!("norm of {weight}"), norm(&net.weights[weight]), recorded, 1e-6);
        }
    }
}
