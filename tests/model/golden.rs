//! The golden vectors of the original program (tests/golden, f32, tolerance 1e-4).

use crate::support::recorded::{File, assert_close, json, recorded_target};
use dovetail::kernels::Pool;
use dovetail::model::{CpuTarget, Target};
use dovetail::speculate::Tree;
use serde_json::Value;

const TOLERANCE: f32 = 1e-4;
const V: usize = 256;
const H: usize = 64;

fn target(name: &str) -> CpuTarget {
    recorded_target(name, Pool::new(2).into(), 128)
}

#[test]
fn prefill_gives_the_recorded_rows() {
    for name in ["target_mha", "target_gqa"] {
        let golden = File::golden(&format!("prefill_{name}.safetensors"));
        let mut target = target(name);
        for prompt in ["p0", "p1", "p2", "p3", "p4"] {
            let tokens = golden.tokens(&format!("{prompt}.input_ids"));
            let logits = golden.floats(&format!("{prompt}.logits"));
            let features = golden.floats(&format!("{prompt}.hidden_postnorm"));

            target.truncate(0);
            let all = target.prefill(&tokens).unwrap();
            assert_close("features", &all.features, &features, TOLERANCE);
            assert_close("logits", &all.logits, &logits[logits.len() - V..], TOLERANCE);

            target.truncate(0);
            for (i, &token) in tokens.iter().enumerate() {
                let one = target.verify(&Tree::root(token)).unwrap();
                target.commit(&[0]);
                assert_close("row of logits", &one.logits, &logits[i * V..(i + 1) * V], TOLERANCE);
                assert_close("feature", &one.features, &features[i * H..(i + 1) * H], TOLERANCE);
            }
        }
    }
}

fn indices(value: &Value) -> Vec<usize> {
    value.as_array().unwrap().iter().map(|i| i.as_u64().unwrap() as usize).collect()
}

#[test]
fn verification_gives_the_recorded_rows_and_caches() {
    for (target_name, draft) in [("target_mha", "draft_dgf_m2"), ("target_gqa", "draft_dgf_m2_gqa")]
    {
        let golden = File::golden(&format!("tree_{draft}.safetensors"));
        let trees = json("trees.json");
        let mut target = target(target_name);
        let layer = target.config().layers - 1;
        for prompt in ["p0", "p1"] {
            let name = format!("k10d7t16.{prompt}");
            let record = &trees["trees"][draft][&name];
            let tokens = indices(&record["tokens"]);
            let mut tree = Tree::root(tokens[0] as u32);
            for (node, &token) in tokens.iter().enumerate().skip(1) {
                tree.push(record["parents"][node].as_u64().unwrap() as usize, token as u32, 0.0);
            }
            let prompt: Vec<u32> =
                indices(&trees["meta"]["prompts"][prompt]).into_iter().map(|t| t as u32).collect();

            target.truncate(0);
            target.prefill(&prompt).unwrap();
            let rows = target.verify(&tree).unwrap();
            let expect = |part: &str| golden.floats(&format!("{name}.verify.{part}"));
            assert_close("node logits", &rows.logits, &expect("node_logits"), TOLERANCE);
            assert_close("node features", &rows.features, &expect("node_hidden"), TOLERANCE);

            let accepted = indices(&record["verify"]["accepted_nodes"]);
            target.commit(&accepted);
            assert_eq!(target.len(), prompt.len() + accepted.len());
            assert_eq!(target.len(), indices(&record["round2"]["input_ids"]).len());
            // Golden rows are [head, row, d].
            let (keys, values) =
                (expect("kv_layer3_key_accepted"), expect("kv_layer3_value_accepted"));
            let (heads, d) = (target.config().kv_heads, target.config().head_dim);
            for row in 0..accepted.len() {
                let (key, value) = target.kv_row(layer, prompt.len() + row);
                for head in 0..heads {
                    let at =
                        (head * accepted.len() + row) * d..(head * accepted.len() + row + 1) * d;
                    let own = head * d..(head + 1) * d;
                    assert_close("key", &key[own.clone()], &keys[at.clone()], TOLERANCE);
                    assert_close("value", &value[own], &values[at], TOLERANCE);
                }
            }
        }
    }
}
