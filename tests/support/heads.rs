//! The recorded draft heads on every backend.

use std::sync::Arc;

use super::golden::{Tensors, assert_close, floats, json, numbers, target_of, tensors};
use super::gpu::gpu;
use candle_core::Tensor;
use dovetail::draft::FeatureHead;
use dovetail::kernels::{Format, KvFormat, Matrix, Pool};
use dovetail::model::head::{
    DraftPrecision, FusionKind, GpuHead, HeadBackend, HeadConfig, HeadRequest, HeadWeights,
    PackedHead, Pairs, SharedTables,
};
use dovetail::speculate::{BeamRow, Shape, Tree};
use serde_json::Value;

/// Every backend that is available here.
pub fn backends() -> Vec<Backend> {
    let gpu = gpu().map(|_| Backend::Gpu);
    [Backend::Packed].into_iter().chain(gpu).collect()
}

pub const TOLERANCE: f32 = 1e-4;

#[derive(Clone, Copy, Debug)]
pub enum Backend {
    /// The CPU's kernels, weights and cache in f32.
    Packed,
    /// Our shaders, weights and cache in f32.
    Gpu,
}

/// A matrix as a target holds it.
pub fn packed_table(tensor: &Tensor) -> Arc<Matrix> {
    let (outputs, inputs) = tensor.dims2().unwrap();
    let bytes: Vec<u8> = floats(tensor).into_iter().flat_map(f32::to_le_bytes).collect();
    Arc::new(Matrix::pack(Format::F32, outputs, inputs, &bytes, &Pool::new(1)).unwrap())
}

/// A head, its target's matrices and its golden forward pass.
pub struct Case {
    pub name: &'static str,
    pub weights: HeadWeights,
    pub shared: SharedTables,
    pub forward: Tensors,
}

impl Case {
    pub fn load(name: &'static str) -> Self {
        let source = tensors(&format!("{name}/model.safetensors"));
        let kind = FusionKind::of(source.keys().map(String::as_str)).unwrap();
        let config = HeadConfig::from_json(&json(&format!("{name}/config.json")), kind).unwrap();
        let target = tensors(&format!("{}/model.safetensors", target_of(name)));
        Self {
            name,
            weights: HeadWeights::load(&config, &source).unwrap(),
            shared: SharedTables {
                embedding: packed_table(&target["model.embed_tokens.weight"]),
                lm_head: packed_table(&target["lm_head.weight"]),
            },
            forward: tensors(&format!("draft_forward_{name}.safetensors")),
        }
    }

    pub fn backend(&self, backend: Backend) -> Box<dyn HeadBackend> {
        match backend {
            Backend::Packed => {
                Box::new(self.packed(DraftPrecision::Stored, KvFormat::F32, Arc::new(Pool::new(2))))
            }
            Backend::Gpu => Box::new(self.on_gpu(DraftPrecision::Stored, KvFormat::F32)),
        }
    }

    pub fn packed(&self, precision: DraftPrecision, kv: KvFormat, pool: Arc<Pool>) -> PackedHead {
        let request = HeadRequest::new(&self.weights, &self.shared, pool, 512);
        PackedHead::new(&HeadRequest { precision, kv, ..request }).unwrap()
    }

    pub fn on_gpu(&self, precision: DraftPrecision, kv: KvFormat) -> GpuHead {
        let request = HeadRequest::new(&self.weights, &self.shared, Arc::new(Pool::new(2)), 512);
        GpuHead::new(&gpu().unwrap(), &HeadRequest { precision, kv, ..request }).unwrap()
    }

    pub fn drafter(&self, backend: Backend) -> FeatureHead {
        FeatureHead::new(&self.weights.config, self.backend(backend), 512)
    }

    pub fn input(&self, prompt: &str) -> (Vec<f32>, Vec<u32>) {
        let features = floats(&self.forward[&format!("{prompt}.in_hidden")]);
        let tokens = self.forward[&format!("{prompt}.in_tokens")].to_vec1::<i64>().unwrap();
        (features, tokens.into_iter().map(|id| id as u32).collect())
    }

    /// The backend with a prompt's pairs in it.
    pub fn filled(&self, backend: Backend, prompt: &str, blocks: usize) -> Box<dyn HeadBackend> {
        let (features, tokens) = self.input(prompt);
        let mut head = self.backend(backend);
        head.extend(0, Pairs { features: &features, tokens: &tokens }, blocks).unwrap();
        head
    }

    pub fn near(&self, what: &str, found: &[f32], expected: &Tensor, tolerance: f32) {
        assert_close(&format!("{} {what}", self.name), found, &floats(expected), tolerance);
    }

    pub fn is_near(&self, what: &str, found: &[f32]) {
        self.near(what, found, &self.forward[&format!("p0.{what}")], TOLERANCE);
    }
}

/// Recorded prompts, settings and trees.
pub struct Trees(pub Value);

impl Trees {
    pub fn load(name: &str) -> Self {
        Self(json(name))
    }

    pub fn prompt(&self, name: &str) -> Vec<u32> {
        numbers(&self.0["meta"]["prompts"][name])
    }

    pub fn shape(&self, setting: &str) -> Shape {
        let list = numbers(&self.0["meta"]["settings_topk_depth_total"][setting]);
        let [width, depth, gamma] = list[..] else { panic!("{setting}") };
        Shape { width: width as usize, depth: depth as usize, gamma: gamma as usize }
    }

    /// The recorded trees of a head with their settings, prompts and names.
    pub fn of(&self, head: &str) -> Vec<(Shape, Vec<u32>, &str, &Value)> {
        let all = self.0["trees"][head].as_object().unwrap().iter();
        all.map(|(key, tree)| {
            let (setting, prompt) = key.split_once('.').unwrap();
            (self.shape(setting), self.prompt(prompt), key.as_str(), tree)
        })
        .collect()
    }
}

/// The recorded beam of a step: each row with its source and the rows that it sees.
pub fn recorded_beam(
    steps: &[Value],
    number: usize,
    width: usize,
    paths: &mut Vec<Vec<usize>>,
) -> Vec<BeamRow> {
    let step = &steps[number];
    let row = |(row, token): (usize, u32)| {
        // The previous step identifies the members of the beam by their place among its children.
        let source = (number > 1).then(|| {
            let index = steps[number - 1]["beam_index"][row].as_u64().unwrap() as usize;
            width * (number - 2) + index / width
        });
        let ancestors = source.map_or_else(Vec::new, |source| paths[source].clone());
        BeamRow { token, source, ancestors }
    };
    let beam: Vec<BeamRow> = numbers(&step["input_ids"]).into_iter().enumerate().map(row).collect();
    for (i, row) in beam.iter().enumerate() {
        let mut path = row.ancestors.clone();
        path.push(width * (number - 1) + i);
        let mask = step["tree_mask_rows"][i].as_str().unwrap().bytes().enumerate();
        let seen: Vec<usize> = mask.filter(|column| column.1 == b'1').map(|c| c.0).collect();
        assert_eq!(seen, path);
        paths.push(path);
    }
    beam
}

/// A drafted tree is the recorded one, with its scores up to `tolerance`.
pub fn assert_tree(tree: &Tree, golden: &Value, what: &str, tolerance: f32) {
    let nodes = tree.nodes();
    let tokens: Vec<u32> = nodes.iter().map(|node| node.token).collect();
    assert_eq!(tokens, numbers(&golden["tokens"]), "{what}");
    let parents = golden["parents"].as_array().unwrap().iter();
    let parents: Vec<usize> = parents.map(|p| p.as_i64().unwrap().max(0) as usize).collect();
    assert_eq!(nodes.iter().map(|node| node.parent).collect::<Vec<_>>(), parents, "{what}");
    let depths: Vec<u32> = nodes.iter().map(|node| node.depth as u32).collect();
    assert_eq!(depths, numbers(&golden["position_ids"]), "{what}");
    let scores = golden.get("node_scores").and_then(Value::as_array);
    for (node, score) in nodes[1..].iter().zip(scores.into_iter().flatten()) {
        let off = (f64::from(node.score) - score.as_f64().unwrap()).abs();
        assert!(off < f64::from(tolerance), "{what}: off by {off}");
    }
}
